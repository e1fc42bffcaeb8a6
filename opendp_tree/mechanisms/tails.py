"""Tail bounds of noise, and the intervals that follow from them. Proof: docs/proofs/partition.md.

A marked node is a union of sets in several layers, so its interval is that of a weighted sum of independent skewed
geometric numbers, whatever was found. A node between marked ones lies between them. A leaf that is a cell has its gap,
a known leaf its noisy count. A node that is not shown holds less than its threshold plus tokens subtracted below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.find import PartitionParameters
from opendp_tree.mechanisms.layers import Layers, NoisySums, ShownTree
from opendp_tree.theorems.interval import bisect, halfway
from opendp_tree.theorems.partition import Fringe

SAFE = 0.99
"""Of a probability, what computed tails may use: they are in floats, and of sums of noise within a window."""
_WIDEST = 1024.0
"""Noise of a larger scale is bounded by noise of this scale, stretched."""
_LARGEST_WINDOW = 2**21
_WEIGHTS = 4
"""The weight of the narrowest union of sets in a mean of two."""
_FEW = 16
"""A union of more sets is read alone: of those there may be very many different ones."""
WIDEST_SUM = 2.0**12
"""Discrete Gaussian noise of a larger scale is treated as normal."""


@dataclass(frozen=True)
class Bounds:
    """For each shown node the ends of its interval."""

    lower: Floats
    upper: Floats

    def around(self, estimates: Floats) -> Bounds:
        """Widened to hold the estimates too."""
        return Bounds(np.minimum(self.lower, estimates), np.maximum(self.upper, estimates))


Part = tuple[int, float, float, int]
"""Of a weighted sum of skewed geometric numbers: their number, right scale, left scale and whole weight."""


def sum_reach(terms: Ints, right_scale: float, left_scale: float, chance: float) -> Floats:
    """For each number of terms, what a sum of that many skewed geometric numbers exceeds with at most this chance."""
    distinct, places = np.unique(terms, return_inverse=True)
    parts = ((int(count), right_scale, left_scale, 1) for count in distinct)
    by_count: Floats = np.array([_reach((part,), chance * SAFE) for part in parts], dtype=float)[places]
    return by_count


@lru_cache(maxsize=8192)
def _reach(parts: tuple[Part, ...], chance: float) -> int:
    """The least integer that a weighted sum of differences of geometric numbers exceeds with at most a chance."""
    widest = max(max(right, left) for _, right, left, _ in parts)
    terms = sum(count * weight for count, _, _, weight in parts)
    if terms == 0 or widest == 0:
        return 0
    if widest > _WIDEST:  # floor(s * E) for an exponential E is within one of s / W * floor(W * E), times s / W
        ratio = widest / _WIDEST
        narrow = _reach(
            tuple((count, right / ratio, left / ratio, weight) for count, right, left, weight in parts), chance
        )
        return math.ceil((narrow + terms) * ratio * (1 + 1e-12)) + terms
    top, bottom = _chernoff(parts, chance / 1000), _chernoff(_mirrored(parts), chance / 1000)
    size = 1 << (top + bottom + 2).bit_length()
    # A law's tail is exact to about 1e-15: Chernoff's bound for less, and for sums that are too wide.
    if size > _LARGEST_WINDOW or chance < 1e-11:
        return _chernoff(parts, chance)
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for count, right, left, weight in parts:
        angles = np.exp(2j * np.pi * weight * np.arange(size // 2 + 1) / size)
        q, p = (math.exp(-1 / scale) if scale > 0 else 0.0 for scale in (right, left))
        transform *= ((1 - q) * (1 - p) / ((1 - q / angles) * (1 - p * angles))) ** count
    law = np.fft.irfft(transform, size)
    # The mass outside of -bottom..top, less than a five-hundredth of the chance, is folded into the window.
    above = np.cumsum(np.roll(law, bottom)[::-1])[::-1]  # P(sum >= at - bottom)
    at = int(np.argmax(above <= chance)) if (above <= chance).any() else bottom + top + 1
    return at - bottom - 1


def _mirrored(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of minus the sum."""
    return tuple((count, left, right, weight) for count, right, left, weight in parts)


