"""Curves by group: what is in which group, the map, and what is refused."""

from datetime import UTC, date, datetime

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, leaf_domain, plan, release_tree
from opendp_tree._opendp import make_measurement
from opendp_tree.mechanisms.curve import (
    count_groups,
    leaf_groups,
    make_grouped_curves,
    owners_of,
    places_among,
    typed_texts,
)
from opendp_tree.planning import Curve
from opendp_tree.prepare import Question

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
    counts = Question.of(KEY).transformation(flights(SIZES))
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


@pytest.mark.parametrize(
    "metric", [dp.l2_distance(T="f64"), dp.linf_distance(T="i64"), dp.symmetric_distance(), dp.discrete_distance()]
)
def test_groups_must_be_measured_under_l1(metric):
    """Under any other metric the map of groups is one of another distance, and the sum would be no bound."""
    counts, groups = parts()
    loss = dp.approximate(dp.max_divergence())
    other = make_measurement(groups.input_domain, metric, loss, groups, lambda d_in: (0.0, 0.0))
    with pytest.raises(ValueError, match=r"groups: input_metric \(.*\) must be l1_distance"):
        make_grouped_curves(
            counts.output_domain, counts.output_metric, 2.0, groups=other, levels=2, ranges=NUMBER.tree.ranges
        )


def test_nothing_shown_is_a_frame_without_rows():
    empty = flights(SIZES).clear()
    release = release_tree(empty, by=KEY, epsilon=1.0, delta=1e-6)
    assert release.quantiles([0.5]).height == 0
    assert release.quantiles([0.5]).columns[:2] == ["carrier", "kind"]


def in_curves(release):
    """How many lie in the curve of each group."""
    return {row[0]: row[3] for row in release.between(0, 64).rows()}


def raw_curves(groups):
    """Curves from raw keys of a group and one of eight bins; and how to count these."""
    tree = Key.nested(Key.columns("group"), EIGHT).open_tree()
    found = plan(groups, epsilon=0.5, delta=0.0 if isinstance(groups, Tree) else 1e-6).best.make(leaf_domain(groups))
    ranges = EIGHT.tree.ranges
    return make_grouped_curves(leaf_domain(tree), L1, 1.0, groups=found, levels=1, ranges=ranges), tree.count


EIGHT = Key.number("delay", low=0, high=8, bins=8)
OPEN = Key.columns("group").open_tree()
ODD = ["1", "z", True, None, date(2024, 1, 1)]


@pytest.mark.parametrize("groups", [Tree.from_paths([(1,), (2,)], names=["group"]), OPEN], ids=["public", "open"])
@pytest.mark.parametrize("extra", [*((label, "[3, 4)") for label in ODD), (1, 7), (1, True), (1, None), (1,)])
def test_a_key_of_other_types_changes_no_group(groups, extra):
    curves, count = raw_curves(groups)
    keys = [(1, "[3, 4)")] * 2000 + [(2, "[5, 6)")] * 2000
    found = in_curves(curves(count([extra, *keys])))
    assert list(found) == [1, 2]  # integers still, and both
    assert all(abs(people - 2000) < 100 for people in found.values())


def test_shown_groups_of_several_types_have_their_own_curves():
    curves, count = raw_curves(OPEN)
    sizes = {1: 2000, "1": 3000, False: 4000, date(2024, 1, 1): 5000}
    found = curves(count([(label, "[3, 4)") for label, size in sizes.items() for _ in range(size)])).between(0, 8)
    rows = sorted(zip(found["estimate"], found["group"], strict=True))
    assert [name for _, name in rows] == ["1", "1", "False", "2024-01-01"]
    assert all(abs(people - size) < 100 for (people, _), size in zip(rows, sizes.values(), strict=True))


def test_keys_of_one_bin_add_up():
    key = Key.nested(Key.columns("group"), NUMBER)
    tree = key.open_tree()
    groups = plan(OPEN, epsilon=0.5, delta=1e-6).best.make(leaf_domain(OPEN))
    curves = make_grouped_curves(leaf_domain(tree), L1, 1.0, groups=groups, levels=1, ranges=NUMBER.tree.ranges)
    keys = [("a", above, "[3, 4)") for above in ("[0, 8)", "[8, 16)", None) for _ in range(1000)]
    assert abs(in_curves(curves(tree.count(keys)))["a"] - 3000) < 100


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
def test_wrong_arguments_are_named(change, error, words):
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


