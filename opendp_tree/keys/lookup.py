"""The leaves of a public tree that labels lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Ints
from opendp_tree.trees.labels import LABEL_KINDS, OUTSIDE, tagged_label
from opendp_tree.trees.tree import Path, Tree, renamed

_DTYPES: dict[str, Any] = {"text": pl.String, "integer": pl.Int64, "boolean": pl.Boolean, "date": pl.Date}


def is_label(label: Any, kind: str) -> bool:
    """Whether a column of a kind can hold a label; "any" where the kind of the column is not known."""
    of_type = LABEL_KINDS.get(type(label))
    if of_type is None or kind not in ("any", of_type):
        return False
    return is_text(label) if of_type == "text" else of_type != "integer" or -(2**127) <= label < 2**127


@dataclass(frozen=True)
class Lookup:
    """Finds the leaf at or above each key of a public tree; keys have labels of one kind per level."""

    tree: Tree
    kinds: tuple[str, ...]
    outside: int = -1
    """The leaf for keys that lead to none."""

    def leaves(self, columns: Sequence[pl.Series], lengths: Ints) -> Ints:
        """The index of each key's leaf: of the one that its labels lead to, or lead through; else `outside`."""
        leaf_numbers: Ints = np.full(self.tree.node_count, -1, dtype=np.int64)
        leaf_numbers[self.tree.leaves] = np.arange(self.tree.leaf_count)
        nodes: Ints = np.full(lengths.size, self.tree.root)
        leaves: Ints = leaf_numbers[nodes]
        for level, (kind, column) in enumerate(zip(self.kinds[: self.tree.depth - 1], columns, strict=False), start=1):
            nodes = np.where(lengths >= level, _descend(_edges(self.tree, level, kind), nodes, column), -1)
            reached = nodes >= 0
            leaves[reached] = leaf_numbers[nodes[reached]]
        leaves[leaves < 0] = self.outside
        return leaves


def _edges(tree: Tree, level: int, kind: str) -> pl.DataFrame:
    """The parent, label and id of each node of a level whose label is null or of one kind; kept with the tree."""
    memo: dict[Any, pl.DataFrame] = tree.memo
    if ("edges", level, kind) in memo:
        return memo["edges", level, kind]
    every = [(tree.labels or ())[node] for node in tree.levels[level].tolist()]
    kept = [label is None or is_label(label, kind) for label in every]
    nodes, labels = tree.levels[level][kept], [label for label, keep in zip(every, kept, strict=True) if keep]
    is_wide = kind == "integer" and any(label is not None and not -(2**63) <= label < 2**63 for label in labels)
    column = pl.Series(labels, dtype=pl.Int128 if is_wide else _DTYPES.get(kind, pl.String))
    edges = pl.DataFrame({"node": tree.parents[nodes], "label": column, "child": nodes})
    memo["edges", level, kind] = edges.unique(["node", "label"], keep="first", maintain_order=True)
    return memo["edges", level, kind]


def _descend(edges: pl.DataFrame, nodes: Ints, column: pl.Series) -> Ints:
    """For each node the child with the column's label; -1 where there is none."""
    dtype = edges.schema["label"]
    # A value that the labels' type cannot hold matches none of them; nor does a time, which may be too large to cast.
    can_cast = column.dtype.is_temporal() == (dtype == pl.Date)
    nothing = pl.Series([None], dtype=dtype)
    labels = column.cast(dtype, strict=False) if can_cast else nothing.new_from_index(0, len(column))
    can_match = (labels.is_not_null() | column.is_null()).to_numpy()
    keys = pl.DataFrame({"node": np.where(can_match, nodes, -1), "label": labels})
    joined = keys.join(edges, on=["node", "label"], how="left", nulls_equal=True, maintain_order="left")
    return joined["child"].fill_null(-1).to_numpy()


def find_leaf(tree: Tree, path: Path) -> int:
    """The index among the leaves of the one at a path; -1 if there is none."""
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
    with_leaf: Tree = tree.memo["outside"]
    return renamed(with_leaf, tree.names, ordered=tree.ordered)
