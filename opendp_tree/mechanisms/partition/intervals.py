"""Intervals for nodes of a release, each with a proof: docs/proofs/partition_estimator.md.

A marked node is a union of a layer's sets, so its interval is that of a sum of independent Laplace numbers, whatever
the cells are. A node between marked ones lies between them. A leaf that is a cell has its gap. A node that is not shown
holds less than its threshold and what tokens took from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.partition.layers import NAMED, Layers, Measured, ShownTree
from opendp_tree.mechanisms.partition.parameters import GapParameters

DEEP_PARTS = (0.78, 0.07, 0.15)
"""On deep trees, how the chance to miss a node is divided: the upper end, the lower end by layers, and by cells."""
_LARGEST_THRESHOLD = 10**5
"""For a larger one, lower ends come from layers alone: nobody would look at each count below it."""
SAFE = 0.99
"""Tails are computed in floats, and sums of noise on a window beyond which less than a hundredth of the chance lies."""
_FINE = 512.0  # the scale at which integer noise stands for continuous noise
_EXACT = 64  # up to this many terms every number of terms has its own quantile
_WIDEST = 1024.0  # a law of a larger scale is that of this one, stretched


@dataclass(frozen=True)
class Bounds:
    """For each shown node, what it holds at least and at most."""

    lower: Floats
    upper: Floats


def node_bounds(
    shown: ShownTree,
    layers: Layers,
    measured: tuple[Measured, ...],
    parameters: GapParameters,
    *,
    is_leaf: Bools,
    miss: float,
) -> Bounds:
    """Intervals of all shown nodes: each node is shown and missed with a chance of at most `miss`."""
    named = shown.depth <= NAMED
    # On deep trees cells often say more of the lower end than layers do, and do so cheaply.
    over, under, from_cells = miss * SAFE * np.array((0.5, 0.5, 0.0) if named else DEEP_PARTS)
    least = shown.totals(np.where(shown.is_cell, least_people(parameters, shown.levels), 0.0))
    lower, upper = layer_bounds(shown, layers, measured, least=least, over=over, under=under)
    if from_cells > 0:
        lower = np.maximum(lower, lower_from_cells(shown, parameters, from_cells))
    below, beyond = leaf_reach(parameters, miss)
    by_gap = is_leaf & (shown.levels > 0)  # a public tree's root is shown though it be no cell, and is counted whole
    lower[by_gap] = np.maximum(shown.gaps[by_gap] - below, least[by_gap])
    upper[by_gap] = shown.gaps[by_gap] + beyond
    # Floats do not hold all integers beyond 2**53: outward by more than all roundings, one for each node that is added.
    rounding = (shown.levels.size + 16) * 2.0**-52
    slack = np.where(np.abs(upper) > 2**52, np.abs(upper) * rounding, 0.0)
    return Bounds(np.maximum(lower - slack, 0), np.maximum(upper + slack, least))


def layer_bounds(
    shown: ShownTree, layers: Layers, measured: tuple[Measured, ...], *, least: Floats, over: float, under: float
) -> tuple[Floats, Floats]:
    """Lower and upper ends from the layers alone, missed with a chance of at most `under` and `over`."""
    lower, upper = least.copy(), np.full(shown.levels.size, np.inf)
    whole, inside = narrowest(shown, measured)
    upper[whole.known] = (whole.value + whole.reach(measured, over))[whole.known]
    lower[whole.known] = np.maximum(least, whole.value - whole.reach(measured, under))[whole.known]
    # Between two marked nodes: at most what the one above holds, at least the marked ones below it together.
    free = np.flatnonzero(~layers.marked)
    above = layers.above[free]
    upper[free] = upper[above]
    reach = inside.reach(measured, under)
    lower[free] = np.maximum(least[free], np.where(inside.known, inside.value - reach, 0.0)[above])
    return lower, upper


def least_people(parameters: GapParameters, levels: Ints) -> Floats:
    """What a cell of each level holds for sure: its noise is at most the radius."""
    shape = parameters.shape
    pairs = zip(shape.thresholds, shape.radii, strict=True)
    rows = np.array([0 if radius is None else max(0, threshold - radius) for threshold, radius in pairs], dtype=float)
    found: Floats = rows[np.searchsorted(shape.levels, levels, side="right").clip(1) - 1]
    return found


@dataclass(frozen=True)
class Unions:
    """For each node a union of one layer's sets: its noisy count, the number of sets, and their scale."""

    known: Bools
    value: Floats
    sets: Ints
    scale: Floats

    @classmethod
    def none(cls, size: int) -> Unions:
        """No union for any of so many nodes."""
        return cls(
            np.zeros(size, dtype=np.bool_), np.zeros(size), np.zeros(size, dtype=np.int64), np.full(size, np.inf)
        )

    def improve(self, known: Bools, value: Floats, sets: Floats, scale: float) -> None:
        """Take another layer's unions where their variance is less: judged by sets and scales, never by values."""
        with np.errstate(invalid="ignore"):
            old = np.where(self.known, self.sets * self.scale**2, np.inf)
        better = known & (sets > 0) & (sets * scale**2 < old)
        self.known[better], self.value[better], self.scale[better] = True, value[better], scale
        self.sets[better] = np.rint(sets[better]).astype(np.int64)

    def reach(self, measured: tuple[Measured, ...], chance: float) -> Floats:
        """What the noise of each union exceeds with at most this chance."""
        found = np.zeros(self.value.size)
        for scale, layer in {part.layer.scale: part.layer for part in measured}.items():
            at = self.known & (self.scale == scale)
            found[at] = layer.reach(self.sets[at], chance)
        return found


