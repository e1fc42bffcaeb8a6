"""Intervals of sums and means, about values clipped to their bounds. Proof: docs/proofs/tree_means.md.

Where a pair was measured: all means m that (1 - m)*P - m*Q does not contradict (Fieller), and the sum's own noise.
Elsewhere: a box, the counts' interval and that of the centred sum, each with half of the chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.means.layers import Centred, Pairs
from opendp_tree.mechanisms.partition.intervals import SAFE, Bounds, few_numbers, narrowest
from opendp_tree.mechanisms.partition.layers import ShownTree
from opendp_tree.rows.value import Value
from opendp_tree.theorems.tree_means import STEPS

_CELLS = 128
"""Into so many cells the means from bound to bound are divided, to be rejected cell by cell."""
_BLOCK = 2**14
_ROWS = 0.01
"""The part of a sum's chance that goes into how many rows were rounded."""
_RATES = np.linspace(0.002, 0.998, 499)
_OUTWARD = 2.0**-45
"""Ends are moved outward by this part of what they are made of: more than all roundings of floats."""


@dataclass(frozen=True)
class ValueBounds:
    """Intervals of sums and of means."""

    sums: Bounds
    means: Bounds


@dataclass(frozen=True)
class Union:
    """For each node a union of pairs: their noisy sums, how many pairs, and the scale of their noise."""

    known: Bools
    high: Floats
    low: Floats
    sets: Ints
    scale: Floats

    @classmethod
    def of(cls, shown: ShownTree, pairs: list[Pairs]) -> Union:
        """The narrowest of each node, judged by sets and scales."""
        high = narrowest(shown, tuple(part.measured(part.high) for part in pairs))[0]
        low = narrowest(shown, tuple(part.measured(part.low) for part in pairs))[0]
        return cls(high.known, high.value, low.value, high.sets, high.scale)


def value_bounds(
    shown: ShownTree, value: Value, pairs: list[Pairs], centred: Centred, counts: Bounds, miss: float
) -> ValueBounds:
    """Intervals for the sum and for the mean of each shown node, each missed with a chance of at most `miss`."""
    boxes = box_bounds(shown, value, centred, counts, miss / 2)
    return pair_bounds(value, Union.of(shown, pairs), miss, boxes)


def pair_bounds(value: Value, union: Union, miss: float, others: ValueBounds) -> ValueBounds:
    """Intervals where there is a union of pairs, and the others elsewhere."""
    sums = Bounds(others.sums.lower.copy(), others.sums.upper.copy())
    means = Bounds(others.means.lower.copy(), others.means.upper.copy())
    chance = miss * SAFE
    numbers = few_numbers(union.sets)
    for scale in np.unique(union.scale[union.known]).tolist():
        for sets in np.unique(numbers[union.known & (union.scale == scale)]).tolist():
            at = np.flatnonzero(union.known & (union.scale == scale) & (numbers == sets))
            high, low = union.high[at], union.low[at]
            first = lowest_part(high / scale, low / scale, sets, scale, chance)
            last = 1 - lowest_part(low / scale, high / scale, sets, scale, chance)
            means.lower[at], means.upper[at] = mean_ends(value, first, last)
            # In rows before anything is multiplied by a bound, so that no product is infinite.
            high, low, wide, grain = high / STEPS, low / STEPS, scale / STEPS, sets / STEPS
            reach = wide * two_reach(abs(value.high), abs(value.low), sets, chance * (1 - _ROWS))
            reach += grain * (abs(value.high) + abs(value.low))
            rows = high + low + wide * two_reach(1.0, 1.0, sets, chance * _ROWS) + 2 * grain
            middle = value.high * high + value.low * low
            far = abs(value.high) * np.abs(high) + abs(value.low) * np.abs(low)
            slack = value.step * np.maximum(rows, 0) * (0.5 + 2.0**-20) + far * _OUTWARD
            sums.lower[at], sums.upper[at] = middle - reach - slack, middle + reach + slack
    return ValueBounds(sums, means)


