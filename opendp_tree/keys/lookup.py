"""Keys of a frame to the leaves of a public tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.keys.key_columns import Labels
from opendp_tree.keys.key_levels import label_kind
from opendp_tree.trees.tree import Tree


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
        self.leaf_numbers: Ints = np.full(tree.node_count, -1, dtype=np.int64)
        self.leaf_numbers[tree.leaves] = np.arange(tree.leaf_count)
        self.levels = tuple(
            _level(tree, nodes, kind) for nodes, kind in zip(tree.levels[1:], kinds, strict=False) if nodes.size
        )

    def leaves(self, keys: Labels) -> Ints:
        """The place of each key's leaf: of the one that its labels lead to, or lead through; else `outside`."""
        nodes: Ints = np.full(keys.lengths.size, self.tree.root)
        leaves: Ints = self.leaf_numbers[nodes]
        for level, (edges, column) in enumerate(zip(self.levels, keys.columns, strict=False)):
            nodes = np.where(keys.lengths > level, edges.descend(nodes, column), -1)
            reached = nodes >= 0
            leaves[reached] = self.leaf_numbers[nodes[reached]]
        leaves[leaves < 0] = self.outside
        return leaves


def _level(tree: Tree, nodes: Ints, kind: str) -> Level:
    own = tree.labels or ()
    held = [node for node in nodes.tolist() if own[node] is None or label_kind(own[node]) == kind]
    number: dict[Any, int] = {}
    codes = [0 if own[node] is None else number.setdefault(own[node], len(number) + 1) for node in held]
    dtype = _TYPES.get(kind, pl.Null)
    if dtype == pl.Int64 and any(not -(2**63) <= label < 2**63 for label in number):
        dtype = pl.Int128
        number = {label: code for label, code in number.items() if -(2**127) <= label < 2**127}
    labels = pl.DataFrame(
        {"label": list(number), "number": list(number.values())}, {"label": dtype, "number": pl.Int64}
    )
    ids = np.array(held, dtype=np.int64)
    edges = tree.parents[ids] * (labels.height + 1) + np.array(codes, dtype=np.int64)
    order = np.argsort(edges)
    return Level(labels, edges[order], ids[order])


_TYPES: dict[str, Any] = {"text": pl.String, "integer": pl.Int64, "truth": pl.Boolean, "date": pl.Date}
