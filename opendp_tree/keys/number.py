"""Keys of one column of numbers, dates or times: by parts of the calendar, or in ranges of equal width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice
from opendp_tree._types import Floats, Ints
from opendp_tree.keys.key import KEY, Key, Labels, Level
from opendp_tree.keys.lookup import Lookup
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.tree import Tree

NOWHERE = -2
"""The index of null and NaN."""
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date(1, 1, 1), date(9999, 12, 31)))
_TICKS_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_PARTS: dict[str, Sequence[Any]] = {
    "year": range(1, 10_000),
    "quarter": ("Q1", "Q2", "Q3", "Q4"),
    "month": range(1, 13),
    "week": tuple(f"W{week:02}" for week in range(1, 54)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "day": range(1, 32),
    "hour": range(24),
}
"""The labels of each part of the calendar."""


@dataclass(frozen=True, kw_only=True)
class CalendarKey(Key):
    """Dates or times, by parts of the calendar; one label, null, outside the years 1 to 9999."""

    is_ordered = True

    parts: tuple[str, ...]
    """The levels."""

    def __post_init__(self) -> None:
        if not self.parts or list(self.parts) != [part for part in _PARTS if part in self.parts]:
            raise ValueError(f"levels {self.parts} must be some of {tuple(_PARTS)}, in this order")
        if "week" in self.parts and {"quarter", "month"} & set(self.parts):
            raise ValueError(f"levels {self.parts} must not have weeks below quarters or months. Hint: year")
        super().__post_init__()

    @property
    def levels(self) -> tuple[Level, ...]:
        kinds = {part: "integer" if isinstance(_PARTS[part], range) else "text" for part in self.parts}
        return tuple(Level(part, kinds[part], accepts=_PARTS[part].__contains__) for part in self.parts)

    @property
    def time_step(self) -> Literal["day", "hour"]:  # type: ignore[override]
        return "hour" if "hour" in self.parts else "day"

    @property
    def text_type(self) -> pl.DataType:  # type: ignore[override]
        return pl.Datetime("us") if "hour" in self.parts else pl.Date()

    @property
    def takes(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("datetime",) if "hour" in self.parts else ("date", "datetime")

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        if not isinstance(dtype, pl.Datetime):
            return pl.col(column)
        seconds = 3_600 if self.time_step == "hour" else 86_400
        return _local_ticks(column, dtype) // (seconds * _TICKS_A_SECOND[dtype.time_unit])

    def labels(self, groups: pl.DataFrame) -> Labels:
        steps = groups[f"{KEY}_0"].to_physical().cast(pl.Int64)
        days = steps // 24 if self.time_step == "hour" else steps
        inside = days.is_between(_FIRST_DAY, _LAST_DAY).fill_null(False)
        calendar = pl.lit(pl.select(pl.when(inside).then(days).cast(pl.Int32).cast(pl.Date)).to_series()).dt
        label: dict[str, pl.Expr] = {
            "year": (calendar.iso_year() if "week" in self.parts else calendar.year()).cast(pl.Int64),
            "quarter": "Q" + calendar.quarter().cast(pl.String),
            "month": calendar.month().cast(pl.Int64),
            "week": "W" + calendar.week().cast(pl.String).str.zfill(2),
            "weekday": (calendar.weekday() - 1).cast(pl.UInt32).cast(pl.Enum(_PARTS["weekday"])),
            "day": calendar.day().cast(pl.Int64),
            "hour": pl.lit(steps % 24),
        }
        columns = tuple(pl.select(pl.when(inside).then(label[part])).to_series() for part in self.parts)
        return Labels(columns, np.where(inside.to_numpy(), self.depth - 1, 1))


@dataclass(frozen=True, kw_only=True)
class NumberKey(Key):
    """Numbers, dates or times, in a public tree of ranges."""

    is_ordered = True

    ranges: NumberRange
    """Of the leaves."""

    @property
    def text_type(self) -> pl.DataType:  # type: ignore[override]
        if not self.ranges.has_dates:
            return pl.Float64()
        return pl.Date() if self.ranges.exact_edges[1] == 1 else pl.Datetime("us")

    @property
    def takes(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("date", "datetime") if self.ranges.has_dates else ("integer", "float", "decimal")

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        values = pl.col(column)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            values = _local_ticks(column, dtype).cast(pl.Datetime(dtype.time_unit))
        find = partial(find_ranges, ranges=self.ranges)
        return values.map_batches(find, return_dtype=pl.Int64, is_elementwise=True)

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The range of each number at every level, in order of value; one label, null, for null and NaN."""
        assert self.tree is not None
        tree, is_number = self.tree, (groups[f"{KEY}_0"] != NOWHERE).to_numpy()
        leaves = tree.leaves[self.leaves(groups)]  # below other keys, there is a leaf outside
        lengths = np.where(is_number, tree.node_levels[leaves], 1)
        columns = []
        for level, nodes in enumerate(tree.levels[1:], start=1):
            names = pl.Enum([str((tree.labels or ())[node]) for node in nodes.tolist()])
            ancestors = tree.ancestors_at(leaves, np.full(leaves.size, level))
            codes = np.searchsorted(nodes, ancestors)  # ids of a level ascend with values
            has_label = is_number & (lengths >= level)
            labels = pl.Series(np.where(has_label, codes, 0), dtype=pl.UInt32).cast(names)
            columns.append(pl.select(pl.when(pl.Series(has_label)).then(labels)).to_series())
        return Labels(tuple(columns), lengths)

    def leaves(self, groups: pl.DataFrame, lookup: Lookup | None = None) -> Ints:
        """The ranges themselves; no label is looked up."""
        bins, indices = self.ranges.bins, groups[f"{KEY}_0"].to_numpy()
        leaves = indices.clip(0, bins - 1) if self.outside == "ends" else indices
        is_inside = (indices != NOWHERE) & (leaves >= 0) & (leaves < bins)
        is_dropped = (indices == NOWHERE) & self.drops_nulls
        return np.where(is_inside, leaves, np.where(is_dropped, -1, self.outside_leaf))

    def _read_tree(self, tree: Tree) -> None:
        """The tree is the key's own."""
        check_choice(self.outside, name="outside", choices=("leaf", "drop", "ends"))
        if self.outside == "drop" and self.nulls == "label":
            raise ValueError("nulls ('label') must be 'drop' where outside is: null is outside of all ranges")