def _chernoff(parts: tuple[Part, ...], chance: float) -> int:
    """A bound that the sum exceeds with at most this chance, by its moment generating function: sound, not exact."""
    limit = max(weight * right for _, right, _, weight in parts)
    if limit == 0:
        return 0
    rates = np.linspace(0.002, 0.998, 499) / limit
    moments = np.full(rates.size, math.log(1 / chance))
    for count, right, left, weight in parts:
        each = weight * rates
        if right > 0:
            moments += count * (math.log(-math.expm1(-1 / right)) - np.log(-np.expm1(each - 1 / right)))
        p = math.exp(-1 / left) if left > 0 else 0.0
        moments += count * (math.log1p(-p) - np.log1p(-p * np.exp(-each)))
    return math.ceil(float((moments / rates).min()))


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

    `tops` is the level of the deepest known node at or above each node.
    """
    least = sure_people(shown, parameters, tops)
    lower, upper = layer_bounds(shown, layers, measured, least=least, miss=miss)
    leaves = np.flatnonzero((shown.levels == shown.depth - 1) & (shown.is_cell | ~layers.marked))
    below, beyond = leaf_reaches(parameters, tops[leaves], miss)
    lower[leaves] = np.maximum(shown.gaps[leaves] - below, least[leaves])
    upper[leaves] = shown.gaps[leaves] + beyond
    # Floats do not hold all integers beyond 2**53: outward by more than all roundings, one per added node.
    slack = np.where(np.abs(upper) > 2**52, np.abs(upper) * (shown.levels.size + 16) * 2.0**-52, 0.0)
    return Bounds(np.maximum(lower - slack, 0), np.maximum(upper + slack, least))


def sure_people(shown: ShownTree, parameters: PartitionParameters, tops: Ints) -> Floats:
    """A certain lower bound of each node: tokens only subtract, so a cell's gap exceeds its people by at most R."""
    sure = np.zeros(shown.levels.size)
    for top in np.unique(tops[shown.is_cell]).tolist():
        cells = np.flatnonzero(shown.is_cell & (tops == top))
        radii = np.array(parameters.fringes[top].radii)[shown.levels[cells] - top - 1]
        sure[cells] = shown.gaps[cells] - radii
    return shown.totals(sure)


def leaf_reaches(parameters: PartitionParameters, tops: Ints, miss: float) -> tuple[Ints, Ints]:
    """`leaf_reach` of leaves in fringes of these levels."""
    below, beyond = np.zeros_like(tops), np.zeros_like(tops)
    for top in np.unique(tops).tolist():
        below[tops == top], beyond[tops == top] = leaf_reach(parameters.fringes[top], miss)
    return below, beyond


def layer_bounds(
    shown: ShownTree, layers: Layers, measured: tuple[NoisySums, ...], *, least: Floats, miss: float
) -> tuple[Floats, Floats]:
    """Lower and upper ends from the layers alone, each missed with a chance of at most half of `miss`."""
    whole, inside = narrowest(shown, measured)
    lower, upper = whole.ends(measured, miss / 2)
    lower = np.maximum(least, lower)
    # Between two marked nodes: at most what the one above holds, at least the marked ones below it together.
    free = np.flatnonzero(~layers.marked & (layers.above >= 0))
    above = layers.above[free]
    upper[free] = upper[above]
    lower[free] = np.maximum(np.maximum(least[free], 0.0), inside.ends(measured, miss / 2)[0][above])
    return lower, upper


