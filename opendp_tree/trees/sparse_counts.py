"""The counts of the keys of an open tree that occur."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opendp_tree._types import Bools, Ints, Levels, Words
from opendp_tree.saturate import range_sums
from opendp_tree.trees.bit_keys import BitKeys
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree

__all__ = ["LabelKeys", "SparseCounts"]


@dataclass(frozen=True)
class LabelKeys:
    """Sorted keys as rows of columns of labels, one column for each level below the root that a key reaches.

    A column is a Polars series; or a list, where labels of one level may have several types. Below a key's own level
    it has null.
    """

    columns: tuple[Any, ...]
    rows: Ints
    """For each key the row where its labels stand: labels stay where they were read."""


@dataclass(frozen=True)
class SparseCounts:
    """The keys that occur, in depth-first order, and how many people each has."""

    tree: OpenTree
    occupied: Occupied
    keys: BitKeys | LabelKeys
    """Distinct, one for each place."""
    outside: bool = False
    """Whether the last place, below the root, is for what is no key of bits; the key that it has here is none."""

    @classmethod
    def of_words(
        cls, tree: OpenTree, high: Words, low: Words, people: Ints | None = None, *, outside: int = 0
    ) -> SparseCounts:
        """Counts from integers of the tree's width, in any order, which may repeat.

        Parameters
        ----------
        tree
            An open tree of bits.
        high, low
            The integers' words.
        people
            How many people each integer stands for; by default one, as for raw keys.
        outside
            How many people have no such integer: 0 by default, and where the tree has no leaf for them.
        """
        keys = BitKeys.of_integers(high, low, tree.width)
        if keys.is_sorted():
            pass
        elif people is None:
            keys = keys.sorted()
        else:
            order = keys.order()
            keys, people = keys[order], people[order]
        firsts, counts = _merged((keys.high[1:] != keys.high[:-1]) | (keys.low[1:] != keys.low[:-1]), high.size, people)
        keys = keys if firsts.size == high.size else keys[firsts]
        meets = keys[1:].common_bits(keys[:-1]) // tree.stride
        levels = np.broadcast_to(np.int64(tree.depth - 1), counts.shape)
        if not outside:
            return cls._of(tree, levels, meets, counts, keys)
        none = np.zeros(1, dtype=np.uint64)
        keys = BitKeys(np.append(keys.high, none), np.append(keys.low, none))
        meets = np.append(meets, np.zeros(min(levels.size, 1), dtype=meets.dtype))
        made = cls._of(tree, np.append(levels, 1), meets, np.append(counts, outside), keys)
        return replace(made, outside=True)

    @classmethod
    def of_labels(
        cls, tree: OpenTree, columns: Any, lengths: Ints, people: Ints | None = None, *, labels: Any = None
    ) -> SparseCounts:
        """Counts from rows of labels, in any order, which may repeat.

        Parameters
        ----------
        tree
            An open tree of columns or paths.
        columns
            One Polars series a level, with null below a row's own level. Null above that is a label; no node may have
            both a key that ends there and a child whose label is null.
        lengths
            How many labels each row has.
        people
            How many people each row stands for; by default one, as for raw keys.
        labels
            The labels themselves, a list for each level, if `columns` only hold numbers that sort as they do. By
            default the labels are in the columns.
        """
        from opendp_tree.trees.label_keys import sort_labels

        order, meets = sort_labels(columns)
        firsts, counts = _merged(meets < len(columns), order.size, None if people is None else people[order])
        keys = LabelKeys(tuple(columns if labels is None else labels), order[firsts])
        return cls._of(tree, lengths[keys.rows], meets[firsts[1:] - 1], counts, keys)

    @classmethod
    def _of(cls, tree: OpenTree, levels: Levels, meets: Levels, counts: Ints, keys: BitKeys | LabelKeys) -> SparseCounts:
        return cls(tree, Occupied(levels, meets, counts), keys)


def _merged(differ: Bools, size: int, people: Ints | None) -> tuple[Ints, Ints]:
    """Where each distinct key of sorted ones begins, and how many people it has."""
    begins = np.ones(size, dtype=np.bool_)
    begins[1:] = differ
    firsts = np.flatnonzero(begins)
    if people is None:
        return firsts, np.diff(firsts, append=size)
    return firsts, range_sums(people, firsts, np.append(firsts, size)[1:])
