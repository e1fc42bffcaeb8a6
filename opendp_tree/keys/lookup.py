"""Keys of a frame to the leaves of a public tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.trees.labels import OUTSIDE, Path, tagged_label
from opendp_tree.trees.tree import Tree, renamed


@dataclass(frozen=True)
class Level:
    """The labels of one level of a tree that a column can hold, and the children that they lead to."""

    labels: pl.DataFrame
    """Each label but null, and its number from 1; null has the number 0."""
    edges: Ints
    """Each edge as parent * (labels + 1) + the label's number, ascending."""
    children: Ints

    def descend(self, nodes: Ints, column: pl.Series) -> Ints:
        """For each node the child with the column's label; -1 where there is none."""
        if self.edges.size == 0:
            return np.full(nodes.size, -1)
        known = np.where(column.is_null().to_numpy(), 0, self._numbers(column))
        wanted = nodes * (self.labels.height + 1) + known
        place = np.searchsorted(self.edges, wanted).clip(max=self.edges.size - 1)
        exists = (nodes >= 0) & (known >= 0) & (self.edges[place] == wanted)
        return np.where(exists, self.children[place], -1)

    def _numbers(self, column: pl.Series) -> Ints | int:
        """The number of each value's label; -1 where there is none."""
        if self.labels.height == 0:  # null alone: there need be no type that holds labels and the column's values
            return -1
        # What the labels' type cannot hold is none of them.
        given = column.cast(self.labels.schema["label"], strict=False).alias("label").to_frame()
        numbers = given.join(self.labels, on="label", how="left", maintain_order="left")["number"].fill_null(-1)
        return numbers.to_numpy()


class Lookup:
    """Finds the leaf at or above each key of a public tree with labels."""

    def __init__(self, tree: Tree, kinds: tuple[str, ...], outside: int = -1) -> None:
        """`kinds` says what the labels of each level of the keys are, `outside` which leaf is for keys without one."""
        assert tree.labels is not None
        self.tree = tree
        self.outside = outside
        self.kinds = kinds

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that keys of these kinds descend."""
        found = (
            _level(self.tree, level, kind) for level, kind in enumerate(self.kinds[: self.tree.depth - 1], start=1)
        )
        return tuple(found)

    def leaves(self, columns: Sequence[pl.Series], lengths: Ints) -> Ints:
        """The place of each key's leaf: of the one that its labels lead to, or lead through; else `outside`."""
        leaf_numbers: Ints = np.full(self.tree.node_count, -1, dtype=np.int64)
        leaf_numbers[self.tree.leaves] = np.arange(self.tree.leaf_count)
        nodes: Ints = np.full(lengths.size, self.tree.root)
        leaves: Ints = leaf_numbers[nodes]
        for level, (edges, column) in enumerate(zip(self.levels, columns, strict=False)):
            nodes = np.where(lengths > level, edges.descend(nodes, column), -1)
            reached = nodes >= 0
            leaves[reached] = leaf_numbers[nodes[reached]]
        leaves[leaves < 0] = self.outside
        return leaves


def kinds_at(tree: Tree, level: int, *, without: int = -1) -> list[str]:
    """What the labels of a level are, null and one node's aside."""
    memo: dict[Any, Any] = tree.memo
    if ("kinds", level, without) not in memo:
        labels = tree.labels or ()
        types = {type(labels[node]) for node in tree.levels[level].tolist() if node != without}
        memo["kinds", level, without] = sorted(map(_kind, types - {type(None)}))
    found: list[str] = memo["kinds", level, without]
    return found


def find_leaf(tree: Tree, path: Path) -> int:
    """The place among the leaves of the one at a path; -1 if there is none."""
    node, labels = tree.root, tree.labels or ()
    for label in path:
        below = np.flatnonzero(tree.parents == node).tolist()
        node = next((child for child in below if tagged_label(labels[child]) == tagged_label(label)), -1)
        if node < 0:
            return -1
    index = int(np.searchsorted(tree.leaves, node))
    return index if index < tree.leaf_count and tree.leaves[index] == node else -1


def with_outside(tree: Tree) -> Tree:
    """The tree with a leaf "(outside)" below its root, last among the leaves, unless it has one."""
    if find_leaf(tree, (OUTSIDE,)) >= 0:
        return tree
    if "outside" not in tree.memo:
        labels = (*(tree.labels or ()), OUTSIDE)
        tree.memo["outside"] = Tree(np.append(tree.parents, tree.root), labels, tree.names, ordered=tree.ordered)
    found: Tree = tree.memo["outside"]
    return renamed(found, tree.names, ordered=tree.ordered)


def label_kind(label: Any) -> str:
    """What a label of a tree is, in the words that keys use."""
    return _kind(type(label))


def _kind(kind: type) -> str:
    # Of other types, such as instants, no column is found to hold any: Python's have fewer digits than Polars'.
    return _KINDS.get(kind, f"Python's {kind.__name__}")


def _level(tree: Tree, level: int, kind: str) -> Level:
    """The edges to the nodes of a level whose labels are null or of one kind; kept with the tree."""
    memo: dict[Any, Any] = tree.memo
    if ("edges", level, kind) not in memo:
        memo["edges", level, kind] = _read_level(tree, level, kind)
    found: Level = memo["edges", level, kind]
    return found


def _read_level(tree: Tree, level: int, kind: str) -> Level:
    nodes, own = tree.levels[level], tree.labels or ()
    held = [own[node] for node in nodes.tolist()]
    types = {each for each in map(type, held) if _kind(each) != kind and each is not type(None)}
    if types:  # labels of several types are told apart one by one
        kept = np.array([type(label) not in types for label in held])
        nodes, held = nodes[kept], [label for label in held if type(label) not in types]
    dtype = _TYPES.get(kind, pl.Null)
    if dtype == pl.Int64 and any(not -(2**63) <= label < 2**63 for label in held if label is not None):
        dtype = pl.Int128
        kept = np.array([label is None or -(2**127) <= label < 2**127 for label in held])
        nodes, held = nodes[kept], [label for label in held if label is None or -(2**127) <= label < 2**127]
    column = pl.Series("label", held, dtype=dtype)
    distinct = column.drop_nulls().unique()
    labels = pl.DataFrame({"label": distinct, "number": np.arange(1, distinct.len() + 1)})
    if not distinct.len():  # null alone: there need be no type that holds labels and the column's values
        return Level(labels, np.sort(tree.parents[nodes]), nodes[np.argsort(tree.parents[nodes])])
    joined = column.to_frame().join(labels, on="label", how="left", maintain_order="left")
    edges = tree.parents[nodes] * (labels.height + 1) + joined["number"].fill_null(0).to_numpy()
    order = np.argsort(edges)
    return Level(labels, edges[order], nodes[order])


_KINDS: dict[type, str] = {str: "text", int: "integer", bool: "truth", date: "date"}
_TYPES: dict[str, Any] = {"text": pl.String, "integer": pl.Int64, "truth": pl.Boolean, "date": pl.Date}
