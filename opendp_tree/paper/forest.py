"""Forests of whole subtrees, as arrays in one order in which each level of each tree is a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.tree import Tree

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

__all__ = ["Forest", "LevelOrder"]


@dataclass(frozen=True)
class Forest:
    """Some nodes of a tree that form disjoint whole subtrees: with a node, all that is below it."""

    members: Ints
    """Places in the level order, ascending."""
    trees: Ints
    """For each member, which tree of the forest it is in."""
    tree_count: int


@dataclass(frozen=True)
class LevelOrder:
    """A tree's nodes level by level from the root, each level in depth-first order. Places are positions in it.

    Whole subtrees share no leaf, so within a level the members of one tree of a forest are neighbours.
    """

    nodes: Ints
    """The node id at each place."""
    parents: Ints
    """The place of each place's parent; -1 for the root."""
    levels: Ints
    first: Ints
    last: Ints
    """The leaves under each place are first..last-1, counted in depth-first order."""
    leaf_count: int

    @classmethod
    def of(cls, tree: Tree) -> LevelOrder:
        """The level order of a tree."""
        first, last = tree.leaf_ranges
        nodes = np.lexsort((first, tree.node_levels))
        places = np.empty_like(nodes)
        places[nodes] = np.arange(nodes.size)
        parents = places[tree.parents[nodes]]
        parents[0] = -1
        return cls(nodes, parents, tree.node_levels[nodes], first[nodes], last[nodes], tree.leaf_count)

    def whole(self) -> Forest:
        """The tree itself, as a forest of one."""
        return Forest(np.arange(self.nodes.size), np.zeros(self.nodes.size, dtype=np.int64), 1)

    def rooted_at(self, roots: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Forest:
        """The whole subtrees of the given nodes, none of which may be below another.

        >>> order = LevelOrder.of(Tree.from_parents([-1, 0, 0, 1, 1, 2]))
        >>> order.nodes[order.rooted_at([1, 5]).members]
        array([1, 3, 4, 5])
        """
        given = np.asarray(roots)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
            raise TypeError("roots must be a non-empty, one-dimensional collection of node ids")
        if given.min() < 0 or given.max() >= self.nodes.size:
            raise ValueError(f"roots must be node ids from 0 to {self.nodes.size - 1}")
        places = np.flatnonzero(np.isin(self.nodes, given))
        starts = places[np.argsort(self.first[places], kind="stable")]
        if starts.size < given.size or (self.first[starts[1:]] < self.last[starts[:-1]]).any():
            raise ValueError("roots must be distinct, and none may be below another: trees that overlap cost twice")
        edges = np.zeros(self.leaf_count + 1, dtype=np.int64)
        edges[self.first[starts]] += 1
        edges[self.last[starts]] -= 1
        inside = np.cumsum(edges)[self.first] > 0
        owners = self._owners(starts, self.first)
        members = np.flatnonzero(inside & (self.levels >= self.levels[starts][owners]))
        return Forest(members, owners[members], starts.size)

    def remove(self, forest: Forest, above: Bools) -> Forest:
        """The forest of the members that are not above, where with a member all its ancestors in its tree are."""
        below = forest.members[~above]
        left = np.zeros(self.nodes.size, dtype=np.bool_)
        left[below] = True
        parents = self.parents[below]
        roots = below[(parents < 0) | ~left[parents]]
        starts = roots[np.argsort(self.first[roots], kind="stable")]
        return Forest(below, self._owners(starts, self.first[below]), starts.size)

    def _owners(self, starts: Ints, leaves: Ints) -> Ints:
        """For each leaf, the last of the roots, in order of their leaves, that begins at or before it."""
        begins = np.zeros(self.leaf_count, dtype=np.int64)
        begins[self.first[starts]] = 1
        return np.maximum(np.cumsum(begins) - 1, 0)[leaves]

    def runs(self, places: Ints, trees: Ints) -> Ints:
        """Where each level of each tree begins among ascending places."""
        levels = self.levels[places]
        begins = np.ones(places.size, dtype=np.bool_)
        begins[1:] = (levels[1:] != levels[:-1]) | (trees[1:] != trees[:-1])
        return np.flatnonzero(begins)

    def are_above(self, places: Ints, found: Ints) -> Bools:
        """Whether each place is above one of the `found`, all of which are on deeper levels in their tree."""
        marks = np.zeros(self.leaf_count + 1, dtype=np.int64)
        marks[self.first[found] + 1] = 1
        counts = np.cumsum(marks)
        held: Bools = counts[self.last[places]] > counts[self.first[places]]
        return held

    def lowest(self, places: Ints) -> Ints:
        """Those of the places none of whose children is among them."""
        has_child = np.zeros(self.nodes.size, dtype=np.bool_)
        parents = self.parents[places]
        has_child[parents[parents >= 0]] = True
        return places[~has_child[places]]
