"""From cells and gaps to a release: what is shown, what is measured, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from opendp_tree import saturate
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.partition.estimates import estimate_nodes
from opendp_tree.mechanisms.partition.intervals import Bounds, hidden_bound, least_people, node_bounds
from opendp_tree.mechanisms.partition.layers import (
    NAMED,
    CellNoise,
    Layers,
    LevelWeights,
    Measured,
    ShownTree,
    choose_layers,
    measure,
)
from opendp_tree.mechanisms.partition.parameters import GapParameters, shown_levels
from opendp_tree.mechanisms.partition.walk import Cells, find_cells, find_cells_of_tree
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.releases.values import NodeValues
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.shown_nodes import ShownCells, contracted_parents
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

Described = tuple[Floats, Bounds, tuple[NodeValues, ...]]
"""Counts, their intervals, and what else is told of nodes."""
Describe = Callable[[ShownTree, Ints, Ints], Described]
"""Measures shown nodes, which are given with their levels in the whole tree and their first places."""
HIDDEN_PART = 0.1
"""On a public tree a node may be shown or not; so much of the chance to miss it is for when it is not."""


@dataclass(frozen=True)
class FindThenMeasure:
    """The parameters of the cells, what the layers may cost, which levels matter, and how sure intervals are."""

    parameters: GapParameters
    epsilon: Fraction
    weights: LevelWeights
    confidence: float

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The levels of the tree that are shown: those that are tested, and the root's."""
        return shown_levels(self.parameters)

    @cached_property
    def contracted(self) -> GapParameters:
        """The parameters on the tree of the shown levels alone, whose law this is."""
        shape = self.parameters.shape
        return replace(
            self.parameters, shape=replace(shape, levels=tuple(self.levels.index(level) for level in shape.levels))
        )

    def open_release(self, counts: SparseCounts, statement: PrivacyStatement) -> TreeRelease:
        """Nodes with a cell at or below them."""
        return self.release_of(counts, find_cells(counts.occupied, self.parameters), statement)

    def release_of(
        self, counts: SparseCounts, cells: Cells, statement: PrivacyStatement, describe: Describe | None = None
    ) -> TreeRelease:
        """What is measured and said of some cells; by default counts alone."""
        listed = ShownCells.of(counts, cells.places, cells.levels)
        nodes, firsts = listed.nodes, listed.firsts
        gaps = np.where(listed.is_cell, cells.gaps[listed.order][firsts], 0)
        wanted = np.isin(nodes.levels, self.levels)
        shown = self.contract(nodes.levels, nodes.parents, gaps, listed.is_cell)
        places = cells.places[listed.order][firsts][wanted]
        described = partial(self._counts, counts.occupied) if describe is None else describe
        estimates, bounds, values = described(shown, nodes.levels[wanted], places)
        if not wanted.all():
            estimates, bounds = fill_levels(nodes.levels, nodes.parents, wanted, estimates, bounds)
            values = tuple(each.spread(wanted) for each in values)
        return TreeRelease(
            counts.tree,
            estimates,
            bounds.lower,
            bounds.upper,
            self.confidence,
            statement,
            cells=listed.lasts - firsts,
            nodes=nodes,
            shown=None if wanted.all() else wanted,
            hidden=hidden_bound(self.parameters, 1 - self.confidence, depth=counts.tree.depth),
            values=values,
        )

    def _counts(self, occupied: Occupied, shown: ShownTree, levels: Ints, places: Ints) -> Described:
        layers = self.layers(shown)
        measured = measure(layers, *people_at(occupied, levels, places, layers.marked))
        is_leaf = shown.levels == shown.depth - 1
        return *self.describe(shown, layers, measured, is_leaf, 1 - self.confidence), ()

    def public_release(self, tree: Tree, leaf_counts: Ints, statement: PrivacyStatement) -> TreeRelease:
        """All nodes: what no shown node below a node explains of it is shared out evenly over the leaves left."""
        cells = find_cells_of_tree(tree, leaf_counts, self.parameters)
        gaps, marks = np.zeros(tree.node_count, dtype=np.int64), np.zeros(tree.node_count, dtype=np.int64)
        gaps[cells.nodes], marks[cells.nodes] = cells.gaps, 1
        number = tree.sum_nodes(marks)
        listed = number > 0
        listed[tree.root] = True  # it is there, whatever the cells
        ids = np.concatenate([level[listed[level]] for level in tree.levels])
        place = np.full(tree.node_count, -1)
        place[ids] = np.arange(ids.size)
        parents = np.where(ids == tree.root, -1, place[tree.parents[ids]])
        shown = self.contract(tree.node_levels[ids], parents, gaps[ids], marks[ids] > 0)
        wanted = np.isin(tree.node_levels, self.levels)
        ids = ids[wanted[ids]]
        layers = self.layers(shown)
        halves = people_of_tree(tree, leaf_counts, ids)
        miss = 1 - self.confidence
        is_leaf = ~has_below(tree, wanted)[ids]
        measured = measure(layers, *halves)
        estimates, bounds = self.describe(shown, layers, measured, is_leaf, (1 - HIDDEN_PART) * miss)
        everywhere = spread_rests(tree, ids, estimates, np.where(wanted, self._most_hidden(), np.inf))
        lower, upper = np.zeros(tree.node_count), np.full(tree.node_count, np.inf)
        hidden = wanted & ~listed
        upper[hidden] = hidden_bound(self.contracted, HIDDEN_PART * miss)
        if np.isinf(upper[hidden]).any():
            # A node holds at most what the nearest shown one above it holds, and that with the hidden nodes' chance.
            rarely = node_bounds(shown, layers, measured, self.contracted, is_leaf=is_leaf, miss=HIDDEN_PART * miss)
            ends = np.full(tree.node_count, np.inf)
            ends[ids] = rarely.upper
            upper[hidden] = from_above(tree, ends)[hidden]
        lower[ids], upper[ids] = bounds.lower, bounds.upper
        upper = from_above(tree, upper)  # for nodes of levels that are not shown
        upper = np.maximum(upper, everywhere)
        return TreeRelease(tree, everywhere, lower, upper, self.confidence, statement, cells=number)

    def _most_hidden(self) -> float:
        """What a node without cells is estimated to hold at most: a node of the threshold would rather be a cell."""
        return max(self.parameters.shape.thresholds) / 2

    def contract(self, levels: Ints, parents: Ints, gaps: Ints, is_cell: Bools) -> ShownTree:
        """The tree of those nodes that are of shown levels."""
        wanted = np.isin(levels, self.levels)
        return ShownTree(
            np.searchsorted(self.levels, levels[wanted]),
            contracted_parents(parents, wanted),
            gaps[wanted],
            is_cell[wanted],
            len(self.levels),
        )

    def layers(self, shown: ShownTree) -> Layers:
        """What is measured: a function of cells and gaps alone."""
        layers = choose_layers(shown, CellNoise.of(self.contracted), self.epsilon, weights=self.weights)
        if layers.spent() > self.epsilon:
            raise AssertionError("layers must not cost more than was set aside for them")
        return layers

    def describe(
        self, shown: ShownTree, layers: Layers, measured: tuple[Measured, ...], is_leaf: Bools, miss: float
    ) -> tuple[Floats, Bounds]:
        """Estimates and intervals of the shown nodes."""
        estimates = self.estimates(shown, measured, is_leaf)
        bounds = node_bounds(shown, layers, measured, self.contracted, is_leaf=is_leaf, miss=miss)
        return estimates, Bounds(np.minimum(bounds.lower, estimates), np.maximum(bounds.upper, estimates))

    def estimates(self, shown: ShownTree, measured: tuple[Measured, ...], is_leaf: Bools) -> Floats:
        """Estimates of the shown nodes, none below what its cells hold for sure."""
        local = np.full(shown.levels.size, True) if shown.depth <= NAMED else shown.child_counts > 1
        estimates = estimate_nodes(shown, measured, local, is_leaf, CellNoise.of(self.contracted))
        sure = shown.totals(np.where(shown.is_cell, least_people(self.contracted, shown.levels), 0.0))
        return np.maximum(estimates, sure)


