"""A balanced tree over the segments of a line: least squares for running totals, and the variance of any range.

All leaves are on one level, so that ranges are vectorised: a range meets two paths of the tree, and a step from one
level to the next is the same arithmetic for all of them. Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import Tree

_TILTS = np.array([*np.linspace(0.02, 0.98, 33), 0.99, 0.995])
"""Parts of the rate at which noise stops having moments: each gives a bound, the least is taken."""
_OUTWARD = 2.0**-40
"""Relative: floats are right to within much less."""


@dataclass(frozen=True)
class SegmentTree:
    """The levels of a balanced tree with its segments as leaves, and the scale of the noise on each level."""

    sizes: tuple[int, ...]
    scales: tuple[float, ...]

    @classmethod
    def of(cls, segments: int, *, scale: float, branching: int, root_weight: Fraction) -> SegmentTree:
        """The tree of least depth below which no node has more than `branching` children, evenly filled."""
        levels = 1
        while branching**levels < segments:
            levels += 1
        fan = max(1, math.floor(segments ** (1 / levels)) - 1)
        while fan**levels < segments:
            fan += 1
        sizes = [segments]
        for _ in range(levels):
            sizes.append(-(-sizes[-1] // fan))
        whole = Fraction(scale) * (root_weight + levels)
        return cls(tuple(reversed(sizes)), (round_up(whole / root_weight), *[round_up(whole)] * levels))

    @property
    def segments(self) -> int:
        """The number of leaves."""
        return self.sizes[-1]

    @cached_property
    def starts(self) -> tuple[Ints, ...]:
        """For each level the first segment below each of its nodes, and the number of segments at the end."""
        bounds = [np.arange(self.segments + 1)]
        for above, size in zip(reversed(self.sizes[:-1]), reversed(self.sizes[1:]), strict=True):
            first = -(-np.arange(above + 1) * size // above)  # node i has the children j with i = j * above // size
            bounds.append(bounds[-1][first])
        return tuple(reversed(bounds))

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        """For each level but the root's the place of each node's parent on the level above."""
        return tuple(
            np.arange(size) * above // size for above, size in zip(self.sizes[:-1], self.sizes[1:], strict=True)
        )

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *np.cumsum(self.sizes).tolist()]

    @cached_property
    def solver(self) -> LeastSquares:
        """Least squares for the noise of the levels, whose variances are taken as twice the squares of their scales."""
        above = [parents + offset for parents, offset in zip(self.parents, self._offsets, strict=False)]
        tree = Tree.from_parents(np.concatenate([np.array([-1]), *above]))
        variances = np.repeat([2 * scale * scale for scale in self.scales], self.sizes)
        return LeastSquares.of(tree, variances)

    def running_totals(self, noisy: Ints) -> Floats:
        """The best linear estimates of the count before each segment, and of all at the end."""
        leaves = self.solver.solve(noisy)[self._offsets[-2] :]
        return np.concatenate(([0.0], np.cumsum(leaves)))

    @cached_property
    def largest_step(self) -> float:
        """No noise has more weight, times its scale, in any range less any share of the total."""
        scales = np.repeat(self.scales, self.sizes)
        found: float = (self.solver.variances / (2 * scales)).max()
        return found * (1 + _OUTWARD)

    def variances(self, first: Ints, last: Ints, share: float | Floats = 0.0) -> Floats:
        """The variance of the estimated count of segments first..last-1, less a share of the estimated total."""
        slope, scatter = self._parts(first, last)
        found: Floats = np.maximum((slope - share) ** 2 * self.solver.variances[0] + scatter, 0.0)
        return found

    def _parts(self, first: Ints, last: Ints) -> tuple[Floats, Floats]:
        """What part of the total each range takes, and the variance of the rest, which no error of the total enters."""
        edges = [_Edge.at(place, self.segments) for place in (first, last)]
        scatter = np.zeros(np.shape(first))
        for level in range(len(self.sizes) - 1, 0, -1):
            nodes = slice(self._offsets[level], self._offsets[level + 1])
            family = _Family.of(self.parents[level - 1], self.solver.share[nodes], self.solver.below[nodes])
            left, right = edges
            above = [edge.above(family) for edge in edges]
            same = above[0].node == above[1].node
            apart = family.scatter(left, above[0]) + family.scatter(right, above[1])
            scatter = scatter + np.where(same, family.joint_scatter(edges, above), apart)
            edges = above
        return edges[1].slope - edges[0].slope, scatter


@dataclass(frozen=True)
class _Edge:
    """Prefixes that end inside or beside a node of one level: the node, and the part of it that they take."""

    node: Ints
    slope: Floats

    @classmethod
    def at(cls, place: Ints, segments: int) -> _Edge:
        return cls(np.minimum(place, segments - 1), (place == segments).astype(np.float64))

    def above(self, family: _Family) -> _Edge:
        return _Edge(family.parent[self.node], family.share_before[self.node] + family.share[self.node] * self.slope)


@dataclass(frozen=True)
class _Family:
    """The nodes of one level among their siblings."""

    parent: Ints
    share: Floats
    share_before: Floats
    """What siblings to the left take of what the parent's children lack."""
    below: Floats
    below_before: Floats
    below_total: Floats

    @classmethod
    def of(cls, parent: Ints, share: Floats, below: Floats) -> _Family:
        starts = np.searchsorted(parent, parent)
        sums = [np.concatenate(([0.0], np.cumsum(part))) for part in (share, below)]
        before = [total[:-1] - total[starts] for total in sums]
        ends = np.searchsorted(parent, parent, side="right")
        return cls(parent, share, before[0], below, before[1], sums[1][ends] - sums[1][starts])

    def scatter(self, edge: _Edge, above: _Edge) -> Floats:
        """The variance that a prefix gains among the children of one node."""
        node, slope = edge.node, above.slope
        before, own = self.below_before[node], self.below[node]
        after = self.below_total[node] - before - own
        return before * (1 - slope) ** 2 + own * (edge.slope - slope) ** 2 + after * slope**2

    def joint_scatter(self, edges: list[_Edge], above: list[_Edge]) -> Floats:
        """The same for a range both of whose ends lie in one node."""
        (left, right), taken = edges, above[1].slope - above[0].slope
        same: Bools = left.node == right.node
        before, own = self.below_before[left.node], self.below[left.node]
        inside = self.below_before[right.node] - before - own
        after = self.below_total[right.node] - self.below_before[right.node] - self.below[right.node]
        apart = (
            own * (1 - left.slope - taken) ** 2
            + inside * (1 - taken) ** 2
            + self.below[right.node] * (right.slope - taken) ** 2
        )
        return (before + after) * taken**2 + np.where(same, own * (right.slope - left.slope - taken) ** 2, apart)


def tail_reach(variances: Floats, *, largest_step: float, chance: float) -> Floats:
    """What a weighted sum of integer Laplace noises exceeds, on one side, with at most this chance."""
    with np.errstate(under="ignore"):
        moments = -np.log1p(-(_TILTS**2)) / (2 * largest_step)
        bounds = (largest_step * -math.log(chance) + np.asarray(variances)[..., None] * moments) / _TILTS
    found: Floats = bounds.min(axis=-1) * (1 + _OUTWARD)
    return found


def rising(values: Floats) -> Floats:
    """The nearest numbers, in squares, that never fall: runs that do are pooled until none is left."""
    sums, counts = values.astype(np.float64), np.ones(values.size)
    while True:
        means = sums / counts
        firsts = np.flatnonzero(np.append(True, means[1:] >= means[:-1]))
        if firsts.size == sums.size:
            return np.repeat(means, counts.astype(np.int64))
        sums, counts = np.add.reduceat(sums, firsts), np.add.reduceat(counts, firsts)
