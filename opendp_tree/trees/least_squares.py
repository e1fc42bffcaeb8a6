"""Least squares on a tree: the best consistent estimates from noisy node counts, and their exact variances.

One pass up combines each node with the nodes below it; one pass down adds the rest of the tree. The weights depend on
the tree and the variances alone. Proof: docs/proofs/tree_noise.md. `SegmentTree` does the same along a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_numbers
from opendp_tree._types import Floats, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.trees.tree import InnerLevel, LevelOrder, Tree, fewest_children

LEAST_VARIANCE, LARGEST_VARIANCE = 1e-100, 1e100
_NEARLY_ALL = 0.99
_TILTS = np.array([*np.linspace(0.02, 0.98, 33), 0.99, 0.995])
"""Fractions of the rate at which the noise stops having moments. Each gives a bound; the least is taken."""
_OUTWARD = 2.0**-40
"""A relative margin, much larger than the rounding errors of floats."""


@dataclass(frozen=True)
class LeastSquares:
    """The best linear unbiased estimator for one tree and one set of variances."""

    order: LevelOrder
    unmeasured: Ints
    """The places without a measurement."""
    below: Floats
    """At each place the variance of the best estimate from the nodes at and below it."""
    trust: Floats
    """At each inner place, the weight of its children's sum."""
    keep: Floats
    """At each inner place, the weight of its own measurement: 1 - trust, without cancellation."""
    share: Floats
    """At each place below the root, its share of the difference between its parent and its parent's children."""
    heavy: tuple[tuple[Ints, Ints], ...]
    """For each level the children whose share is nearly 1, as places, and the index of their parent."""
    weak: tuple[tuple[Ints, Ints], ...]
    """For each level the inner nodes whose own measurement has a tiny weight, as places, and their index."""
    variances: Floats
    """The variance of each node's estimate, by node id."""

    @classmethod
    def of(cls, tree: Tree, variances: Floats) -> LeastSquares:
        """The estimator for one tree."""
        order = tree.level_order
        given = order.place(variances)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, trust, keep = _upward(order, given)
            share, final = _downward(order, below)
        heavy = tuple(_heavy(level, share) for level in order.inner_levels)
        weak = tuple(_weak(level, keep) for level in order.inner_levels)
        unmeasured = np.flatnonzero(np.isinf(given))
        return cls(order, unmeasured, below, trust, keep, share, heavy, weak, order.by_node(final))

    def solve(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The estimates, by node id."""
        return self.order.by_node(self.descend(*self.ascend(self.place(measurements))))

    def place(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The measurements in the level order, with 0 where there is none: always a copy."""
        given = np.asarray(measurements, dtype=np.float64)
        values = given.copy() if self.order.by_id else self.order.place(given)
        values[self.unmeasured] = 0.0
        return values

    def ascend(self, values: Floats) -> tuple[Floats, list[Floats]]:
        """Each place's best estimate from the nodes at and below it, and for each level the sums over children."""
        sums: list[Floats] = []
        for level, (weak, parents) in zip(reversed(self.order.inner_levels), reversed(self.weak), strict=True):
            total = level.sums(values)
            gap = total - values[level.inner]  # a step towards the sum leaves consistent measurements as they are
            gap *= self.trust[level.inner]
            if weak.size:  # two products: a step from a huge value of tiny weight would cancel
                own = values[weak] * self.keep[weak] + self.trust[weak] * total[parents]
            values[level.inner] += gap
            if weak.size:
                values[weak] = own
            sums.append(total)
        return values, sums[::-1]

    def descend(self, values: Floats, sums: list[Floats]) -> Floats:
        """The final estimates, in the level order."""
        for level, total, (heavy, parents) in zip(self.order.inner_levels, sums, self.heavy, strict=True):
            lacking = level.spread(values[level.inner] - total)
            lacking *= self.share[level.children]
            values[level.children] += lacking
            if heavy.size:  # the parent less the siblings: a huge value less a huge correction would cancel
                values[heavy] = 0.0
                values[heavy] = (values[level.inner] - level.sums(values))[parents]
        return values


def _heavy(level: InnerLevel, share: Floats) -> tuple[Ints, Ints]:
    taking = np.flatnonzero(share[level.children] > _NEARLY_ALL)
    return taking + level.children.start, np.searchsorted(level.starts, taking, side="right") - 1


def _weak(level: InnerLevel, keep: Floats) -> tuple[Ints, Ints]:
    which = np.flatnonzero((keep[level.inner] > 0) & (keep[level.inner] < 1 - _NEARLY_ALL))
    return which + level.inner.start if isinstance(level.inner, slice) else level.inner[which], which


def _upward(order: LevelOrder, given: Floats) -> tuple[Floats, Floats, Floats]:
    below, trust, keep = given.copy(), np.zeros_like(given), np.ones_like(given)
    for level in reversed(order.inner_levels):
        from_children, own = 1 / level.sums(below), 1 / given[level.inner]
        total = own + from_children
        below[level.inner] = 1 / total
        trust[level.inner] = np.where(total > 0, from_children / total, 0.0)
        keep[level.inner] = np.where(total > 0, own / total, 1.0)
    return below, trust, keep


def _downward(order: LevelOrder, below: Floats) -> tuple[Floats, Floats]:
    share, final = np.zeros_like(below), below.copy()
    if np.isinf(below[0]):
        _undetermined(order, 0)
    for level in order.inner_levels:
        own, total = below[level.children], level.spread(level.sums(below))
        unknown = np.isinf(own)
        many = np.add.reduceat(unknown.astype(np.int64), level.starts) > 1
        if many.any():
            _undetermined(order, level.children.start + int(np.flatnonzero(level.spread(many) & unknown)[0]))
        part = np.where(unknown, 1.0, own / total)
        # The sum of the siblings, without cancellation where one child outweighs all others.
        heavy = unknown | (2 * own > total)
        rest = level.spread(np.add.reduceat(np.where(heavy, 0.0, own), level.starts))
        siblings = np.where(heavy, rest, total - own)
        alone = np.where(np.isinf(siblings), own, part * siblings)
        final[level.children] = alone + part * part * level.spread(final[level.inner])
        share[level.children] = part
    return share, final


def _undetermined(order: LevelOrder, place: int) -> None:
    raise ValueError(
        f"variances leave node {int(order.nodes[place])} undetermined. "
        "Hint: measure it, or all nodes below it, or its parent and siblings"
    )


def check_variances(tree: Tree, variances: object, *, name: str = "variances") -> Floats:
    """Variances by node id."""
    given = check_numbers(variances, name=name, hint="one for each level or one for each node").astype(np.float64)
    if given.shape not in ((tree.depth,), (tree.node_count,)):
        raise ValueError(
            f"{name} (of shape {given.shape}) must hold one number for each of the {tree.depth} levels, "
            f"or one for each of the {tree.node_count} nodes"
        )
    wrong = np.flatnonzero(~((given >= LEAST_VARIANCE) & (given <= LARGEST_VARIANCE) | (given == np.inf)))
    if wrong.size:
        place = int(wrong[0])
        raise ValueError(
            f"{name}[{place}] ({given[place]}) must be from {LEAST_VARIANCE} to {LARGEST_VARIANCE}, "
            "or inf where nothing was measured"
        )
    return given if given.size == tree.node_count else given[tree.node_levels]


@dataclass(frozen=True)
class SegmentTree:
    """A balanced tree over the segments of a line, all on one level, and the scale of the noise on each level.

    Ranges are vectorised: a step from one level to the next is the same arithmetic for all. Proof:
    docs/proofs/quantiles.md.
    """

    sizes: tuple[int, ...]
    scales: tuple[float, ...]

    @classmethod
    @lru_cache(maxsize=16)  # its least squares is worth keeping, for groups above all
    def of(cls, segments: int, *, scale: float, branching: int, root_weight: Fraction) -> SegmentTree:
        """The evenly filled tree of least depth whose nodes have at most `branching` children."""
        levels, fan = fewest_children(segments, branching)
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
        """For each level but the root's, the index of each node's parent on the level above."""
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
        """A bound on the weight times the scale of any noise, in any range less any share of the total."""
        steps = self.solver.variances / (2 * np.repeat(self.scales, self.sizes))
        return float(steps.max()) * (1 + _OUTWARD)

    def variances(self, first: Ints, last: Ints, share: float | Floats = 0.0) -> Floats:
        """The variance of the estimated count of segments first..last-1, less a share of the estimated total."""
        slope, scatter = self._parts(first, last)
        return np.asarray(np.maximum((slope - share) ** 2 * self.solver.variances[0] + scatter, 0.0))

    def _parts(self, first: Ints, last: Ints) -> tuple[Floats, Floats]:
        """The share of the total that each range takes, and the variance of the rest, independent of the total."""
        # A range is one prefix less another. For each prefix: the node of the level that it ends in or beside, and
        # the part of that node that it takes.
        nodes = [np.minimum(edge, self.segments - 1) for edge in (first, last)]
        taken = [(edge == self.segments).astype(np.float64) for edge in (first, last)]
        scatter = np.zeros(np.shape(first))
        for level in range(len(self.sizes) - 1, 0, -1):
            here, parent = slice(self._offsets[level], self._offsets[level + 1]), self.parents[level - 1]
            share, below = self.solver.share[here], self.solver.below[here]
            starts, ends = np.searchsorted(parent, parent), np.searchsorted(parent, parent, side="right")
            shares, sums = (np.concatenate(([0.0], np.cumsum(part))) for part in (share, below))
            above = [shares[at] - shares[starts[at]] + share[at] * part for at, part in zip(nodes, taken, strict=True)]
            before = [sums[at] - sums[starts[at]] for at in nodes]
            after = [sums[ends[at]] - sums[at + 1] for at in nodes]
            prefixes = [
                before[edge] * (1 - above[edge]) ** 2
                + below[nodes[edge]] * (taken[edge] - above[edge]) ** 2
                + after[edge] * above[edge] ** 2
                for edge in (0, 1)
            ]
            # The same for both ends at once, where they lie below one node.
            (left, right), whole = nodes, above[1] - above[0]
            apart = (
                below[left] * (1 - taken[0] - whole) ** 2
                + (sums[right] - sums[left + 1]) * (1 - whole) ** 2
                + below[right] * (taken[1] - whole) ** 2
            )
            inner = np.where(left == right, below[left] * (taken[1] - taken[0] - whole) ** 2, apart)
            joint = (before[0] + after[1]) * whole**2 + inner
            scatter = scatter + np.where(parent[left] == parent[right], joint, prefixes[0] + prefixes[1])
            nodes, taken = [parent[at] for at in nodes], above
        return taken[1] - taken[0], scatter


def tail_reach(variances: Floats, *, largest_step: float, chance: float) -> Floats:
    """What a weighted sum of integer Laplace noises exceeds, on one side, with at most this probability."""
    with np.errstate(under="ignore"):
        moments = -np.log1p(-(_TILTS**2)) / (2 * largest_step)
        bounds = (largest_step * -math.log(chance) + np.asarray(variances)[..., None] * moments) / _TILTS
    return np.asarray(bounds.min(axis=-1) * (1 + _OUTWARD))


def rising(values: Floats) -> Floats:
    """The non-decreasing numbers nearest in squared error: falling runs are pooled until none is left."""
    sums, counts = values.astype(np.float64), np.ones(values.size)
    while True:
        means = sums / counts
        firsts = np.flatnonzero(np.append(True, means[1:] >= means[:-1]))
        if firsts.size == sums.size:
            return np.repeat(means, counts.astype(np.int64))
        sums, counts = np.add.reduceat(sums, firsts), np.add.reduceat(counts, firsts)