@dataclass(frozen=True)
class Unions:
    """For each node a union of one layer's sets: the layer (-1 for none), the noisy count, the number of sets."""

    layer: Ints
    value: Floats
    sets: Ints
    second: Unions | None = None
    """A union of another layer's sets, which holds the same people."""

    @classmethod
    def of(cls, measured: tuple[NoisySums, ...], has: Bools, values: Floats, sets: Floats) -> Unions:
        """The two unions of least variance, one row per layer: chosen by sets and scales, never by noisy values."""
        variances = np.where(has & (sets > 0), sets * np.array([[part.variance] for part in measured]), np.inf)
        nodes, found = np.arange(values.shape[1]), []
        for _ in range(2):
            layer = variances.argmin(axis=0)
            known, sizes = np.isfinite(variances[layer, nodes]), np.rint(sets[layer, nodes]).astype(np.int64)
            found.append((np.where(known, layer, -1), values[layer, nodes], sizes))
            variances[layer, nodes] = np.inf
        first, second = found
        return cls(*first, cls(*second))

    def ends(self, measured: tuple[NoisySums, ...], chance: float) -> tuple[Floats, Floats]:
        """Ends of intervals of the unions' people, each missed with at most this chance; infinite if there are none."""
        lower, upper = np.full(self.value.size, -np.inf), np.full(self.value.size, np.inf)
        known, (weights, mores), second = np.flatnonzero(self.layer >= 0), self.weights(measured), self.second or self
        kinds = np.stack((self.layer, self.sets, *np.where(mores > 0, (second.layer, second.sets), 0)))[:, known]
        codes = np.ravel_multi_index(tuple(kinds), tuple(kinds.max(axis=1, initial=0) + 1))
        order = np.argsort(codes, kind="stable")
        for at in np.split(known[order], np.flatnonzero(np.diff(codes[order])) + 1) if known.size else ():
            layer, sets, weight, more = (int(each[at[0]]) for each in (self.layer, self.sets, weights, mores))
            other, others = int(second.layer[at[0]]), int(second.sets[at[0]])
            used = [(measured[layer], sets, weight), (measured[other], others, more)][: 2 if more else 1]
            parts = tuple((count * part.terms, part.right_scale, part.left_scale, each) for part, count, each in used)
            unit, center = measured[layer].unit / (weight + more), self.value[at]
            if more:
                center = (weight * center + more * second.value[at]) / (weight + more)
            lower[at] = center - _reach(parts, chance * SAFE) * unit
            upper[at] = center + _reach(_mirrored(parts), chance * SAFE) * unit
        return lower, upper

    def weights(self, measured: tuple[NoisySums, ...]) -> tuple[Ints, Ints]:
        """Whole weights of the two unions, nearly by their precision; 0 for a second one with another unit of noise."""
        one, none = np.ones_like(self.layer), np.zeros_like(self.layer)
        if self.second is None:
            return one, none
        variances, units = (np.array([getattr(part, name) for part in measured]) for name in ("variance", "unit"))
        alike = (self.second.layer >= 0) & (units[self.layer] == units[self.second.layer]) & (self.sets <= _FEW)
        more = np.where(alike, self.second.sets * variances[self.second.layer], np.inf)
        second = np.rint(_WEIGHTS * (self.sets * variances[self.layer] / more)).astype(np.int64)
        common = np.gcd(_WEIGHTS, second)
        return np.where(second > 0, _WEIGHTS // common, one), second // common


def narrowest(shown: ShownTree, measured: tuple[NoisySums, ...]) -> tuple[Unions, Unions]:
    """For each marked node unions of all its sets in one layer, and unions without its own rest."""
    shape = len(measured), shown.levels.size
    values, sets, rests = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    has, above = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for number, part in enumerate(measured):
        rests[number, part.rests] = part.sums[part.nodes.size :]
        values[number] = rests[number]
        values[number, part.nodes] = part.sums[: part.nodes.size]
        above[number, part.rests] = True
        has[number] = above[number]
        has[number, part.nodes] = True
        values[number], sets[number] = shown.totals(values[number]), shown.totals(has[number])
        if not part.rests.size:  # everybody is in one of the layer's nodes, so all nodes above them are unions as well
            has[number] = sets[number] > 0
    return Unions.of(measured, has, values, sets), Unions.of(measured, above, values - rests, sets - 1)


@lru_cache(maxsize=1024)
def leaf_reach(fringe: Fringe, miss: float) -> tuple[int, int]:
    """How far a leaf's people are below and above its gap or noisy count: shown and missed with chance `miss`."""
    if not fringe.levels:
        assert fringe.rest_scales is not None
        right, left = map(float, fringe.rest_scales)
        return _reach(((1, right, left, 1),), miss / 2 * SAFE), _reach(((1, left, right, 1),), miss / 2 * SAFE)
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
    """The least upper reach for a lower one, or None; truncation makes small noise at most `shorter` times likelier."""
    most = _quantile(t, miss / 1000) + 2

    def over(room: int) -> float:
        """P(noise - min(token, room) > below) for unbounded noise; truncation only lowers it."""
        whole, both = q ** (below + 1), (q * t) ** room
        return whole * ((1 - t) * (1 - both) / (1 - q * t) + both)

    def suffices(beyond: int) -> bool:
        under = shorter * t ** (beyond + 1) * (1 - q) / (1 - q * t)  # at least P(token - noise > beyond)
        return over(0) <= miss and over(beyond + 1) + under <= miss

    return bisect(suffices, -1, most, middle=halfway) if suffices(most) else None  # both chances fall with the reach


@lru_cache(maxsize=1024)
def hidden_bound(fringe: Fringe, miss: float) -> float:
    """An upper bound of a node that is not shown, missed with chance at most `miss`; `inf` if none is proven."""
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


# Second moments of noise, for planners: `above(start, edge)` is E[(Z - edge)**2; Z >= start].


def laplace_above(start: Floats, edge: Floats, scale: Floats | float) -> Floats:
    """E[(Z - edge)**2; Z >= start] for integer Laplace noise and integers start >= 0."""
    q, quiet = np.exp(-1 / np.asarray(scale)), -np.expm1(-1 / np.asarray(scale))
    gap = start - edge
    tail = np.exp(-start / np.asarray(scale)) / (1 + q)  # (1 - q) / (1 + q) * q**start, without one factor 1 - q
    found: Floats = tail * (gap**2 + 2 * gap * q / quiet + q * (1 + q) / quiet**2)
    return found


def normal_excess(edge: Floats, deviation: Floats) -> Floats:
    """E[max(Z - edge, 0)**2] for normal noise."""
    at = edge / deviation
    density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
    found: Floats = deviation**2 * ((at**2 + 1) * normal_tail(at) - at * density)
    return found.clip(0, None)


def normal_tail(at: Floats) -> Floats:
    """The chance that a standard normal number exceeds each value."""
    chance: Floats = np.vectorize(math.erfc, otypes=[np.float64])(at / math.sqrt(2)) / 2
    return chance


@lru_cache(maxsize=8)
def gaussian_sums(scale: float) -> tuple[Floats, Floats, Floats]:
    """P(Z >= k), E[Z; Z >= k], E[Z**2; Z >= k] for k = 0, 1, ... of Gaussian noise of a scale up to `WIDEST_SUM`."""
    steps: Floats = np.arange(math.ceil(12 * scale) + 2, dtype=np.float64)
    weight = np.exp(-0.5 * (steps / scale) ** 2)
    weight /= 2 * weight.sum() - 1
    sums = [np.cumsum((weight * steps**power)[::-1])[::-1] for power in range(3)]
    return sums[0], sums[1], sums[2]


def gaussian_above(start: Floats, edge: Floats, scale: float) -> Floats:
    """E[(Z - edge)**2; Z >= start] for discrete Gaussian noise and integers start >= 0."""
    if scale > WIDEST_SUM:
        at = (start - 0.5) / scale
        density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
        tail = normal_tail(at)
        normal: Floats = scale**2 * (at * density + tail) - 2 * edge * scale * density + edge**2 * tail
        return normal
    zeroth, first, second = gaussian_sums(scale)
    place = np.minimum(start, zeroth.size - 1).astype(np.int64)
    found: Floats = second[place] - 2 * edge * first[place] + edge**2 * zeroth[place]
    return found
