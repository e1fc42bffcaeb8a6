"""Curves by group: what is in which group, the map, and what is refused."""

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, leaf_domain, plan, release_tree
from opendp_tree.measurements.grouped_curves import make_grouped_curves
from opendp_tree.pipeline import count_rows
from opendp_tree.planning import Curve

L1 = dp.l1_distance(T="i64")
NUMBER = Key.number("delay", low=0, high=64, bins=64)
KEY = Key.nested(Key.columns("carrier", "kind"), NUMBER)


def flights(sizes, seed=0):
    """Rows of groups, each uniform in its own stretch of the line, with some outside and some that are null."""
    rng, parts = np.random.default_rng(seed), []
    for place, ((carrier, kind), size) in enumerate(sizes.items()):
        delay = rng.uniform(10 * place, 10 * place + 10, size)
        parts.append(pl.DataFrame({"carrier": [carrier] * size, "kind": [kind] * size, "delay": delay}))
    outside = pl.DataFrame({"carrier": ["a"] * 300, "kind": ["x"] * 300, "delay": [999.0] * 200 + [None] * 100})
    return pl.concat([*parts, outside])


SIZES = {("a", "x"): 4000, ("a", "y"): 3000, ("b", "x"): 2000, ("b", None): 2500, ("c", "z"): 1}


def test_medians_are_those_of_their_groups():
    release = release_tree(flights(SIZES), by=KEY, epsilon=2.0, delta=1e-6)
    found = release.quantiles([0.5])
    assert found.columns == ["carrier", "kind", "quantile", "estimate", "lower", "upper"]
    medians = {row[:2]: row[3] for row in found.rows()}
    assert set(medians) == set(SIZES) - {("c", "z")}
    for place, group in enumerate(list(SIZES)[:4]):
        assert abs(medians[group] - (10 * place + 5)) < 1
    counts = {row[:2]: row[4] for row in release.between(0, 64).rows()}
    assert abs(counts[("a", "x")] - 4000) < 80  # what lies outside of the line is in no curve
    frame = release.to_frame(other=False).filter(carrier="a", kind="x")
    assert abs(frame["estimate"][0] - 4300) < 120  # but counted with its group


def test_public_groups_need_no_delta_and_are_all_there():
    tree = Tree.from_paths([("a", "x"), ("b", "x"), ("q", "w")], names=["carrier", "kind"])
    release = release_tree(flights(SIZES), by=KEY, epsilon=2.0, method=Curve(public_groups=tree))
    assert release.statement.loss.keys() == {"epsilon"}
    found = release.quantiles([0.5])
    assert found.select("carrier", "kind").rows() == [("a", "x"), ("b", "x"), ("q", "w")]
    assert abs(found["estimate"][0] - 5) < 1
    assert abs(found["estimate"][1] - 25) < 1
    assert abs(release.to_frame().filter(carrier="a", kind="x")["estimate"][0] - 4300) < 120


def parts(epsilon=1.0, delta=1e-6):
    counts = count_rows(flights(SIZES), by=KEY, unit=None)
    groups = Key.columns("carrier", "kind").open_tree()
    found = plan(groups, epsilon=epsilon, delta=delta).best.make(leaf_domain(groups))
    return counts, found


def test_the_map_adds_groups_and_one_curve():
    counts, groups = parts()
    curves = make_grouped_curves(
        counts.output_domain, counts.output_metric, 2.0, groups=groups, levels=2, ranges=NUMBER.tree.ranges
    )
    assert curves.output_measure == dp.approximate(dp.max_divergence())
    for k in (1, 2):
        spent, delta = groups.map(k)
        assert curves.map(k)[0] == pytest.approx(spent + k / 2, rel=1e-9)
        assert curves.map(k)[1] == delta
    release = (counts >> curves)(flights(SIZES))
    assert release.statement.mechanism == "grouped_curves"
    assert release.statement.loss["epsilon"] == curves.map(1)[0]


def test_nothing_shown_is_a_frame_without_rows():
    empty = flights(SIZES).clear()
    release = release_tree(empty, by=KEY, epsilon=1.0, delta=1e-6)
    assert release.quantiles([0.5]).height == 0
    assert release.quantiles([0.5]).columns[:2] == ["carrier", "kind"]


def test_groups_of_integers_and_truths_are_told_apart():
    frame = pl.DataFrame(
        {"year": [1, 2] * 2000, "late": [True, True, False, False] * 1000, "delay": [5.0, 45.0] * 2000}
    )
    key = Key.nested(Key.columns("year", "late"), NUMBER)
    found = release_tree(frame, by=key, epsilon=2.0, delta=1e-6).quantiles([0.5])
    assert found.select("year", "late").rows() == [(1, False), (1, True), (2, False), (2, True)]
    assert [round(value // 10) for value in found["estimate"]] == [0, 0, 4, 4]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"levels": 0}, ValueError, "levels"),
        ({"levels": 4}, ValueError, "levels"),
        ({"ranges": None}, TypeError, "ranges"),
        ({"groups": None}, TypeError, "groups"),
        ({"scale": 0.0}, ValueError, "scale"),
        ({"confidence": 2.0}, ValueError, "confidence"),
    ],
)
def test_arguments_that_cannot_be_are_refused(change, error, words):
    counts, groups = parts()
    options = {"scale": 1.0, "groups": groups, "levels": 2, "ranges": NUMBER.tree.ranges, **change}
    with pytest.raises(error, match=words):
        make_grouped_curves(counts.output_domain, counts.output_metric, **options)


def test_domains_without_groups_are_refused():
    _, groups = parts()
    with pytest.raises(ValueError, match="open tree of columns"):
        make_grouped_curves(leaf_domain(NUMBER.tree), L1, 1.0, groups=groups, levels=1, ranges=NUMBER.tree.ranges)


@pytest.mark.parametrize("paths", [[("a",), ("b",)], [("a", "x"), ("b",)], [("a", "x", "1")]])
def test_public_groups_of_another_depth_are_refused(paths):
    with pytest.raises(ValueError, match="2 labels deep"):
        release_tree(flights(SIZES), by=KEY, epsilon=1.0, method=Curve(public_groups=Tree.from_paths(paths)))


def test_rho_needs_public_groups():
    with pytest.raises(ValueError, match="rho"):
        release_tree(flights(SIZES), by=KEY, rho=0.5)
    tree = Tree.from_paths([("a", "x")], names=["carrier", "kind"])
    release = release_tree(flights(SIZES), by=KEY, rho=0.5, method=Curve(public_groups=tree))
    assert release.statement.loss["rho"] <= 0.5