def _local_ticks(name: str, dtype: pl.Datetime) -> pl.Expr:
    """The integers of times, as a clock in the column's zone shows them."""
    ticks, day = pl.col(name).to_physical(), 86_400 * _TICKS_A_SECOND[dtype.time_unit]
    if dtype.time_zone is None:
        return ticks
    # With a time zone, Polars panics at instants that its calendar cannot hold, and at the ends of the 64-bit range:
    # null instead. They are clipped as well, because zones are applied to what is under a null.
    first, last = max((_FIRST_DAY - 2) * day, -(2**63) + 10 * day), min((_LAST_DAY + 2) * day, 2**63 - 1 - 10 * day)
    local = ticks.clip(first, last).cast(dtype).dt.replace_time_zone(None).to_physical()
    return pl.when(ticks.is_between(first, last)).then(local)


def find_ranges(values: pl.Series, ranges: NumberRange) -> pl.Series:
    """The index of each value's range; -1 below all ranges, `bins` above them; `NOWHERE` for null and NaN."""
    if values.dtype.is_float():
        # Edges are the floats next to the exact ones, of the column's own width: 0.3 is at the edge 3/10.
        edges = pl.Series(_float_edges(*ranges.exact_edges)).cast(values.dtype).to_numpy()
        # An edge beyond the type's range is infinite, but infinite values are outside of all ranges.
        least, most = np.finfo(edges.dtype).min, np.finfo(edges.dtype).max
        edges, top = np.maximum(edges, least), min(edges[-1], most)
        numbers = values.to_numpy()  # null becomes NaN
        return pl.Series(np.where(np.isnan(numbers), NOWHERE, _at(edges, numbers, top)))
    unit = 1  # how many of a column's integers make 1, or one day for dates and times
    if isinstance(values.dtype, pl.Decimal):
        unit = int(10**values.dtype.scale)
    elif isinstance(values.dtype, pl.Datetime):
        unit = 86_400 * _TICKS_A_SECOND[values.dtype.time_unit]
    whole_edges, top = _whole_edges(*ranges.exact_edges, unit)
    whole, indices = values.to_physical(), np.full(values.len(), NOWHERE)
    narrow = whole.cast(pl.Int64, strict=False)
    fits = narrow.is_not_null().to_numpy() & (whole_edges.dtype != np.object_)
    indices[fits] = _at(whole_edges, narrow.filter(fits).to_numpy(), top)
    wide = np.flatnonzero(~fits & whole.is_not_null().to_numpy())
    if wide.size:  # beyond 64 bits, as Python's integers
        integers = np.array(whole.gather(wide).to_list(), dtype=np.object_)
        indices[wide] = _at(whole_edges.astype(np.object_), integers, top)
    return pl.Series(indices)


# Rows come in batches: edges are found once for all of them.
@lru_cache(maxsize=8)
def _whole_edges(numerators: range, under: int, scale: int) -> tuple[Any, int]:
    """The edges as whole numbers, of which `scale` make 1, and the last number that is not above all ranges."""
    # A whole number is at or above an edge when it is at or above the next whole number.
    edges = [-(-number * scale // under) for number in numerators]
    narrow = edges[0] >= -(2**63) and edges[-1] < 2**63
    return np.array(edges, dtype=np.int64 if narrow else np.object_), numerators[-1] * scale // under


@lru_cache(maxsize=8)
def _float_edges(numerators: range, under: int) -> Floats:
    return np.array([number / under for number in numerators])


def _at(edges: Any, numbers: Any, top: Any) -> Ints:
    """The index of the range of each number; the last range holds what is not above `top`."""
    indices: Ints = np.searchsorted(edges, numbers, side="right").astype(np.int64) - 1
    indices[(indices == edges.size - 1) & (numbers <= top)] = edges.size - 2
    return indices
