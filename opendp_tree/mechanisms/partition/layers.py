"""What is measured once the cells are known: layers, each of which cuts the shown tree into disjoint sets of people.

Some shown nodes are *marked*. A layer is a set of marked nodes that meets every way from the root down to a marked node
without marked nodes below it exactly once. Its sets are the people of each of its nodes, and, for each marked node
above them, its *rest*: the people who are in none of the marked nodes below it. Every person is in exactly one set, so
a layer with Laplace noise of scale b costs 1/b, and every marked node at or above a layer is a union of its sets.

Everything but `measure` looks at cells and gaps alone. Proof: docs/proofs/partition_estimator.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendp_tree import noise, saturate
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.theorems.interval import round_up

SHARES = 2**20
"""Shares of epsilon are whole multiples of one part in so many, so that their sum is exact."""
LevelWeights = tuple[float | None, ...] | None
"""One weight for each level above the deepest, from the root down; None for what is usual."""
NAMED = 9
"""Trees of at most so many levels are measured level by level; deeper ones by the number of cells below a node."""
ROOT = 1.5
"""Unless told, the root may err by as much as a sum of the level below it, over this."""
FALL = 0.92
"""Unless told, each further level down has so much of the weight of the one above it, as it gains more from others."""
WIDEST, FORCED = 0.5, 0.5
"""A level's noise has at most this times the number of levels the variance of what is known without it, for intervals;
or as little more as keeps what all levels need for that at this part of epsilon."""
LEAST_VARIANCE = 1e-6
"""A variance of a gap that is less, at a very large epsilon, is taken as this."""
RATIO = 14.0
"""Between the steps of a ladder."""
LIGHT = 0.7
"""The share of the root and of the two lowest steps, which serve intervals more than estimates, against the others."""


@dataclass(frozen=True)
class ShownTree:
    """The nodes with a cell at or below them, level by level."""

    levels: Ints
    parents: Ints
    """For each node its parent's place; -1 for the root."""
    gaps: Ints
    """A cell's gap; 0 for a node that is no cell."""
    is_cell: Bools
    depth: int

    @cached_property
    def edges(self) -> Ints:
        """Where each level begins, and the number of nodes."""
        return np.searchsorted(self.levels, np.arange(self.depth + 1))

    def at(self, level: int) -> slice:
        """The nodes of a level."""
        return slice(int(self.edges[level]), int(self.edges[level + 1]))

    def sum_children(self, values: Floats, level: int) -> Floats:
        """For each node of a level, the sum of the values of its shown children."""
        here = self.at(level)
        size = here.stop - here.start
        if level + 1 == self.depth:
            return np.zeros(size)
        below = self.at(level + 1)
        return np.bincount(self.parents[below] - here.start, values[below], minlength=size).astype(np.float64)

    def totals(self, values: Floats) -> Floats:
        """For each node, the sum of the values at and below it."""
        total: Floats = values.astype(np.float64)
        for level in reversed(range(self.depth - 1)):
            total[self.at(level)] += self.sum_children(total, level)
        return total

    @cached_property
    def child_counts(self) -> Ints:
        """For each node the number of its shown children."""
        return np.bincount(self.parents[1:], minlength=self.levels.size) if self.levels.size else self.levels


@dataclass(frozen=True)
class Layer:
    """Places of the nodes that a layer counts whole, of those whose rest it counts, and the scale of its noise."""

    nodes: Ints
    rests: Ints
    scale: float
    parts: tuple[float, ...] = ()
    """Where a count's noise is a sum of several numbers, the scale of each; `scale` is then that of one as wide."""
    grain: float = 0.0
    """By how much the noise of one set may differ from a sum of continuous numbers of these scales."""

    def reach(self, sets: Ints, chance: float) -> Floats:
        """What the noise of a union of so many sets exceeds with at most this chance."""
        from opendp_tree.mechanisms.partition.intervals import noise_bounds, sum_reach

        if not self.parts:
            return noise_bounds(sets, self.scale, chance).astype(np.float64)
        return sum_reach(sets, self.parts, chance) + sets * self.grain


@dataclass(frozen=True)
class Measured:
    """A layer's noisy counts."""

    layer: Layer
    whole: Ints | Floats
    rest: Ints | Floats


