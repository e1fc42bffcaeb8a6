"""What columns hold: the one vocabulary of their types, and which casts give every value or null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_KINDS: dict[Any, str] = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys((pl.Float32, pl.Float64), "float"),
    pl.Boolean: "truth",
    pl.String: "text",
    pl.Date: "date",
    pl.Time: "time",
    pl.Datetime: "datetime",
    pl.Enum: "enum",
    pl.Categorical: "categorical",
}
TEXTS = ("text", "categorical", "enum")
CASTS = {
    "integer": ("integer", "float", "truth", "text", "date", "time", "datetime"),
    "float": ("integer", "float", "truth", "text"),
    "truth": ("integer", "float", "truth", "text"),
    "text": ("integer", "float", "text", "enum"),
    "date": ("integer", "float", "date", "datetime"),
    "time": ("integer", "float", "text", "time"),
    "datetime": ("integer", "float", "date", "time", "datetime"),
    "enum": ("text",),
    "categorical": ("text",),
}
"""From what kind to what kinds a cast that is not strict gives a value or null, for every value."""
_CARRIERS = {
    "String": "text",
    "bool": "truth",
    "NaiveDate": "date",
    "NaiveTime": "time",
    "f32": "float",
    "f64": "float",
}
_ELEMENTS = {"DatetimeDomain": "datetime", "CategoricalDomain": "text", "EnumDomain": "text"}


def step_kind(dtype: Any) -> str:
    """What a column holds, as steps and casts tell types apart; "other" for what they refuse."""
    return _KINDS.get(dtype.base_type(), "other")


def kind_of(dtype: Any) -> str:
    """What a column holds, in the words that keys use: of all texts one."""
    kind = step_kind(dtype)
    if kind != "other":
        return "text" if kind in TEXTS else kind
    if dtype.is_integer() or dtype.is_float():
        return "integer" if dtype.is_integer() else "float"
    return {pl.Decimal: "decimal", pl.Duration: "time"}.get(dtype.base_type(), str(dtype))


def kinds_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """What each column holds."""
    return {name: kind_of(dtype) for name, dtype in schema.items()}


def element_kind(series: Any) -> str:
    """What a column of OpenDP's own domain holds, in the words that keys use."""
    element = series.element_domain
    for name, kind in _ELEMENTS.items():
        if str(element).startswith(name):
            return kind
    carrier = str(element.carrier_type)
    return "integer" if carrier[:1] in "iu" and carrier[1:].isdigit() else _CARRIERS.get(carrier, carrier)


def is_total_cast(given: pl.DataType, to: pl.DataType) -> bool:
    """Whether a cast that is not strict gives every value of a data type a value of another, or null."""
    kind = step_kind(given)
    if kind == "datetime" and to == pl.String:  # in coarser units there are instants that no calendar has
        return in_calendar(given)
    return step_kind(to) in CASTS.get(kind, ())


def in_calendar(dtype: pl.DataType) -> bool:
    """Whether all 64-bit numbers of ticks are instants that Polars' calendar knows."""
    return isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"
