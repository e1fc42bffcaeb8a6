"""Nodes of an open tree that are public: a list that everybody has, or names that earlier releases have shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opendp_tree._types import Bools, Ints
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.label_keys import order_rows, place_labels
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.occupied import Occupied
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import LabelKeys, SparseCounts, check_path


@dataclass(frozen=True)
class KnownNodes:
    """Public nodes of an open tree, with all nodes above them; the root is always among them.

    Build one with `KnownNodes.of`. A release shows all known nodes, empty ones too. A known node is open, and may
    have other children, or closed: rows that lead to another child then count at the node itself.

    Parameters
    ----------
    tree
        The open tree.
    paths
        The paths of the nodes, closed under taking ancestors, in any order: tuples of labels, or (prefix, bits).
    closed
        Which of them are closed, one truth value for each.

    Examples
    --------
    >>> from opendp_tree import OpenTree
    >>> tree = OpenTree.columns(["state", "city"])
    >>> known = KnownNodes.of(tree, [("ca", "la"), ("ny",)], closed=[()])
    >>> known.paths
    ((), ('ca',), ('ny',), ('ca', 'la'))
    >>> known.closed
    (True, False, False, False)
    """

    tree: OpenTree
    paths: tuple[tuple[Any, ...], ...]
    closed: tuple[bool, ...]

    @classmethod
    def of(
        cls, tree: OpenTree, paths: Iterable[tuple[Any, ...]], *, closed: Iterable[tuple[Any, ...]] = ()
    ) -> KnownNodes:
        """The nodes at some paths, and all nodes above them.

        Parameters
        ----------
        tree
            The open tree.
        paths
            Paths of nodes: tuples of labels, or (prefix, bits) in a tree of bits.
        closed
            Paths of known nodes all of whose children are known. By default none.
        """
        root = (0, 0) if tree.kind == "bits" else ()
        every = {root}
        shut = {check_path(tree, path) for path in closed}
        for path in (*paths, *shut):
            every.update(_with_ancestors(tree, check_path(tree, path)))
        ordered = sorted(every, key=lambda path: (level_of(tree, path), tuple(map(_sortable, path))))
        return cls(tree, tuple(ordered), tuple(path in shut for path in ordered))

    @property
    def highest_open(self) -> int:
        """The highest level with an open node; that of the deepest keys where all are closed."""
        levels = (level_of(self.tree, path) for path, closed in zip(self.paths, self.closed, strict=True) if not closed)
        return min(levels, default=self.tree.depth - 1)

    def among(self, counts: SparseCounts) -> tuple[SparseCounts, Bools, Bools]:
        """The counts with a place for each known node, which places these are, and which are closed."""
        if len(self.paths) == 1:
            placed, known = _with_root(counts), np.zeros(counts.occupied.levels.size + 1, dtype=np.bool_)
            known[0] = True
            closed = known & self.closed[0]
        else:
            join = _join_bits if isinstance(counts.keys, BitKeys) else _join_labels
            placed, known, closed = join(self, counts)
        return placed, known, closed


def _sortable(label: Any) -> tuple[str, Any]:
    return type(label).__name__, 0 if label is None else label


def level_of(tree: OpenTree, path: tuple[Any, ...]) -> int:
    """The level of the node at a path."""
    if tree.kind != "bits":
        return len(path)
    return 1 if path == (OUTSIDE,) else -(-path[1] // tree.stride)


def _with_ancestors(tree: OpenTree, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if tree.kind != "bits":
        return [path[:length] for length in range(len(path) + 1)]
    if path == (OUTSIDE,):
        return [(0, 0), path]
    bits = [min(level * tree.stride, tree.width) for level in range(level_of(tree, path) + 1)]
    return [(path[0] >> (tree.width - each) << (tree.width - each), each) for each in bits]


def _with_root(counts: SparseCounts) -> SparseCounts:
    """The counts with a first place for the root, where nobody is but who has no label at all."""
    occupied, size = counts.occupied, counts.occupied.levels.size
    levels = np.concatenate(([0], occupied.levels))
    meets = np.concatenate((np.zeros(min(size, 1), dtype=occupied.meets.dtype), occupied.meets))
    people = np.concatenate(([0], occupied.counts))
    if isinstance(counts.keys, BitKeys):
        none = np.zeros(1, dtype=np.uint64)
        keys: BitKeys | LabelKeys = BitKeys(
            *(np.concatenate((none, each)) for each in (counts.keys.high, counts.keys.low))
        )
    else:
        keys = replace(counts.keys, rows=np.concatenate(([0], counts.keys.rows)))
    return replace(counts, occupied=Occupied(levels, meets, people), keys=keys)


def _join_bits(known: KnownNodes, counts: SparseCounts) -> tuple[SparseCounts, Bools, Bools]:
    tree, keys = known.tree, counts.keys
    assert isinstance(keys, BitKeys)
    outside = [path == (OUTSIDE,) for path in known.paths]
    high, low = words_of([0 if out else path[0] for path, out in zip(known.paths, outside, strict=True)])
    mine = BitKeys.of_integers(high, low, tree.width)
    levels = np.array([level_of(tree, path) for path in known.paths])
    last = np.concatenate(
        (
            outside,
            np.arange(keys.high.size) == keys.high.size - 1
            if counts.outside
            else np.zeros(keys.high.size, dtype=np.bool_),
        )
    )
    both = BitKeys(np.concatenate((mine.high, keys.high)), np.concatenate((mine.low, keys.low)))
    levels = np.concatenate((levels, counts.occupied.levels))
    people = np.concatenate((np.zeros(len(outside), dtype=np.int64), counts.occupied.counts))
    order = np.lexsort((levels, both.low, both.high, last))
    both, levels, people, last = both[order], levels[order], people[order], last[order]
    first, second = both[:-1], both[1:]
    meets = np.minimum(second.common_bits(first) // min(tree.stride, 128), np.minimum(levels[1:], levels[:-1]))
    meets = np.where(last[1:] & ~last[:-1], 0, meets)
    differ = (meets < levels[1:]) | (meets < levels[:-1])
    where = np.concatenate((np.arange(len(outside)), np.full(keys.high.size, -1)))[order]
    return _merged_places(
        known, replace(counts, keys=both, outside=bool(last.any())), levels, meets, people, differ, where
    )


def _join_labels(known: KnownNodes, counts: SparseCounts) -> tuple[SparseCounts, Bools, Bools]:
    assert isinstance(counts.keys, LabelKeys)
    count = known.tree.depth - 1
    columns = counts.keys.columns
    own = [[path[level] if len(path) > level else None for path in known.paths] for level in range(count)]
    lengths = np.concatenate(([len(path) for path in known.paths], counts.occupied.levels))
    numbers, labels = [], []
    for level in range(count):
        data = columns[level] if level < len(columns) else None  # no key is so deep
        number, joined = place_labels(data, counts.keys.rows, own[level], lengths > level)
        numbers.append(number)
        labels.append(joined)
    order, meets = order_rows(numbers)
    people = np.concatenate((np.zeros(len(known.paths), dtype=np.int64), counts.occupied.counts))[order]
    levels = lengths[order]
    meets = np.minimum(meets, np.minimum(levels[1:], levels[:-1]))
    where = np.concatenate((np.arange(len(known.paths)), np.full(counts.keys.rows.size, -1)))[order]
    differ = (meets < levels[1:]) | (meets < levels[:-1])
    placed = replace(counts, keys=LabelKeys(tuple(labels), order))
    return _merged_places(known, placed, levels, meets, people, differ, where)


def _merged_places(
    known: KnownNodes, counts: SparseCounts, levels: Ints, meets: Ints, people: Ints, differ: Bools, where: Ints
) -> tuple[SparseCounts, Bools, Bools]:
    """One place for each distinct node of sorted ones; `where` is the known node that a row is, or -1."""
    from opendp_tree.saturate import range_sums

    firsts = np.flatnonzero(np.append(True, differ))
    ends = np.append(firsts[1:], levels.size)
    which = np.maximum.reduceat(where, firsts)
    keys = (
        counts.keys[firsts] if isinstance(counts.keys, BitKeys) else replace(counts.keys, rows=counts.keys.rows[firsts])
    )
    occupied = Occupied(levels[firsts], meets[firsts[1:] - 1], range_sums(people, firsts, ends))
    closed = np.array(known.closed)[which] & (which >= 0)
    return replace(counts, occupied=occupied, keys=keys), which >= 0, closed
