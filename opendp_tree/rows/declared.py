"""Columns as the data types that their user declared: by casts and readings that give every value, or null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar

import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree.rows.allowed import is_total_cast, kind_of_type
from opendp_tree.rows.groups import read_again_like, unflagged

__all__ = ["as_declared", "read_declared", "value_column"]

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = (int, float, Decimal)
_WIDEST = 2**128
_TEXTS = ("string", "categorical", "enum")
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
    kind, to = kind_of_type(given), kind_of_type(wanted)
    if kind in _TEXTS:
        return _read_texts(column if kind == "string" else column.cast(pl.String, strict=False), wanted)
    if to == "categorical" and is_total_cast(given, pl.String()):
        return column.cast(pl.String, strict=False).cast(wanted, strict=False)
    return column.cast(wanted, strict=False) if is_total_cast(given, wanted) else None


def _read_texts(text: pl.Expr, wanted: pl.DataType) -> pl.Expr | None:
    """Texts as values. Formats are given: Polars would otherwise find them in the rows."""
    to = kind_of_type(wanted)
    if to in ("string", "categorical", "enum", "integer", "float"):
        return text.cast(wanted, strict=False)
    if to == "boolean":
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
    kind = kind_of_type(dtype)
    read = _whole_reader(dtype) if dtype.is_integer() else _READERS.get(kind)
    if read is None:
        raise TypeError(f"schema: column {name!r} must not be declared as {dtype}. Hint: {_HINT}")
    if kind in _TEXTS:
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
    **dict.fromkeys(_TEXTS, _text),
    "float": _float,
    "boolean": _truth,
    "date": _day,
    "datetime": _ticks,
    "time": _clock,
}
