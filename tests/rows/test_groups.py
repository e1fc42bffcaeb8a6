from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key
from opendp_tree.rows import dtypes, grouping

LABELS = st.sampled_from(["a", "b", None])


def table(frame):
    return sorted(frame.rows(), key=repr)


@given(st.lists(st.tuples(LABELS, LABELS, st.sampled_from([1, 2, None]))))
def test_groups_are_those_of_a_counter(rows):
    frame = pl.LazyFrame(rows, schema={"x": pl.String, "y": pl.String, "user": pl.Int64}, orient="row")
    key = Key.columns("x", "y")
    plain = grouping.group_rows(frame, key)
    pairs = [row[:2] for row in rows]
    assert table(plain) == sorted(((*pair, pairs.count(pair)) for pair in set(pairs)), key=repr)
    leaves = plain.select(grouping.key_names(key)).with_row_index(grouping.LEAF).filter(pl.col(grouping.LEAF) != 1)
    number = {(x, y): leaf for leaf, x, y in leaves.rows()}
    found = grouping.unit_leaves(frame, key, "user", leaves)
    assert table(found) == sorted(((row[2], number[row[:2]]) for row in rows if row[:2] in number), key=repr)
    assert plain.columns == [*grouping.key_names(key), grouping.PEOPLE]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Brussels"])
def test_instants_of_one_hour_or_day_are_one_group(unit, zone):
    start = datetime(2024, 3, 30, 5)
    times = pl.Series("k", [start + timedelta(minutes=minutes) for minutes in (0, 59, 60, 600)])
    frame = times.cast(pl.Datetime(unit)).dt.replace_time_zone(zone).to_frame().lazy()
    by_hour = grouping.group_rows(frame, Key.calendar("k", levels=("hour",)))
    by_day = grouping.group_rows(frame, Key.calendar("k", levels=("day",)))
    assert sorted(by_hour[grouping.PEOPLE]) == [1, 1, 2]
    assert by_day[grouping.PEOPLE].to_list() == [4]


def test_kinds_are_the_words_that_keys_use():
    types = {
        "text": pl.String,
        "integer": pl.UInt8,
        "truth": pl.Boolean,
        "date": pl.Date,
        "datetime": pl.Datetime("ns", "UTC"),
        "time": pl.Time,
        "float": pl.Float32,
        "decimal": pl.Decimal(38, 2),
    }
    assert dtypes.kinds_of(types) == {kind: kind for kind in types}
    assert dtypes.kind_of(pl.Categorical()) == grouping.kind_of(pl.Enum(["a"])) == "text"
    assert dtypes.kind_of(pl.Binary()) == "Binary"


def test_a_frame_is_taken_by_its_schema_alone():
    frame = pl.LazyFrame({"k": ["a"]}).with_columns(pl.col("k").map_batches(refuse, return_dtype=pl.String))
    assert grouping.read_frame(frame, {"k": "text"}) is not None
    with pytest.raises(TypeError, match=r"column 'k' must hold integer, .*; it holds text"):
        grouping.read_frame(frame, {"k": "integer"})
    with pytest.raises(TypeError, match=r"column 'x' must hold text, .* nothing: there is none"):
        grouping.read_frame(frame, {"x": "text"})
    with pytest.raises(TypeError, match="must be a Polars LazyFrame or DataFrame"):
        grouping.read_frame({"k": ["a"]}, {"k": "text"})


def refuse(series):
    raise AssertionError(f"read: {series}")


def test_what_polars_says_is_withheld_and_what_stops_a_program_is_not():
    def fail(error):
        raise error

    for error in (ValueError("secret"), pl.exceptions.PanicException("secret")):
        with pytest.raises(RuntimeError, match="withheld") as caught:
            grouping.guarded(lambda error=error: fail(error))
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    for error in (KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            grouping.guarded(lambda error=error: fail(error()))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_made_up_rows_have_the_schema_of_the_frame(rows):
    schema = {"a": pl.String, "b": pl.Int8, "c": pl.Enum(["x"]), "d": pl.Date, "e": pl.Boolean, "f": pl.List(pl.Int8)}
    made = grouping.made_up_rows(pl.LazyFrame(schema=schema), rows).collect()
    assert made.schema == schema
    assert made.height == rows
    assert made[1:].null_count().row(0) == (max(0, rows - 1),) * len(schema)


def test_arguments_of_steps_are_frozen():
    given_list = ["a", np.int64(3), date(2024, 1, 1)]
    frozen = grouping.frozen_argument(given_list)
    given_list.append("b")
    assert frozen == ("a", 3, date(2024, 1, 1))
    assert type(frozen[1]) is int
    for value in (object(), {"a": 1}, lambda: 1, pl.Series([1])):
        with pytest.raises(TypeError, match="must be an expression, a plain value"):
            grouping.frozen_argument(value)


def test_names_that_look_like_patterns_are_names():
    frame = pl.DataFrame({"^a$": [1], "a": [2]})
    assert grouping.narrowed(frame, ["^a$"]).collect().columns == ["^a$"]
