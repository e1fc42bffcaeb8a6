"""Declared types: every value is read by itself, or is null; nothing raises, and no row decides for another."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from opendp_tree.rows.sources import as_declared, read_declared, value_column

DTYPES = [
    *(pl.String(), pl.Categorical(), pl.Enum(["x", "7"]), pl.Boolean(), pl.Float32(), pl.Float64()),
    *(pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Int128(), pl.UInt8(), pl.UInt32(), pl.UInt64(), pl.UInt128()),
    *(pl.Date(), pl.Time(), pl.Datetime("ms"), pl.Datetime("us"), pl.Datetime("ns"), pl.Datetime("us", "Asia/Tokyo")),
]


class Hostile:
    def __str__(self):
        raise ValueError("secret")

    __eq__ = __bool__ = __int__ = __float__ = __hash__ = __str__


class HostileText(str):
    __slots__ = ()

    def __str__(self):
        raise ValueError("secret")


ODD = [
    *(None, True, False, 0, 1, -1, 300, 2**63, -(2**63), 2**64 - 1, 2**127, 2**200, 10**5000),
    *(0.5, -0.0, 1e300, float("nan"), float("inf"), -float("inf"), Decimal("1.5"), Decimal("NaN"), Decimal("1e9999")),
    *(Decimal("1e4000000"), Decimal("-1e4000000"), Decimal("1e-4000000")),  # as integers, the first two take an hour
    *("", "x", "7", " 7", "1_000", "١", "7.5", "1e400", "nan", "true", "FALSE"),
    *("\ud800", "a\udfffb", "\x00", "ä" * 5000, "2024-02-29T23:59", "2024-02-29 24:00:00"),
    *("2024-02-29", "2023-02-29", "0000-00-00", "9999-12-31", "+99999-01-01"),
    *("2024-02-29T23:59:58.123456+02:00", "23:59:59", "24:00:00", "🙂" * 20),
    *(b"x", [1], (), {}, {1}, object(), Hostile(), HostileText("x"), np.array([1, 2]), 1j, np.complex64(1)),
    *(np.int8(3), np.uint64(2**64 - 1), np.float32(2.5), np.float64("nan"), np.bool_(True), np.str_("x")),
    *(date(1, 1, 1), date(9999, 12, 31), datetime(2024, 2, 3, 4, 5, 6), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    *(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), time(23, 59, 59, 999_999), timedelta(1)),
    *(np.datetime64("2024-01-01"), np.datetime64("NaT"), np.datetime64(2**62, "s"), np.timedelta64(1, "D")),
    *(pd.NA, pd.NaT, pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp.max, pd.Timedelta(1)),
]


def bits(column):
    """Values that compare as what they are: instants that Python has not, and NaN."""
    plain = column.to_physical() if column.dtype.is_temporal() else column
    return [repr(value) for value in plain.to_list()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_value_decides_how_others_are_read(dtype):
    together = value_column("k", ODD, dtype)
    assert together.dtype == dtype
    assert together.name == "k"
    assert bits(together) == [each for value in ODD for each in bits(value_column("k", [value], dtype))]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (pl.String(), ["x", 1, True, 0.5, None, np.nan, pd.NA, pd.NaT], ["x", "1", "true", "0.5"]),
        (pl.String(), [date(2024, 1, 2)], ["2024-01-02"]),
        (pl.Int8(), [1, "2", 3.0, 127, 128, "x", None, np.nan], [1, 2, 3, 127]),
        (pl.UInt64(), [0, 2**64 - 1, -1, 2**64], [0, 2**64 - 1]),
        (pl.UInt128(), [2**128 - 1, -1], [2**128 - 1]),
        (pl.Float64(), [1, 0.5, "2.5", Decimal("0.25"), "x", np.nan], [1.0, 0.5, 2.5, 0.25]),
        (pl.Boolean(), [True, 0, "True", "false", "yes", None], [True, False, True, False]),
        (pl.Enum(["x"]), ["x", "y"], ["x"]),
        (pl.Date(), [date(2024, 1, 2), "2024-01-03", datetime(2024, 1, 4, 5), "x"], [2, 3, 4]),
        (pl.Time(), [time(1, 2, 3), "01:02:03", "25:00:00"], [time(1, 2, 3)] * 2),
    ],
    ids=lambda value: str(value) if isinstance(value, pl.DataType) else "",
)
def test_values_are_read_as_the_declared_type_or_null(dtype, values, expected):
    found = value_column("k", values, dtype).to_list()
    if dtype == pl.Date:
        expected = [date(2024, 1, day) for day in expected]
    assert [value for value in found if value is not None] == expected
    assert len(found) == len(values)


def test_instants_are_utc_where_no_zone_is_said():
    noon, paris = datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    for dtype in (pl.Datetime("us"), pl.Datetime("ns", "Europe/Paris")):
        ticks = value_column("k", [noon, paris, pd.Timestamp(paris)], dtype).cast(pl.Datetime("us")).to_physical()
        assert ticks.n_unique() == 1


TEXTS = [value if value.isprintable() or value == "\x00" else None for value in ODD if type(value) is str]


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in (pl.Int128, pl.UInt128)], ids=str)
@pytest.mark.parametrize("given", [pl.String(), pl.Categorical(), pl.Enum([text for text in TEXTS if text])], ids=str)
def test_texts_of_a_file_are_read_one_by_one_and_as_python_texts_are(dtype, given):
    texts = [text for text in TEXTS if text]
    column = pl.Series("k", texts, dtype=given)
    schema = pl.Schema({"k": dtype})
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        with pytest.raises(TypeError, match=r"column 'k' holds .* must not be declared .*text has no time zone"):
            as_declared(column.to_frame(), schema)
        return
    together = as_declared(column.to_frame(), schema)["k"]
    assert together.dtype == dtype
    assert bits(together) == [
        each for text in texts for each in bits(as_declared(column.filter(column == text).to_frame(), schema)["k"])
    ]
    assert bits(together) == bits(value_column("k", texts, dtype))
    assert bits(as_declared(column.to_frame().lazy(), schema).collect()["k"]) == bits(together)


def test_columns_that_are_as_declared_are_the_columns():
    frame = pl.DataFrame({"a": [1, 2]})
    assert as_declared(frame, pl.Schema({"a": pl.Int64})) is frame
    assert as_declared(frame, pl.Schema()) is frame


def test_what_a_cast_could_stumble_on_is_refused_before_a_row_is_read():
    def read(batch):
        raise AssertionError("data was touched")

    frame = pl.LazyFrame({"a": [[1]], "b": [b"x"], "c": [1]})
    unread = frame.map_batches(read, schema=frame.collect_schema())
    for name in ("a", "b"):
        with pytest.raises(TypeError, match=f"schema: column '{name}' holds .* must not be declared as String. Hint: "):
            as_declared(unread, pl.Schema({name: pl.String}))
    with pytest.raises(ValueError, match="schema: there is no column 'z' in the data"):
        as_declared(unread, pl.Schema({"z": pl.String}))
    for dtype in (pl.Decimal(10, 2), pl.List(pl.Int8), pl.Duration(), pl.Binary(), pl.Object()):
        with pytest.raises(TypeError, match="schema: column 'k' must not be declared as"):
            value_column("k", [], dtype)


@pytest.mark.parametrize("schema", [7, "city", ["city"], {1: str}, {"a": 7}, {"a": "text"}, {"a": object()}])
def test_wrong_schemas_are_named(schema):
    with pytest.raises(TypeError, match=r"schema .*must .*Hint: \{'city': pl.String"):
        read_declared(schema)


def test_schemas_take_types_of_python_and_of_polars():
    assert read_declared(None) == {}
    expected = {"a": pl.String, "b": pl.Int64, "c": pl.Date, "d": pl.Int8}
    assert read_declared({"a": str, "b": int, "c": date, "d": pl.Int8}) == expected
