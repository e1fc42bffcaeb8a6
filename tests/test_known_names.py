"""Releases with known names: by every kind of key, in every call."""

from dataclasses import replace
from datetime import date

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import (
    Key,
    Tree,
    TreeRelease,
    Unit,
    frame_context,
    plan,
    release_tree,
    release_trees,
    tree_counts,
)

SURE = 1 - 1e-9
"""Each interval misses with a chance of at most 1e-9, so that each test below fails by chance in fewer than 1e-6."""
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "confidence": SURE}
VISITS = pl.DataFrame(
    {
        "user": range(1300),
        "country": ["be"] * 900 + ["lu"] * 400,
        "city": ["ghent"] * 800 + ["liege"] * 100 + ["lux"] * 400,
    }
)
KEY = Key.columns("country", "city", known=[("nl", "delft"), ("be",)])
TRUTH = {
    (): 1300,
    ("be",): 900,
    ("lu",): 400,
    ("nl",): 0,
    ("be", "ghent"): 800,
    ("be", "liege"): 100,
    ("lu", "lux"): 400,
    ("nl", "delft"): 0,
}


def by_path(release):
    """The intervals of the nodes that are shown."""
    frame = release.to_frame(other=False)
    names = frame.columns[frame.columns.index("level") + 1 :][: release.tree.depth - 1]
    rows = frame.select("level", *names, "lower", "upper").rows()
    return {row[1 : 1 + row[0]]: row[-2:] for row in rows}


def check(release, truth=TRUTH):
    shown = by_path(release)
    assert shown.keys() == truth.keys()
    for path, (lower, upper) in shown.items():
        assert lower <= truth[path] <= upper, path


