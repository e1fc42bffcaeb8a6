"""What noise exceeds with a given chance, and the intervals that follow: docs/proofs/partition.md.

A marked node is a union of a layer's sets, so its interval is that of a sum of independent skewed geometric numbers,
whatever was found. A node between marked ones lies between them. A leaf that is a cell has its gap, a known leaf its
noisy count. A node that is not shown holds less than its threshold and what tokens took from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.find import PartitionParameters
from opendp_tree.mechanisms.layers import Layers, NoisySums, ShownTree
from opendp_tree.theorems.partition import Fringe

SAFE = 0.99
"""Tails are computed in floats, and sums of noise on a window beyond which less than a hundredth of the chance lies."""
_WIDEST = 1024.0
"""A law of a larger scale is that of this one, stretched."""
_LARGEST_WINDOW = 2**21


@dataclass(frozen=True)
class Bounds:
    """For each shown node, what it holds at least and at most."""

    lower: Floats
    upper: Floats


def sum_reach(terms: Ints, right_scale: float, left_scale: float, chance: float) -> Floats:
    """For each number of terms, what a sum of so many skewed geometric numbers exceeds with at most this chance."""
    distinct, places = np.unique(terms, return_inverse=True)
    reach = np.array([_reach(int(count), right_scale, left_scale, chance * SAFE) for count in distinct], dtype=float)
    found: Floats = reach[places]
    return found


@lru_cache(maxsize=8192)
def _reach(terms: int, right: float, left: float, chance: float) -> int:
    """The least integer that the sum of `terms` differences of geometric numbers exceeds with at most a chance."""
    widest = max(right, left)
    if terms == 0 or widest == 0:
        return 0
    if widest > _WIDEST:  # floor(s * E) for an exponential E is within one of s / W * floor(W * E), times s / W
        ratio = widest / _WIDEST
        narrow = _reach(terms, right / ratio, left / ratio, chance)
        return math.ceil((narrow + terms) * ratio * (1 + 1e-12)) + terms
    top, bottom = _chernoff(terms, right, left, chance / 1000), _chernoff(terms, left, right, chance / 1000)
    size = 1 << (top + bottom + 2).bit_length()
    # Floats carry a law's tail to some 1e-15: beyond, and for sums that are too wide, Chernoff's bound.
    if size > _LARGEST_WINDOW or chance < 1e-11:
        return _chernoff(terms, right, left, chance)
    angles = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
    q, p = (math.exp(-1 / scale) if scale > 0 else 0.0 for scale in (right, left))
    law = np.fft.irfft(((1 - q) * (1 - p) / ((1 - q / angles) * (1 - p * angles))) ** terms, size)
    # What lies outside of -bottom..top, less than a five-hundredth of the chance, is folded into the window.
    above = np.cumsum(np.roll(law, bottom)[::-1])[::-1]  # P(sum >= at - bottom)
    at = int(np.argmax(above <= chance)) if (above <= chance).any() else bottom + top + 1
    return at - bottom - 1


def _chernoff(terms: int, right: float, left: float, chance: float) -> int:
    """A bound that the sum exceeds with at most this chance, by its moment generating function: sound, not exact."""
    if right == 0:
        return 0
    q = math.exp(-1 / right)
    p = math.exp(-1 / left) if left > 0 else 0.0
    rates = np.linspace(0.002, 0.998, 499) / right
    moments = math.log1p(-q) - np.log(-np.expm1(rates - 1 / right)) + math.log1p(-p) - np.log1p(-p * np.exp(-rates))
    return math.ceil(float(((math.log(1 / chance) + terms * moments) / rates).min()))


def node_bounds(
    shown: ShownTree,
    layers: Layers,
    measured: tuple[NoisySums, ...],
    parameters: PartitionParameters,
    tops: Ints,
    *,
    miss: float,
) -> Bounds:
    """Intervals of all shown nodes: each node is shown and missed with a chance of at most `miss`.

    `tops` is for each node the level of the deepest known node at or above it.
    """
    least = shown.totals(shown.is_cell.astype(np.float64))  # a cell holds somebody for sure: thresholds exceed radii
    lower, upper = layer_bounds(shown, layers, measured, least=least, miss=miss)
    leaves = np.flatnonzero((shown.levels == shown.depth - 1) & ~layers.marked)
    below, beyond = leaf_reaches(parameters, tops[leaves], miss)
    lower[leaves] = np.maximum(shown.gaps[leaves] - below, least[leaves])
    upper[leaves] = shown.gaps[leaves] + beyond
    # Floats do not hold all integers beyond 2**53: outward by more than all roundings, one for each node that is added.
    slack = np.where(np.abs(upper) > 2**52, np.abs(upper) * (shown.levels.size + 16) * 2.0**-52, 0.0)
    return Bounds(np.maximum(lower - slack, 0), np.maximum(upper + slack, least))


def leaf_reaches(parameters: PartitionParameters, tops: Ints, miss: float) -> tuple[Ints, Ints]:
    """How far below and above their gaps, or noisy counts, the people of leaves of these fringes are."""
    below, beyond = np.zeros_like(tops), np.zeros_like(tops)
    for top in np.unique(tops).tolist():
        fringe = parameters.fringes[top]
        reach = leaf_reach(fringe, miss) if fringe.levels else rest_reach(fringe, miss)
        below[tops == top], beyond[tops == top] = reach
    return below, beyond


def layer_bounds(
    shown: ShownTree, layers: Layers, measured: tuple[NoisySums, ...], *, least: Floats, miss: float
) -> tuple[Floats, Floats]:
    """Lower and upper ends from the layers alone, each missed with a chance of at most half of `miss`."""
    lower, upper = least.copy(), np.full(shown.levels.size, np.inf)
    whole, inside = narrowest(shown, measured)
    below, beyond = whole.reach(measured, miss / 2)
    known = whole.layer >= 0
    lower[known], upper[known] = np.maximum(least, whole.value - below)[known], (whole.value + beyond)[known]
    # Between two marked nodes: at most what the one above holds, at least the marked ones below it together.
    free = np.flatnonzero(~layers.marked & (layers.above >= 0))
    above = layers.above[free]
    upper[free] = upper[above]
    below, _ = inside.reach(measured, miss / 2)
    lower[free] = np.maximum(least[free], np.where(inside.layer >= 0, inside.value - below, 0.0)[above])
    return lower, upper


@dataclass(frozen=True)
class Unions:
    """For each node a union of one layer's sets: the layer (-1 for none), the noisy count, the number of sets."""

    layer: Ints
    value: Floats
    sets: Ints
    variance: Floats

    @classmethod
    def none(cls, size: int) -> Unions:
        """No union for any of so many nodes."""
        return cls(np.full(size, -1), np.zeros(size), np.zeros(size, dtype=np.int64), np.full(size, np.inf))

    def improve(self, number: int, part: NoisySums, has: Bools, value: Floats, sets: Floats) -> None:
        """Take another layer's unions where their variance is less: judged by sets and scales, never by values."""
        better = has & (sets > 0) & (sets * part.variance < self.variance)
        self.layer[better], self.value[better] = number, value[better]
        self.sets[better], self.variance[better] = np.rint(sets[better]), (sets * part.variance)[better]

    def reach(self, measured: tuple[NoisySums, ...], chance: float) -> tuple[Floats, Floats]:
        """How far below and above its noisy count each union's people are, each missed with at most this chance."""
        below, beyond = np.zeros(self.value.size), np.zeros(self.value.size)
        for number, part in enumerate(measured):
            at = np.flatnonzero(self.layer == number)
            terms = self.sets[at] * part.terms
            below[at] = sum_reach(terms, part.right_scale, part.left_scale, chance) * part.unit
            beyond[at] = sum_reach(terms, part.left_scale, part.right_scale, chance) * part.unit
        return below, beyond


