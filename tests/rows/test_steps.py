"""Steps judged by OpenDP on an empty frame, and taken on the data: one plan, two paths."""

from itertools import product

import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Unit, frame_domain
from opendp_tree._opendp import lazy_query
from opendp_tree.rows.steps import FrameSteps, stable_leaf_counts
from tests.frame_truth import as_paths as table
from tests.thoroughness import examples

SCHEMA = {"user": pl.Int64, "region": pl.String, "city": pl.String, "age": pl.Int64}
BY = {"by": ["region", "city"]}
rows = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y"]), st.integers(0, 9)),
    max_size=12,
)


def frame_of(data):
    return pl.DataFrame(data, schema=SCHEMA, orient="row")


def filtered(steps):
    return steps.then("filter")(pl.col("age") > 4)


def recoded(steps):
    return filtered(steps).then("with_columns")(city=pl.col("region"))


@given(rows)
@examples(25)
def test_both_paths_count_what_polars_counts(data):
    frame, metric = frame_of(data), dp.symmetric_distance()
    steps = filtered(FrameSteps())
    by_reference = steps.leaf_counts(frame_domain(SCHEMA), metric, **BY)(frame)
    domain = dp.domain_of(frame.lazy(), infer=True)
    through = stable_leaf_counts(domain, metric, frame.clear().lazy().filter(pl.col("age") > 4), **BY)(frame.lazy())
    truth = frame.filter(pl.col("age") > 4).group_by("region", "city").len()
    expected = {(region, city): count for region, city, count in truth.rows()}
    assert table(by_reference) == table(through) == expected


@given(rows, rows)
@examples(25)
def test_neighbouring_frames_stay_within_the_map(data, more):
    metric = dp.symmetric_distance()
    made = recoded(FrameSteps()).leaf_counts(frame_domain(SCHEMA), metric, **BY)
    one, other = (table(made(frame_of(each))) for each in (data, data + more))
    distance = sum(abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other})
    assert distance <= made.map(len(more))


def test_people_are_bounded_by_the_options_or_by_opendps_truncation():
    space = frame_domain(SCHEMA), dp.symmetric_id_distance("user")
    ours = filtered(FrameSteps()).leaf_counts(*space, **BY, unit=Unit("user", rows=3))
    assert ours.map(2) == 6
    theirs = filtered(FrameSteps()).then("truncate_per_group")(2).leaf_counts(*space, **BY)
    assert theirs.map(2) == 4
    many = frame_of([(1, "a", "x", 9)] * 50 + [(2, "b", "y", 9)])
    assert sum(table(ours(many)).values()) == 4
    assert sum(table(theirs(many)).values()) == 3


def test_what_opendp_does_not_know_to_be_stable_is_refused():
    space = frame_domain(SCHEMA), dp.symmetric_distance()
    with pytest.raises(ValueError, match=r"rank.*must be row-wise"):
        FrameSteps().then("filter")(pl.col("age").rank() < 3).leaf_counts(*space, **BY)
    with pytest.raises(Exception, match="unsupported"):
        FrameSteps().then("with_columns")(pl.lit(None).alias("nothing")).leaf_counts(*space, **BY)
    space = frame_domain(SCHEMA), dp.symmetric_id_distance("user")
    with pytest.raises(Exception, match="not be modified"):
        FrameSteps().then("with_columns")(user=pl.col("age")).leaf_counts(*space, **BY, unit=Unit("user", rows=1))
    space = frame_domain(SCHEMA), dp.change_one_id_distance("user")
    with pytest.raises(ValueError, match="symmetric_id_distance"):
        filtered(FrameSteps()).leaf_counts(*space, **BY, unit=Unit("user", rows=1))


def by_reference(frame, metric, step, **options):
    """Leaf counts after one step on a frame that OpenDP never sees."""
    name, args, kwargs = step
    return FrameSteps().then(name)(*args, **kwargs).leaf_counts(frame_domain(frame), metric, **options)(frame)


def through_opendp(frame, metric, step, **options):
    """The same by OpenDP's own frames."""
    name, args, kwargs = step
    domain = dp.domain_of(frame.lazy(), infer=True)
    query = lazy_query(frame.clear().lazy(), (domain, metric))
    plan = object.__getattribute__(getattr(query, name)(*args, **kwargs), "polars_plan")
    return stable_leaf_counts(domain, metric, plan, **options)(frame.lazy())


