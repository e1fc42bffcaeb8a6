"""Keys of a frame to the leaves of a public tree."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from opendp_tree.frame_keys import Labels
from opendp_tree.tree import Tree

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Level:
    """The labels of one level of a tree that a column can hold, and the children that they lead to."""

    labels: tuple[Any, ...]
    numbers: Ints
    """Each edge as parent * (labels + 1) + the label's number, ascending; number 0 is null."""
    children: Ints

    def descend(self, nodes: Ints, column: pl.Series) -> Ints:
        """For each node the child with the column's label; -1 where there is none."""
        if self.numbers.size == 0:
            return np.full(nodes.size, -1)
        wanted = nodes * (len(self.labels) + 1) + self._numbers(column)
        place = np.searchsorted(self.numbers, wanted).clip(max=self.numbers.size - 1)
        return np.where((nodes >= 0) & (self.numbers[place] == wanted), self.children[place], -1)

    def _numbers(self, column: pl.Series) -> Ints:
        """The number of each label: 0 for null, and one that no edge has for labels that the tree lacks."""
        low, high = _range(column.dtype)
        fitting = list(zip(self.labels, range(1, len(self.labels) + 1), strict=True))
        if low is not None:
            fitting = [pair for pair in fitting if low <= pair[0] <= high]
        known = pl.DataFrame(
            {"label": [label for label, _ in fitting], "number": [place for _, place in fitting]},
            schema={"label": column.dtype, "number": pl.Int64},
        )
        found = pl.DataFrame({"label": column}).join(known, on="label", how="left", maintain_order="left")["number"]
        absent = np.iinfo(np.int64).min // 2
        numbers = pl.select(pl.when(column.is_null()).then(0).otherwise(found.fill_null(absent))).to_series()
        return numbers.to_numpy().astype(np.int64)


class Lookup:
    """Finds the leaf at or above each key of a public tree with labels."""

    def __init__(self, tree: Tree, kinds: tuple[str, ...]) -> None:
        """`kinds` says what the labels of each level of the keys are."""
        assert tree.labels is not None
        self.tree = tree
        self.leaf_numbers: Ints = np.full(tree.node_count, -1, dtype=np.int64)
        self.leaf_numbers[tree.leaves] = np.arange(tree.leaf_count)
        self.levels = tuple(
            _level(tree, nodes, kind) for nodes, kind in zip(tree.levels[1:], kinds, strict=False) if nodes.size
        )

    def leaves(self, keys: Labels) -> Ints:
        """The place among the leaves of each key's leaf: the one that its labels lead to, or lead through; else -1."""
        nodes = np.full(keys.lengths.size, self.tree.root)
        leaves: Ints = self.leaf_numbers[nodes]
        for level, (edges, column) in enumerate(zip(self.levels, keys.columns, strict=False)):
            nodes = np.where(keys.lengths > level, edges.descend(nodes, column), -1)
            reached = nodes >= 0
            leaves[reached] = self.leaf_numbers[nodes[reached]]
        return leaves


def _level(tree: Tree, nodes: Ints, kind: str) -> Level:
    assert tree.labels is not None
    held = [node for node in nodes.tolist() if tree.labels[node] is None or _kind(tree.labels[node]) == kind]
    labels = tuple(dict.fromkeys(tree.labels[node] for node in held if tree.labels[node] is not None))
    number = {label: place for place, label in enumerate(labels, start=1)}
    ids = np.array(held, dtype=np.int64)
    codes = np.array([0 if tree.labels[node] is None else number[tree.labels[node]] for node in held], dtype=np.int64)
    numbers = tree.parents[ids] * (len(labels) + 1) + codes
    order = np.argsort(numbers)
    return Level(labels, numbers[order], ids[order])


def _kind(label: Any) -> str:
    kinds = {str: "text", int: "integer", bool: "truth", date: "date", datetime: "datetime"}
    return kinds.get(type(label), "")


def _range(dtype: pl.DataType) -> tuple[Any, Any]:
    """The least and the largest integer that a column can hold; nothing for other columns."""
    if not isinstance(dtype, pl.datatypes.IntegerType):
        return None, None
    return pl.select(low=dtype.min(), high=dtype.max()).row(0)
