"""Layers, measured once cells are found: each divides the people of the shown tree into disjoint sets.

Some shown nodes are *marked*. A layer is a set of marked nodes with exactly one node on each path from the root to a
lowest marked node. Its sets are the people of each of its nodes and, for each marked node above them, its *rest*: the
people in none of the marked nodes directly below it. Every person is in exactly one set, so a layer with noise of
slopes alpha and beta costs alpha for removing a person and beta for adding one, and every marked node at or above a
layer is a union of its sets. Only `measure` sees data. Proof: docs/proofs/partition.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.find import NAMED, mean, three_digits, variance
from opendp_tree.trees.level_weights import balance
from opendp_tree.trees.tree import Tree

LEAST_VARIANCE = 1e-6
"""A lower limit of variances, reached at a very large epsilon."""
RATIO = 14.0
"""Between the steps of a ladder."""
LADDER = 6
"""A ladder in a deep tree has about this many layers, whatever the depth."""
LEAST_SHARE = 2**17
"""A layer that is chosen after finding gets at least one part in this many of the layers' budget."""
LIGHT = 0.7
"""The relative share of the root and of the two lowest steps, which serve intervals more than estimates."""
_ROUNDS = 8
_FLOOR = 0.5
"""The least share over the largest, where weights are even: intervals are read from at most two layers."""
_LARGE = 100.0
"""Shares of levels are balanced for nodes of at least this many people."""


@dataclass(frozen=True)
class ShownTree:
    """The nodes that are shown, level by level."""

    levels: Ints
    parents: Ints
    """For each node the index of its parent; -1 for the root."""
    depth: int
    is_cell: Bools
    known: Bools
    gaps: Ints
    """A cell's gap or a known node's noisy rest; 0 for other nodes."""

    @cached_property
    def edges(self) -> Ints:
        """The index of the first node of each level, and the number of nodes."""
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
        return np.bincount(self.parents[1:], minlength=self.levels.size)


def whole_tree(tree: Tree) -> ShownTree:
    """All nodes of a public tree, level by level, none of them found."""
    order, none = tree.level_order, np.zeros(tree.node_count, dtype=np.int64)
    return ShownTree(order.levels, order.parents, tree.depth, none > 0, none == 0, none)


@dataclass(frozen=True)
class Layer:
    """The nodes that a layer counts whole, the nodes whose rests it counts, and the scales of its noise."""

    nodes: Ints
    rests: Ints
    right_scale: float
    left_scale: float


@dataclass(frozen=True)
class NoisySums(Layer):
    """The noisy counts of a layer's sets: of its nodes, and then of its rests."""

    sums: Ints | Floats
    terms: int = 1
    """The number of noise terms in each sum."""
    unit: float = 1.0
    """The unit of the noise."""

    @property
    def mean(self) -> float:
        """The mean of the noise."""
        return (mean(self.right_scale) - mean(self.left_scale)) * self.terms * self.unit

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        each = variance(self.right_scale) + variance(self.left_scale)
        return max(each * self.terms * self.unit**2, LEAST_VARIANCE)


@dataclass(frozen=True)
class Layers:
    """The layers of one release; `above` is the nearest marked node strictly above each node, -1 for the root."""

    marked: Bools
    above: Ints
    layers: tuple[Layer, ...]

    def spent(self) -> tuple[Fraction, Fraction]:
        """The exact cost of removing, and of adding, one person."""
        right = sum((1 / Fraction(layer.right_scale) for layer in self.layers), Fraction(0))
        return right, sum((1 / Fraction(layer.left_scale) for layer in self.layers), Fraction(0))


def cut_by_level(shown: ShownTree, cut_levels: list[int]) -> tuple[Bools, list[Bools]]:
    """Marks on all nodes down to the last of some levels, and a cut for each of these levels."""
    marked = shown.levels <= cut_levels[-1]
    ends = marked & (shown.child_counts == 0)
    return marked, [(shown.levels == level) | (ends & (shown.levels < level)) for level in cut_levels]


