"""Quantiles, shares and counts of ranges from noisy counts of the segments of a line.

Estimates are least squares made monotone; intervals use the sums before that, whose noise is known exactly. Every
method is post-processing. Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from opendp_tree._types import Array, Floats, Ints
from opendp_tree.trees.least_squares import SegmentTree, rising, tail_reach
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.tree import Tree

ROUNDING = 2.0**-36
"""Relative to the largest number: the errors of sums of floats are much smaller."""
_PIECES = 32


class Found(NamedTuple):
    """Estimates, each with the ends of its interval."""

    estimate: Array
    lower: Array
    upper: Array


@dataclass(frozen=True)
class MeasuredCurve:
    """Noisy counts of the segments of a line, and of a balanced tree above them."""

    edges: Array
    cuts: Ints
    tree: SegmentTree
    noisy: Ints
    confidence: float

    @cached_property
    def _totals(self) -> Floats:
        """Unbiased counts before each cut."""
        return self.tree.running_totals(self.noisy)

    @cached_property
    def totals(self) -> Floats:
        """Estimated counts before each cut, which begin with 0 and never decrease."""
        return np.maximum(rising(self._totals), 0.0) * (self.cuts > 0)

    @property
    def unbiased_total(self) -> float:
        """The count of all rows before it is made monotone: its error is the noise alone."""
        return float(self._totals[-1])

    def _reach(self, variances: Floats) -> Floats:
        """What noise of such a variance exceeds on one side with half of the allowed probability."""
        found = tail_reach(variances, largest_step=self.tree.largest_step, chance=(1 - self.confidence) / 2)
        return found + ROUNDING * float(np.abs(self._totals).max())

    def places(self, values: Any) -> Floats:
        """The positions of values among the edges, interpolated, and clipped to the ends."""
        given = np.atleast_1d(np.asarray(values))
        if self.edges.dtype.kind == "M":
            try:
                numbers = given.astype("datetime64[us]").astype(np.int64)
            except (TypeError, ValueError):
                raise TypeError("values must be dates or times, as the edges are. Hint: date(2024, 1, 31)") from None
            edges = self.edges.astype("datetime64[us]").astype(np.int64)
        else:
            if given.dtype.kind not in "iuf" or np.isnan(given.astype(np.float64)).any():
                raise TypeError("values must be numbers, as the edges are. Hint: [18, 65]")
            numbers, edges = _comparable(given, self.edges)
        numbers = numbers.clip(edges[0], edges[-1])
        before = np.searchsorted(edges, numbers, side="right") - 1
        found = np.interp((numbers - edges[0]).astype(np.float64), edges - edges[0], np.arange(edges.size))
        inside = found.clip(np.nextafter(before, np.inf), np.nextafter(before + 1.0, -np.inf))
        places: Floats = np.where(edges[before] == numbers, before, inside)
        return places

    def quantiles(self, at: Sequence[float]) -> Found:
        """The quantile of each share."""
        shares = np.array(check_quantiles(at))
        return Found(*(values_at(self.edges, part) for part in (self._estimates(shares), *self._ends(shares))))

    def _estimates(self, shares: Floats) -> Floats:
        """The positions at which the monotone curve reaches each share; a point inside a flat stretch."""
        wanted = shares * self.totals[-1]
        last = self.cuts.size - 1
        left = np.searchsorted(self.totals, wanted, side="left").clip(0, last)
        right = (np.searchsorted(self.totals, wanted, side="right") - 1).clip(0, last)
        low, high = self.totals[right], self.totals[np.minimum(right + 1, last)]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(high > low, (wanted - low) / (high - low), 0.0).clip(0.0, 1.0)
        inside = self.cuts[right] + part * (self.cuts[np.minimum(right + 1, last)] - self.cuts[right])
        flat = (1 - shares) * self.cuts[right] + shares * self.cuts[left]
        found: Floats = np.where(left <= right, flat, inside)
        return found

    def _ends(self, shares: Floats) -> tuple[Floats, Floats]:
        """From each end, the last of the consecutive cuts for which a quantile beyond it is rejected."""
        before = np.arange(self.cuts.size)
        lower, upper = [], []
        for share in shares.tolist():
            excess = self._totals - share * self._totals[-1]
            reach = self._reach(self.tree.variances(np.zeros_like(before), before, share))
            above = np.append(excess >= -reach, True)  # not rejected: the share lies below this cut
            below = np.append(excess[::-1] <= reach[::-1], True)
            lower.append(max(0, int(np.argmax(above)) - 1))
            upper.append(min(before.size - 1, before.size - int(np.argmax(below))))
        ends = np.array([lower, upper], dtype=np.int64).reshape(2, -1)
        low, high = np.minimum(*ends), np.maximum(*ends)  # if they cross, the interval misses
        return self.cuts[low].astype(np.float64), self.cuts[high].astype(np.float64)

    def shares(self, places: Floats) -> Found:
        """The share of rows before each position, with an interval."""
        total = self.totals[-1]
        estimate = np.interp(places, self.cuts, self.totals) / total if total > 0 else places / (self.edges.size - 1)
        outer, inner = self._outside(places)
        lower = self._least_shares(outer)
        # Rows that are not before a cut are behind it: the same test from the other side.
        upper = 1 - self._least_shares(inner, behind=True)
        lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
        return Found(np.clip(estimate, lower, upper), lower, upper)

    def _outside(self, places: Floats | Ints) -> tuple[Ints, Ints]:
        """The last cut at or before each position, and the first at or behind it."""
        before = np.searchsorted(self.cuts, places, side="right") - 1
        return before, np.searchsorted(self.cuts, places, side="left")

    def _least_shares(self, cuts: Ints, *, behind: bool = False) -> Floats:
        """Lower bounds of the shares of rows before each cut, or behind it."""
        none, end = np.zeros_like(cuts), np.full_like(cuts, self.cuts.size - 1)
        first, last = (cuts, end) if behind else (none, cuts)
        count, total = self._totals[last] - self._totals[first], self._totals[-1]
        found, running = np.zeros(cuts.shape), np.ones(cuts.shape, dtype=np.bool_)
        if total <= 0:
            return found
        grid = np.linspace(0.0, 1.0, _PIECES + 1)
        variances = [self.tree.variances(first, last, share) for share in grid]
        for piece, (low, high) in enumerate(pairwise(grid)):
            # The variance is convex in the share, so its maximum is at an end of the piece.
            reach = self._reach(np.maximum(variances[piece], variances[piece + 1]))
            bound = np.clip((count - reach) / total, low, high)
            found = np.where(running, bound, found)
            running &= bound >= high
        return found

    def counts(self, first: Floats | Ints, last: Floats | Ints) -> Found:
        """The number of rows between pairs of positions."""
        before, after = self._outside(first)
        end_before, end_after = self._outside(last)
        inside = np.maximum(end_before, after)  # empty if there are no two cuts inside
        lower = self._totals[inside] - self._totals[after] - self._reach(self.tree.variances(after, inside))
        upper = self._totals[end_after] - self._totals[before] + self._reach(self.tree.variances(before, end_after))
        lower, upper = np.where(inside > after, lower, 0.0).clip(min=0.0), upper.clip(min=0.0)
        empty = np.asarray(first) == np.asarray(last)
        upper = np.where(empty, 0.0, np.maximum(lower, upper))
        at = [np.interp(place, self.cuts, self.totals) for place in (first, last)]
        return Found(np.clip(at[1] - at[0], lower, upper), lower, upper)

    def quantile_frame(self, at: Sequence[float]) -> pl.DataFrame:
        """`quantiles` as a frame: `quantile`, `estimate`, `lower`, `upper`."""
        return interval_frame({"quantile": check_quantiles(at)}, self.quantiles(at))

    def share_frame(self, at: Any = None) -> pl.DataFrame:
        """`shares` as a frame: `value`, `estimate`, `lower`, `upper`."""
        if at is None:
            return interval_frame({"value": self.edges[self.cuts]}, self.shares(self.cuts.astype(np.float64)))
        return interval_frame({"value": np.atleast_1d(np.asarray(at))}, self.shares(self.places(at)))

    def count_frame(self, low: Any, high: Any) -> pl.DataFrame:
        """The number of rows from one value to another: `low`, `high`, `estimate`, `lower`, `upper`."""
        first, last = self.places(low), self.places(high)
        if (first > last).any():
            raise ValueError(f"low ({low}) must not be above high ({high}). Hint: exchange them")
        given = {name: np.atleast_1d(np.asarray(value)) for name, value in (("low", low), ("high", high))}
        # Values may be too close for different positions, and yet have rows between them.
        hair = (first == last) & (first % 1 > 0) & (given["low"] != given["high"])
        last = np.where(hair, np.nextafter(last, np.inf), last)
        return interval_frame(given, self.counts(first, last))


def _comparable(given: Array, edges: Array) -> tuple[Array, Array]:
    """Numbers and edges in a type that rounds neither onto the other: integers, if all are."""
    whole = given.dtype.kind in "iu" and np.abs(edges).max() < 2.0**62 and (edges == np.floor(edges)).all()
    if not whole:
        return given.astype(np.float64), edges
    low, high = int(edges[0]), int(edges[-1])
    return np.array([min(max(value, low), high) for value in given.tolist()], dtype=np.int64), edges.astype(np.int64)


def interval_frame(first: dict[str, Any], found: Found) -> pl.DataFrame:
    """Some columns, then `estimate`, `lower` and `upper`."""
    plain = {name: each.tolist() if np.asarray(each).dtype.kind == "O" else each for name, each in first.items()}
    return pl.DataFrame({**plain, **found._asdict()})


def check_quantiles(at: Sequence[float]) -> list[float]:
    """Shares from 0 to 1."""
    given: list[Any] = list(at) if isinstance(at, (Sequence, np.ndarray)) and not isinstance(at, str) else [at]
    if not given:
        raise ValueError("quantiles must hold at least one share. Hint: [0.5], the median")
    for share in given:
        if isinstance(share, bool) or not isinstance(share, (int, float, Fraction, np.number)):
            raise TypeError(f"quantiles ({share!r}) must be numbers from 0 to 1. Hint: [0.5], the median")
        if not 0 <= share <= 1:
            raise ValueError(f"quantiles ({share}) must be from 0 to 1. Hint: [0.5], the median")
    return [float(share) for share in given]


def values_at(edges: Array, places: Floats) -> Array:
    """The values at positions among the edges, interpolated; dates are cut to their own precision."""
    if edges.dtype.kind == "f":
        return np.interp(places, np.arange(edges.size), edges)
    origin = edges.astype(np.int64) - edges[:1].astype(np.int64)  # differences are small enough for floats
    found = np.floor(np.interp(places, np.arange(edges.size), origin)).astype(np.int64)
    return (found + edges[:1].astype(np.int64)).astype(edges.dtype)


def line_edges(tree: Tree) -> Array:
    """The edges of the bins that are the leaves of a tree: those of its ranges, or 0, 1, 2, ..."""
    return np.arange(tree.leaf_count + 1, dtype=np.float64) if tree.ranges is None else range_edges(tree.ranges)


def range_edges(ranges: NumberRange) -> Array:
    """The edges of ranges: numbers that floats can hold, or `datetime64`."""
    edges = ranges.edges
    if not ranges.has_dates:
        numbers = np.array([float(edge) for edge in edges])
        integers = ranges.exact_edges[1] == 1
        if (np.diff(numbers) <= 0).any() or (integers and any(map(operator.ne, numbers.tolist(), edges))):
            raise ValueError(
                f"low ({ranges.low}), high ({ranges.high}) and bins ({ranges.bins}) must make ranges with ends "
                "that floats can hold. Hint: subtract low from the column, or method='tree_laplace' for counts"
            )
        return numbers
    return np.array(edges, dtype="datetime64[us]" if isinstance(edges[0], datetime) else "datetime64[D]")
