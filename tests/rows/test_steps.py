"""Steps judged by OpenDP on an empty frame, and taken on the data: one plan, two roads."""

import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_tree import frame_domain, make_leaf_counts
from opendp_tree.rows.steps import FrameSteps, stable_leaf_counts

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


def table(counts):
    """Leaf counts as a dictionary."""
    return {
        tuple(column[row] for column in counts.keys.columns): int(count)
        for row, count in zip(counts.keys.rows.tolist(), counts.occupied.counts, strict=True)
    }


@given(rows)
@settings(max_examples=25, deadline=None)
def test_both_roads_count_what_polars_counts(data):
    frame, metric = frame_of(data), dp.symmetric_distance()
    steps = filtered(FrameSteps())
    by_reference = steps.leaf_counts(frame_domain(SCHEMA), metric, **BY)(frame)
    domain = dp.domain_of(frame.lazy(), infer=True)
    through = stable_leaf_counts(domain, metric, frame.clear().lazy().filter(pl.col("age") > 4), **BY)(frame.lazy())
    truth = frame.filter(pl.col("age") > 4).group_by("region", "city").len()
    expected = {(region, city): count for region, city, count in truth.rows()}
    assert table(by_reference) == table(through) == expected


@given(rows, rows)
@settings(max_examples=25, deadline=None)
def test_neighbouring_frames_stay_within_the_map(data, more):
    metric = dp.symmetric_distance()
    made = recoded(FrameSteps()).leaf_counts(frame_domain(SCHEMA), metric, **BY)
    one, other = (table(made(frame_of(each))) for each in (data, data + more))
    distance = sum(abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other})
    assert distance <= made.map(len(more))


def test_people_are_bounded_by_the_options_or_by_opendps_truncation():
    space = frame_domain(SCHEMA), dp.symmetric_id_distance("user")
    ours = filtered(FrameSteps()).leaf_counts(*space, **BY, rows_per_unit=3)
    assert ours.map(2) == 6
    theirs = filtered(FrameSteps()).then("truncate_per_group")(2).leaf_counts(*space, **BY)
    assert theirs.map(2) == 4
    many = frame_of([(1, "a", "x", 9)] * 50 + [(2, "b", "y", 9)])
    assert sum(table(ours(many)).values()) == 4
    assert sum(table(theirs(many)).values()) == 3


def test_what_opendp_does_not_know_to_be_stable_is_refused():
    space = frame_domain(SCHEMA), dp.symmetric_distance()
    with pytest.raises(Exception, match="not recognized"):
        FrameSteps().then("filter")(pl.col("age").rank() < 3).leaf_counts(*space, **BY)
    space = frame_domain(SCHEMA), dp.symmetric_id_distance("user")
    with pytest.raises(Exception, match="not be modified"):
        FrameSteps().then("with_columns")(user=pl.col("age")).leaf_counts(*space, **BY, rows_per_unit=1)
    space = frame_domain(SCHEMA), dp.change_one_id_distance("user")
    with pytest.raises(ValueError, match="symmetric_id_distance"):
        filtered(FrameSteps()).leaf_counts(*space, **BY, rows_per_unit=1)


def test_only_some_methods_are_steps_and_none_depends_on_the_order_of_rows():
    for name in ("fly", "pipe", "map_batches", "join", "collect", "head"):
        with pytest.raises(ValueError, match="step"):
            FrameSteps().then(name)
    for keep in ("first", "last"):
        with pytest.raises(ValueError, match="keep"):
            FrameSteps().then("truncate_per_group")(1, keep=keep)


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


def test_without_steps_it_is_make_leaf_counts():
    metric = dp.insert_delete_distance()
    made = FrameSteps().leaf_counts(frame_domain(SCHEMA), metric, **BY)
    assert made.map(1) == make_leaf_counts(frame_domain(SCHEMA), metric, **BY).map(1) == 1
    empty = pl.LazyFrame(schema=SCHEMA)
    bare = stable_leaf_counts(dp.domain_of(empty, infer=True), metric, empty, **BY)
    assert bare.output_domain == made.output_domain


def test_frames_of_another_schema_are_refused():
    made = filtered(FrameSteps()).leaf_counts(frame_domain(SCHEMA), dp.symmetric_distance(), **BY)
    with pytest.raises(Exception, match="columns and data types"):
        made(pl.DataFrame({"age": ["secret"]}))