def narrowest(shown: ShownTree, measured: tuple[Measured, ...]) -> tuple[Unions, Unions]:
    """For each marked node the union of all its sets in one layer, and the union without its own rest."""
    size = shown.levels.size
    whole, inside = Unions.none(size), Unions.none(size)
    for part in measured:
        values, sets, rests = np.zeros(size), np.zeros(size), np.zeros(size)
        values[part.layer.nodes], values[part.layer.rests] = part.whole, part.rest
        sets[part.layer.nodes], sets[part.layer.rests] = 1, 1
        rests[part.layer.rests] = part.rest
        cut, above = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        cut[part.layer.nodes], above[part.layer.rests] = True, True
        values, sets = shown.totals(values), shown.totals(sets)
        whole.improve(cut | above, values, sets, part.layer.scale)
        inside.improve(above, values - rests, sets - 1, part.layer.scale)
    return whole, inside


@dataclass(frozen=True)
class LowerEnd:
    """How much less than their gaps cells hold together: `cell` and `rate` times its gap for each, and `once`."""

    cell: float
    step: float
    once: float


def lower_end(parameters: GapParameters, miss: float, *, cells: int = 3) -> LowerEnd | None:
    """The lower end that is best for so many cells, of those that the proof page allows; None if none is proven."""
    shape = parameters.shape
    if shape.thresholds[0] > _LARGEST_THRESHOLD or len(set(shape.thresholds)) > 1:
        return None
    if any(radius is None or radius >= shape.thresholds[0] for radius in shape.radii):
        return None
    best, least = None, math.inf
    for rate in np.linspace(0.1, 0.9, 17) / parameters.scale:
        for most in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
            cell = _cell_loss(parameters, float(rate), most / shape.depth)
            once = math.log(1 / miss) / float(rate)
            typical = cells * (cell + most / 2 * shape.thresholds[0]) + once
            if typical < least:
                best, least = LowerEnd(cell, most / shape.depth, once), typical
    return best


def _cell_loss(parameters: GapParameters, rate: float, step: float) -> float:
    """The least k with P(noise < i)*exp(-rate*step*y) + E[exp(rate*(noise - k)); noise >= i] <= 1 for all counts y."""
    threshold, q = parameters.shape.thresholds[0], math.exp(-1 / parameters.scale)
    moment = math.log((1 - q) / -math.expm1(rate - 1 / parameters.scale))
    lacks = np.arange(1, threshold)  # nobody at all is no cell
    reached = np.exp(-lacks / parameters.scale)
    left = 1 - (1 - reached) * np.exp(-rate * step * (threshold - lacks))
    worst = float((rate * lacks - lacks / parameters.scale - np.log(left)).max(initial=0.0))
    return (moment + worst) / rate * (1 + 1e-9)


def lower_from_cells(shown: ShownTree, parameters: GapParameters, miss: float) -> Floats:
    """A lower end for each node from the gaps of the cells at and below it."""
    end = lower_end(parameters, miss)
    if end is None:
        return np.zeros(shown.levels.size)
    levels = np.array(parameters.shape.levels)
    below = levels.size - np.searchsorted(levels, shown.levels, side="right")
    held = shown.gaps * (1 - end.step * below) - end.cell
    return shown.totals(np.where(shown.is_cell, held, 0.0)) - end.once


def leaf_reach(parameters: GapParameters, miss: float) -> tuple[int, int]:
    """How far below and above its gap a leaf's people are, missed with a chance of at most `miss` if it is a cell."""
    q, t = math.exp(-1 / parameters.scale), math.exp(-1 / parameters.token_scale)
    ends = [radius for radius in parameters.shape.radii if radius is not None]
    shorter = 1 / -math.expm1(-(min(ends) + 1) / parameters.scale) if ends else 1.0
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
        whole = q ** (below + 1)
        if room == 0:
            return whole
        qt = q * t
        return whole * ((1 - t) * (1 - qt**room) / (1 - qt) + qt**room)

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


