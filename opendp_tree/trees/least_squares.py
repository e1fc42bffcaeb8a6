"""Least squares on a tree: the best consistent estimates from noisy node counts, and their exact variances.

Two passes, each vectorised by level. Up: what the nodes at and below v say of v. Down: what the rest of the tree adds.
The weights depend on the tree and the variances alone, so they are made once. Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.trees.arrays import InnerLevel, LevelOrder
from opendp_tree.trees.tree import Tree

LEAST_VARIANCE, LARGEST_VARIANCE = 1e-100, 1e100
_NEARLY_ALL = 0.99


@dataclass(frozen=True)
class LeastSquares:
    """The best linear unbiased estimator for one tree and one set of variances."""

    order: LevelOrder
    measured: Bools | None
    """Which places carry a measurement; None if all do."""
    below: Floats
    """At each place the variance of the best estimate from the nodes at and below it."""
    trust: Floats
    """At each inner place, the weight of its children's sum against its own measurement."""
    keep: Floats
    """At each inner place, the weight of its own measurement: 1 - trust, without cancellation."""
    share: Floats
    """At each place below the root, the part that it takes of what its parent's children lack."""
    heavy: tuple[tuple[Ints, Ints], ...]
    """For each level the children that take nearly all of it, as places, and which inner node is their parent."""
    weak: tuple[tuple[Ints, Ints], ...]
    """For each level the inner nodes whose own measurement has hardly any weight, as places, and which they are."""
    variances: Floats
    """The variance of each node's estimate, by node id."""

    @classmethod
    def of(cls, tree: Tree, variances: Floats) -> LeastSquares:
        """The estimator for one tree."""
        order = tree.level_order
        given = order.place(variances)
        measured = np.isfinite(given)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, trust, keep = _upward(order, given)
            share, final = _downward(order, below)
        heavy = tuple(_heavy(level, share) for level in order.inner_levels)
        weak = tuple(_weak(level, keep) for level in order.inner_levels)
        known = None if measured.all() else measured
        return cls(order, known, below, trust, keep, share, heavy, weak, order.by_node(final))

    def solve(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The estimates, by node id."""
        return self.order.by_node(self.descend(*self.ascend(self.place(measurements))))

    def place(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The measurements in the level order, with 0 where there is none: always a copy."""
        given = np.asarray(measurements, dtype=np.float64)
        values = given.copy() if self.order.by_id else self.order.place(given)
        if self.measured is not None:
            values[~self.measured] = 0.0
        return values

    def ascend(self, values: Floats) -> tuple[Floats, list[Floats]]:
        """Each place's best estimate from the nodes at and below it, and for each level the sums over children."""
        sums: list[Floats] = []
        for level, (weak, parents) in zip(reversed(self.order.inner_levels), reversed(self.weak), strict=True):
            total = level.sums(values)
            gap = total - values[level.inner]
            gap *= self.trust[level.inner]
            if weak.size:  # a huge value of tiny weight: two products, not a step from it towards the sum
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
            if heavy.size:  # what its siblings leave, rather than a huge value less a huge correction
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
        # The siblings' sum, without cancellation where one child outweighs all others.
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
    try:
        given = np.array(variances)
    except ValueError:
        given = np.array(None)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, one for each level or one for each node")
    given = given.astype(np.float64)
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
