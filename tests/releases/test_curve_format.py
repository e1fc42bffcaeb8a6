"""Curves of JSON: what is read off them comes back to the last bit, and what is no curve is refused."""

import copy
import json
from datetime import date, datetime
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, TreeRelease, release_tree
from opendp_tree.planning import Curve

AT = [0.0, 0.1, 0.5, 0.9, 1.0]
RNG = np.random.default_rng(0)
PEOPLE = pl.DataFrame(
    {
        "age": RNG.uniform(0, 100, 4000),
        "day": np.datetime64("2024-01-01") + RNG.integers(0, 28, 4000).astype("m8[D]"),
        "time": np.datetime64("2024-01-01", "us") + RNG.integers(0, 10**11, 4000).astype("m8[us]"),
        "kind": np.where(RNG.random(4000) < 0.5, "a", "b"),
    }
)
AGE = Key.number("age", low=0, high=100, bins=50)
DAY = Key.number("day", low=date(2024, 1, 1), high=date(2024, 1, 29), bins=28)
TIME = Key.number("time", low=datetime(2024, 1, 1), high=datetime(2024, 1, 3), bins=48)
CASES = {
    "few bins": (AGE, {}, (20, 33.5)),
    "segments": (Key.number("age", low=0, high=100, bins=5000), {}, (20, 33.5)),
    "dates": (DAY, {}, (date(2024, 1, 3), date(2024, 1, 9))),
    "times": (TIME, {}, (datetime(2024, 1, 1, 3), datetime(2024, 1, 2))),
    "groups": (Key.nested(Key.columns("kind"), AGE), {"delta": 1e-6, "method": Curve()}, (20, 33.5)),
    "groups of dates": (
        Key.nested(Key.columns("kind"), DAY),
        {"delta": 1e-6, "method": Curve()},
        DAY.tree.ranges.edges[:2],
    ),
}


@cache
def release_of(name):
    by, more, _ = CASES[name]
    return release_tree(PEOPLE, by=by, epsilon=2.0, **more)


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_off_a_line_comes_back(name):
    release, between = release_of(name), CASES[name][2]
    again = TreeRelease.from_json(release.to_json())
    assert release.quantiles(AT).height >= len(AT)
    assert again.quantiles(AT).equals(release.quantiles(AT))
    assert again.cdf().equals(release.cdf())
    assert again.between(*between).equals(release.between(*between))
    assert again.quantiles(AT).schema == release.quantiles(AT).schema
    assert again.to_json() == release.to_json()


def test_groups_of_which_none_is_shown_come_back():
    release = release_tree(PEOPLE.head(2), by=CASES["groups"][0], epsilon=0.01, delta=1e-9, method=Curve())
    assert release.curves == {}
    assert TreeRelease.from_json(release.to_json()).curves == {}


def test_texts_without_lines_are_read():
    parts = json.loads(release_of("few bins").to_json())
    del parts["line"]
    with pytest.raises(ValueError, match="quantiles requires a release over the bins of a line"):
        TreeRelease.from_json(json.dumps(parts)).quantiles([0.5])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([], 5, '"line" must be an object or null'),
        (["edges"], [], '"edges" must be an object'),
        (["edges", "type"], "text", '"type" of "edges" must be one of number, date, datetime'),
        (["edges", "type"], "date", '"values" must hold integers'),
        (["edges", "values", 3], "inf", '"edges" must be finite numbers that never decrease'),
        (["edges", "values", 3], 0.5, '"edges" must be finite numbers that never decrease'),
        (["curves"], [5], '"curves" must hold objects'),
        (["curves"], [], "must have a tree whose nodes are labels"),
        (["curves", 0, "cuts", 1], 0, '"cuts" must increase from 0 to the number of bins, 50'),
        (["curves", 0, "cuts", -1], 51, '"cuts" must increase'),
        (["curves", 0, "sizes", 0], 2, '"sizes" must increase from 1 to the number of segments, 50'),
        (["curves", 0, "sizes", -1], 10**18, '"sizes" must increase'),
        (["curves", 0, "scales", 0], 0.0, '"scales" must be from'),
        (["curves", 0, "scales"], [1.0], '"scales" must hold'),
        (["curves", 0, "noisy"], [1], '"noisy" must hold one count for each node'),
        (["curves", 0, "confidence"], 1.0, '"confidence" of a curve'),
    ],
    ids=str,
)
def test_what_is_no_curve_is_refused(path, value, message):
    parts = json.loads(release_of("few bins").to_json())
    inner, last = parts, "line"
    for key in path:
        inner, last = inner[last], key
    inner[last] = value
    with pytest.raises(ValueError, match=message):
        TreeRelease.from_json(json.dumps(parts))


@pytest.mark.parametrize("node", [10**6, -1, None, 1])
def test_curves_of_no_group_or_of_one_twice_are_refused(node):
    parts = json.loads(release_of("groups").to_json())
    first, second = parts["line"]["curves"]
    first["node"], second["node"] = node, 1
    with pytest.raises(ValueError, match='"node" must be'):
        TreeRelease.from_json(json.dumps(parts))


@given(st.data())
def test_no_damaged_line_raises_anything_but_a_clear_error(data):
    """Other values anywhere: a release whose quantiles can be read, or a ValueError or TypeError."""
    parts = json.loads(release_of(data.draw(st.sampled_from(["dates", "groups"]))).to_json())
    odd = st.sampled_from([None, True, -1, 2**62, 10**30, 1.5, "x", [], {}, [[]], "-inf"])
    inner, last = parts, "line"
    while isinstance(inner[last], (dict, list)) and inner[last]:
        inner = inner[last]
        last = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
        if data.draw(st.booleans()):
            break
    inner[last] = copy.deepcopy(data.draw(odd))
    try:
        release = TreeRelease.from_json(json.dumps(parts))
        release.quantiles(AT)
        release.cdf()
    except (ValueError, TypeError):
        return
