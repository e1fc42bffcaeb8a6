"""A column of numbers, dates or times to the places of its values among ranges, exactly and for every value."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Floats, Ints
from opendp_tree.trees.number_range import NumberRange

NOWHERE = -2
"""The place of null and of what is not a number."""
_TICKS_A_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


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