@pytest.mark.parametrize(
    "step",
    [
        ("truncate_per_group", (1, None, "first"), {}),
        ("truncate_per_group", (1,), {"keep": "last"}),
        ("filter", (pl.int_range(pl.len()).over("user") < 1,), {}),
        ("filter", (pl.int_range(pl.len()).reverse().over("user") < 1,), {}),
        ("filter", (pl.int_range(pl.len()).shuffle(seed=0).over("user") < 1,), {}),
        ("filter", (pl.int_range(pl.len()).sort_by("age").over("user") < 1,), {}),
    ],
)
def test_truncations_by_the_order_of_rows_are_refused_on_both_paths(step):
    """The metric calls frames in two orders the same, so that nothing may depend on the order."""
    frame, metric = frame_of([(1, "a", "x", 9), (1, "b", "y", 1)]), dp.symmetric_id_distance("user")
    for make in (by_reference, through_opendp):
        with pytest.raises(ValueError, match=r"over.*keep=\"sample\""):
            make(frame, metric, step, **BY)


def test_groups_may_be_kept_by_their_values():
    """Which groups have the smallest values is no matter of the order of rows."""
    data = [(1, "c", "x", 0), (1, "a", "x", 0), (1, "b", "x", 0), (2, "c", "x", 0)]
    metric = dp.symmetric_id_distance("user")
    space = frame_domain(SCHEMA), metric
    for keep, kept in (("first", {("a", "x"): 1, ("c", "x"): 1}), ("last", {("c", "x"): 2})):
        steps = FrameSteps().then("truncate_per_group")(3).then("truncate_num_groups")(2, ["region"], keep)
        made = steps.leaf_counts(*space, **BY)
        assert made.map(1) == 3
        for rows in (data, data[::-1], data[1:] + data[:1]):
            assert table(made(frame_of(rows))) == kept


def test_a_seed_for_polars_does_not_decide_what_is_kept():
    """With a seed, a new person would change what all others keep."""
    frame = frame_of([(user, region, "x", 0) for user in range(40) for region in "ab"])
    made = (
        FrameSteps()
        .then("truncate_per_group")(1)
        .leaf_counts(frame_domain(SCHEMA), dp.symmetric_id_distance("user"), **BY)
    )
    found = set()
    for _ in range(12):
        pl.set_random_seed(3)
        found.add(table(made(frame))[("a", "x")])
    assert len(found) > 1  # all twelve are equal with a probability below 1e-9


@pytest.mark.parametrize("present", [True, False])
def test_no_step_tells_whether_somebody_is_there(present):
    """Strict expressions raise if and only if a value is there: refused whatever the data."""
    frame = frame_of([(1, "x17" if present else "x16", "1" if present else "z", 9)] * 3)
    name = pl.col("region")
    strict = [(name == "x17").replace_strict({False: True}), name.cast(pl.Int64) > 0, name.str.to_date("%Y").is_null()]
    strict += [name.str.to_datetime("%Y-%m-%d").is_null(), name.str.strptime(pl.Time, "%H:%M").is_null()]
    for predicate, make in product(strict, (by_reference, through_opendp)):
        with pytest.raises(ValueError, match=r"must be row-wise and never fail. Hint: .*(strict=False|default)"):
            make(frame, dp.symmetric_distance(), ("filter", (predicate,), {}), **BY)


def test_one_row_cannot_move_others_to_another_leaf():
    """The codes of bins depend on the order in which they appear: one row more moved all 500 others."""
    bins, metric = pl.col("x").cut([1.0]), dp.symmetric_distance()
    one, other = pl.DataFrame({"x": [5.0] * 500}), pl.DataFrame({"x": [0.0] + [5.0] * 500})
    for make in (by_reference, through_opendp):
        with pytest.raises(ValueError, match="to_physical of Categorical"):
            make(one, metric, ("with_columns", (bins.to_physical(),), {}), by="x")
        step = "with_columns", (bins.cast(pl.String, strict=False),), {}
        assert table(make(one, metric, step, by="x")) == {("(1, inf]",): 500}
        assert table(make(other, metric, step, by="x")) == {("(1, inf]",): 500, ("(-inf, 1]",): 1}


