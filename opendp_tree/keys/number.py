"""Keys of one column of numbers, dates or times, in ranges of equal width: exactly, and for every value."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice, check_column
from opendp_tree._types import Floats, Ints
from opendp_tree.keys.calendar import local_ticks
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KEY, Labels
from opendp_tree.keys.lookup import Lookup
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.tree import Tree

NOWHERE = -2
"""The place of null and of what is not a number."""
_TICKS_A_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


@dataclass(frozen=True, kw_only=True)
class NumberKey(Key):
    """Numbers, in a public tree of ranges."""

    kind = "number"
    takes = ("integer", "float", "decimal")
    is_ordered = True

    def __post_init__(self) -> None:
        check_column(self.columns_used[0])
        super().__post_init__()

    @property
    def ranges(self) -> NumberRange:
        """The ranges of the leaves."""
        assert self.tree is not None
        assert self.tree.ranges is not None
        return self.tree.ranges

    @property
    def names(self) -> tuple[str, ...]:
        """The column and the level's number."""
        return tuple(f"{self.columns_used[0]}_{level}" for level in range(1, self.depth))

    @property
    def text_form(self) -> Literal["date", "time", "number"]:
        """Numbers, or dates or times where the ranges' ends are such."""
        if not self.ranges.has_dates:
            return "number"
        return "date" if self.ranges.exact_edges[1] == 1 else "time"

    def kinds_taken(self) -> tuple[str, ...]:
        """Numbers, or dates and times where the ranges' ends are such."""
        return ("date", "datetime") if self.ranges.has_dates else self.takes

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Texts such as [0, 10)."""
        return ("text",) * (self.depth - 1)

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        """The place among the ranges."""
        values = pl.col(column)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            values = local_ticks(column, dtype).cast(pl.Datetime(dtype.time_unit))
        return values.map_batches(partial(_places, ranges=self.ranges), return_dtype=pl.Int64, is_elementwise=True)

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The range of each number at every level, in order of value; null for what is no number."""
        assert self.tree is not None
        tree, bins = self.tree, self.ranges.bins
        places = groups[f"{KEY}_0"].to_numpy()
        if self.outside == "ends":
            places = np.where(places == NOWHERE, NOWHERE, places.clip(0, bins - 1))
        inside = (places >= 0) & (places < bins)
        columns = []
        for level, nodes in enumerate(tree.levels[1:], start=1):
            names = [str((tree.labels or ())[node]) for node in nodes.tolist()]
            above = tree.ancestors_at(tree.leaves[places.clip(0, bins - 1)], np.full(places.size, level))
            codes = np.searchsorted(nodes, above)  # ids of a level ascend with values
            if level == 1 and OUTSIDE not in names:
                names.append(OUTSIDE)
            if level == 1:
                codes = np.where(inside | (places == NOWHERE), codes, len(names) - 1)
            kept = pl.Series(inside | ((level == 1) & (places != NOWHERE)))
            texts = pl.Series(codes, dtype=pl.UInt32).cast(pl.Enum(names))
            columns.append(pl.select(pl.when(kept).then(texts)).to_series())
        return Labels(tuple(columns), np.where(inside, self.depth - 1, 1))

    def leaves(self, groups: pl.DataFrame, lookup: Lookup) -> Ints:
        """The ranges themselves; no label is looked up."""
        bins, outside = self.ranges.bins, self.outside_leaf
        places = groups[f"{KEY}_0"].to_numpy().copy()
        none = places == NOWHERE
        if self.outside == "ends":
            places = places.clip(0, bins - 1)
        places[(places < 0) | (places >= bins)] = outside
        places[none] = -1 if self.drops_nulls else outside
        return places

    def _check_labels(self, tree: Tree, kinds: tuple[str, ...]) -> None:
        """All labels are the key's own."""

    def _read_tree(self, tree: Tree) -> None:
        """The tree is the key's own."""


def number_tree(
    column: str, low: Any, high: Any, bins: Any, width: Any, *, branching: int | None, outside: Any, nulls: Any
) -> Tree:
    """The public tree of ranges."""
    if (bins is None) == (width is None):
        raise ValueError("bins or width must be given, and not both. Hint: bins=100")
    ranges = NumberRange(low, high, bins) if bins is not None else NumberRange.of_width(low, high, width)
    check_choice(outside, name="outside", choices=("leaf", "drop", "ends"))
    if outside == "drop" and nulls == "label":
        raise ValueError("nulls ('label') must be 'drop' where outside is: null is outside of all ranges")
    has_leaf = outside == "leaf" or (outside == "ends" and nulls != "drop")
    return ranges.tree(branching=branching, outside=has_leaf, name=check_column(column))


def _places(values: pl.Series, *, ranges: NumberRange) -> pl.Series:
    return pl.Series(values.name, places_of(values, ranges))


def places_of(values: pl.Series, ranges: NumberRange) -> Ints:
    """For each value the place of its range; -1 below all ranges, `bins` above them; `NOWHERE` for no number."""
    if values.dtype.is_float():
        return _float_places(values, ranges)
    edges, top = _whole_edges(*ranges.exact_edges, _units(values.dtype))
    whole = values.to_physical()
    places = np.full(values.len(), NOWHERE)
    narrow = whole.cast(pl.Int64, strict=False)
    fits = narrow.is_not_null().to_numpy()
    if edges[0] >= -(2**63) and edges[-1] < 2**63:
        places[fits] = _at(np.array(edges), narrow.drop_nulls().to_numpy(), top)
    else:
        fits = np.zeros_like(fits)
    wide = np.flatnonzero(~fits & whole.is_not_null().to_numpy())
    places[wide] = [_place(value, edges, top) for value in whole.gather(wide).to_list()]
    return places


def _float_places(values: pl.Series, ranges: NumberRange) -> Ints:
    """Edges are the floats next to the exact ones, of the column's own width: 0.3 is at the edge 3/10."""
    own = np.float64 if values.dtype == pl.Float64 else np.float32
    edges = _float_edges(*ranges.exact_edges).astype(own)
    numbers = values.cast(pl.Float64 if own is np.float64 else pl.Float32).fill_null(float("nan")).to_numpy()
    places = _at(edges, numbers, edges[-1])
    places[np.isnan(numbers)] = NOWHERE
    return places


# Rows come in batches: edges are found once for all of them.
@lru_cache(maxsize=8)
def _whole_edges(numerators: range, under: int, scale: int) -> tuple[list[int], int]:
    """The edges among whole numbers, of which `scale` are one, and the last number that is not above all ranges."""
    # A whole number is at or above an edge when it is at or above the next whole number.
    return [-(-number * scale // under) for number in numerators], numerators[-1] * scale // under


@lru_cache(maxsize=8)
def _float_edges(numerators: range, under: int) -> Floats:
    return np.array([number / under for number in numerators])


def _at(edges: Any, numbers: Any, top: Any) -> Ints:
    """The place of each number; the last range holds what is not above `top`."""
    places: Ints = np.searchsorted(edges, numbers, side="right").astype(np.int64) - 1
    places[(places == edges.size - 1) & (numbers <= top)] = edges.size - 2
    return places


def _place(value: int, edges: list[int], top: int) -> int:
    place = bisect_right(edges, value) - 1
    return place - 1 if place == len(edges) - 1 and value <= top else place


def _units(dtype: pl.DataType) -> int:
    """How many of the integers that a column is made of are one; for dates and times, one day."""
    if isinstance(dtype, pl.Decimal):
        return int(10**dtype.scale)
    return _TICKS_A_DAY[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 1