KINDS = {
    "path": (Key.path("f", depth=4, known=["x/y", "z"]), "a/b"),
    "url": (Key.url("f", depth=4, known=["https://a.org/q"]), "https://b.org/q"),
    "ip": (Key.ip("f", known=["10.0.0.0/8", ("(outside)",)]), "1.2.3.4"),
    "ipv6": (Key.ip("f", version=6, stride=64, known=["2001::/64"]), "::1"),
    "addresses": (Key.ip("f", version="both", stride=32, known=["10.0.0.0/32"]), "::1"),
    "bits": (Key.bits("f", width=16, stride=8, known=[(256, 8)]), 3),
    "calendar": (Key.calendar("f", known=[(2024, 1)]), date(2025, 3, 4)),
    "weekday": (Key.calendar("f", levels=["weekday"], known=["Mon"]), date(2025, 3, 4)),
    "nested": (Key.nested(Key.columns("c"), Key.ip("f", stride=16), known=[("be", "10.0.0.0/16")]), "1.2.3.4"),
    "integers": (Key.columns("f", known=[300]), 3),
    "truth": (Key.columns("f", known=[True]), False),
    "dates": (Key.columns("f", known=[date(2024, 1, 1)]), date(2025, 1, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_known_nodes_of_every_kind_are_shown_and_unknown_ones_found(kind):
    key, label = KINDS[kind]
    frame = pl.DataFrame({"f": [label] * 500, "c": ["be"] * 500})
    if kind == "integers":
        frame = frame.cast({"f": pl.Int8})  # which does not hold all known labels
    empty = release_tree(frame.clear(), by=key, **BUDGET)
    names = set(replace(key, known=empty).known.paths)
    assert names == set(key.known.paths)
    assert (empty.lower <= 0).all()
    full = release_tree(frame, by=key, **BUDGET)
    more = set(replace(key, known=full).known.paths)
    assert names < more
    assert full.lower[0] <= 500 <= full.upper[0]
    assert TreeRelease.from_json(full.to_json()).to_frame().equals(full.to_frame())


def test_empty_known_nodes_are_shown_and_unknown_names_found_below_known_ones():
    release = release_tree(VISITS, by=KEY, **BUDGET)
    check(release)
    assert release.statement.parameters["known"] == 4
    assert "3 names were known, and are shown whatever their counts; other names were found" in release.describe()


def test_names_of_earlier_releases_do_not_flicker():
    """Thirty names of one row each are shown by each release once they are known, and in no other way."""
    small = pl.DataFrame({"country": [f"country {n}" for n in range(30)]})
    earlier = release_tree(small.select(pl.all().repeat_by(400).explode()), by="country", **BUDGET)
    key, names = Key.columns("country", known=earlier), {(), *((f"country {n}",) for n in range(30))}
    assert by_path(earlier).keys() == names
    for _ in range(3):
        release = release_tree(small, by=key, **BUDGET)
        assert by_path(release).keys() == names
        key = replace(key, known=[key.known, release])
    assert by_path(release_tree(small, by="country", **BUDGET)).keys() == {()}


def test_closed_names_need_no_delta_and_other_rows_count_at_the_last_known_node():
    key = Key.columns("country", "city", known=[("be", "ghent"), ("nl", "delft")], closed=True)
    truth = {(): 1300, ("be",): 900, ("nl",): 0, ("be", "ghent"): 800, ("nl", "delft"): 0}
    for budget in ({"epsilon": 1.0}, {"rho": 0.2}, {"epsilon": 1.0, "unit": Unit("user", rows=2)}):
        release = release_tree(VISITS, by=key, **budget, confidence=SURE)
        check(release, truth)
        assert "delta" not in release.statement.loss
    assert "Not shown: nothing." in release_tree(VISITS, by=key, epsilon=1.0).describe()
    states = replace(key, known=[("be",), ("nl",)], closed=["country"])
    truth = {(): 1300, ("be",): 900, ("nl",): 0, ("be", "ghent"): 800, ("be", "liege"): 100}
    check(release_tree(VISITS, by=states, **BUDGET), truth)
    with pytest.raises(ValueError, match="delta must be above 0"):
        release_tree(VISITS, by=states, epsilon=1.0)


@pytest.mark.parametrize(
    "unit", [Unit("user", rows=2), Unit("user", count="shares"), Unit("user", count="people", nodes=1)]
)
def test_known_names_with_people(unit):
    release = release_tree(VISITS, by=KEY, unit=unit, **BUDGET)
    assert set(TRUTH) - {("be", "liege")} <= by_path(release).keys() <= set(TRUTH)
    for path, (lower, upper) in by_path(release).items():
        assert lower <= TRUTH[path] <= upper


def test_known_names_in_several_hierarchies_and_both_contexts():
    releases = release_trees(VISITS, by={"known": KEY, "open": ["country"]}, **{**BUDGET, "epsilon": 2.0})
    check(releases["known"])
    budget = {"privacy_unit": dp.unit_of(contributions=1), "privacy_loss": dp.loss_of(epsilon=1.0, delta=1e-6)}
    context = frame_context(VISITS, **budget, split_evenly_over=1)
    check(context.query().tree_counts(by=KEY, confidence=SURE).release())
    context = dp.Context.compositor(data=VISITS.lazy(), **budget, split_evenly_over=1)
    check(tree_counts(context.query(), by=KEY, confidence=SURE).release())
    shut = replace(KEY, closed=True)
    context = frame_context(VISITS, **{**budget, "privacy_loss": dp.loss_of(epsilon=1.0)}, split_evenly_over=1)
    shown = by_path(context.query().tree_counts(by=shut, confidence=SURE).release())
    assert shown.keys() == set(KEY.known.paths)


def test_levels_that_are_not_shown_may_hold_known_names():
    key = Key.columns("country", "city", known=[("nl", "delft")], show=["city"])
    release = release_tree(VISITS, by=key, **BUDGET)
    paths = release.to_frame(other=False)["path"].to_list()
    assert "nl / delft" in paths
    assert "nl" not in paths


def test_a_plan_knows_the_names_of_a_key():
    known = plan(KEY, epsilon=1.0, delta=1e-6)
    assert [each.name for each in known.candidates if each.feasible] == ["tree_estimator"]
    assert known.lower_bound == 0
    assert "4 known nodes and unknown ones" in known.describe()
    countries = Key.columns("country", "city", known=["be", "lu"], closed=["country"])
    below = plan(countries, epsilon=1.0, delta=1e-6)
    assert below.best.shown_from < known.best.shown_from  # one level is tested, not two
    shut = plan(replace(KEY, closed=True), epsilon=1.0)
    assert shut.best.feasible
    assert shut.best.shown_from == 0
    assert shut.best.error < known.best.error
    public = Key.columns("country", "city", tree=Tree.from_paths([("nl", "delft")]))
    assert plan(public, epsilon=1.0) == plan(public.tree, epsilon=1.0)