@dataclass(frozen=True)
class Layers:
    """The layers of one release; `above` is the nearest marked node strictly above each node, -1 for the root."""

    marked: Bools
    above: Ints
    layers: tuple[Layer, ...]

    def spent(self) -> Fraction:
        """What the layers cost one person: the exact sum of 1/scale."""
        return sum((1 / Fraction(layer.scale) for layer in self.layers), Fraction(0))


def cut_by_level(shown: ShownTree) -> tuple[Bools, list[Bools]]:
    """Marks on all nodes above the deepest level, and a cut for each of their levels, the root's first."""
    last = max(shown.depth - 2, 0)
    marked = shown.levels <= last
    inner = shown.child_counts > 0
    return marked, [(shown.levels == level) | (marked & ~inner & (shown.levels < level)) for level in range(last + 1)]


def cut_by_cells(shown: ShownTree, cells: Floats, ladder: list[int]) -> tuple[Bools, list[Bools]]:
    """Marks on the root and on every child of a node with several; a cut for the root and each step of the ladder."""
    children = shown.child_counts
    marked = np.ones(shown.levels.size, dtype=np.bool_)
    marked[1:] = children[shown.parents[1:]] > 1
    above = nearest_marked(shown, marked)
    ends = marked.copy()
    ends[above[marked & (above >= 0)]] = False
    root = np.zeros_like(marked)
    root[:1] = True
    cuts = [root]
    for most in ladder:
        if cells.size and most < cells[0]:
            stop = marked & ((cells <= most) | ends)
            cuts.append(stop & ((above < 0) | (cells[above] > most)))
    return marked, cuts


def nearest_marked(shown: ShownTree, marked: Bools) -> Ints:
    """For each node the nearest marked node strictly above it; -1 if there is none."""
    above = np.full(shown.levels.size, -1, dtype=np.int64)
    for level in range(1, shown.depth):
        here = shown.at(level)
        parents = shown.parents[here]
        above[here] = np.where(marked[parents], parents, above[parents])
    return above


def make_layers(shown: ShownTree, marked: Bools, cuts: list[Bools], shares: Floats, epsilon: Fraction) -> Layers:
    """Layers of the given cuts, the first of them the root's, which together spend at most epsilon, exactly."""
    above = nearest_marked(shown, marked)
    if shown.levels.size == 0:
        return Layers(marked, above, ())
    parts = np.maximum(np.floor(shares / shares.sum() * (SHARES - len(cuts))), 1).astype(np.int64)
    layers = []
    for cut, part in zip(cuts, parts.tolist(), strict=True):
        scale = round_up(Fraction(SHARES, part) / epsilon)  # up: 1/scale is at most the share
        layers.append(Layer(np.flatnonzero(cut), np.flatnonzero(_strictly_above(shown, marked, cut)), scale))
    return Layers(marked, above, tuple(layers))


def _strictly_above(shown: ShownTree, marked: Bools, cut: Bools) -> Bools:
    """The marked nodes that have a node of the cut below them."""
    holds = cut.copy()
    for level in reversed(range(1, shown.depth)):
        here = shown.at(level)
        holds[shown.parents[here][holds[here]]] = True
    return holds & marked & ~cut


def measure(layers: Layers, high: Ints, low: Ints) -> tuple[Measured, ...]:
    """The layers' counts with noise."""
    inner_high, inner_low = high.copy(), low.copy()
    below = np.flatnonzero(layers.marked & (layers.above >= 0))
    np.subtract.at(inner_high, layers.above[below], high[below])
    np.subtract.at(inner_low, layers.above[below], low[below])
    found = []
    for layer in layers.layers:
        whole = saturate.join(high[layer.nodes], low[layer.nodes])
        rest = saturate.join(inner_high[layer.rests], inner_low[layer.rests])
        drawn = noise.laplace(layer.scale, whole.size + rest.size)
        noisy = saturate.add(np.concatenate((whole, rest)), drawn)
        found.append(Measured(layer, noisy[: whole.size], noisy[whole.size :]))
    return tuple(found)


def ladder_of(most: float, ratio: float) -> list[int]:
    """1 and the powers of a ratio below a number of cells, rounded: the steps of a ladder, smallest last."""
    count = max(1, math.ceil(math.log(max(most, 2)) / math.log(ratio)))
    return [round(ratio**step) for step in reversed(range(count))]


