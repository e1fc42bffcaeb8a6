"""Paths to the nodes of a public tree."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from opendp_tree.trees.paths import tagged_label

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree


class NodeIndex:
    """Finds the nodes of a tree, inner ones and leaves, by the labels on the way from the root."""

    def __init__(self, tree: Tree) -> None:
        """Look up all children once.

        Parameters
        ----------
        tree
            The tree. Where it has no labels, node ids are its labels, as in `Tree.path`.
        """
        labels: Any = range(tree.node_count) if tree.labels is None else tree.labels
        self._root = tree.root
        self._children: dict[tuple[int, Hashable], int] = {
            (parent, tagged_label(labels[node])): node for node, parent in enumerate(tree.parents.tolist())
        }

    def find(self, path: tuple[Any, ...]) -> int:
        """The id of the node that a path leads to; -1 if there is none.

        Parameters
        ----------
        path
            The labels from below the root down.
        """
        node = self._root
        for label in path:
            try:
                node = self._children.get((node, tagged_label(label)), -1)
            except TypeError:  # what cannot be a key is no label
                return -1
        return node
