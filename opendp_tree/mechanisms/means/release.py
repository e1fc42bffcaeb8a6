"""From leaf values to a release with sums and means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from opendp_tree import saturate
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.mechanisms.means.estimates import estimate_centred
from opendp_tree.mechanisms.means.intervals import Union, ValueBounds, pair_bounds, value_bounds
from opendp_tree.mechanisms.means.layers import (
    NodeSums,
    Pairs,
    SumScales,
    counts_of_pairs,
    measure_centred,
    measure_pairs,
    noisy_pairs,
)
from opendp_tree.mechanisms.partition.intervals import SAFE, Bounds, node_bounds
from opendp_tree.mechanisms.partition.layers import NAMED, Layer, Measured, ShownTree
from opendp_tree.mechanisms.partition.release import Described, FindThenMeasure, people_at
from opendp_tree.mechanisms.partition.walk import find_cells
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.releases.values import NodeValues
from opendp_tree.rows.leaf_values import LeafValues
from opendp_tree.rows.value import Value
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.tree_means import STEPS, sums_epsilon
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree


@dataclass(frozen=True)
class OpenMeans:
    """Find cells, then measure pairs in the layers above them and centred sums of what each shown node holds alone."""

    find: FindThenMeasure
    """Its epsilon is what the layers of pairs may cost."""
    cells: Fraction
    """What the centred sums may cost."""
    values: tuple[Value, ...]
    shares: tuple[Fraction, ...]

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """Nodes with a cell at or below them."""
        counts, find = data.counts, self.find
        assert isinstance(counts, SparseCounts)

        def described(shown: ShownTree, levels: Ints, places: Ints) -> Described:
            return self.describe(shown, _sums_at(data, counts, levels, places))

        return find.release_of(counts, find_cells(counts.occupied, find.parameters), statement, described)

    def describe(self, shown: ShownTree, sums: tuple[NodeSums, ...]) -> Described:
        """Measures, and says what comes of it: counts with their intervals, then sums and means."""
        find, miss = self.find, 1 - self.find.confidence
        layers = find.layers(shown)
        scales = SumScales.of(layers, self.shares, self.cells)
        if scales.spent() > find.epsilon + self.cells:
            raise AssertionError("layers must not cost more than was set aside for them")
        pairs, centred = measure_pairs(layers, scales, sums), measure_centred(shown, scales, sums)
        measured = counts_of_pairs(pairs)
        is_leaf: Bools = shown.levels == shown.depth - 1
        estimates, bounds = find.describe(shown, layers, measured, is_leaf, miss)
        rarely = node_bounds(shown, layers, measured, find.contracted, is_leaf=is_leaf, miss=miss / 2)
        local = np.full(shown.levels.size, True) if shown.depth <= NAMED else shown.child_counts > 1
        values = tuple(
            _told(
                value,
                estimates,
                estimate_centred(shown, part, alone, local),
                value_bounds(shown, value, part, alone, rarely, miss),
            )
            for value, part, alone in zip(self.values, pairs, centred, strict=True)
        )
        return estimates, bounds, values


@dataclass(frozen=True)
class PublicMeans:
    """Pairs at every node of a public tree, level by level, and least squares."""

    tree: Tree
    scales: tuple[tuple[float, ...], ...]
    """For each level and each value that of a pair's noise."""
    values: tuple[Value, ...]
    confidence: float

    @classmethod
    def of(
        cls,
        tree: Tree,
        epsilon: Fraction,
        weights: tuple[float, ...],
        values: tuple[Value, ...],
        shares: tuple[Fraction, ...],
        confidence: float,
    ) -> PublicMeans:
        """Scales at which all levels together cost at most epsilon, in proportion to their weights."""
        total = sum((Fraction(weight) for weight in weights), Fraction(0))
        scales = tuple(
            tuple(round_up(STEPS * total / (epsilon * Fraction(weight) * share)) for share in shares)
            for weight in weights
        )
        return cls(tree, scales, values, confidence)

    def spent(self) -> Fraction:
        """What all levels cost one row, exactly."""
        return sums_epsilon(1, pairs=[Fraction(scale) for level in self.scales for scale in level])

    def release(self, data: LeafValues, statement: PrivacyStatement) -> TreeRelease:
        """All nodes."""
        assert isinstance(data.counts, np.ndarray)
        rows = self._totals(data.people)
        pairs: list[list[Pairs]] = [[] for _ in self.values]
        for number, nodes in enumerate(self.tree.levels):
            layer = Layer(nodes, nodes[:0], self.scales[number][0])
            for place, steps in enumerate(data.sums):
                part = NodeSums(rows[nodes], self._totals(steps)[nodes])
                pairs[place].append(noisy_pairs(layer, self.scales[number][place], part))
        estimates, bounds = self._counts(counts_of_pairs(pairs))
        values = tuple(
            _told(value, estimates, self._centred(part), self._bounds(value, part))
            for value, part in zip(self.values, pairs, strict=True)
        )
        return TreeRelease(self.tree, estimates, bounds.lower, bounds.upper, self.confidence, statement, values=values)

    def _totals(self, leaves: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
        at = np.zeros(self.tree.node_count, dtype=np.int64)
        at[self.tree.leaves] = leaves
        return self.tree.sum_nodes(at)

    def _by_node(self, parts: list[Floats]) -> Floats:
        found = np.empty(self.tree.node_count)
        for nodes, part in zip(self.tree.levels, parts, strict=True):
            found[nodes] = part
        return found

    def _counts(self, measured: tuple[Measured, ...]) -> tuple[Floats, Bounds]:
        """Counts and their intervals, each from the node's own pairs."""
        noisy = self._by_node([np.asarray(part.whole) for part in measured])
        variances = self._by_node([np.full(part.whole.size, 2 * part.layer.scale**2) for part in measured])
        estimates = LeastSquares.of(self.tree, variances).solve(noisy)
        one, chance = np.ones(1, dtype=np.int64), (1 - self.confidence) / 2 * SAFE
        reach = self._by_node([np.full(part.whole.size, part.layer.reach(one, chance)) for part in measured])
        lower, upper = np.maximum(noisy - reach, 0.0), np.maximum(noisy + reach, 0.0)
        return estimates, Bounds(np.minimum(lower, estimates), np.maximum(upper, estimates))

    def _centred(self, pairs: list[Pairs]) -> Floats:
        """Least squares of the centred sums, in half ranges."""
        variances = self._by_node([np.full(part.high.size, 4 * (part.scale / STEPS) ** 2) for part in pairs])
        noisy = self._by_node([(part.high - part.low) / STEPS for part in pairs])
        return LeastSquares.of(self.tree, variances).solve(noisy)

    def _bounds(self, value: Value, pairs: list[Pairs]) -> ValueBounds:
        size = self.tree.node_count
        union = Union(
            np.full(size, True),
            self._by_node([part.high.astype(np.float64) for part in pairs]),
            self._by_node([part.low.astype(np.float64) for part in pairs]),
            np.ones(size, dtype=np.int64),
            self._by_node([np.full(part.high.size, part.scale) for part in pairs]),
        )
        empty = Bounds(np.zeros(size), np.zeros(size))
        return pair_bounds(value, union, 1 - self.confidence, ValueBounds(empty, empty))


def _sums_at(
    data: LeafValues, counts: SparseCounts, levels: np.typing.NDArray[np.int64], places: np.typing.NDArray[np.int64]
) -> tuple[NodeSums, ...]:
    """For each value the sums of all rows at or below each node."""
    everywhere = np.ones(levels.size, dtype=np.bool_)

    def totals(numbers: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
        return saturate.join(*people_at(replace(counts.occupied, counts=numbers), levels, places, everywhere))

    rows = totals(data.people)
    return tuple(NodeSums(rows, totals(steps)) for steps in data.sums)


def _told(value: Value, counts: Floats, centred: Floats, bounds: ValueBounds) -> NodeValues:
    """Sums and means from counts and centred sums, with intervals that hold them."""
    middle, half = (value.low + value.high) / 2, (value.high - value.low) / 2
    sums = middle * counts + half * centred
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of no rows at all, nothing is known but the bounds.
        ratio = np.where(counts > 0, centred / np.where(counts > 0, counts, 1.0), 0.0).clip(-1, 1)
    means = (middle + half * ratio).clip(value.low, value.high)
    return NodeValues(
        value.column,
        value.low,
        value.high,
        sums,
        np.minimum(bounds.sums.lower, sums),
        np.maximum(bounds.sums.upper, sums),
        means,
        np.minimum(bounds.means.lower, means),
        np.maximum(bounds.means.upper, means),
    )
