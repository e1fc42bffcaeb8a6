"""Least squares on a tree: the best consistent estimates from noisy node counts, and their exact variances.

Two passes, each vectorised by level. Up: what the nodes at and below v say of v. Down: what the rest of the tree adds.
The weights depend on the tree and the variances alone, so they are made once. Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.tree import Tree

__all__ = ["LeastSquares", "Level", "TreeLayout", "check_variances"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)

LEAST_VARIANCE, LARGEST_VARIANCE = 1e-100, 1e100
_NEARLY_ALL = 0.99


@dataclass(frozen=True)
class Level:
    """The inner nodes of one level and their children, as places in breadth-first order."""

    inner: slice | Ints
    children: slice
    starts: Ints
    """Where each inner node's children begin, counted from the first child."""
    sizes: Ints

    def sums(self, values: Floats) -> Floats:
        """For each inner node the sum over its children."""
        below = values[self.children]
        if 2 * self.sizes.size == below.size and (self.sizes == 2).all():
            return below[::2] + below[1::2]  # many times faster than reduceat
        total: Floats = np.add.reduceat(below, self.starts)
        return total

    def spread(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """For each child its parent's value."""
        return np.repeat(values, self.sizes)


@dataclass(frozen=True)
class TreeLayout:
    """A tree in breadth-first order, where the children of a node, and the nodes of a level, lie side by side."""

    tree: Tree
    order: Ints | None
    """The node at each place; None where places are node ids."""
    levels: tuple[Level, ...]
    """From the root down; the deepest level has no inner nodes and is left out."""

    @classmethod
    def of(cls, tree: Tree) -> TreeLayout:
        """The layout of a tree."""
        place = np.empty(tree.node_count, dtype=np.int64)
        order = np.empty(tree.node_count, dtype=np.int64)
        levels: list[Level] = []
        order[0], place[tree.root] = tree.root, 0
        before, end = 0, 1
        for ids in tree.levels[1:]:
            start, end = end, end + ids.size
            nodes, above = ids, place[tree.parents[ids]]
            if (above[1:] < above[:-1]).any():
                by_parent = np.argsort(above, kind="stable")
                nodes, above = ids[by_parent], above[by_parent]
            order[start:end] = nodes
            place[nodes] = np.arange(start, end)
            is_first = np.concatenate(([True], above[1:] != above[:-1]))
            starts = np.flatnonzero(is_first)
            whole = starts.size == start - before
            inner = slice(before, start) if whole else above[starts]
            levels.append(Level(inner, slice(start, end), starts, np.diff(starts, append=nodes.size)))
            before = start
        same = bool((order == np.arange(order.size)).all())
        return cls(tree, None if same else order, tuple(levels))

    def place(self, values: Floats) -> Floats:
        """Values by node id, put in breadth-first order: always a copy."""
        return values.copy() if self.order is None else values[self.order]

    def by_node(self, values: Floats) -> Floats:
        """Values in breadth-first order, put by node id."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out


@dataclass(frozen=True)
class LeastSquares:
    """The best linear unbiased estimator for one tree and one set of variances."""

    layout: TreeLayout
    measured: npt.NDArray[np.bool_] | None
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
    def of(cls, tree: Tree | TreeLayout, variances: Floats) -> LeastSquares:
        """The estimator for checked variances by node id; `inf` where a node was not measured."""
        layout = tree if isinstance(tree, TreeLayout) else TreeLayout.of(tree)
        given = layout.place(variances)
        measured = np.isfinite(given)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, trust, keep = _upward(layout, given)
            share, final = _downward(layout, below)
        heavy = tuple(_heavy(level, share) for level in layout.levels)
        weak = tuple(_weak(level, keep) for level in layout.levels)
        known = None if measured.all() else measured
        return cls(layout, known, below, trust, keep, share, heavy, weak, layout.by_node(final))

    def solve(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The estimates, by node id, from measurements by node id; what stands at unmeasured nodes is not read."""
        return self.layout.by_node(self.descend(*self.ascend(self.place(measurements))))

    def place(self, measurements: npt.NDArray[np.number]) -> Floats:
        """The measurements in breadth-first order, with 0 where there is none: always a copy."""
        values = self.layout.place(np.asarray(measurements, dtype=np.float64))
        if self.measured is not None:
            values[~self.measured] = 0.0
        return values

    def ascend(self, values: Floats) -> tuple[Floats, list[Floats]]:
        """Each place's best estimate from the nodes at and below it, in place, and the sums over children."""
        sums: list[Floats] = []
        for level, (weak, parents) in zip(reversed(self.layout.levels), reversed(self.weak), strict=True):
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
        """The final estimates from what `ascend` gives, in place."""
        for level, total, (heavy, parents) in zip(self.layout.levels, sums, self.heavy, strict=True):
            lacking = level.spread(values[level.inner] - total)
            lacking *= self.share[level.children]
            values[level.children] += lacking
            if heavy.size:  # what its siblings leave, rather than a huge value less a huge correction
                values[heavy] = 0.0
                values[heavy] = (values[level.inner] - level.sums(values))[parents]
        return values


def _heavy(level: Level, share: Floats) -> tuple[Ints, Ints]:
    found = np.flatnonzero(share[level.children] > _NEARLY_ALL)
    return found + level.children.start, np.searchsorted(level.starts, found, side="right") - 1


def _weak(level: Level, keep: Floats) -> tuple[Ints, Ints]:
    found = np.flatnonzero((keep[level.inner] > 0) & (keep[level.inner] < 1 - _NEARLY_ALL))
    return found + level.inner.start if isinstance(level.inner, slice) else level.inner[found], found


def _upward(layout: TreeLayout, given: Floats) -> tuple[Floats, Floats, Floats]:
    below, trust, keep = given.copy(), np.zeros_like(given), np.ones_like(given)
    for level in reversed(layout.levels):
        from_children, own = 1 / level.sums(below), 1 / given[level.inner]
        total = own + from_children
        below[level.inner] = 1 / total
        trust[level.inner] = np.where(total > 0, from_children / total, 0.0)
        keep[level.inner] = np.where(total > 0, own / total, 1.0)
    return below, trust, keep


def _downward(layout: TreeLayout, below: Floats) -> tuple[Floats, Floats]:
    share, final = np.zeros_like(below), below.copy()
    if np.isinf(below[0]):
        _undetermined(layout, 0)
    for level in layout.levels:
        own, total = below[level.children], level.spread(level.sums(below))
        unknown = np.isinf(own)
        many = np.add.reduceat(unknown.astype(np.int64), level.starts) > 1
        if many.any():
            _undetermined(layout, level.children.start + int(np.flatnonzero(level.spread(many) & unknown)[0]))
        part = np.where(unknown, 1.0, own / total)
        # The siblings' sum, without cancellation where one child outweighs all others.
        heavy = unknown | (2 * own > total)
        rest = level.spread(np.add.reduceat(np.where(heavy, 0.0, own), level.starts))
        siblings = np.where(heavy, rest, total - own)
        alone = np.where(np.isinf(siblings), own, part * siblings)
        final[level.children] = alone + part * part * level.spread(final[level.inner])
        share[level.children] = part
    return share, final


def _undetermined(layout: TreeLayout, place: int) -> None:
    node = place if layout.order is None else int(layout.order[place])
    raise ValueError(
        f"variances leave node {node} undetermined. Hint: measure it, or all nodes below it, or its parent and siblings"
    )


def check_variances(tree: Tree, variances: object, *, name: str = "variances") -> Floats:
    """Variances by node id, from one number for each node or one for each level; `inf` says "not measured".

    A chain has as many levels as nodes: there the numbers are read by node id.
    """
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
