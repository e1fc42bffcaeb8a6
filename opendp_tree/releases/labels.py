"""Labels of one level as plain data, types kept, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

_INTEGERS = {
    str(kind).lower(): kind
    for kind in (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128),
        *(pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128),
    )
}
_UNITS = ("ns", "us", "ms")


def write_labels(labels: pl.Series) -> dict[str, Any]:
    """A series as its type and its values; times as the integers that they are."""
    kind = labels.dtype
    if kind in (pl.String, pl.Boolean):
        return {"type": "text" if kind == pl.String else "boolean", "values": labels.to_list()}
    described: dict[str, Any] = {"type": str(kind.base_type()).lower()}
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        described["unit"] = kind.time_unit
    if isinstance(kind, pl.Datetime):
        described["zone"] = kind.time_zone
    return {**described, "values": labels.to_physical().to_list()}


def read_labels(described: Mapping[str, Any]) -> pl.Series:
    """The series that `write_labels` wrote; a ValueError if there is none."""
    name, values = described.get("type"), described.get("values")
    if not isinstance(values, list):
        raise ValueError("labels must have a list of values")
    allowed = {"text": str, "boolean": bool}.get(str(name), int)
    if not {type(value) for value in values} <= {allowed, type(None)}:
        raise ValueError(f"labels of type {name!r} must be of that type")
    kind = _dtype(described)
    physical = pl.Series([], dtype=kind).to_physical().dtype
    try:
        return pl.Series(values, dtype=physical).cast(kind)
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
        raise ValueError(f"labels of type {name!r} must be of that type") from None


def _dtype(described: Mapping[str, Any]) -> Any:
    name, unit, zone = (described.get(key) for key in ("type", "unit", "zone"))
    if not isinstance(name, str):
        raise ValueError("labels must have a type")
    plain = {"text": pl.String, "boolean": pl.Boolean, "date": pl.Date, "time": pl.Time, **_INTEGERS}
    if name in plain:
        return plain[name]
    if unit in _UNITS and name == "duration":
        return pl.Duration(unit)
    if unit in _UNITS and name == "datetime" and isinstance(zone, (str, type(None))):
        try:
            return pl.Series([], dtype=pl.Int64).cast(pl.Datetime(unit, zone)).dtype
        except (pl.exceptions.PolarsError, ValueError):
            raise ValueError(f"labels: {zone!r} is not a known time zone") from None
    raise ValueError(f"labels: {name!r} is not a known type")
