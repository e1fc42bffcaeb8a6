"""The nodes of a tree that a release shows: one value from the mechanism to frames, files, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from opendp_tree._types import Bools, Ints
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.occupied import Places, meets_between
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree


@dataclass(frozen=True)
class ShownNodes:
    """Nodes level by level, siblings together, each with all nodes above it; nothing here knows of any other."""

    tree: Tree | OpenTree
    levels: Ints
    parents: Ints
    """For each node its parent's place; -1 for the root. It never falls from one node to the next."""
    labels: tuple[Any, ...] = ()
    """For each level below the root its nodes' own labels, as a Polars series; none for bits, nor without labels."""
    words: BitKeys | None = None
    """For an open tree of bits, the prefixes."""
    outside: int = -1
    """The node "(outside)" where labels have no text for it: of bits, and of labels of another type; -1 if none is."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.levels.size

    @classmethod
    def of_places(cls, counts: SparseCounts, levels: Ints, firsts: Ints) -> ShownNodes:
        """Nodes of an open tree, each known by its level and its first place among the keys."""
        tree, parents = counts.tree, nested_parents(levels, firsts)
        if isinstance(counts.keys, BitKeys):
            words = counts.keys[firsts].first(tree.bits_at(levels))
            last = (levels == 1) & (firsts == counts.occupied.levels.size - 1) & counts.outside
            return cls(tree, levels, parents, words=words, outside=int(np.flatnonzero(last)[0]) if last.any() else -1)
        from opendp_tree.trees.label_keys import labels_at

        by_level = _by_level(levels, counts.keys.rows[firsts], tree.depth)
        columns = counts.keys.columns
        columns += columns[-1:] * (tree.depth - 1 - len(columns))  # no key is so deep, and so no node
        labels = tuple(labels_at(own, rows) for own, rows in zip(columns, by_level, strict=True))
        return cls(tree, levels, parents, labels)

    @classmethod
    def of_tree(cls, tree: Tree) -> ShownNodes:
        """All nodes of a public tree, in its level order."""
        order, own = tree.level_order, tree.labels
        if own is None:
            return cls(tree, order.levels, order.parents)
        from opendp_tree.trees.label_keys import label_series

        nodes = _by_level(order.levels, order.nodes, tree.depth)
        by_level = [[own[node] for node in level.tolist()] for level in nodes]
        outside, first = -1, by_level[0] if by_level else []
        kinds = {type(label) for label in first if label is not None and label != OUTSIDE}
        if OUTSIDE in first and len(kinds) == 1 and str not in kinds:  # null, so that labels keep their type
            outside = 1 + first.index(OUTSIDE)
            first[outside - 1] = None
        return cls(tree, order.levels, order.parents, tuple(map(label_series, by_level)), outside=outside)

    def paths(self) -> list[tuple[Any, ...]]:
        """The path of each node of an open tree, as `KnownNodes` has it."""
        if self.words is None:
            return joined_paths(self.levels, self.parents, [None, *(label for each in self.labels for label in each)])
        from opendp_tree.trees.label_keys import prefix_integers

        assert isinstance(self.tree, OpenTree)
        prefixes = prefix_integers(self.words, self.tree).to_list()
        paths: list[tuple[Any, ...]] = list(zip(prefixes, self.tree.bits_at(self.levels).tolist(), strict=True))
        if self.outside >= 0:
            paths[self.outside] = (OUTSIDE,)
        return paths


def joined_paths(levels: Ints, parents: Ints, labels: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The path of each node, level by level, by its own label and the path of its parent."""
    paths: list[tuple[Any, ...]] = []
    for level, parent, label in zip(levels.tolist(), parents.tolist(), labels, strict=True):
        paths.append((*paths[parent], label) if level else ())
    return paths


@dataclass(frozen=True)
class ShownCells:
    """The cells of an open tree that a mechanism releases, and all nodes at or above them."""

    nodes: ShownNodes
    order: Ints
    """The cells in depth-first order, as places in what was given."""
    firsts: Ints
    lasts: Ints
    """The cells at or below each node are first..last-1 in that order."""
    is_cell: Bools
    """Which nodes are cells."""

    @classmethod
    def of(cls, counts: SparseCounts, places: Ints, levels: Ints) -> ShownCells:
        """The cells at `levels` above `places`."""
        starts = counts.occupied.first_places(places, levels)
        order = np.lexsort((levels, starts))
        starts, levels = starts[order], levels[order]
        meets = np.minimum(meets_between(counts.occupied.meets, starts), np.minimum(levels[1:], levels[:-1]))
        cells = Places(levels, meets)
        ranges = [cells.nodes_at(level) for level in range(counts.tree.depth)]
        firsts, lasts = (np.concatenate(part) for part in zip(*ranges, strict=True))
        at = np.repeat(np.arange(counts.tree.depth), [first.size for first, _ in ranges])
        # A node begins at the first place of its first cell, or before: any place of the node will do for its prefix.
        return cls(ShownNodes.of_places(counts, at, starts[firsts]), order, firsts, lasts, levels[firsts] == at)

    def cells(self) -> Ints:
        """The place among the nodes of each cell, in depth-first order."""
        places = np.flatnonzero(self.is_cell)
        cells = np.empty_like(places)
        cells[self.firsts[places]] = places
        return cells


def nested_parents(levels: Ints, firsts: Ints) -> Ints:
    """The parents of nodes that come level by level, each known by the first of its places in depth-first order."""
    edges = np.append(0, np.cumsum(np.bincount(levels))).tolist()
    parents = np.full(levels.size, -1)
    for above, start, end in zip(edges, edges[1:], edges[2:], strict=False):
        parents[start:end] = above + np.searchsorted(firsts[above:start], firsts[start:end], side="right") - 1
    return parents


def contracted_parents(parents: Ints, kept: Bools) -> Ints:
    """For each kept node, the nearest kept node above it, as a place among those kept; -1 if there is none."""
    above = parents.copy()
    while (lost := np.flatnonzero((above >= 0) & ~kept[above])).size:
        above[lost] = parents[above[lost]]
    places = np.cumsum(kept) - 1
    found: Ints = np.where(above >= 0, places[above], -1)[kept]
    return found


def _by_level(levels: Ints, values: Ints, depth: int) -> list[Ints]:
    """The values of nodes that come level by level, for each level below the root."""
    ends = np.cumsum(np.bincount(levels, minlength=depth)).tolist()
    return [values[start:end] for start, end in pairwise(ends)]