def hidden_bound(parameters: GapParameters, miss: float, *, depth: int | None = None) -> float:
    """What a node that is not shown holds at most, missed with chance at most `miss`; `inf` if nothing is proven."""
    shape = parameters.shape
    every = shape.depth if depth is None else depth
    if shape.levels[:every] != tuple(range(every)):
        return math.inf
    first = min(shape.blur_levels)
    threshold, margin, height = max(shape.thresholds), max(shape.thresholds) - first, shape.depth
    t = math.exp(-1 / parameters.token_scale)
    best = math.inf
    for theta in np.linspace(0.01, 0.99, 99) / parameters.token_scale:
        log_power = float(theta) - 1 / parameters.token_scale
        power = math.exp(log_power)
        tail = (1 - t) / (1 - power)
        few = (1 - t) * (1 - power**margin) / (1 - power) + power**margin  # E exp(theta * min(token, margin))
        growth = max(few, power * tail)
        logs = math.log(growth)
        merge = 2 * first - 1 - threshold
        apart = merge * log_power + math.log(tail) <= (1 - height) * logs and merge >= 1
        if first >= 2 and apart and (first - 1) * log_power <= -height * logs:
            best = min(best, math.ceil((math.log(1 / (miss * SAFE)) + height * logs) / theta))
    return threshold - 1 + best


def noise_bounds(terms: Ints, scale: float, chance: float) -> Ints:
    """For each number of terms the least bound that the sum of so many exceeds with at most this chance."""
    if scale > _WIDEST:
        narrow = noise_bounds(terms, _WIDEST, chance)
        wide: Ints = np.ceil((narrow + terms) * (scale / _WIDEST) * (1 + 1e-12)).astype(np.int64) + terms
        return wide
    distinct, places = np.unique(few_numbers(terms), return_inverse=True)
    return np.array([_bound(int(count), scale, chance) for count in distinct], dtype=np.int64)[places]


def few_numbers(terms: Ints) -> Ints:
    """Numbers of terms, no smaller, of which there are few: beyond 64 rounded up by at most 2 %."""
    rounded = terms.copy()
    many = terms > _EXACT
    steps = np.ceil(np.log(terms[many] / _EXACT) / math.log(1.02) - 1e-9)
    rounded[many] = np.maximum(np.ceil(_EXACT * 1.02**steps), terms[many])
    return rounded


def sum_reach(sets: Ints, parts: tuple[float, ...], chance: float) -> Floats:
    """What the sum of a Laplace number of each scale, for each of so many sets, exceeds with at most this chance."""
    if len(set(parts)) == 1:
        terms = sets * len(parts)
        return (noise_bounds(terms, _FINE, chance) + terms) / _FINE * parts[0]
    scales = np.array(parts)
    rates = np.linspace(0.002, 0.998, 499) / scales.max()
    moments = -np.log1p(-(np.outer(scales, rates) ** 2)).sum(axis=0)
    distinct, places = np.unique(few_numbers(sets), return_inverse=True)
    found: Floats = ((math.log(1 / chance) + distinct[:, None] * moments) / rates).min(axis=1)
    return found[places]


@lru_cache(maxsize=4096)
def _bound(terms: int, scale: float, chance: float) -> int:
    if terms == 0 or scale == 0:
        return 0
    reach = _chernoff(terms, scale, chance / 1000)  # what lies beyond is a thousandth of the chance
    # Floats carry a convolution's tail to some 1e-15, and each further number adds as much: beyond, Chernoff's bound.
    if reach > 2**20 or chance < 1e-13 * (100 + terms):
        return _chernoff(terms, scale, chance)
    size = 1 << (2 * reach + 2).bit_length()
    masses = np.zeros(size)
    places = np.arange(-reach, reach + 1)
    masses[places] = np.exp(-np.abs(places) / scale)
    masses /= masses.sum()
    law = np.fft.irfft(np.fft.rfft(masses) ** terms, size)[: reach + 1]
    above = 0.5 * (1 - law[0]) - np.cumsum(law[1:])  # chance of more than 1, 2, ...; symmetric
    above = np.concatenate(([0.5 * (1 - law[0])], above))
    return int(np.argmax(above <= chance)) if (above <= chance).any() else reach


def _chernoff(terms: int, scale: float, chance: float) -> int:
    """A bound that the sum exceeds with at most this chance, by its moment generating function: sound, not exact."""
    rates = np.linspace(0.002, 0.998, 499) / scale
    moments = 2 * math.log(-math.expm1(-1 / scale)) - sum(
        np.log1p(-np.exp(sign * rates - 1 / scale)) for sign in (1, -1)
    )
    return math.ceil(float(((math.log(1 / chance) + terms * moments) / rates).min()))