def from_above(tree: Tree, upper: Floats) -> Floats:
    """Upper ends, where a node without one of its own has that of the node above."""
    ends = upper.copy()
    for level in tree.levels[1:]:
        endless = level[np.isinf(ends[level])]
        ends[endless] = ends[tree.parents[endless]]
    return ends


def people_at(occupied: Occupied, levels: Ints, places: Ints, wanted: Bools) -> tuple[Ints, Ints]:
    """The people of the wanted nodes, each at a level above a place with people, in halves as `measure` takes them."""
    counts = occupied.counts
    if counts.min(initial=0) < 0 or counts.max(initial=0) > saturate.LIMIT:
        counts = counts.clip(0, saturate.LIMIT)
    found = np.zeros((2, levels.size), dtype=np.int64)
    # Where all of them together fit into one number, the lower half is all.
    fits = int(counts.max(initial=0)) * counts.size <= saturate.LIMIT
    halves = [counts] if fits else saturate.split(counts)
    running = [np.zeros(counts.size + 1, dtype=np.int64) for _ in halves]
    for sums, half in zip(running, halves, strict=True):
        np.cumsum(half, out=sums[1:])
    starts, ends = occupied.ranges_of(places[wanted], levels[wanted])
    for half, sums in zip(found[2 - len(running) :], running, strict=True):
        half[wanted] = sums[ends] - sums[starts]
    return found[0], found[1]


