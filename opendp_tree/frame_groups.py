"""Rows of a frame to the distinct keys and how many rows have each: the one pass over the data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import polars as pl

from opendp_tree.keys import Key

KEY, UNIT, PEOPLE = "key", "unit", "people"
FIRST_DAY, LAST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
_TICKS_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def kind_of(dtype: pl.DataType | type[pl.DataType]) -> str:
    """What a column holds, in the words that keys use."""
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype.is_integer():
        return "integer"
    for kind, types in (("truth", pl.Boolean), ("date", pl.Date), ("datetime", pl.Datetime)):
        if dtype == types:
            return kind
    return "time" if dtype in (pl.Time, pl.Duration) else str(dtype)


def kinds_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """What each column holds."""
    return {name: kind_of(dtype) for name, dtype in schema.items()}


def schema_of(value: Any) -> pl.Schema | None:
    """The schema of a frame, lazy or not; None for anything else."""
    return value.collect_schema() if isinstance(value, (pl.LazyFrame, pl.DataFrame)) else None


def read_schema(columns: Any) -> pl.Schema:
    """Names and full data types, from a mapping or from a frame."""
    found = schema_of(columns)
    if found is not None:
        return found
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError("columns must give each column's data type, or be a frame. Hint: {'city': pl.String}")
    return pl.DataFrame(schema=dict(columns)).schema


def empty_frame(schema: Mapping[str, Any]) -> pl.LazyFrame:
    """A frame without rows."""
    return pl.LazyFrame(schema=dict(schema))


def read_frame(data: Any, kinds: Mapping[str, str]) -> pl.LazyFrame:
    """The frame, once its columns are sure to hold what was declared. Looks at the schema alone."""
    schema = schema_of(data)
    if schema is None:
        raise TypeError("the data must be a Polars LazyFrame or DataFrame")
    for name, kind in kinds.items():
        found = kind_of(schema[name]) if name in schema else "no such column"
        if found != kind:
            raise TypeError(f"the data: column {name!r} must hold {kind}, as input_domain says, found {found}")
    lazy: pl.LazyFrame = data.lazy()
    return lazy


def group_rows(frame: pl.LazyFrame, key: Key, unit: str | None) -> pl.DataFrame:
    """One row for each distinct key: columns key_0, key_1, ... and `people`, its number of rows.

    With a unit, one row for each key of each unit, in the column `unit`. Rows without a unit are left out.
    """
    schema = frame.collect_schema()
    selected = [_coarse(name, key, schema[name]).alias(f"{KEY}_{place}") for place, name in enumerate(key.columns_used)]
    names = [f"{KEY}_{place}" for place in range(len(selected))]
    if unit is not None:
        selected.append(pl.col(unit).alias(UNIT))
        names.append(UNIT)
    groups = _collect(frame.select(selected).group_by(names).agg(pl.len().alias(PEOPLE)))
    return groups if unit is None else groups.filter(pl.col(UNIT).is_not_null())


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    try:
        return frame.collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        kind = type(error).__name__
    # Polars quotes values that it cannot read, so its message stops here.
    raise RuntimeError(f"reading the frame failed ({kind}); the details are withheld because they may hold data")


def _coarse(name: str, key: Key, dtype: pl.DataType) -> pl.Expr:
    """A column as rows are grouped by it. Times are cut to days or hours first: there may be millions of instants."""
    column = pl.col(name)
    if key.kind != "date" or not isinstance(dtype, pl.Datetime):
        return column
    second = _TICKS_A_SECOND[dtype.time_unit]
    # Polars panics at instants that its calendar cannot hold, and at the ends of the 64-bit range: null instead. They
    # are clipped as well, because time zones are applied to what is under a null.
    first = max((FIRST_DAY - 2) * 86_400 * second, -(2**63) + 10 * 86_400 * second)
    last = min((LAST_DAY + 2) * 86_400 * second, 2**63 - 1 - 10 * 86_400 * second)
    ticks = column.to_physical()
    local = ticks
    if dtype.time_zone is not None:
        local = ticks.clip(first, last).cast(dtype).dt.replace_time_zone(None).to_physical()
    step = (3_600 if "hour" in key.parts else 86_400) * second
    return pl.when(ticks.is_between(first, last)).then(local // step)