@dataclass(frozen=True)
class CellNoise:
    """What a gap says of a cell's people: the means and variances of a test's noise and of a token."""

    noise_mean: float
    noise_variance: float
    token_mean: float
    token_variance: float
    threshold: float
    spread: float = 0.0
    """What each of a cell's people adds to the variance of its gap, where people are put at one of their leaves."""

    @classmethod
    def of(cls, parameters: GapParameters) -> CellNoise:
        """For the noise without end, which truncation changes by less than delta."""
        q, t = math.exp(-1 / parameters.scale), math.exp(-1 / parameters.token_scale)
        threshold = sum(parameters.shape.thresholds) / parameters.shape.depth
        variances = (max(ratio / (1 - ratio) ** 2, LEAST_VARIANCE) for ratio in (q, t))
        return cls(q / (1 - q), next(variances), t / (1 - t), next(variances), threshold)

    def variance(self, is_leaf: npt.NDArray[np.bool_]) -> Floats:
        """Of a cell's debiased gap."""
        return self.noise_variance + np.where(is_leaf, 1.0, 3.0) * self.token_variance

    def shift(self, is_leaf: npt.NDArray[np.bool_]) -> Floats:
        """What to add to a gap: tokens that were taken off, less the noise that was added."""
        return np.where(is_leaf, 1.0, 2.0) * self.token_mean - self.noise_mean


def choose_layers(shown: ShownTree, model: CellNoise, epsilon: Fraction, *, weights: LevelWeights = None) -> Layers:
    """The layers of a release: by level for trees of few levels, else by the number of cells."""
    if shown.depth <= NAMED:
        marked, cuts = cut_by_level(shown)
        shares = level_shares(shown, model, float(epsilon), weights)
        return make_layers(shown, marked, cuts, shares, epsilon)
    cells = shown.totals(shown.is_cell.astype(np.float64))
    ladder = ladder_of(cells[0], RATIO) if cells.size else []
    marked, cuts = cut_by_cells(shown, cells, ladder)
    shares = np.ones(len(cuts))
    shares[:1] = shares[-2:] = LIGHT
    return make_layers(shown, marked, cuts, shares, epsilon)


def default_measuring(depth: int) -> float:
    """The share of epsilon that measures; enough to keep every level near a release of that level alone."""
    if depth > NAMED:
        return 0.4 if depth <= 64 else 0.32
    return {4: 0.48, 5: 0.52, 6: 0.55, 7: 0.55, 8: 0.48, 9: 0.42}.get(depth, 0.4)


def level_shares(shown: ShownTree, model: CellNoise, epsilon: float, weights: LevelWeights) -> Floats:
    """The epsilon of each level above the deepest, so that the largest weighted error of a level is least."""
    last = max(shown.depth - 2, 0)
    sizes = np.diff(shown.edges).astype(float).tolist()
    usual = (min(1.0, ROOT / math.sqrt(max(*sizes[:2], 1.0))), *(FALL**step for step in range(last)))
    weight = [one if told is None else told for one, told in zip(usual, weights or [None] * len(usual), strict=True)]
    unheld = np.where(shown.is_cell, model.variance(shown.levels == shown.depth - 1), (model.threshold / 4) ** 2)
    own = [float(unheld[shown.at(level)].mean()) if sizes[level] else 0.0 for level in range(shown.depth)]

    def needed(bound: float, widest: float) -> Floats:
        shares, variance = np.zeros(last + 1), own[last + 1] if last + 1 < shown.depth else 0.0
        for level in reversed(range(last + 1)):
            if sizes[level] == 0:
                continue
            below = own[level] + variance * (sizes[level + 1] / sizes[level] if level + 1 < shown.depth else 0.0)
            aim, most = bound / weight[level] ** 2, widest * last * below if level else math.inf
            layer = min(aim * below / (below - aim) if below > aim * (1 + 1e-12) else math.inf, most)
            shares[level] = math.sqrt(2 / layer)
            variance = 1 / (1 / below + 1 / layer)
        return shares

    low, high, widest = 1e-6, 1e12, WIDEST
    while needed(high, widest).sum() > FORCED * epsilon and widest < high:
        widest *= 1.25
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle, widest).sum() <= epsilon else (middle, high)
    shares = needed(high, widest)
    # A level that needs nothing still gets a little, so that every one is measured whatever the cells.
    found: Floats = np.maximum(shares, 0.02 * max(shares.sum(), 1e-9))
    return found
