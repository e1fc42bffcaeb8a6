"""Rows of any kind as Polars frames: files, frames of other libraries, lists of rows. Each row is read by itself."""

from __future__ import annotations

import glob
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timezone
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from polars import selectors

from opendp_tree._arguments import column_hint, is_text
from opendp_tree.rows.domains import (
    TEXTS,
    Table,
    guarded,
    is_total_cast,
    own_scan,
    read_again_like,
    step_kind,
    unflagged,
)

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
FRAME_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""The exceptions of reading, whose messages may hold data."""
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
"""The format of files by their ending."""
_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""The streams that were read. A stream that is read again is empty, and that does not show in a release."""
_DECLARABLE = "texts, integers, floats, truth values, dates, datetimes and times can be declared"


def read_any(data: Any, schema: Mapping[str, Any] | None) -> pl.DataFrame | pl.LazyFrame:
    """Rows of any kind as a Polars frame, as `read_source` says."""
    declared = read_declared(schema)
    if isinstance(data, Table):
        raise ValueError("schema must not be given for a table of another engine. Hint: cast in a view of it")
    if type(data).__module__.split(".")[0] == "narwhals" and hasattr(data, "to_native"):
        data = data.to_native()
    if isinstance(data, (list, tuple)):
        return read_rows(data, declared)
    if isinstance(data, (str, os.PathLike)):
        return as_declared(scan_files(os.fspath(data)), declared)
    if isinstance(data, pl.LazyFrame):
        return as_declared(data, declared)
    return as_declared(data if isinstance(data, pl.DataFrame) else read_foreign(data), declared)


def read_declared(schema: Any) -> pl.Schema:
    """The data types that `schema` declares."""
    if schema is None:
        return pl.Schema()
    if not isinstance(schema, Mapping) or not all(isinstance(name, str) for name in schema):
        raise TypeError(f"schema ({type(schema).__name__}) must map columns to data types. Hint: {{'city': pl.String}}")
    with suppress(Exception):
        declared = pl.DataFrame(schema=dict(schema)).schema
        if all(isinstance(dtype, pl.DataType) for dtype in declared.values()):
            return declared
    raise TypeError("schema must give Polars or Python data types. Hint: {'city': pl.String, 'age': int}")


def as_declared(frame: Frame, schema: pl.Schema) -> Frame:
    """The frame with these columns as declared; values that the declared type cannot hold are null."""
    types = frame.collect_schema()
    casts = []
    for name, dtype in schema.items():
        if name not in types:
            raise ValueError(f"schema: there is no column {name!r} in the data. {column_hint(name, types)}")
        if types[name] != dtype:
            cast = _cast(unflagged(frame, types.names().index(name), name), types[name], dtype)
            if cast is None:
                raise TypeError(
                    f"schema: column {name!r} holds {types[name]}, which must not be declared as {dtype}. "
                    f"Hint: {_DECLARABLE}; text has no time zone"
                )
            casts.append(cast.alias(name))
    if not casts:
        return frame
    declared = frame.with_columns(casts)
    return read_again_like(declared, frame) if isinstance(declared, pl.LazyFrame) else declared


def _cast(column: pl.Expr, dtype: pl.DataType, to: pl.DataType) -> pl.Expr | None:
    """A column as another data type; None where the cast could fail for some value, or would be a guess."""
    kind = step_kind(dtype)
    if kind in TEXTS:
        return _read_texts(column if kind == "text" else column.cast(pl.String, strict=False), to)
    if step_kind(to) == "categorical" and is_total_cast(dtype, pl.String()):
        return column.cast(pl.String, strict=False).cast(to, strict=False)
    return column.cast(to, strict=False) if is_total_cast(dtype, to) else None


def _read_texts(text: pl.Expr, to: pl.DataType) -> pl.Expr | None:
    """Texts as values. Formats are fixed: Polars would otherwise infer them from the rows."""
    kind = "integer" if to.is_integer() else step_kind(to)
    if kind in TEXTS:
        return text.cast(to, strict=False)
    if kind in ("integer", "float"):
        number = text.str.strip_chars()
        return (number if kind == "float" else number.str.replace(r"\.0*$", "")).cast(to, strict=False)
    if kind == "boolean":
        small = text.str.to_lowercase()
        return pl.when(small.is_in(["true", "1"])).then(True).when(small.is_in(["false", "0"])).then(False)
    if kind == "date":
        return text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    if kind == "time":
        return text.str.extract("^([0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]+)?)").str.to_time("%H:%M:%S%.f", strict=False)
    if isinstance(to, pl.Datetime) and to.time_zone is None:
        # To the day, the hour, the minute, or the second and its parts; what follows, such as a zone, is not read.
        clock = "[0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?)?"
        timed = text.str.extract(f"^(.{{10}}[T ]{clock})(?:[^0-9:]|$)").str.replace("T", " ", literal=True)
        whole = pl.when(text.str.len_chars() == 10).then(text).otherwise(timed)
        whole += pl.lit(" 00:00:00").str.slice(whole.str.len_chars().cast(pl.Int64) - 10)
        return whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False).cast(to, strict=False)
    return None