def narrowest(shown: ShownTree, measured: tuple[NoisySums, ...]) -> tuple[Unions, Unions]:
    """For each marked node the union of all its sets in one layer, and the union without its own rest."""
    size = shown.levels.size
    whole, inside = Unions.none(size), Unions.none(size)
    for number, part in enumerate(measured):
        values, sets, rests = np.zeros(size), np.zeros(size), np.zeros(size)
        has, above = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        values[part.nodes], values[part.rests] = part.sums[: part.nodes.size], part.sums[part.nodes.size :]
        rests[part.rests] = part.sums[part.nodes.size :]
        sets[part.nodes] = sets[part.rests] = 1
        has[part.nodes] = has[part.rests] = above[part.rests] = True
        values, sets = shown.totals(values), shown.totals(sets)
        if not part.rests.size:  # nobody is outside the layer's nodes, so that all nodes above them are unions as well
            has = sets > 0
        whole.improve(number, part, has, values, sets)
        inside.improve(number, part, above, values - rests, sets - 1)
    return whole, inside


def rest_reach(fringe: Fringe, miss: float) -> tuple[int, int]:
    """How far below and above its noisy count a known leaf's people are."""
    assert fringe.rest_scales is not None
    right, left = map(float, fringe.rest_scales)
    return _reach(1, right, left, miss / 2 * SAFE), _reach(1, left, right, miss / 2 * SAFE)


