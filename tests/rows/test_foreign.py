"""Frames of other libraries: types come from what they declare, never from a row."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from opendp_tree import Key, release_tree
from opendp_tree.rows.sources import read_foreign as read
from opendp_tree.rows.sources import read_rows

PANDAS = {
    "int64": (pd.Series([1, 2], dtype="int64"), pl.Int64, [1, 2]),
    "uint8": (pd.Series([0, 255], dtype="uint8"), pl.UInt8, [0, 255]),
    "Int64": (pd.Series([1, None], dtype="Int64"), pl.Int64, [1, None]),
    "boolean": (pd.Series([True, None], dtype="boolean"), pl.Boolean, [True, None]),
    "bool": (pd.Series([True, False]), pl.Boolean, [True, False]),
    "string": (pd.Series(["x", None], dtype="string"), pl.String, ["x", None]),
    "python string": (pd.Series(["x\ud800", None], dtype=pd.StringDtype("python")), pl.String, ["x\ufffd", None]),
    "category": (pd.Series(["x", None], dtype=pd.CategoricalDtype(pd.array(["x", "y"], "str"))), pl.Categorical, None),
    "ordered": (
        pd.Series(["x", "y"], dtype=pd.CategoricalDtype(pd.array(["y", "x"], "str"), ordered=True)),
        pl.Categorical,
        ["x", "y"],
    ),
    "numbers as categories": (pd.Series([5, 7, None]).astype("Int64").astype("category"), pl.Int64, [5, 7, None]),
    "zone": (
        pd.Series(pd.to_datetime(["2024-03-31 00:30", None])).dt.tz_localize("UTC").dt.tz_convert("Europe/Brussels"),
        pl.Datetime("us", "Europe/Brussels"),
        None,
    ),
    "arrow": (pd.Series([1, None], dtype=pd.ArrowDtype(pa.int32())), pl.Int32, [1, None]),
}


@pytest.mark.parametrize("kind", PANDAS)
def test_pandas_types_are_kept_whatever_the_rows_and_indexes_ignored(kind):
    column, dtype, values = PANDAS[kind]
    for index in (range(3), ["a", "b", "c"], [1, "x", object()]):
        frame = pd.DataFrame({"k": column})
        frame.index = pd.Index(index[: len(column)])
        whole = read(frame)
        assert whole.columns == ["k"]
        assert whole["k"].dtype == dtype
        assert values is None or whole["k"].to_list() == values
        for keep in ([], [0], [1], [1, 0]):
            part = read(frame.iloc[keep])
            assert part.schema == whole.schema
            assert part["k"].to_list() == [whole["k"][place] for place in keep]


def test_nan_is_missing_in_pandas_and_a_number_in_arrow():
    assert read(pd.DataFrame({"x": [0.5, np.nan]}))["x"].to_list() == [0.5, None]
    assert np.isnan(read(pa.table({"x": [0.5, float("nan")]}))["x"][1])


@pytest.mark.parametrize("values", [[], ["x"], [1], [1, "x"], [None], [object()]])
def test_columns_of_objects_are_refused_whatever_they_hold(values):
    column = pd.Series(values, dtype=object)
    for frame in (pd.DataFrame({"k": column}), pd.DataFrame({"k": pd.Categorical([1, "x"])})):
        with pytest.raises(
            TypeError, match=r"column 'k' .* must not hold Python objects, .* Hint: frame.astype\(\{'k': "
        ):
            read(frame)


@pytest.mark.parametrize(
    "column",
    [
        pd.period_range("2024-01", periods=2, freq="M"),
        pd.interval_range(0, 2),
        pd.array([1, 0], dtype="Sparse[int]"),
        np.array([1j, 2]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_types_that_nothing_here_counts_are_named(column):
    with pytest.raises(TypeError, match=r"column 'k' \(.*\) must hold texts, numbers, truths or times\. Hint: "):
        read(pd.DataFrame({"k": column}))


@pytest.mark.parametrize("frame", [pd.DataFrame({1: [1]}), pd.DataFrame([[1, 2]], columns=["a", "a"])])
def test_pandas_columns_have_names(frame):
    with pytest.raises(TypeError, match="columns must have names that are texts, each once"):
        read(frame)


def test_pandas_without_pyarrow_is_told_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="Hint: pip install pyarrow"):
        read(pd.DataFrame({"k": [1]}))


def test_frames_like_those_of_pandas_are_not_trusted_with_objects():
    class Alike:
        dtypes = (np.dtype("int64"), np.dtype(object))

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("rows were looked at")

    with pytest.raises(TypeError, match=r"the data \(Alike\) must not hold columns of Python objects"):
        read(Alike())


EXTREMES = [
    (pa.timestamp("s"), [2**62, 0, -(2**62), None]),
    (pa.timestamp("ns", "Europe/Brussels"), [2**63 - 1, 0, -(2**63), None]),
    (pa.date32(), [2**31 - 1, 0, -(2**31), None]),
    (pa.date64(), [86_400_000, 2**53 // 86_400_000 * 86_400_000, None]),
    (pa.duration("s"), [2**62, 1, None]),
    (pa.time32("s"), [2**31 - 1, -1, 5, None]),
    (pa.time64("ns"), [2**62, -1, 5, None]),
]


@pytest.mark.parametrize(("dtype", "ticks"), EXTREMES, ids=[str(dtype) for dtype, _ in EXTREMES])
def test_no_value_of_an_arrow_column_decides_how_others_are_read(dtype, ticks):
    def physical(values):
        base = pa.int32() if dtype.bit_width == 32 else pa.int64()
        found = read(pa.table({"k": pa.array(values, base).view(dtype)}))
        return found["k"].to_physical().to_list()

    assert physical(ticks) == [each for tick in ticks for each in physical([tick])]


NO_TEXTS = [b"\xff\xfe/\x80", b"a/\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf", b"long, ends in \xf0\x9f", b"\x80" * 50]


def texts_of(values):
    """Bytes as Arrow's texts, which nothing has checked."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


