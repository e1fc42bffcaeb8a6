"""The counts of the keys of an open tree that occur, and how many people are at a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from opendp_tree._types import Bools, Ints, Levels, Words
from opendp_tree.saturate import clamp, range_sums
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.labels import OUTSIDE, tagged_label
from opendp_tree.trees.occupied import Occupied, meets_between
from opendp_tree.trees.open_tree import OpenTree


@dataclass(frozen=True)
class LabelKeys:
    """Sorted keys as rows of columns of labels, one column for each level below the root that a key reaches."""

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
        """Counts from integers of the tree's width, in any order, which may repeat."""
        keys = BitKeys.of_integers(high, low, tree.width)
        if keys.is_sorted():
            pass
        elif people is None:
            keys = keys.sorted()
        else:
            order = keys.order()
            keys, people = keys[order], people[order]
        firsts, counts = _merged((keys.high[1:] != keys.high[:-1]) | (keys.low[1:] != keys.low[:-1]), high.size, people)
        keys = keys[firsts]
        meets = keys[1:].common_bits(keys[:-1]) // min(tree.stride, 128)
        return cls._of_bits(tree, keys, meets, counts, outside)

    @classmethod
    def _of_bits(cls, tree: OpenTree, keys: BitKeys, meets: Levels, counts: Ints, outside: int) -> SparseCounts:
        levels = np.broadcast_to(np.int64(tree.depth - 1), counts.shape)
        if not outside:
            return cls(tree, Occupied(levels, meets, counts), keys)
        none = np.zeros(1, dtype=np.uint64)
        keys = BitKeys(np.append(keys.high, none), np.append(keys.low, none))
        meets = np.append(meets, np.zeros(min(levels.size, 1), dtype=meets.dtype))
        return cls(tree, Occupied(np.append(levels, 1), meets, np.append(counts, outside)), keys, outside=True)

    @classmethod
    def of_labels(
        cls, tree: OpenTree, columns: Any, lengths: Ints, people: Ints | None = None, *, labels: Any = None
    ) -> SparseCounts:
        """Counts from rows of labels, in any order, which may repeat."""
        from opendp_tree.trees.label_keys import sort_labels

        order, meets = sort_labels(columns)
        differ = meets < len(columns)
        firsts, counts = _merged(differ, order.size, None if people is None else people[order])
        keys = LabelKeys(tuple(columns if labels is None else labels), order[firsts])
        return cls(tree, Occupied(lengths[keys.rows], meets[differ], counts), keys)

    def recounted(self, counts: Ints) -> SparseCounts:
        """The same keys with other counts, without those of nobody."""
        occupied, kept = self.occupied, np.flatnonzero(counts > 0)
        if kept.size == counts.size:
            return replace(self, occupied=replace(occupied, counts=counts))
        keys = self.keys[kept] if isinstance(self.keys, BitKeys) else replace(self.keys, rows=self.keys.rows[kept])
        left = Occupied(occupied.levels[kept], meets_between(occupied.meets, kept), counts[kept])
        return SparseCounts(self.tree, left, keys, outside=self.outside and bool(counts[-1] > 0))


def _merged(differ: Bools, size: int, people: Ints | None) -> tuple[Ints | slice, Ints]:
    """Where each distinct key of sorted ones begins, and how many people it has. Each differs from the next, or not."""
    if differ.all():
        return slice(None), np.ones(size, dtype=np.int64) if people is None else clamp(people)
    firsts = np.flatnonzero(np.append(True, differ))
    ends = np.append(firsts[1:], size)
    return firsts, ends - firsts if people is None else range_sums(people, firsts, ends)


def check_path(tree: OpenTree, path: Any) -> tuple[Any, ...]:
    """A path that a tree can hold, whether or not anybody is there."""
    if not isinstance(path, tuple):
        raise TypeError(f"a path ({type(path).__name__}) must be a tuple. Hint: (label, ...), or (prefix, bits)")
    if tree.kind == "bits":
        return path if tree.outside and path == (OUTSIDE,) else _check_prefix(tree, path)
    if tree.kind == "paths" and tree.depth > 1 and path == (None,):  # where rows without a path are
        return path
    kinds = (str,) if tree.kind == "paths" else (str, int, date, type(None))
    if len(path) >= tree.depth or not all(isinstance(label, kinds) for label in path):
        words = "each a text" if len(kinds) == 1 else "each a text, a number, a date or None"
        raise ValueError(f"a path must have at most {tree.depth - 1} labels, {words}")
    return path


def _check_prefix(tree: OpenTree, path: tuple[Any, ...]) -> tuple[int, int]:
    whole = len(path) == 2 and all(isinstance(part, (int, np.integer)) and not isinstance(part, bool) for part in path)
    if not whole:
        raise ValueError("a path in a tree of bits must be two integers: (prefix, bits)")
    prefix, bits = map(int, path)
    lengths = {min(level * tree.stride, tree.width) for level in range(tree.depth)}
    if bits not in lengths or not 0 <= prefix < 2**tree.width or prefix % 2 ** (tree.width - bits):
        raise ValueError(
            f"a path must be (prefix, bits) of a node: bits a level of the tree, up to {tree.width} by {tree.stride}, "
            "and prefix the least integer that begins so"
        )
    return prefix, bits


def people_at(counts: SparseCounts, path: tuple[Any, ...]) -> int:
    """How many people are at a path and below it; 0 where there is nobody. Clamped to 2**62 - 1."""
    if isinstance(counts.keys, BitKeys):
        is_key = np.arange(counts.occupied.levels.size) < counts.occupied.levels.size - counts.outside
        if path == (OUTSIDE,):
            chosen = ~is_key
        else:
            chosen = _begin_with(counts.keys, *path, width=counts.tree.width) & (is_key | (path[1] == 0))
    else:
        chosen = counts.occupied.levels >= len(path)
        for column, label in zip(counts.keys.columns, path, strict=False):
            chosen &= _equal(column, label)[counts.keys.rows]
        if len(path) > len(counts.keys.columns):  # nobody's key is that long
            return 0
    people = counts.occupied.counts[chosen]
    return int(range_sums(people, np.array([0]), np.array([people.size]))[0])


def _begin_with(keys: BitKeys, prefix: int, bits: int, *, width: int) -> Bools:
    wanted = BitKeys.of_integers(*words_of([prefix]), width)
    found = keys.first(np.full(keys.high.size, bits))
    same: Bools = (found.high == wanted.high) & (found.low == wanted.low)
    return same


def _equal(column: Any, label: Any) -> Bools:
    """Where a column of labels has this one. One of another type than the column's is nowhere; nothing is raised."""
    wanted = tagged_label(label)
    if isinstance(column, list):
        return np.fromiter((tagged_label(each) == wanted for each in column), dtype=np.bool_, count=len(column))
    if label is None:
        nulls: Bools = column.is_null().to_numpy()
        return nulls
    # Distinct values are few, and Python tells True from 1 where Polars need not.
    values = column.unique().to_list()
    if not any(tagged_label(each) == wanted for each in values):
        return np.zeros(len(column), dtype=np.bool_)
    here: Bools = column.eq_missing(label).to_numpy()
    return here
