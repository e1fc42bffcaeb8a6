"""What a tree's parents determine: levels and ranges, by pointer doubling, and the order of its nodes by level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Floats, Ints

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree


def check_parents(parents: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ints:
    """A private copy of `parents`, once it is sure to hold one root and valid ids (cycles are seen later)."""
    given = np.asarray(parents)
    if given.size == 0:
        raise ValueError("parents must hold at least one node")
    if given.ndim != 1:
        raise ValueError(f"parents must be one-dimensional, found {given.ndim} dimensions")
    if given.dtype.kind not in "iu":
        raise TypeError(f"parents must be integers, found {given.dtype}")
    if given.size > 2**31:
        raise ValueError(f"parents holds {given.size} nodes; at most 2**31 fit")
    outside = np.flatnonzero((given < -1) | (given >= given.size))
    if outside.size:
        node = int(outside[0])
        raise ValueError(f"parents[{node}] ({given[node]}) must be -1 or a node id from 0 to {given.size - 1}")
    array = given.astype(np.int64)
    roots = np.flatnonzero(array == -1)
    if roots.size == 0:
        raise ValueError("parents has no root. Hint: the root's parent is -1")
    if roots.size > 1:
        raise ValueError(
            f"parents has {roots.size} roots, the first two at {roots[0]} and {roots[1]}; there must be one"
        )
    return array


def node_levels(parents: Ints) -> Ints:
    """The number of steps from each node up to the root; a cycle is an error."""
    root = int(np.argmin(parents))
    levels = np.ones(parents.size, dtype=np.int64)
    levels[root] = 0
    for ancestors in _doubling(parents):
        levels += levels[ancestors]
    return levels


def subtree_ranges(parents: Ints, own: Ints) -> tuple[Ints, Ints]:
    """For each node the range first..last of places that its subtree takes in depth-first order, siblings by id."""
    nodes = parents.size
    root = int(np.argmin(parents))
    totals = own.copy()
    steps = np.ones(nodes, dtype=np.int64)
    steps[root] = 0
    stride = 1
    # totals[v] covers what is fewer than `stride` levels below v; those whose ancestor at exactly that distance is v
    # bring the next `stride` levels.
    for ancestors in _doubling(parents, close=True):
        exact = np.flatnonzero(steps == stride)
        totals += np.bincount(ancestors[exact], weights=totals[exact], minlength=nodes).astype(np.int64)
        steps += steps[ancestors]
        stride *= 2
    # What earlier siblings and the parent itself take, summed over the way up to the root.
    order = np.arange(nodes) if (parents[1:] >= parents[:-1]).all() else np.argsort(parents, kind="stable")
    sorted_parents, sorted_totals = parents[order], totals[order]
    before = np.cumsum(sorted_totals) - sorted_totals
    is_first = np.concatenate(([True], sorted_parents[1:] != sorted_parents[:-1]))
    before -= before[is_first][np.cumsum(is_first) - 1]
    first = np.empty(nodes, dtype=np.int64)
    first[order] = before + own[sorted_parents]
    first[root] = 0
    for ancestors in _doubling(parents, close=True):
        first += first[ancestors]
    return first, first + totals


def _doubling(parents: Ints, *, close: bool = False) -> Iterator[Ints]:
    """Each node's ancestor 1, 2, 4, ... levels up (the root above itself), while any of them is not the root."""
    root = int(np.argmin(parents))
    ancestors = parents.copy()
    ancestors[root] = root
    for _ in range(parents.size.bit_length() + 1):
        if (ancestors == root).all():
            if close:
                yield ancestors
            return
        yield ancestors
        ancestors = ancestors[ancestors]
    node = int(ancestors[np.flatnonzero(ancestors != root)[0]])
    raise ValueError(f"parents has a cycle through node {node}")


Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class InnerLevel:
    """The inner nodes of one level and their children, as places in the level order."""

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
class LevelOrder:
    """A tree's nodes level by level from the root, each level in depth-first order. Places are positions in it."""

    tree: Tree
    nodes: Ints
    """The node id at each place."""
    by_id: bool
    """Whether places are node ids, so that nothing needs to be moved."""

    @classmethod
    def of(cls, tree: Tree) -> LevelOrder:
        """The level order of a tree."""
        parents = tree.parents
        if parents[0] == -1 and (parents[1:] >= parents[:-1]).all():
            return cls(tree, np.arange(tree.node_count), True)
        first, _ = tree.leaf_ranges
        return cls(tree, np.argsort(tree.node_levels * tree.leaf_count + first), False)

    @cached_property
    def parents(self) -> Ints:
        """The place of each place's parent; -1 for the root."""
        if self.by_id:
            return self.tree.parents
        places = np.empty_like(self.nodes)
        places[self.nodes] = np.arange(self.nodes.size)
        parents = places[self.tree.parents[self.nodes]]
        parents[0] = -1
        return parents

    @cached_property
    def levels(self) -> Ints:
        """The level of each place."""
        return self.place(self.tree.node_levels)

    @cached_property
    def leaf_ranges(self) -> tuple[Ints, Ints]:
        """The leaves under each place are first..last-1, counted in depth-first order."""
        first, last = self.tree.leaf_ranges
        return self.place(first), self.place(last)

    @cached_property
    def inner_levels(self) -> tuple[InnerLevel, ...]:
        """From the root down, the levels with inner nodes: all but the deepest."""
        edges = [0, *np.cumsum(np.bincount(self.tree.node_levels)).tolist()]
        levels = []
        for before, start, end in zip(edges, edges[1:], edges[2:], strict=False):
            above = self.parents[start:end]
            starts = np.flatnonzero(np.concatenate(([True], above[1:] != above[:-1])))
            inner = slice(before, start) if starts.size == start - before else above[starts]
            levels.append(InnerLevel(inner, slice(start, end), starts, np.diff(starts, append=above.size)))
        return tuple(levels)

    def place(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Values by node id, put in the level order; the very array where that is the order of ids."""
        return values if self.by_id else values[self.nodes]

    def by_node(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Values in the level order, put by node id; the very array where these are the same."""
        if self.by_id:
            return values
        out = np.empty_like(values)
        out[self.nodes] = values
        return out
