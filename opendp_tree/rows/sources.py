"""Rows of any kind as Polars frames: files, frames of other libraries, lists of rows; no row decides for others."""

from __future__ import annotations

import glob
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from polars import selectors

from opendp_tree._arguments import is_text
from opendp_tree.rows.dtypes import TEXTS, is_total_cast, step_kind
from opendp_tree.rows.grouping import guarded, own_scan, read_again_like, unflagged
from opendp_tree.rows.tables import Table

__all__ = ["read_source"]


def read_source(data: Any, *, schema: Mapping[str, Any] | None = None) -> pl.DataFrame | pl.LazyFrame | Table:
    """Rows of any kind as a Polars frame, without a copy where Arrow allows; no row decides whether others are read.

    `release_tree` and `frame_context` do this with what they are given.

    Parameters
    ----------
    data
        A Polars frame, lazy or not, which is passed on; a pandas frame, whose index is ignored; anything with Arrow's
        stream protocol (PyArrow tables and readers, DuckDB relations); else with the `__dataframe__` protocol, or
        known to Narwhals if that is installed; a list of rows that are mappings; or the path of a Parquet, Arrow IPC
        or CSV file, or a pattern such as `"visits/*.csv"` for many. A table of an engine (`DuckDBTable`,
        `PostgresTable`) stays where it is, and is passed on. A stream of batches is read once and can then not be
        given again.
    schema
        For columns whose type is not as the data have it, the data type. By default None: all are as they are, which
        for CSV is text. It must be given for lists of rows, which have the declared columns and no others, because
        types found in rows would tell of rows. A value that is not of the declared type, and cannot be read as such, is
        null. Pandas columns of Python objects are refused; `astype` gives them a type.

    Examples
    --------
    >>> rows = [{"city": "ghent", "age": 41}, {"city": "liege", "age": "42"}, {"city": None, "age": "unknown"}]
    >>> read_source(rows, schema={"city": str, "age": int}).rows()
    [('ghent', 41), ('liege', 42), (None, None)]
    """
    if schema is None and isinstance(data, pl.DataFrame):
        return data
    declared = read_declared(schema)
    if isinstance(data, Table):
        if declared:
            raise ValueError("schema must not be given for a table of another engine. Hint: cast in a view of it")
        return data
    data = unwrapped(data)
    if isinstance(data, (list, tuple)):
        return read_rows(data, declared)
    found: Any = data
    if isinstance(data, (str, os.PathLike)):
        found = scan_files(os.fspath(data))
    elif not isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        found = read_foreign(data)
    if found is None:
        raise TypeError(
            f"the data ({type(data).__name__}) must be a frame, a list of rows, or a path. "
            "Hint: Polars, pandas and PyArrow frames, DuckDB relations, or 'visits.parquet'"
        )
    frame: pl.DataFrame | pl.LazyFrame = as_declared(found, declared)
    return frame


