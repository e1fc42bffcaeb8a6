"""The nodes of an open tree that a release shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.open_tree import BitKeys

__all__ = ["OpenNodes"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class OpenNodes:
    """Nodes level by level, siblings together, each with all nodes above it; nothing here knows of any other."""

    levels: Ints
    parents: Ints
    """For each node its parent's place; -1 for the root. It never falls from one node to the next."""
    labels: tuple[Any, ...] = ()
    """For each level below the root, its nodes' own labels, as a Polars series."""
    words: BitKeys | None = None
    """For prefixes of bits, the prefixes, aligned to the left."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.levels.size


def nested_parents(levels: Ints, firsts: Ints) -> Ints:
    """The parents of nodes that come level by level, each known by the first of its places in depth-first order.

    >>> nested_parents(np.array([0, 1, 1, 2]), np.array([0, 0, 3, 4]))
    array([-1,  0,  0,  2])
    """
    edges = np.append(0, np.cumsum(np.bincount(levels))).tolist()
    parents = np.full(levels.size, -1)
    for above, start, end in zip(edges, edges[1:], edges[2:], strict=False):
        parents[start:end] = above + np.searchsorted(firsts[above:start], firsts[start:end], side="right") - 1
    return parents
