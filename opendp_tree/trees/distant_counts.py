"""Counts that stay where they are, subtree by subtree: a mechanism sends its work there, and gets little back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opendp_tree._types import Ints
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts

__all__ = ["DistantCounts", "Excerpt"]


@dataclass(frozen=True)
class Excerpt:
    """What a mechanism takes of some places: integers for each that it keeps, and records at some of those."""

    places: Ints
    """The places that are kept, ascending."""
    numbers: Ints
    """Of shape (places, 2)."""
    at: Ints
    """For each record its place, by its number among those kept."""
    records: Ints
    """Of shape (records, 2)."""


Task = Callable[[Occupied], Excerpt]


@dataclass(frozen=True)
class DistantCounts:
    """The counts of an open tree, whole subtrees together, wherever they are."""

    tree: OpenTree
    level: int
    """Of the roots of the subtrees. No subtree is in several parts; a place above this level is in any."""
    gather: Callable[[Task], tuple[SparseCounts, Excerpt]]
    """Runs a task once on each part, and gives the keys that were kept, without counts, and all that was taken."""
