"""Releases as the content of files (Parquet, CSV, JSON with one object a line) and as frames of other libraries."""

from __future__ import annotations

import importlib
import io
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from opendp_tree.releases.json import write_statement

if TYPE_CHECKING:
    from opendp_tree.releases.release import PrivacyStatement

__all__ = ["STATEMENT", "arrow_table", "frame_bytes", "label_texts", "pandas_frame", "spreadsheet_safe", "unwritable"]

STATEMENT = "opendp_tree.statement"
"""The name of the metadata of a Parquet file that hold the privacy statement."""
# Spreadsheets skip spaces and what nobody sees before a formula.
_MARK = r"^([\s\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u{2800}]*[=+\-@＝＋－＠]|[\t\r\n'])", "'${1}"
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (2, 9999))


def frame_bytes(frame: pl.DataFrame, *, file_format: str, statement: PrivacyStatement | None = None) -> bytes:
    """A frame as the content of a file. Labels that Polars cannot write in the format become texts."""
    buffer = io.BytesIO()
    if file_format == "parquet":
        said = {} if statement is None else {STATEMENT: json.dumps(write_statement(statement.to_dict()))}
        frame.write_parquet(buffer, metadata=said or None)
        return buffer.getvalue()
    plain = frame.with_columns(_plain(column, file_format) for column in frame)
    if file_format == "csv":
        plain.write_csv(buffer)
    else:
        plain.write_ndjson(buffer)
    return buffer.getvalue()


def arrow_table(frame: pl.DataFrame, *, wanted_by: str = "to_arrow") -> Any:
    """The frame as a PyArrow table, without a copy where Arrow allows; integers of 128 bits are texts: it has none."""
    _needed("pyarrow", wanted_by)
    wide = (pl.Int128, pl.UInt128)
    return frame.with_columns(label_texts(column) for column in frame if column.dtype in wide).to_arrow()


def pandas_frame(frame: pl.DataFrame) -> Any:
    """The frame as one of pandas. Integers and truths are of its nullable types, so that labels stay what they are."""
    pandas = _needed("pandas", "to_pandas")
    table = arrow_table(frame, wanted_by="to_pandas")

    def nullable(dtype: Any) -> Any:
        name = str(dtype)
        if name == "bool":
            return pandas.BooleanDtype()
        whole = name.startswith(("int", "uint"))
        return pandas.api.types.pandas_dtype(name.replace("uint", "UInt").replace("int", "Int", 1)) if whole else None

    return table.to_pandas(types_mapper=nullable, date_as_object=False)  # Python has no years before 1


def _needed(module: str, wanted_by: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{wanted_by} needs {module}, which is not installed. Hint: pip install {module}") from None


def spreadsheet_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before each text, and each column's name, that a spreadsheet would take for more."""
    texts = selectors.string(include_categorical=True) | selectors.by_dtype(pl.Enum)
    marked = frame.with_columns(texts.cast(pl.String).str.replace(*_MARK))
    marked.columns = pl.Series(frame.columns, dtype=pl.String).str.replace(*_MARK).to_list()
    return marked


def unwritable(schema: pl.Schema, *, file_format: str) -> list[str]:
    """The columns that have values which cannot be written: the least, the largest and null are tried of each."""
    return [name for name, dtype in schema.items() if not _can_write(dtype, file_format)]


def label_texts(labels: pl.Series) -> pl.Series:
    """Labels as texts. Polars panics at times beyond its calendar: they show as the numbers they are."""
    dtype = labels.dtype
    if not isinstance(dtype, (pl.Date, pl.Datetime, pl.Duration)):
        return labels.cast(pl.String)
    numbers = labels.to_physical().cast(pl.Int64)
    beyond = _beyond(labels)
    # What is beyond becomes 0, not null: time zones are applied to what is under a null.
    known = pl.select(pl.when(beyond).then(0).otherwise(numbers)).to_series().cast(labels.to_physical().dtype)
    times = known.cast(dtype)
    shown = times.dt.to_string("iso") if isinstance(dtype, pl.Duration) else times.cast(pl.String)
    return pl.select(pl.when(beyond).then(numbers.cast(pl.String)).otherwise(shown)).to_series()


def _beyond(times: pl.Series) -> pl.Series:
    """Which days, instants or durations Polars cannot show."""
    numbers, dtype = times.to_physical().cast(pl.Int64), times.dtype
    if isinstance(dtype, pl.Duration):
        first, last = -(2**63) + 1, 2**63 - 1
    else:
        day = 86_400 * _TICKS[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1
        first, last = max(_FIRST_DAY * day, -(2**63) + 9 * day), min(_LAST_DAY * day, 2**63 - 9 * day)
    return ((numbers < first) | (numbers > last)).fill_null(False)


def _plain(column: pl.Series, file_format: str) -> pl.Series:
    """The column itself if Polars can write it, or its texts. Whether it can is tried before anything is spent."""
    dtype = column.dtype
    wide = file_format == "ndjson" and dtype in (pl.Int128, pl.UInt128)
    timed = isinstance(dtype, (pl.Date, pl.Datetime)) and _beyond(column).any()
    return label_texts(column) if wide or timed or isinstance(dtype, pl.Duration) else column


def _can_write(dtype: pl.DataType, file_format: str) -> bool:
    physical = pl.Series([], dtype=dtype).to_physical().dtype
    values = pl.Series("value", [None], dtype=physical)
    if physical.is_integer() and dtype != pl.Time:
        kind: Any = physical
        values = values.append(pl.select(pl.concat_list(kind.min(), kind.max()).explode()).to_series().cast(kind))
    try:
        frame_bytes(values.cast(dtype).to_frame(), file_format=file_format)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return True