@lru_cache(maxsize=1024)
def leaf_reach(fringe: Fringe, miss: float) -> tuple[int, int]:
    """How far below and above its gap a leaf's people are, missed with a chance of at most `miss` if it is a cell."""
    q, t = math.exp(-1 / float(fringe.test_scale)), math.exp(-1 / float(fringe.token_scale))
    radius = fringe.radii[-1]
    shorter = 1.0 if radius is None else 1 / -math.expm1(-(radius + 1) / float(fringe.test_scale))
    best: tuple[int, int] | None = None
    first, last = _quantile(q, miss), _quantile(q, miss / 64) + 1
    for below in range(first, last + 1, 1 + (last - first) // 200):
        beyond = _least_beyond(q, t, below, miss * SAFE, shorter)
        if beyond is not None and (best is None or below + beyond < sum(best)):
            best = below, beyond
    assert best is not None
    return best


def _quantile(ratio: float, chance: float) -> int:
    """The least k with P(geometric > k) = ratio**(k + 1) at most a chance."""
    return max(0, math.ceil(math.log(chance) / math.log(ratio) - 1 + 1e-12)) if ratio > 0 else 0


def _least_beyond(q: float, t: float, below: int, miss: float, shorter: float) -> int | None:
    """The least upper reach for a lower one, or None. `shorter` is how much likelier truncation makes small noise."""
    most = _quantile(t, miss / 1000) + 2

    def over(room: int) -> float:
        """P(noise - min(token, room) > below), for noise without end, which truncation only lowers."""
        whole, both = q ** (below + 1), (q * t) ** room
        return whole * ((1 - t) * (1 - both) / (1 - q * t) + both)

    def suffices(beyond: int) -> bool:
        under = shorter * t ** (beyond + 1) * (1 - q) / (1 - q * t)  # at least P(token - noise > beyond)
        return over(0) <= miss and over(beyond + 1) + under <= miss

    if not suffices(most):
        return None
    low, high = -1, most  # both chances fall with the reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def hidden_bound(fringe: Fringe, miss: float) -> float:
    """What a node that is not shown holds at most, missed with chance at most `miss`; `inf` if nothing is proven."""
    first = min(threshold - margin for threshold, _, margin in fringe.levels)
    threshold, height, rate = max(fringe.thresholds), len(fringe.levels), 1 / float(fringe.token_scale)
    margin, t = threshold - first, math.exp(-rate)
    best = math.inf
    for theta in np.linspace(0.01, 0.99, 99) * rate:
        log_power = float(theta) - rate
        power = math.exp(log_power)
        tail = (1 - t) / (1 - power)
        few = (1 - t) * (1 - power**margin) / (1 - power) + power**margin  # E exp(theta * min(token, margin))
        logs = math.log(max(few, power * tail))
        merge = 2 * first - 1 - threshold
        apart = merge * log_power + math.log(tail) <= (1 - height) * logs and merge >= 1
        if first >= 2 and apart and (first - 1) * log_power <= -height * logs:
            best = min(best, math.ceil((math.log(1 / (miss * SAFE)) + height * logs) / theta))
    return threshold - 1 + best