def cut_by_cells(shown: ShownTree, cells: Floats) -> tuple[Bools, list[Bools]]:
    """Marks on the root and on all nodes with siblings, and a cut for the root and for each step of a ladder."""
    marked = np.ones(shown.levels.size, dtype=np.bool_)
    marked[1:] = shown.child_counts[shown.parents[1:]] > 1
    above = nearest_marked(shown, marked)
    ends = marked.copy()
    ends[above[marked & (above >= 0)]] = False
    root = np.zeros_like(marked)
    root[:1] = True
    cuts = [root]
    for limit in ladder_of(float(cells[0]), RATIO):
        if limit < cells[0]:
            stop = marked & ((cells <= limit) | ends)
            cuts.append(stop & ((above < 0) | (cells[above] > limit)))
    return marked, cuts


def ladder_of(most: float, ratio: float) -> list[int]:
    """1 and the powers of a ratio below a number of cells, rounded: the steps of a ladder, smallest last."""
    count = max(1, math.ceil(math.log(max(most, 2)) / math.log(ratio)))
    return [round(ratio**step) for step in reversed(range(count))]


def nearest_marked(shown: ShownTree, marked: Bools) -> Ints:
    """For each node the nearest marked node strictly above it; -1 if there is none."""
    above = np.full(shown.levels.size, -1, dtype=np.int64)
    for level in range(1, shown.depth):
        here = shown.at(level)
        parents = shown.parents[here]
        above[here] = np.where(marked[parents], parents, above[parents])
    return above


def make_layers(
    shown: ShownTree, marked: Bools, cuts: list[Bools], shares: Floats, alphas: Fraction, betas: Fraction, more: int = 0
) -> Layers:
    """Layers of the given cuts, which together cost at most alphas and betas, exactly; `more` digits of scales."""
    layers = []
    for cut, part in zip(cuts, (shares / shares.sum() * (1 - 2.0**-40)).tolist(), strict=True):
        scales = (three_digits(1 / (Fraction(part) * slope), more=more) for slope in (alphas, betas))
        layers.append(Layer(np.flatnonzero(cut), np.flatnonzero(_strictly_above(shown, marked, cut)), *scales))
    made = Layers(marked, nearest_marked(shown, marked), tuple(layers))
    spent = made.spent()
    if spent[0] > alphas or spent[1] > betas:
        raise AssertionError("layers must not cost more than was set aside for them")
    return made


def _strictly_above(shown: ShownTree, marked: Bools, cut: Bools) -> Bools:
    """The marked nodes that have a node of the cut below them."""
    holds = cut.copy()
    for level in reversed(range(1, shown.depth)):
        here = shown.at(level)
        holds[shown.parents[here][holds[here]]] = True
    return holds & marked & ~cut


def measure(layers: Layers, high: Ints, low: Ints, *, units: int = 1) -> tuple[NoisySums, ...]:
    """The layers' noisy sums of what marked nodes hold, in halves (`saturate.split`) and in units of one person."""
    inner_high, inner_low = high.copy(), low.copy()
    below = np.flatnonzero(layers.marked & (layers.above >= 0))
    np.subtract.at(inner_high, layers.above[below], high[below])
    np.subtract.at(inner_low, layers.above[below], low[below])
    measured = []
    for layer in layers.layers:
        whole = saturate.join(high[layer.nodes], low[layer.nodes])
        rest = saturate.join(inner_high[layer.rests], inner_low[layer.rests])
        scales = layer.right_scale * units, layer.left_scale * units
        sums = saturate.add(np.concatenate((whole, rest)), noise.skewed_geometric(*scales, whole.size + rest.size))
        measured.append(NoisySums(layer.nodes, layer.rests, *scales, sums / units, unit=1 / units))
    return tuple(measured)


