"""A public tree as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opendp_tree._types import Array

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree


def draw_tree(tree: Tree, values: Sequence[object] | Array | None, max_nodes: int) -> str:
    """The tree as text, a line a node."""
    if values is not None and len(values) != tree.node_count:
        raise ValueError(f"values must have one entry for each of the {tree.node_count} nodes")
    # Siblings together, in order of id; a stack instead of recursion, so that long chains draw too.
    order = np.argsort(tree.parents, kind="stable")
    starts = np.searchsorted(tree.parents[order], np.arange(tree.node_count + 1))
    lines: list[str] = []
    stack = [(tree.root, "", "")]
    while stack and len(lines) < max_nodes:
        node, before, indent = stack.pop()
        name = str(node) if tree.labels is None else "(root)" if node == tree.root else str(tree.labels[node])
        lines.append(before + name + ("" if values is None else f"  {values[node]}"))
        room = max_nodes - len(lines) + 1
        children = order[starts[node] : min(starts[node + 1], starts[node] + room)].tolist()
        ends_here = starts[node + 1] - starts[node] <= room
        for place, child in reversed(list(enumerate(children))):
            last = ends_here and place == len(children) - 1
            stack.append((child, indent + ("└── " if last else "├── "), indent + ("    " if last else "│   ")))
    hidden = tree.node_count - len(lines)
    return "\n".join(lines + ([f"… {hidden} more nodes"] if hidden else []))