def schema_source(columns: Any) -> Any:
    """What has the schema: frames of other libraries as Polars frames, a stream refused unread, the rest as it is."""
    if isinstance(columns, pl.DataFrame):
        return columns
    if is_one_shot(columns):
        raise TypeError("columns (a stream) must not be read for its schema alone. Hint: frame = read_source(stream)")
    known = any(hasattr(columns, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_native"))
    return read_source(columns) if known else columns


Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = (int, float, Decimal)
_WIDEST = 2**128
_HINT = "texts, integers, floats, truth values, dates, datetimes and times can be declared"


def read_declared(schema: Any) -> pl.Schema:
    """The data types that `schema` declares; none if it is None."""
    if schema is None:
        return pl.Schema()
    if not isinstance(schema, Mapping) or not all(isinstance(name, str) for name in schema):
        raise TypeError(f"schema ({type(schema).__name__}) must map columns to data types. Hint: {{'city': pl.String}}")
    try:
        found = pl.DataFrame(schema=dict(schema)).schema
    except Exception:
        found = None
    if found is None or not all(isinstance(dtype, pl.DataType) for dtype in found.values()):
        raise TypeError("schema must give Polars or Python data types. Hint: {'city': pl.String, 'age': int}")
    return found


def as_declared(frame: Frame, schema: pl.Schema) -> Frame:
    """The frame with these columns as declared. What a declared type cannot hold is null; nothing fails by a value."""
    found = frame.collect_schema()
    casts = []
    for name, wanted in schema.items():
        if name not in found:
            raise ValueError(f"schema: there is no column {name!r} in the data. Hint: check the name")
        if found[name] != wanted:
            cast = _cast(unflagged(frame, found.names().index(name), name), found[name], wanted)
            if cast is None:
                raise TypeError(
                    f"schema: column {name!r} holds {found[name]}, which must not be declared as {wanted}. "
                    f"Hint: {_HINT}; text has no time zone"
                )
            casts.append(cast.alias(name))
    if not casts:
        return frame
    declared = frame.with_columns(casts)
    if isinstance(declared, pl.LazyFrame):
        read_again_like(declared, frame)
    return declared


def _cast(column: pl.Expr, given: pl.DataType, wanted: pl.DataType) -> pl.Expr | None:
    """One column as another data type; None where that could fail for some value, or would be a guess."""
    kind, to = step_kind(given), step_kind(wanted)
    if kind in TEXTS:
        return _read_texts(column if kind == "text" else column.cast(pl.String, strict=False), wanted)
    if to == "categorical" and is_total_cast(given, pl.String()):
        return column.cast(pl.String, strict=False).cast(wanted, strict=False)
    return column.cast(wanted, strict=False) if is_total_cast(given, wanted) else None


def _read_texts(text: pl.Expr, wanted: pl.DataType) -> pl.Expr | None:
    """Texts as values. Formats are given: Polars would otherwise find them in the rows."""
    to = step_kind(wanted)
    if to in (*TEXTS, "integer", "float"):
        return text.cast(wanted, strict=False)
    if to == "truth":
        small = text.str.to_lowercase()
        return pl.when(small == "true").then(True).when(small == "false").then(False)
    if to == "date":
        return text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    if to == "time":
        return text.str.slice(0, 8).str.to_time("%H:%M:%S", strict=False)
    if isinstance(wanted, pl.Datetime) and wanted.time_zone is None:
        head = text.str.slice(0, 19).str.replace("T", " ", literal=True)
        length = head.str.len_chars()
        whole = pl.when(length == 10).then(head + " 00:00:00").when(length == 16).then(head + ":00").otherwise(head)
        return whole.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False).cast(wanted, strict=False)
    return None


def value_column(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Plain Python values as a column of a declared type, each by itself: what the type cannot hold is null."""
    kind = step_kind(dtype)
    read = _whole_reader(dtype) if dtype.is_integer() else _READERS.get(kind)
    if read is None:
        raise TypeError(f"schema: column {name!r} must not be declared as {dtype}. Hint: {_HINT}")
    if kind in TEXTS:
        return pl.Series(name, _each(read, values), dtype=pl.String).cast(dtype, strict=False)
    base = {"date": pl.Date(), "time": pl.Int64(), "datetime": pl.Int64()}.get(kind, dtype)
    column = pl.Series(name, _each(read, values), dtype=base)
    if kind == "datetime":
        column = column.cast(pl.Datetime("us"))
    column = column.cast(dtype, strict=False)
    meaning = _read_texts(pl.col("text"), dtype)
    if meaning is None or not any(isinstance(value, str) for value in values):
        return column
    texts = _each(lambda value: _text(value) if isinstance(value, str) else None, values)
    both = pl.DataFrame([column.alias("value"), pl.Series("text", texts, dtype=pl.String)])
    return both.select(pl.coalesce("value", meaning).alias(name)).to_series()


def _each(read: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """What is read of each value; None where that raises, so that no value decides for the others."""

    def one(value: Any) -> Any:
        try:
            return read(value)
        except Exception:
            return None

    return [None if value is None else one(value) for value in values]


def _text(value: Any) -> str | None:
    """A text, a number of at most 128 bits or a day as Polars writes it; null for anything else."""
    if isinstance(value, str):
        return str(value) if is_text(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(int(value)) if -_WIDEST <= value < _WIDEST else None
    if isinstance(value, float):
        return None if value != value else str(float(value))  # noqa: PLR0124 - NaN alone differs from itself
    return value.isoformat() if isinstance(value, (date, time)) else None


def _whole_reader(dtype: pl.DataType) -> Callable[[Any], int | None]:
    bits, signed = int(str(dtype).lstrip("UInt")), dtype.is_signed_integer()
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    # Compared before it is an integer: one of a million digits takes minutes to make.
    return lambda value: int(value) if isinstance(value, _NUMBERS) and low <= value <= high else None


def _float(value: Any) -> float | None:
    number = float(value) if isinstance(value, _NUMBERS) else None
    return number if number == number else None  # noqa: PLR0124 - NaN alone differs from itself


def _truth(value: Any) -> bool | None:
    return bool(value) if isinstance(value, (int, float)) and value == value else None  # noqa: PLR0124 - no NaN


def _day(value: Any) -> date | None:
    return date(value.year, value.month, value.day) if isinstance(value, date) else None


def _ticks(value: Any) -> int | None:
    """Microseconds since 1970; a time without a zone is in UTC, as it is in Polars' casts."""
    if not isinstance(value, date):
        return None
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return int((aware - _EPOCH) // _MICROSECOND)


def _clock(value: Any) -> int | None:
    if not isinstance(value, time):
        return None
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1000


_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(TEXTS, _text),
    "float": _float,
    "truth": _truth,
    "date": _day,
    "datetime": _ticks,
    "time": _clock,
}
_PLAIN_KINDS = "biufmM"
"""NumPy's letters for the types that Arrow takes as they are: truths, numbers, times."""
_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""The streams that were read. A stream that is read again is empty, and a release of nothing looks like any other."""


class _Stream:
    """An object by its Arrow stream alone, so that Polars takes this way for every library."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


def arrow_frame(data: Any) -> pl.DataFrame:
    """What has Arrow's stream protocol, as a frame of valid texts."""
    return _with_valid_texts(pl.DataFrame(_Stream(data)))


def _with_valid_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, whose texts Arrow does not check: bytes that are no UTF-8 are replaced, in each text by itself."""
    texts = [column for column in frame if column.dtype in (pl.String, pl.Categorical)]
    return frame.with_columns(_valid_texts(column) for column in texts)


def _valid_texts(column: pl.Series) -> pl.Series:
    values = column.cast(pl.String).cast(pl.Binary)
    with suppress(pl.exceptions.ComputeError):
        values.cast(pl.String)  # Polars checks all at once: then each text is as it would be alone
        return column
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
    return pl.Series(column.name, texts, dtype=column.dtype)


def is_one_shot(data: Any) -> bool:
    """Whether this is a stream, which can be read only once: a reader of batches is an iterator, a table is not."""
    return hasattr(data, "__next__") and hasattr(data, "__arrow_c_stream__")


def read_rows(rows: Sequence[Any], schema: pl.Schema) -> pl.DataFrame:
    """Rows that are mappings, as a frame of the declared columns and no others."""
    if not schema:
        raise TypeError(
            "a list of rows must come with the data types of its columns: types must not be found in rows. "
            "Hint: read_source(rows, schema={'city': pl.String})"
        )
    return pl.DataFrame([value_column(name, [_get(row, name) for row in rows], schema[name]) for name in schema])


def _get(row: Any, name: str) -> Any:
    try:
        return row.get(name)
    except Exception:  # no mapping, or one of somebody's own
        return None


def read_foreign(data: Any) -> pl.DataFrame | None:
    """The frame of another library; None for what is no frame."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _read_pandas(data)
    if isinstance(data, pl.Series) or (pandas is not None and isinstance(data, pandas.Series)):
        raise TypeError("the data (Series) must be a frame. Hint: series.to_frame('name')")
    if _holds_objects(data):
        raise TypeError(
            f"the data ({type(data).__name__}) must not hold columns of Python objects, whose types are found in rows. "
            "Hint: astype('string'), or another type that says what is in them"
        )
    if hasattr(data, "__arrow_c_stream__"):
        return _read_stream(data)
    if hasattr(data, "__dataframe__"):
        return guarded(lambda: _with_valid_texts(pl.from_dataframe(data)))
    collected = _collected(data)
    return None if collected is None else read_foreign(collected)


def unwrapped(data: Any) -> Any:
    """The frame within a frame of Narwhals, and anything else as it is."""
    ours = type(data).__module__.split(".")[0] == "narwhals" and hasattr(data, "to_native")
    return data.to_native() if ours else data


def _collected(data: Any) -> Any:
    """A frame that only Narwhals knows, as the frame in memory that its library has for it; None for anything else."""
    try:
        import narwhals
    except ImportError:
        return None
    try:
        known: Any = narwhals.from_native(data)
    except Exception:
        return None
    lazy = isinstance(known, narwhals.LazyFrame)
    return guarded(lambda: known.collect().to_native() if lazy else known.to_arrow())


def _holds_objects(data: Any) -> bool:
    """Whether a frame that is like those of pandas has columns without a type. Arrow would look at their rows."""
    types = getattr(data, "dtypes", None)
    return any(str(dtype) == "object" for dtype in (types if isinstance(types, Iterable) else ()))


def _read_stream(data: Any) -> pl.DataFrame:
    if is_one_shot(data):
        if data in _READ:
            raise ValueError("the data is a stream that was read already. Hint: frame = read_source(stream), once")
        _remember(data)
    return guarded(lambda: arrow_frame(data))


def _remember(stream: Any) -> None:
    with suppress(TypeError):  # some classes have objects that cannot be remembered
        _READ.add(stream)


def _read_pandas(data: Any) -> pl.DataFrame:
    """A pandas frame without its index. Columns of objects are refused: pandas knows no type for them."""
    if find_spec("pyarrow") is None or not hasattr(data, "__arrow_c_stream__"):
        raise ImportError("a pandas frame must come with PyArrow and pandas 2.2 or later. Hint: pip install pyarrow")
    names = list(data.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TypeError("the data: columns must have names that are texts, each once. Hint: frame.columns = [...]")
    texts = [_is_python_text(name, dtype) for name, dtype in zip(names, data.dtypes, strict=True)]
    return pl.DataFrame([_pandas_column(data[name], text) for name, text in zip(names, texts, strict=True)])


def _pandas_column(column: Any, python_text: bool) -> pl.Series:
    """One column at a time: pandas copies what it selects several of."""
    import pandas as pd

    if python_text:
        dtype = pl.Categorical() if isinstance(column.dtype, pd.CategoricalDtype) else pl.String()
        return value_column(column.name, guarded(column.tolist), dtype)
    if not isinstance(column.index, pd.RangeIndex):  # any other would come along, and Arrow look at its rows
        column = column.reset_index(drop=True)
    return guarded(lambda: arrow_frame(column.to_frame()).to_series())


def _is_python_text(name: str, dtype: Any) -> bool:
    """Whether a column holds Python's texts, which are read here; Arrow reads any other. Looks at no value."""
    import pandas as pd

    inner = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    if isinstance(inner, np.dtype) and inner.kind == "O":
        raise TypeError(
            f"the data: column {name!r} ({dtype}) must not hold Python objects, whose types are found in rows. "
            f"Hint: frame.astype({{{name!r}: 'string'}}), or another type of pandas that says what is in it"
        )
    if isinstance(inner, pd.StringDtype):
        return bool(inner.storage == "python")
    nullable = ("Int", "UInt", "Float", "boolean")
    known = isinstance(inner, (pd.ArrowDtype, pd.DatetimeTZDtype)) or str(inner).startswith(nullable)
    if known or (isinstance(inner, np.dtype) and inner.kind in _PLAIN_KINDS):
        return False
    raise TypeError(f"the data: column {name!r} ({dtype}) must hold texts, numbers, truths or times. Hint: astype")


FRAME_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What reading can raise. The messages may hold data."""
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
"""The format to read that a file's ending stands for."""


def file_format(path: str | Path) -> str | None:
    """What a file's ending says of its format, if anything."""
    return FORMATS.get(Path(path).suffix.lower())


def scan_file(path: str | Path, *, file_format: str) -> pl.LazyFrame:
    """A file as a lazy frame, so that no row decides whether the others can be read."""
    if file_format == "parquet":
        return own_scan(pl.scan_parquet(path, glob=False))
    if file_format == "ipc":
        return own_scan(pl.scan_ipc(path, glob=False, hive_partitioning=False))
    lossy = pl.scan_csv(path, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy", glob=False)
    return own_scan(lossy)


def scan_files(pattern: str | Path) -> pl.LazyFrame:
    """One file, or all whose names match a pattern, as a lazy frame; their formats are those of their endings."""
    names = [str(pattern)] if Path(pattern).exists() else sorted(glob.glob(str(pattern), recursive=True))
    if not names:
        raise FileNotFoundError(f"there is no file {str(pattern)!r}. Hint: check the path; '*' stands for any letters")
    frames = [_scan_known(name) for name in names]
    first = frames[0].collect_schema()
    for name, frame in zip(names[1:], frames[1:], strict=True):
        if dict(frame.collect_schema()) != dict(first):
            raise ValueError(
                f"{name!r} must have the columns and data types of {names[0]!r}. "
                "Hint: read the files one by one and bring them to one schema"
            )
    if not frames[1:]:
        return frames[0]
    return own_scan(pl.concat([frame.select(selectors.by_name(*first)) for frame in frames]))


def _scan_known(name: str) -> pl.LazyFrame:
    """A file whose ending says its format, and whose columns can be read."""
    if Path(name).is_dir():
        raise IsADirectoryError(f"{name!r} must be a file. Hint: {str(Path(name) / '*.parquet')!r}")
    form = file_format(name)
    if form is None:
        raise ValueError(f"{name!r} must end in one of {' '.join(FORMATS)}. Hint: rename it, or pass a Polars scan")
    try:
        frame = scan_file(name, file_format=form)
        frame.collect_schema()
    except FRAME_ERRORS:
        frame = None
    if frame is None:  # not within `except`: what Polars says may hold data
        raise ValueError(f"{name!r} cannot be read as {form}. Hint: is it empty, damaged, or of another format?")
    return frame


def with_times(frame: pl.LazyFrame, column: str, *, hours: bool) -> pl.LazyFrame:
    """The frame with a column of texts as dates or times: ISO 8601, without zones; what is no date is null."""
    if frame.collect_schema()[column] != pl.String:
        return frame
    text = pl.col(column)
    if hours:
        hour = text.str.slice(0, 13).str.replace("T", " ", literal=True) + ":00:00"
        times = hour.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).alias(column)
    else:
        times = text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    return read_again_like(frame.with_columns(times), frame)


def with_numbers(frame: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    """The frame with columns of texts as floats; what is no number is null."""
    types = frame.collect_schema()
    texts = [pl.col(name).str.strip_chars() for name in columns if types[name] == pl.String]
    return read_again_like(frame.with_columns(text.cast(pl.Float64, strict=False) for text in texts), frame)