def people_of_tree(tree: Tree, leaf_counts: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """The same for nodes of a public tree."""
    sums = []
    for half in saturate.split(leaf_counts.clip(0, saturate.LIMIT)):
        values = np.zeros(tree.node_count, dtype=np.int64)
        values[tree.leaves] = half
        sums.append(tree.sum_nodes(values)[nodes])
    return sums[0], sums[1]


def spread_rests(tree: Tree, ids: Ints, estimates: Floats, most: Floats) -> Floats:
    """Estimates of all nodes of a public tree: a node that is not shown gets its part of the rest above it."""
    values, leaves = np.zeros(tree.node_count), np.zeros(tree.node_count, dtype=np.int64)
    leaves[tree.leaves] = 1
    leaves = tree.sum_nodes(leaves)
    is_shown = np.zeros(tree.node_count, dtype=np.bool_)
    values[ids], is_shown[ids] = estimates, True
    held, taken = values.copy(), np.where(is_shown, leaves, 0)  # by the nearest shown nodes at or below
    below_held, below_taken = np.zeros(tree.node_count), np.zeros(tree.node_count, dtype=np.int64)
    for level in reversed(tree.levels):
        hidden = level[~is_shown[level]]
        held[hidden], taken[hidden] = below_held[hidden], below_taken[hidden]
        inner = level[tree.parents[level] >= 0]
        np.add.at(below_held, tree.parents[inner], held[inner])
        np.add.at(below_taken, tree.parents[inner], taken[inner])
    part = np.where(is_shown, np.maximum(values - below_held, 0) / np.maximum(leaves - below_taken, 1), 0.0)
    for level in tree.levels[1:]:
        hidden = level[~is_shown[level]]
        part[hidden] = np.minimum(part[tree.parents[hidden]], most[hidden] / leaves[hidden])
        values[hidden] = held[hidden] + part[hidden] * (leaves - taken)[hidden]
    return values


def has_below(tree: Tree, wanted: Bools) -> Bools:
    """Which nodes of a public tree have a wanted one below them."""
    below = np.zeros(tree.node_count, dtype=np.bool_)
    for level in reversed(tree.levels[1:]):
        below[tree.parents[level[wanted[level] | below[level]]]] = True
    return below


def fill_levels(levels: Ints, parents: Ints, wanted: Bools, estimates: Floats, bounds: Bounds) -> tuple[Floats, Bounds]:
    """Numbers for the nodes of other levels too: the sum of those below, which is at most what is above."""
    values, upper, lower = (np.zeros(levels.size) for _ in range(3))
    values[wanted], lower[wanted], upper[wanted] = estimates, bounds.lower, bounds.upper
    others = [np.flatnonzero(~wanted & (levels == level)) for level in np.unique(levels[~wanted]).tolist()]
    for here in others:
        upper[here] = upper[parents[here]]
    summed = np.zeros(levels.size)
    for level in reversed(range(1, int(levels.max(initial=0)) + 1)):
        here = np.flatnonzero(levels == level)
        values[here] = np.where(wanted[here], values[here], np.minimum(summed[here], upper[here]))
        np.add.at(summed, parents[here], values[here])
    return values, Bounds(lower, upper)