def texts_as(frame: pl.LazyFrame, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The frame with those of these columns that hold texts read as other types; texts of no such value are null."""
    types = frame.collect_schema()
    texts = {name: dtype for name, dtype in schema.items() if types.get(name) == pl.String}
    return as_declared(frame, pl.Schema(texts))


def read_rows(rows: Sequence[Any], schema: pl.Schema) -> pl.DataFrame:
    """Rows that are mappings, as a frame of the declared columns and no others; other rows have no values."""
    if not schema:
        raise TypeError(
            "a list of rows must come with the data types of its columns, which are not inferred from rows. "
            "Hint: read_source(rows, schema={'city': pl.String})"
        )
    values = {name: _each(lambda row, name=name: row.get(name), rows) for name in schema}  # type: ignore[misc]
    return pl.DataFrame([value_column(name, values[name], dtype) for name, dtype in schema.items()])


def value_column(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Plain Python values as a column of a declared type, each by itself, as its text in a file would be read."""
    read = _read_texts(pl.col(name), pl.Datetime("us") if isinstance(dtype, pl.Datetime) else dtype)
    if read is None:
        raise TypeError(f"schema: column {name!r} must not be declared as {dtype}. Hint: {_DECLARABLE}")
    texts = pl.DataFrame([pl.Series(name, _each(_text, values), dtype=pl.String)])
    return texts.select(read.cast(dtype, strict=False).alias(name)).to_series()


def _each(read: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """What is read of each value; None where reading raises, so that no value affects others."""

    def one(value: Any) -> Any:
        try:
            return read(value)
        except Exception:
            return None

    return [None if value is None else one(value) for value in values]


def _text(value: Any) -> str | None:
    """A text, a number of at most 128 bits, or a day or time, in UTC if it has a zone; None for NaN and all else."""
    if isinstance(value, str):
        return str(value) if is_text(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(int(value)) if -(2**128) <= value < 2**128 else None
    if not isinstance(value, (float, Decimal, date, time)) or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    return str(value) if isinstance(value, (float, Decimal)) else value.isoformat()


class _Stream:
    """An object by its Arrow stream alone, so that Polars reads every library's frames in this way."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


def arrow_frame(data: Any) -> pl.DataFrame:
    """Data with Arrow's stream protocol, as a frame of valid texts."""
    return _with_valid_texts(pl.DataFrame(_Stream(data)))


def _with_valid_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with bytes that are not UTF-8 replaced, in each text by itself; Arrow does not check texts."""
    return frame.with_columns(_valid_texts(column) for column in frame if column.dtype in (pl.String, pl.Categorical))


def _valid_texts(column: pl.Series) -> pl.Series:
    values = column.cast(pl.String).cast(pl.Binary)
    with suppress(pl.exceptions.ComputeError):
        values.cast(pl.String)  # Polars checks all at once: then each text is as it would be alone
        return column
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
    return pl.Series(column.name, texts, dtype=column.dtype)


def read_foreign(data: Any) -> pl.DataFrame:
    """The frame of another library."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        if find_spec("pyarrow") is None or not hasattr(data, "__arrow_c_stream__"):
            raise ImportError("a pandas frame requires PyArrow, and pandas 2.2 or later. Hint: pip install pyarrow")
        names = list(data.columns)
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise TypeError("the data: columns must have names that are texts, each once. Hint: frame.columns = [...]")
        # One column at a time: pandas copies a selection of several.
        return pl.DataFrame([_pandas_column(data[name]) for name in names])
    if isinstance(data, pl.Series) or (pandas is not None and isinstance(data, pandas.Series)):
        raise TypeError("the data (Series) must be a frame. Hint: series.to_frame('name')")
    types = getattr(data, "dtypes", None)
    if any(str(dtype) == "object" for dtype in (types if isinstance(types, Iterable) else ())):
        raise TypeError(
            f"the data ({type(data).__name__}) must not hold columns of Python objects, whose types are found in rows. "
            "Hint: astype('string'), or another type that says what is in them"
        )
    if hasattr(data, "__arrow_c_stream__"):
        if hasattr(data, "__next__"):  # a reader of batches is an iterator, a table is not
            if data in _READ:
                raise ValueError("the data is a stream that was read already. Hint: frame = read_source(stream), once")
            with suppress(TypeError):  # some classes have objects that cannot be remembered
                _READ.add(data)
        return guarded(lambda: arrow_frame(data))
    if hasattr(data, "__dataframe__"):
        return guarded(lambda: _with_valid_texts(pl.from_dataframe(data)))
    known: Any = None
    with suppress(Exception):  # not installed, or no frame that it knows
        import narwhals

        known = narwhals.from_native(data)
    if known is not None:
        lazy = isinstance(known, narwhals.LazyFrame)
        return read_foreign(guarded(lambda: known.collect().to_native() if lazy else known.to_arrow()))
    raise TypeError(
        f"the data ({type(data).__name__}) must be a frame, a list of rows, or a path. "
        "Hint: Polars, pandas and PyArrow frames, DuckDB relations, or 'visits.parquet'"
    )


def _pandas_column(column: Any) -> pl.Series:
    """A column of pandas, by its type: Python's texts are read here, all others by Arrow."""
    import pandas as pd

    name, dtype = column.name, column.dtype
    is_category = isinstance(dtype, pd.CategoricalDtype)
    inner = dtype.categories.dtype if is_category else dtype
    if isinstance(inner, np.dtype) and inner.kind == "O":
        raise TypeError(
            f"the data: column {name!r} ({dtype}) must not hold Python objects, whose types are found in rows. "
            f"Hint: frame.astype({{{name!r}: 'string'}}), or another type of pandas that says what is in it"
        )
    if isinstance(inner, pd.StringDtype) and inner.storage == "python":
        return value_column(name, guarded(column.tolist), pl.Categorical() if is_category else pl.String())
    # NumPy's letters for truths, numbers and times, which Arrow takes as they are, and types that may be null.
    plain = isinstance(inner, np.dtype) and inner.kind in "biufmM"
    nullable = str(inner).startswith(("Int", "UInt", "Float", "boolean"))
    if not (plain or nullable or isinstance(inner, (pd.StringDtype, pd.ArrowDtype, pd.DatetimeTZDtype))):
        raise TypeError(f"the data: column {name!r} ({dtype}) must hold texts, numbers, truths or times. Hint: astype")
    if not isinstance(column.index, pd.RangeIndex):  # Arrow would read the rows of any other index
        column = column.reset_index(drop=True)
    return guarded(lambda: arrow_frame(column.to_frame()).to_series())


def file_format(path: str | Path) -> str | None:
    """The format of a file by its ending, if that is known."""
    return FORMATS.get(Path(path).suffix.lower())


class UnreadableError(ValueError):
    """A file that is empty, damaged or still being written."""


def ending_words(name: str) -> str:
    """The problem of a file whose ending is of no format that is read, and a hint."""
    what, hint = Path(name).suffix or "such", "convert it, in DuckDB by COPY (SELECT ...) TO 'rows.parquet'"
    return f"cannot read {what} files: {name!r} must end in one of {' '.join(FORMATS)}. Hint: {hint}"


def scan_file(path: str | Path, *, file_format: str) -> pl.LazyFrame:
    """A file as a lazy frame whose columns can be read. No row of a CSV file affects how others are read."""
    with suppress(*FRAME_ERRORS):
        if file_format == "parquet":
            frame = pl.scan_parquet(path, glob=False)
        elif file_format == "ipc":
            frame = pl.scan_ipc(path, glob=False, hive_partitioning=False)
        else:
            as_texts: dict[str, Any] = {"infer_schema": False, "truncate_ragged_lines": True, "encoding": "utf8-lossy"}
            frame = pl.scan_csv(path, glob=False, **as_texts)
        frame.collect_schema()
        return own_scan(frame)
    # Not within `except`: the message of Polars may hold data.
    hint = "is it empty, damaged, or of another format?"
    raise UnreadableError(f"{str(path)!r} cannot be read as {file_format}. Hint: {hint}")


def scan_files(pattern: str | Path) -> pl.LazyFrame:
    """One file, or all files whose names match a pattern, as a lazy frame; their endings tell the formats."""
    names = [str(pattern)] if Path(pattern).exists() else sorted(glob.glob(str(pattern), recursive=True))
    if not names:
        raise FileNotFoundError(f"there is no file {str(pattern)!r}. Hint: check the path; '*' matches any characters")
    frames = []
    for name in names:
        if Path(name).is_dir():
            raise IsADirectoryError(f"{name!r} must be a file. Hint: {str(Path(name) / '*.parquet')!r}")
        form = file_format(name)
        if form is None:
            raise ValueError(ending_words(name))
        frames.append(scan_file(name, file_format=form))
    first = frames[0].collect_schema()
    for name, frame in zip(names[1:], frames[1:], strict=True):
        if dict(frame.collect_schema()) != dict(first):
            raise ValueError(
                f"{name!r} must have the columns and data types of {names[0]!r}. "
                "Hint: all files must have the same columns and types"
            )
    if not frames[1:]:
        return frames[0]
    return own_scan(pl.concat([frame.select(selectors.by_name(*first)) for frame in frames]))
