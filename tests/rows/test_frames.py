"""Every kind of source gives the leaf counts of the Polars frame with the same rows; so do neighbours."""

import gc
from datetime import date

import duckdb
import narwhals as nw
import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from opendp_tree import frame_domain, make_leaf_counts, read_source, release_tree
from opendp_tree.rows.domains import column_kinds
from tests.frame_truth import as_paths

ROWS = [
    {"city": "ghent", "age": 41, "day": date(2024, 2, 29)},
    {"city": "ghent", "age": 7, "day": date(2024, 3, 1)},
    {"city": "ä / 🙂", "age": None, "day": None},
    {"city": None, "age": -(2**63), "day": date(1, 1, 1)},
    {"city": "", "age": 2**63 - 1, "day": date(9999, 12, 31)},
    {"city": "ghent", "age": 41, "day": date(2024, 2, 29)},
]
SCHEMA = {"city": pl.String, "age": pl.Int64, "day": pl.Date}


class OnlyArrow:
    """Any library's frame, as far as Arrow's protocol tells."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.to_arrow().__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    """A library that Arrow's protocol has not come to."""

    def __init__(self, frame):
        self.frame = frame

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.frame.drop("day").__dataframe__(nan_as_null, allow_copy)


def relation(frame):
    return duckdb.from_arrow(frame.to_arrow())


def pandas_frame(frame):
    index = pd.Index(range(7, 7 + frame.height), name="city")
    return frame.to_arrow().to_pandas(types_mapper=pd.ArrowDtype).set_index(index)


def parts(frame, folder):
    frame[:2].write_parquet(folder / "part0.parquet")
    frame[2:].write_parquet(folder / "part1.parquet")
    return str(folder / "part*.parquet")


def ipc_file(frame, folder):
    frame.write_ipc(folder / "a.arrow")
    return str(folder / "a.arrow")


SOURCES = {
    "polars": lambda frame, folder: frame,
    "lazy": lambda frame, folder: frame.lazy(),
    "pandas": lambda frame, folder: pandas_frame(frame),
    "table": lambda frame, folder: frame.to_arrow(),
    "reader": lambda frame, folder: frame.to_arrow().to_reader(max_chunksize=2),
    "batch": lambda frame, folder: frame.to_arrow().combine_chunks().to_batches()[0],
    "duckdb": lambda frame, folder: relation(frame),
    "arrow": lambda frame, folder: OnlyArrow(frame),
    "narwhals": lambda frame, folder: nw.from_native(pandas_frame(frame)),
    "narwhals lazy": lambda frame, folder: nw.from_native(relation(frame)),
    "rows": lambda frame, folder: frame.to_dicts(),
    "interchange": lambda frame, folder: OnlyInterchange(frame),
    "parquet": parts,
    "ipc": ipc_file,
}


def leaf_counts(frame, by):
    counts = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by=by)(frame)
    return as_paths(counts)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("left_out", [None, 0, 2, 5])
def test_every_source_has_the_counts_of_the_frame_and_so_do_its_neighbours(kind, left_out, tmp_path):
    rows = [row for place, row in enumerate(ROWS) if place != left_out]
    frame = pl.DataFrame(rows, schema=SCHEMA)
    schema = SCHEMA if kind == "rows" else None
    read = read_source(SOURCES[kind](frame, tmp_path), schema=schema)
    found = read.lazy().collect_schema()
    if kind != "rows":  # which come with a schema
        release = release_tree(SOURCES[kind](frame, tmp_path), by="city", epsilon=9.0, delta=1e-6)
        assert release.statement.mechanism == "tree_estimator"
    for name in found:
        assert found[name] == SCHEMA[name]
        assert leaf_counts(read, name) == leaf_counts(frame, name)
    assert set(found) == set(SCHEMA) - ({"day"} if kind == "interchange" else set())


@pytest.mark.parametrize("left_out", [None, 0, 2, 5])
def test_text_files_hold_texts_unless_declared(tmp_path, left_out):
    frame = pl.DataFrame([row for place, row in enumerate(ROWS) if place != left_out], schema=SCHEMA)
    path = tmp_path / "a.csv"
    # Polars distinguishes a missing text from an empty one only by quotes.
    frame.write_csv(path, quote_style="non_numeric", null_value="")
    assert set(read_source(path).collect_schema().values()) == {pl.String}
    read = read_source(path, schema={"age": int, "day": pl.Date})
    assert dict(read.collect_schema()) == SCHEMA
    for name in ("age", "day"):
        assert leaf_counts(read, name) == leaf_counts(frame, name)


def address(column):
    return column._get_buffer_info()[0]


def test_numbers_are_not_copied_where_arrow_allows():
    numbers = np.arange(100_000)
    table = pa.table({"n": numbers})
    assert table["n"].chunk(0).buffers()[1].address == numbers.ctypes.data
    frame = pl.DataFrame({"n": numbers})
    for data in (table, table.to_reader()):
        assert address(read_source(data)["n"]) == numbers.ctypes.data
    assert address(read_source(frame)["n"]) == address(frame["n"])
    pandas = pd.DataFrame({"n": numbers, "m": numbers, "x": numbers + 0.5, "city": "ghent"})
    for frame in (pandas, pandas.set_axis(pd.Index(range(100_000, 0, -1)))):
        for name in ("n", "m", "x"):
            assert address(read_source(frame)[name]) == frame[name].to_numpy().ctypes.data


