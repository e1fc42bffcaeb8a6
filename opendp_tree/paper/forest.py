"""Forests of whole subtrees, as arrays in one order in which each level of each tree is a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Bools, Ints
from opendp_tree.trees.level_order import LevelOrder

__all__ = ["Forest"]


@dataclass(frozen=True)
class Forest:
    """Some nodes of a tree that form disjoint whole subtrees: with a node, all that is below it."""

    members: Ints
    """Places in the level order, ascending."""
    trees: Ints
    """For each member, which tree of the forest it is in."""
    tree_count: int


def whole(order: LevelOrder) -> Forest:
    """The tree itself, as a forest of one."""
    return Forest(np.arange(order.nodes.size), np.zeros(order.nodes.size, dtype=np.int64), 1)


def rooted_at(order: LevelOrder, roots: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Forest:
    """The whole subtrees of the given nodes, none of which may be below another."""
    given = np.asarray(roots)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise TypeError("roots must be a non-empty, one-dimensional collection of node ids")
    if given.min() < 0 or given.max() >= order.nodes.size:
        raise ValueError(f"roots must be node ids from 0 to {order.nodes.size - 1}")
    first, last = order.leaf_ranges
    places = np.flatnonzero(np.isin(order.nodes, given))
    starts = places[np.argsort(first[places], kind="stable")]
    if starts.size < given.size or (first[starts[1:]] < last[starts[:-1]]).any():
        raise ValueError("roots must be distinct, and none may be below another: trees that overlap cost twice")
    edges = np.zeros(order.tree.leaf_count + 1, dtype=np.int64)
    edges[first[starts]] += 1
    edges[last[starts]] -= 1
    inside = np.cumsum(edges)[first] > 0
    owners = _owners(order, starts, first)
    members = np.flatnonzero(inside & (order.levels >= order.levels[starts][owners]))
    return Forest(members, owners[members], starts.size)


def remove(order: LevelOrder, forest: Forest, above: Bools) -> Forest:
    """The forest of the members that are not above, where with a member all its ancestors in its tree are."""
    first, _ = order.leaf_ranges
    below = forest.members[~above]
    left = np.zeros(order.nodes.size, dtype=np.bool_)
    left[below] = True
    parents = order.parents[below]
    roots = below[(parents < 0) | ~left[parents]]
    starts = roots[np.argsort(first[roots], kind="stable")]
    return Forest(below, _owners(order, starts, first[below]), starts.size)


def _owners(order: LevelOrder, starts: Ints, leaves: Ints) -> Ints:
    """For each leaf, the last of the roots, in order of their leaves, that begins at or before it."""
    begins = np.zeros(order.tree.leaf_count, dtype=np.int64)
    begins[order.leaf_ranges[0][starts]] = 1
    return np.maximum(np.cumsum(begins) - 1, 0)[leaves]


def runs(order: LevelOrder, places: Ints, trees: Ints) -> Ints:
    """Where each level of each tree begins among ascending places."""
    levels = order.levels[places]
    begins = np.ones(places.size, dtype=np.bool_)
    begins[1:] = (levels[1:] != levels[:-1]) | (trees[1:] != trees[:-1])
    return np.flatnonzero(begins)


def are_above(order: LevelOrder, places: Ints, others: Ints) -> Bools:
    """Whether each place is above one of the `others`, all of which are on deeper levels in their tree."""
    first, last = order.leaf_ranges
    marks = np.zeros(order.tree.leaf_count + 1, dtype=np.int64)
    marks[first[others] + 1] = 1
    counts = np.cumsum(marks)
    held: Bools = counts[last[places]] > counts[first[places]]
    return held


def lowest(order: LevelOrder, places: Ints) -> Ints:
    """Those of the places none of whose children is among them."""
    has_child = np.zeros(order.nodes.size, dtype=np.bool_)
    parents = order.parents[places]
    has_child[parents[parents >= 0]] = True
    return places[~has_child[places]]
