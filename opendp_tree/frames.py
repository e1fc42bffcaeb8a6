"""Polars enters and leaves here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from opendp_tree.tree import Tree


def node_frame(tree: Tree, columns: Mapping[str, npt.NDArray[Any]]) -> pl.DataFrame:
    """One row a node, by level and then by id: its level, its path in one column a level (or its id), and columns.

    >>> tree = Tree.from_paths([("a", "x"), ("b",)])
    >>> node_frame(tree, {"estimate": np.array([3, 2, 2, 1])}).rows()
    [(0, None, None, 3), (1, 'a', None, 2), (1, 'b', None, 1), (2, 'a', 'x', 2)]
    """
    levels = pl.Series("level", tree.node_levels)
    places = [pl.Series("node", np.arange(tree.node_count))] if tree.labels is None else _label_columns(tree)
    values = [pl.Series(name, array) for name, array in columns.items()]
    return pl.DataFrame([levels, *places, *values]).sort("level", maintain_order=True)


def _label_columns(tree: Tree) -> list[pl.Series]:
    """For each level below the root, the label of every node's ancestor there; null for nodes above it."""
    labels = tree.labels or ()
    if len({type(label) for label in labels if label is not None}) > 1:
        labels = tuple(None if label is None else str(label) for label in labels)
    by_node = pl.Series(labels)
    columns = []
    for level in range(1, tree.depth):
        ancestors = np.full(tree.node_count, tree.root)  # the root has no label
        ancestors[tree.levels[level]] = tree.levels[level]
        for nodes in tree.levels[level + 1 :]:
            ancestors[nodes] = ancestors[tree.parents[nodes]]
        columns.append(by_node.gather(ancestors).alias(f"label_{level}"))
    return columns