@pytest.mark.parametrize(("first", "other"), [(1, "a"), (1, True), (date(2024, 1, 1), datetime(2024, 1, 1))])
def test_public_groups_of_several_types_are_refused(first, other):
    tree = Tree.from_paths([("a", first), ("a", None), ("b", other)])
    with pytest.raises(ValueError, match="one type on each level"):
        release_tree(flights(SIZES), by=KEY, epsilon=1.0, method=Curve(public_groups=tree))


def test_rho_needs_public_groups():
    with pytest.raises(ValueError, match="rho"):
        release_tree(flights(SIZES), by=KEY, rho=0.5)
    tree = Tree.from_paths([("a", "x")], names=["carrier", "kind"])
    release = release_tree(flights(SIZES), by=KEY, rho=0.5, method=Curve(public_groups=tree))
    assert release.statement.loss["rho"] <= 0.5


GROUPS = leaf_groups(Tree.from_paths([("a", "x"), ("b", "y")]))


def typed(*columns):
    return [typed_texts(column) for column in columns]


def test_a_tuple_that_ends_early_is_not_one_with_null():
    """Otherwise the group of one row would depend on which of the two came first."""
    columns, lengths, people = [["a", "a", 1], [None, None, "x"]], np.array([1, 2, 2]), np.array([3, 4, 5])
    counts = count_groups(OpenTree.columns(2), columns, lengths, people)
    places = zip(counts.occupied.levels.tolist(), counts.occupied.counts.tolist(), strict=True)
    assert sorted(places) == [(1, 3), (2, 4), (2, 5)]


def test_owners_are_the_groups_with_all_labels_alike():
    columns = typed(["a", "b", "b", None], ["x", "x", "y", "y"])
    assert owners_of(columns, np.full(4, 2), GROUPS).tolist() == [0, -1, 1, -1]
    assert owners_of(columns, np.array([2, 2, 1, 2]), GROUPS).tolist() == [0, -1, -1, -1]


def test_labels_of_another_kind_are_other_labels():
    groups = leaf_groups(Tree.from_paths([(1,), (None,), (0,)]))
    labels = [1, "1", True, date(1970, 1, 2), None, 0, False]
    assert owners_of(typed(labels), np.full(7, 1), groups).tolist() == [0, -1, -1, -1, 1, 2, -1]
    for kind in (pl.String, pl.Boolean, pl.Date, pl.Datetime("us"), pl.Time):
        column = pl.Series([1, None]).cast(kind)
        assert owners_of(typed(column), np.full(2, 1), groups).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("kind", "far"), [(pl.UInt64, 2**64 - 1), (pl.Int128, 2**100), (pl.Int128, -(2**63) - 1), (pl.Int8, -1)]
)
def test_integers_of_all_widths_are_alike_and_none_is_null(kind, far):
    groups = leaf_groups(Tree.from_paths([(1,), (None,)]))
    column = pl.Series([1, None, far], dtype=kind)
    assert owners_of(typed(column), np.full(3, 1), groups).tolist() == [0, 1, -1]


def test_lists_and_series_of_one_type_are_alike():
    for labels in (["a", None], [1, -5], [True, False], [date(2024, 1, 31), date(1, 1, 1)]):
        assert typed_texts(labels).to_list() == typed_texts(pl.Series(labels)).to_list()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, UTC])
def test_times_of_all_units_are_alike(unit, zone):
    groups = leaf_groups(Tree.from_paths([(datetime(2024, 5, 1, 12, tzinfo=zone),)]))
    column = pl.Series([datetime(2024, 5, 1, 12, tzinfo=zone), datetime(2024, 5, 1, 13, tzinfo=zone), None])
    column = column.cast(pl.Datetime(unit, None if zone is None else "UTC"))
    assert owners_of(typed(column), np.full(3, 1), groups).tolist() == [0, -1, -1]
    if unit == "ns":  # not cut to microseconds
        assert owners_of(typed((column.to_physical() + 1).cast(column.dtype)), np.full(3, 1), groups)[0] == -1


def test_places_among_names():
    assert places_among(typed_texts(["b", None, "x", 1, True]), ["a", "b", "1", "true"]).tolist() == [1, -1, -1, -1, -1]