def box_bounds(shown: ShownTree, value: Value, centred: Centred, counts: Bounds, miss: float) -> ValueBounds:
    """Intervals from the counts' and from that of the centred sums of all nodes at or below each."""
    sums = shown.totals(centred.sums / STEPS)
    numbers = few_numbers(np.rint(shown.totals(np.ones(shown.levels.size))).astype(np.int64))
    reach = np.zeros(sums.size)
    for sets in np.unique(numbers).tolist():
        far = centred.scale * two_reach(1.0, 0.0, sets, miss * SAFE) + sets
        reach[numbers == sets] = far / STEPS
    reach += np.abs(sums) * shown.levels.size * 2.0**-52
    least, most = np.maximum(counts.lower, 0.0), np.maximum(counts.upper, 0.0)
    lower, upper = sums - reach, sums + reach
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(lower < 0, lower / least, lower / most)
        last = np.where(upper > 0, upper / least, upper / most)
    first, last = (np.nan_to_num(end, nan=side).clip(-1, 1) for end, side in ((first, -1.0), (last, 1.0)))
    means = mean_ends(value, (1 + first) / 2, (1 + last) / 2)
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2

    def furthest(end: Floats, sign: float) -> Floats:
        """The least or the largest sum: no centred sum is further from 0 than the number of rows."""
        rows = np.stack((least, most, np.clip(-sign * end, least, most), np.clip(sign * end, least, most)))
        inside = sign * np.minimum(sign * end, rows)
        totals: Floats = sign * (sign * (middle * rows + half * inside)).max(axis=0)
        return totals

    slack = value.step * most * (0.5 + 2.0**-20) + (abs(middle) + half) * most * _OUTWARD
    return ValueBounds(Bounds(furthest(lower, -1.0) - slack, furthest(upper, 1.0) + slack), Bounds(*means))


def mean_ends(value: Value, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Means from parts of the way between the bounds, outward by half a step and by roundings."""
    width = value.high - value.low
    slack = value.step * (0.5 + 2.0**-20) + (abs(value.low) + abs(value.high)) * _OUTWARD
    return (
        np.maximum(value.low + width * first - slack, value.low),
        np.minimum(value.low + width * last + slack, value.high),
    )


def lowest_part(high: Floats, low: Floats, sets: int, scale: float, chance: float) -> Floats:
    """The least m of 0 to 1 that (1 - m)*high - m*low, too large by chance, does not contradict."""
    if high.size > _BLOCK:  # all cells of so many nodes are in memory at once
        blocks = [slice(start, start + _BLOCK) for start in range(0, high.size, _BLOCK)]
        return np.concatenate([lowest_part(high[block], low[block], sets, scale, chance) for block in blocks])
    parts = np.linspace(0.0, 1.0, _CELLS + 1)
    reach = _reach_from_cell_before(sets, chance) + sets / scale
    excess = high[:, None] - parts * (high + low)[:, None] - reach
    within = excess <= 0
    first = np.where(within.any(axis=1), within.argmax(axis=1), _CELLS)
    before = np.maximum(first - 1, 0)
    over, under = (np.take_along_axis(excess, place[:, None], axis=1)[:, 0] for place in (before, first))
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(over > under, over / (over - under), 0.0).clip(0, 1)
    found = np.where(first == 0, 0.0, (before + crossing) / _CELLS)
    return found * (1 - _OUTWARD)


@lru_cache(maxsize=1024)
def _reach_from_cell_before(sets: int, chance: float) -> Floats:
    parts = np.linspace(0.0, 1.0, _CELLS + 1)
    reach = np.array([two_reach(1 - part, part, sets, chance) for part in parts])
    half = _CELLS // 2
    reach[1 : half + 1] = reach[:half].copy()
    reach[half + 1 :] = reach[half - 1 :: -1]
    reach.flags.writeable = False
    return reach


@lru_cache(maxsize=1 << 16)
def two_reach(first: float, second: float, sets: int, chance: float) -> float:
    """What |first*X + second*Y| exceeds with at most this chance; X and Y are sums of so many unit Laplace numbers."""
    large, small = max(first, second), min(first, second)
    if large == 0:
        return 0.0
    ratio = small / large
    if sets > 1:
        moments = -sets * (np.log1p(-(_RATES**2)) + np.log1p(-((_RATES * ratio) ** 2)))
        return large * float(((math.log(2 / chance) + moments) / _RATES).min())

    def tail(reach: float) -> float:
        if ratio > 1 - 1e-4:  # as if they were equal, which is wider
            return (1 + reach / 2) * math.exp(-reach)
        faster = ratio**2 * math.exp(-reach / ratio) if ratio > 0 else 0.0
        return (math.exp(-reach) - faster) / (1 - ratio**2)

    below, above = 0.0, 4.0 + 2 * math.log(1 / chance)
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (below, middle) if tail(middle) <= chance else (middle, above)
    return large * above