def test_what_was_read_outlives_its_source():
    table = pa.table({"n": np.arange(100_000)})
    read = read_source(table)
    del table
    gc.collect()
    assert read["n"].sum() == 4_999_950_000


def test_a_stream_is_read_once_and_says_so():
    stream = pa.table({"city": ["ghent"] * 9}).to_reader()
    with pytest.raises(TypeError, match=r"columns \(a stream\) must be a frame, or data types. Hint: .*read_so"):
        frame_domain(stream)
    assert read_source(stream).height == 9
    with pytest.raises(ValueError, match=r"a stream that was read already\. Hint: frame = read_source"):
        read_source(stream)


def test_frames_of_other_libraries_have_domains():
    frame = pl.DataFrame({"city": ["ghent"], "age": [1]})
    for data in (frame.to_arrow(), frame.to_pandas(), relation(frame), nw.from_native(frame)):
        assert frame_domain(data) == frame_domain(frame)
    measured = make_leaf_counts(frame_domain(frame), dp.symmetric_distance(), by="city")
    with pytest.raises(Exception, match="read_source makes one of other frames"):
        measured(frame.to_pandas())


@pytest.mark.parametrize("data", [None, 7, object(), b"a", (row for row in ROWS), {"city": ["ghent"]}, {1}])
def test_what_is_no_source_is_refused_by_its_type(data):
    with pytest.raises(TypeError, match=rf"the data \({type(data).__name__}\) must be a frame, a list of rows, or a"):
        read_source(data)
    for column in (pl.Series("a", [1]), pd.Series([1], name="a")):
        with pytest.raises(TypeError, match=r"Hint: series\.to_frame"):
            read_source(column)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("*.csv", None, FileNotFoundError, r"there is no file '.*\*.csv'. Hint: "),
        ("a.csv", None, FileNotFoundError, r"there is no file '.*a.csv'. Hint: "),
        ("a.csv", b"", ValueError, "cannot be read as csv. Hint: is it empty"),
        ("a.parquet", b"secret", ValueError, "cannot be read as parquet. Hint: is it empty"),
        ("a.arrow", b"secret", ValueError, "cannot be read as ipc. Hint: is it empty"),
        ("a.xlsx", b"secret", ValueError, r"a.xlsx' must end in one of \.parquet .*\. Hint: "),
        ("", b"", IsADirectoryError, r"must be a file. Hint: '.*\*.parquet'"),
    ],
)
def test_files_that_cannot_be_read_are_named_and_not_quoted(tmp_path, name, content, error, message):
    if content is not None and name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        read_source(tmp_path / name)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_other_libraries_say_of_rows_is_withheld():
    query = duckdb.sql("select cast(x as integer) as a from (values ('1'), ('secret')) as t(x)")
    with pytest.raises(RuntimeError, match="details are withheld") as caught:
        read_source(query)
    assert caught.value.__context__ is None


def test_members_are_frames_with_the_columns():
    domain = frame_domain({"a": pl.String, "b": pl.Int64})
    frame = pl.DataFrame({"b": [1], "a": ["x"], "c": [0.5]})
    assert domain.member(frame)
    assert domain.member(frame.lazy())
    for other in (frame.drop("a"), frame.cast({"b": pl.Int32}), frame.to_dict(as_series=False), None, 7):
        assert not domain.member(other)


def test_domains_are_equal_if_their_columns_are():
    """OpenDP compares by the identifier alone."""
    enums = ["x"], ["x", "y"], ["x', 'y"], [str(n) for n in range(99)], [str(n) for n in range(98)] + ["z"]
    dtypes = pl.Int64, pl.Int32, pl.Categorical, pl.Datetime("us"), pl.Datetime("ns"), pl.Datetime("us", "UTC")
    types = [{"a": pl.String}, {"b": pl.String}, {"a": pl.String, "b": pl.String}, {"a': String, 'b": pl.String}]
    types += [{"a": dtype} for dtype in (*dtypes, *map(pl.Enum, enums))]
    domains = [frame_domain(columns) for columns in types]
    for place, domain in enumerate(domains):
        assert [domain == other for other in domains] == [place == number for number in range(len(domains))]
    assert frame_domain({"a": pl.String, "b": pl.Date}) == frame_domain({"b": pl.Date, "a": str})
    assert frame_domain(pl.DataFrame({"a": ["x"]})) == frame_domain(pl.LazyFrame({"a": ["x"]})) == domains[0]


def test_both_kinds_of_domains_tell_what_columns_hold():
    kinds = {"text": pl.String, "integer": pl.UInt64, "boolean": pl.Boolean, "date": pl.Date, "time": pl.Time}
    frame = pl.DataFrame(schema={**kinds, "datetime": pl.Datetime("ms"), "float": pl.Float32})
    domains = frame_domain(frame), dp.domain_of(frame.lazy(), infer=True)
    assert [column_kinds(each) for each in domains] == [{name: name for name in frame.columns}] * 2
    others = frame_domain({"text": pl.Enum(["a"]), "decimal": pl.Decimal(38, 2), "Binary": pl.Binary})
    assert column_kinds(others) == {name: name for name in ("text", "decimal", "Binary")}


@pytest.mark.parametrize("columns", [None, {}, ["a"], 7, "a"])
def test_wrong_columns_are_named(columns):
    with pytest.raises(TypeError, match="columns must give each column's data type, or be a frame"):
        frame_domain(columns)
