"""The nodes of a public tree level by level: the one order for least squares, forests and frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Floats, Ints

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree

__all__ = ["InnerLevel", "LevelOrder"]

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
