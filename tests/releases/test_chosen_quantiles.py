"""Chosen quantiles as a value: frames, words, JSON."""

import json
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.releases.chosen_quantiles import ChosenQuantiles
from opendp_tree.releases.curve import range_edges
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.trees.number_range import NumberRange
from tests.releases.test_json import damage

STATEMENT = PrivacyStatement("chosen_quantiles", "max_divergence()", 1, {"epsilon": 1.0}, {"scale": 1.0})


def release(edges):
    shares = Fraction(1, 4), Fraction(1, 2)
    return ChosenQuantiles(shares, np.array([1, 2]), np.array([20, 10]), edges, 0.95, STATEMENT)


def test_frames_have_the_bins_and_their_middles():
    found = release(np.array([0.0, 10.0, 20.0, 40.0]))
    assert found.to_frame().rows() == [(0.25, 15.0, 10.0, 20.0, 20), (0.5, 30.0, 20.0, 40.0, 10)]
    assert found.quantiles([0.5]).rows() == [(0.5, 30.0, 20.0, 40.0, 10)]


def test_quantiles_that_nobody_paid_for_are_refused():
    with pytest.raises(ValueError, match=r"released: 0\.25, 0\.5\. Hint"):
        release(np.arange(4.0)).quantiles([0.9])


def test_dates_stay_dates():
    found = release(range_edges(NumberRange(date(2024, 1, 1), date(2024, 1, 31), 3)))
    assert found.to_frame()["estimate"].to_list() == [date(2024, 1, 16), date(2024, 1, 26)]


LINES = {
    "numbers": np.array([0.0, 0.1, 20.0, 40.0]),
    "dates": range_edges(NumberRange(date(1, 1, 1), date(9999, 12, 31), 3)),
    "times": range_edges(NumberRange(datetime(2024, 1, 1), datetime(2024, 1, 2), 3)),
}


@pytest.mark.parametrize("line", LINES)
def test_what_is_written_comes_back(line):
    found = release(LINES[line])
    again = ChosenQuantiles.from_json(found.to_json())
    assert again.shares == found.shares
    assert (again.confidence, again.statement) == (found.confidence, found.statement)
    assert again.to_frame().equals(found.to_frame())
    assert again.to_frame().schema == found.to_frame().schema
    assert again.quantiles([0.5]).equals(found.quantiles([0.5]))
    assert again.describe() == found.describe()
    assert again.to_json() == found.to_json()


def test_shares_that_no_float_holds_come_back():
    shares = Fraction(1, 3), Fraction(999_999, 1_000_000), Fraction(1, 999_999)
    found = ChosenQuantiles(shares, np.array([0, 1, 2]), np.array([1, 2, 3]), np.arange(4.0), 0.95, STATEMENT)
    assert ChosenQuantiles.from_json(found.to_json()).shares == shares


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "opendp-tree release", "\"format\" is 'opendp-tree chosen quantiles'"),
        (["version"], 2, 'is of "version" 2'),
        (["statement"], None, '"statement" must be an object'),
        (["statement", "loss", "epsilon"], -1.0, '"loss" must hold non-negative numbers'),
        (["confidence"], 1.0, '"confidence" must be above 0 and below 1'),
        (["edges", "type"], "text", '"type" of "edges" must be one of number, date, datetime'),
        (["edges", "values", 1], -1.0, '"edges" must be finite numbers that never decrease'),
        (["edges"], {"type": "date", "values": [0, 1, 2, 2_932_897]}, "dates of the years 1 to 9999"),
        (["edges"], {"type": "date", "values": [-719_163, 1, 2, 3]}, "dates of the years 1 to 9999"),
        (["edges", "values"], [], '"bins" must be indices of bins'),
        (["quantiles"], [], '"quantiles" must hold at least one number, all from 0 to 1'),
        (["quantiles", 0], 1.5, '"quantiles" must hold at least one number, all from 0 to 1'),
        (["quantiles", 0], "nan", '"quantiles" must hold at least one number, all from 0 to 1'),
        (["quantiles"], [0.5], '"bins" must have one entry for each of the 1 "quantiles"'),
        (["bins", 0], -1, '"bins" must be indices of bins'),
        (["bins", 0], 3, '"bins" must be indices of bins'),
        (["bins", 0], 1.5, '"bins" must hold integers'),
        (["missed"], [1], '"missed" must have one entry for each of the 2 "quantiles"'),
        (["missed", 0], -1, '"missed" must not be negative'),
        (["missed", 0], 10**30, '"missed" holds numbers that are too large'),
    ],
    ids=str,
)
def test_what_are_no_chosen_quantiles_is_refused(path, value, message):
    parts = json.loads(release(LINES["numbers"]).to_json())
    inner = parts
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        ChosenQuantiles.from_json(json.dumps(parts))


def test_another_release_is_refused():
    text = release(LINES["numbers"]).to_json()
    with pytest.raises(ValueError, match='"format" is'):
        TreeRelease.from_json(text)
    with pytest.raises(TypeError, match="must be a JSON text"):
        ChosenQuantiles.from_json(json.loads(text))


@given(st.data())
def test_no_damaged_text_raises_anything_but_a_clear_error(data):
    """Other values anywhere: quantiles that can be read and told, or a ValueError."""
    parts = json.loads(release(LINES[data.draw(st.sampled_from([*LINES]))]).to_json())
    damage(data, parts)
    try:
        found = ChosenQuantiles.from_json(json.dumps(parts))
    except ValueError:
        return
    found.to_frame()
    found.describe()
    assert ChosenQuantiles.from_json(found.to_json()).to_frame().equals(found.to_frame())


def test_words_say_what_is_known():
    words = release(np.arange(4.0)).describe()
    assert "Quantile 0.25: a value in [1, 2), whose rank is off by at most 20." in words
    assert "Quantile 0.5: a value in [2, 3], whose rank is off by at most 10." in words
    assert "Rows outside the line are not included." in words
    assert "epsilon 1" in words
    assert repr(release(np.arange(4.0))) == "ChosenQuantiles(0.25, 0.5)"