def final_variances(shown: ShownTree, rest: Floats, precision: Floats) -> Floats:
    """Variances after least squares, from those of each node's rest and the precision of its whole count."""
    below, mine = rest.copy(), rest.copy()
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        below[here] += shown.sum_children(mine, level)
        mine[here] = 1 / (1 / below[here] + precision[here])
    for level in range(1, shown.depth):
        here = shown.at(level)
        above = shown.parents[here]
        mine[here] -= (mine[here] / below[above]) ** 2 * (below[above] - mine[above])
    return mine


def two_passes(
    shown: ShownTree, own: Floats, precision: Floats, rest: Floats | None = None, variance: Floats | None = None
) -> Floats:
    """Least squares from noisy counts of nodes and of their rests; without rests, all people are in leaves."""
    if rest is None or variance is None:
        rest, variance = np.zeros(own.size), np.where(shown.child_counts > 0, 0.0, np.inf)
    before, spread, after, left = rest.copy(), variance.copy(), rest.copy(), variance.copy()
    for level in reversed(range(shown.depth)):
        here = shown.at(level)
        before[here] += shown.sum_children(after, level)
        spread[here] += shown.sum_children(left, level)
        left[here] = 1 / (1 / spread[here] + precision[here])
        after[here] = (before[here] / spread[here] + precision[here] * own[here]) * left[here]
    for level in range(1, shown.depth):
        here = shown.at(level)
        above = shown.parents[here]
        after[here] += left[here] / spread[above] * (after[above] - before[above])
    return after


def choose_layers(
    shown: ShownTree,
    rest_variance: Floats,
    alphas: Fraction,
    betas: Fraction,
    *,
    weights: tuple[float | None, ...] | None = None,
) -> Layers:
    """The layers of a release: by level for trees of few levels, otherwise by the number of cells.

    `rest_variance` is the variance of each node's rest (at leaves: of its count) without layers.
    """
    if shown.depth > NAMED:
        marked, cuts = cut_by_cells(shown, shown.totals((shown.is_cell | shown.known).astype(np.float64)))
        shares = np.ones(len(cuts))
        shares[:1] = shares[-2:] = LIGHT
        return make_layers(shown, marked, cuts, shares, alphas, betas)
    weighted = weights is not None and weights[0] is not None
    levels = list(range(0 if weighted or shown.depth <= 2 else 1, max(shown.depth - 1, 1)))
    marked, cuts = cut_by_level(shown, levels)
    weight = np.array([1.0 if weights is None or weights[level] is None else weights[level] for level in levels])
    shares = level_shares(shown, rest_variance, levels, weight, float(alphas), float(betas))
    return make_layers(shown, marked, cuts, shares, alphas, betas)


def level_shares(
    shown: ShownTree, rest_variance: Floats, levels: list[int], weight: Floats, alphas: float, betas: float
) -> Floats:
    """Shares of the levels, balanced so that the largest weighted error of a level is small."""
    large = shown.totals(np.maximum(shown.gaps, 0).astype(np.float64)) >= _LARGE
    groups = []
    for level in levels:
        here = np.flatnonzero(shown.levels == level)
        groups.append(here[large[here]] if large[here].any() else here)

    def errors(shares: Floats) -> Floats:
        precisions = np.zeros(shown.depth)
        for level, share in zip(levels, shares.tolist(), strict=True):
            noisy = variance(1 / (share * alphas)) + variance(1 / (share * betas))
            precisions[level] = 1 / max(noisy, LEAST_VARIANCE)
        deeper = precisions[::-1].cumsum()[::-1] - precisions  # layers of all deeper levels measure rests
        rest = 1 / (1 / rest_variance + np.where(shown.levels < shown.depth - 1, deeper[shown.levels], 0.0))
        variances = final_variances(shown, rest, precisions[shown.levels])
        return weight * np.sqrt([float(variances[group].mean()) if group.size else 0.0 for group in groups])

    shares: Floats = weight / weight.sum()
    floor = _FLOOR * float(weight.min() / weight.max())
    return balance(errors, shares, rounds=_ROUNDS, floor=floor)[0] if len(levels) > 1 else shares