@pytest.mark.parametrize(
    "step",
    [
        ("filter", (pl.col("number") > 2.5,), {}),
        ("filter", ((pl.col("number") == float("inf")) | pl.col("truth"),), {}),
        ("filter", (~pl.col("truth") & pl.col("number").is_finite(),), {}),
        ("with_columns", (pl.col("text").cast(pl.Int64, strict=False).alias("key"),), {}),
        ("with_columns", (pl.col("number").cast(pl.Int32, strict=False).alias("key"),), {}),
        ("with_columns", (pl.col("number").cut([0.0, 2.5]).alias("key"),), {}),
        ("with_columns", (pl.col("text").replace({"7": "seven"}).alias("key"),), {}),
        ("with_columns", (pl.col("text").replace_strict({"7": 70}, default=None).alias("key"),), {}),
        ("with_columns", (pl.col("text").str.to_date("%Y-%m-%d", strict=False).alias("key"),), {}),
        ("with_columns", (pl.col("day").dt.year().alias("key"),), {}),
        ("with_columns", ((pl.col("whole") // 3 % 2).alias("key"),), {}),
        ("with_columns", (pl.col("whole").clip(0, 5).fill_null(3).alias("key"),), {}),
        ("with_columns", ((pl.col("text") + "!").alias("key"),), {}),
        ("with_columns", (pl.col("number").fill_nan(0.0).cast(pl.Int64, strict=False).alias("key"),), {}),
        ("with_columns", (pl.col("whole").is_null().alias("key"),), {}),
        ("with_columns", (pl.col("day").to_physical().alias("key"),), {}),
        ("select", (pl.col("text").alias("key"),), {}),
    ],
)
def test_both_paths_give_the_same_answers(step):
    values = [1.0, 2.5, float("nan"), float("inf"), -3.0, None, 1e300]
    frame = pl.DataFrame(
        {
            "number": values * 4,
            "whole": [1, 7, None, -5, 2**62, 0, 9] * 4,
            "text": ["7", "2020-02-30", "2020-02-28", "", None, "é", "7"] * 4,
            "truth": [True, False, None, True, False, True, False] * 4,
            "day": pl.Series([0, 18_262, 2**31 - 1, -(2**31), None, 1, 2] * 4, dtype=pl.Int32).cast(pl.Date),
            "key": ["p", "q", "p", None, "r", "p", "q"] * 4,
        }
    )
    paths = [make(frame, dp.symmetric_distance(), step, by="key") for make in (by_reference, through_opendp)]
    found, through = map(table, paths)
    taken = getattr(frame.lazy(), step[0])(*step[1]).group_by("key").len().collect()
    assert found == through
    assert sorted(found.values()) == sorted(taken["len"].to_list())


def test_what_polars_cannot_run_is_refused_before_the_data_is_read():
    metric = dp.symmetric_distance()
    for step in (pl.col("age").clip(0, 10**30), pl.col("missing"), pl.col("region").cast(pl.Int64, strict=False) + "x"):
        with pytest.raises(ValueError, match="must"):
            FrameSteps().then("with_columns")(step.alias("made")).leaf_counts(frame_domain(SCHEMA), metric, **BY)
    for name in ("fly", "pipe", "map_batches", "join", "collect", "head"):
        with pytest.raises(ValueError, match="step"):
            FrameSteps().then(name)


def test_arguments_are_frozen_when_a_step_is_written_down():
    """What OpenDP judges must be what is run: a list that changes afterwards would let any number of rows through."""
    conditions = [pl.col("age") > 4]
    steps = FrameSteps().then("filter")(conditions)
    conditions[0] = pl.lit(True)
    made = steps.leaf_counts(frame_domain(SCHEMA), dp.symmetric_distance(), **BY)
    assert table(made(frame_of([(1, "a", "x", 9), (1, "a", "x", 1)]))) == {("a", "x"): 1}
    for argument in ((each for each in conditions), iter(conditions), {"age": 1}, pl.Series([True])):
        with pytest.raises(TypeError, match="argument"):
            FrameSteps().then("filter")(argument)


def test_columns_with_names_like_patterns_are_left_alone():
    schema = {**SCHEMA, "^.*$": pl.Int64}
    frame = frame_of([(1, "a", "x", 9)]).with_columns(pl.lit(3, pl.Int64).alias("^.*$"))
    made = filtered(FrameSteps()).leaf_counts(frame_domain(schema), dp.symmetric_distance(), **BY)
    assert table(made(frame)) == {("a", "x"): 1}


def test_frames_of_another_schema_are_refused():
    made = filtered(FrameSteps()).leaf_counts(frame_domain(SCHEMA), dp.symmetric_distance(), **BY)
    with pytest.raises(Exception, match="columns and data types"):
        made(pl.DataFrame({"age": ["secret"]}))