@pytest.mark.parametrize("bad", NO_TEXTS)
def test_bytes_that_are_no_text_are_replaced_in_their_row_alone(bad):
    good = [b"a/b", "é/q".encode(), b"", b"a longer text than twelve bytes"]
    for values in ([bad], [*good, bad], [bad, *good, bad], good):
        codes = pa.array(range(len(values)), pa.int32())
        table = pa.table({"k": texts_of(values), "c": pa.DictionaryArray.from_arrays(codes, texts_of(values))})
        expected = [value.decode("utf-8", "replace") for value in values]
        for data in (table, table.to_reader()):
            found = read(data)
            assert found.schema == {"k": pl.String, "c": pl.Categorical()}
            assert [value.encode() for value in found["k"]] == [text.encode() for text in expected]
            assert found["c"].to_list() == expected


@pytest.mark.parametrize("key", [Key.columns("k"), Key.path("k", depth=3), Key.url("k", depth=3), Key.ip("k")], ids=str)
def test_a_heavy_key_that_is_no_text_is_released_like_any_other(key):
    frame = pa.table({"k": texts_of([b"a/b"] * 500 + NO_TEXTS[:1] * 500)})
    release = release_tree(frame, by=key, epsilon=1.0, delta=1e-6)
    assert release.to_json()
    assert release.to_frame().height > 0


def test_dictionaries_of_any_make_are_categories():
    def coded(codes, texts):
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(texts, pa.string()))

    odd = [coded([0, 1, 2, None], ["x", "x", None]), coded([1, 0], ["z", "x"]), coded([], []), coded([None], [])]
    for chunks in (odd, odd[:1], odd[2:], []):
        found = read(pa.table({"k": pa.chunked_array(chunks, odd[0].type)}))
        assert found.schema == {"k": pl.Categorical()}
        assert found["k"].to_list() == [text for chunk in chunks for text in chunk.to_pylist()]


def test_rows_are_what_is_declared_of_them():
    rows = [{"a": 1, "more": 2}, {}, 7, None, {"a": "3"}, {"b": "x"}]
    found = read_rows(rows, pl.Schema({"a": pl.Int64, "b": pl.String}))
    assert found.rows() == [(1, None), (None, None), (None, None), (None, None), (3, None), (None, "x")]
    assert read_rows([], pl.Schema({"a": pl.Int64})).schema == {"a": pl.Int64}
    for rows in ([], [{"a": 1}], [1, 2]):
        with pytest.raises(TypeError, match=r"a list of rows must come with .* Hint: read_source\(rows, schema="):
            read_rows(rows, pl.Schema())


def test_frames_that_only_narwhals_knows_are_collected(monkeypatch):
    import narwhals

    class Remote:
        """Stands for a lazy frame of a library that has neither protocol."""

    lazy = narwhals.from_native(pl.LazyFrame({"a": [1, 2]}))
    real = narwhals.from_native
    monkeypatch.setattr(narwhals, "from_native", lambda data: lazy if isinstance(data, Remote) else real(data))
    assert read(Remote())["a"].to_list() == [1, 2]
