"""Nodes of a tree: places with people, the counts of the keys that occur, public nodes, and nodes that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Bools, Ints, Levels, Words
from opendp_tree.saturate import clamp, range_sums
from opendp_tree.trees.bits import BitKeys, prefix_integers, read_words, words_of
from opendp_tree.trees.labels import (
    OUTSIDE,
    label_numbers,
    label_series,
    labels_at,
    order_rows,
    split_paths,
    tagged_label,
)
from opendp_tree.trees.open_tree import OpenTree

if TYPE_CHECKING:
    from opendp_tree.trees.tree import Tree

_TEXTS = (pl.String, pl.Categorical, pl.Enum)


@dataclass(frozen=True)
class Occupied:
    """Places in depth-first order, a node before its descendants, and the number of people at each."""

    levels: Levels
    meets: Levels
    """The level of the deepest common ancestor of each place and the next."""
    counts: Ints
    ids: Ints | None = None
    """The node id of each place in a public tree. By default None: places are indices of sorted keys."""

    def nodes_at(self, level: int) -> tuple[Ints, Ints]:
        """The nodes of a level with places at or below them: the first place of each, and the place after its last."""
        starts = np.flatnonzero(self._joins < level)
        ends = np.append(starts, self.levels.size)[1:]
        real = self.levels[starts] >= level  # a place above this level is on its own between two others
        return starts[real], ends[real]

    def first_places(self, places: Ints, levels: Ints) -> Ints:
        """The first place of the node at each level that is at or above each place."""
        firsts = places.copy()
        later = np.flatnonzero(self._joins[places] >= levels)  # mostly none
        firsts[later] = self.ranges_of(places[later], levels[later])[0]
        return firsts

    def ranges_of(self, places: Ints, levels: Ints) -> tuple[Ints, Ints]:
        """The node at each level that is at or above each place: its first place, and the place after its last."""
        firsts, ends = places.copy(), places + 1
        joins, starts = self._joins, None
        for level in np.unique(levels)[::-1].tolist():  # the borders of a level are borders of all levels below it
            starts = np.flatnonzero(joins < level) if starts is None else starts[joins[starts] < level]
            here = np.flatnonzero(levels == level)
            after = np.searchsorted(starts, places[here], side="right")
            firsts[here] = starts[after - 1]
            ends[here] = np.where(after < starts.size, starts[np.minimum(after, starts.size - 1)], joins.size)
        return firsts, ends

    @cached_property
    def _joins(self) -> Levels:
        """The level of the deepest common ancestor of each place and the one before; -1 for the first."""
        small: type[np.signedinteger[Any]] = np.int16 if int(self.meets.max(initial=0)) < 2**15 else np.int64
        joins: Levels = np.empty(self.levels.size, dtype=small)
        joins[:1] = -1
        joins[1:] = self.meets
        return joins


def meets_between(meets: Levels, places: Ints) -> Ints:
    """The level of the deepest common ancestor of each of some places and the next of them."""
    if places.size < 2:
        return places[:0]
    edges = np.column_stack((places[:-1], places[1:])).ravel()
    lowest = np.minimum.reduceat(np.append(meets, np.zeros(1, meets.dtype)), edges)[::2].astype(np.int64)
    return np.where(places[1:] > places[:-1], lowest, np.iinfo(np.int64).max)


def merge_places(differ: Bools, size: int, people: Ints | None) -> tuple[Ints | slice, Ints]:
    """The first index of each distinct key among sorted ones, and its number of people."""
    if differ.all():
        return slice(None), np.ones(size, dtype=np.int64) if people is None else clamp(people)
    firsts = np.flatnonzero(np.append(True, differ))
    ends = np.append(firsts[1:], size)
    return firsts, ends - firsts if people is None else range_sums(people, firsts, ends)


@dataclass(frozen=True)
class LabelKeys:
    """Sorted keys as rows of label columns, one column for each level below the root that a key reaches."""

    columns: tuple[Any, ...]
    rows: Ints
    """The row of each key's labels: the columns are not reordered."""

    def __getitem__(self, places: Ints | slice) -> LabelKeys:
        return LabelKeys(self.columns, self.rows[places])


@dataclass(frozen=True)
class SparseCounts:
    """The keys that occur, in depth-first order, and the number of people of each."""

    tree: OpenTree
    occupied: Occupied
    keys: BitKeys | LabelKeys
    """Distinct, one for each place."""
    outside: bool = False
    """Whether the last place is the leaf "(outside)" of a tree of bits; its key here has no meaning."""

    @classmethod
    def of_words(
        cls, tree: OpenTree, high: Words, low: Words, people: Ints | None = None, *, outside: int | None = None
    ) -> SparseCounts:
        """Counts from integers of the tree's width, in any order, which may repeat; `outside` is None without a row."""
        keys = BitKeys.of_integers(high, low, tree.width)
        if people is None:
            keys = keys.sorted()
        elif not keys.is_sorted():
            order = keys.order()
            keys, people = keys[order], people[order]
        differ = (keys.high[1:] != keys.high[:-1]) | (keys.low[1:] != keys.low[:-1])
        firsts, counts = merge_places(differ, high.size, people)
        keys = keys[firsts]
        meets = keys[1:].common_bits(keys[:-1]) // min(tree.stride, 128)
        levels = np.broadcast_to(np.int64(tree.depth - 1), counts.shape)
        if outside is None:
            return cls(tree, Occupied(levels, meets, counts), keys)
        meets = np.append(meets, np.zeros(min(levels.size, 1), dtype=meets.dtype))
        occupied = Occupied(np.append(levels, 1), meets, np.append(counts, outside))
        return cls(tree, occupied, BitKeys.joined(keys, BitKeys.zeros(1)), outside=True)

    @classmethod
    def of_labels(
        cls, tree: OpenTree, columns: Any, lengths: Ints, people: Ints | None = None, *, labels: Any = None
    ) -> SparseCounts:
        """Counts from rows of labels, in any order, which may repeat."""
        # Only distinct labels are compared as texts; rows are sorted by the labels' ranks.
        order, meets = order_rows([label_numbers(column) for column in columns])
        differ = meets < len(columns)
        firsts, counts = merge_places(differ, order.size, None if people is None else people[order])
        keys = LabelKeys(tuple(columns if labels is None else labels), order[firsts])
        return cls(tree, Occupied(lengths[keys.rows], meets[differ], counts), keys)

    def recounted(self, counts: Ints) -> SparseCounts:
        """The same keys with other counts; keys without people are left out."""
        occupied, kept = self.occupied, np.flatnonzero(counts > 0)
        if kept.size == counts.size:
            return replace(self, occupied=replace(occupied, counts=counts))
        left = Occupied(occupied.levels[kept], meets_between(occupied.meets, kept), counts[kept])
        return SparseCounts(self.tree, left, self.keys[kept], outside=self.outside and bool(counts[-1] > 0))

    def with_root(self) -> SparseCounts:
        """The same with a first place for the root, without people."""
        levels, meets, keys = self.occupied.levels, self.occupied.meets, self.keys
        meets = np.concatenate((np.zeros(min(levels.size, 1), dtype=meets.dtype), meets))
        people = np.concatenate(([0], self.occupied.counts))
        if isinstance(keys, BitKeys):
            keys = BitKeys.joined(BitKeys.zeros(1), keys)
        else:
            keys = replace(keys, rows=np.concatenate(([0], keys.rows)))
        return replace(self, occupied=Occupied(np.concatenate(([0], levels)), meets, people), keys=keys)

    def people_at(self, path: tuple[Any, ...]) -> int:
        """The number of people at a path and below it, clamped to 2**62 - 1."""
        levels, keys = self.occupied.levels, self.keys
        if isinstance(keys, BitKeys):
            is_key = np.arange(levels.size) < levels.size - self.outside
            if path == (OUTSIDE,):
                chosen = ~is_key
            else:
                wanted = BitKeys.of_integers(*words_of([path[0]]), self.tree.width)
                begin = keys.first(np.full(levels.size, path[1]))
                chosen = (begin.high == wanted.high) & (begin.low == wanted.low) & (is_key | (path[1] == 0))
        else:
            chosen = (levels >= len(path)) & (len(path) <= len(keys.columns))
            for column, label in zip(keys.columns, path, strict=False):
                chosen &= _equal(column, label)[keys.rows]
        people = self.occupied.counts[chosen]
        return int(range_sums(people, np.array([0]), np.array([people.size]))[0])


def _equal(column: Any, label: Any) -> Bools:
    """Where a column has this label. Nothing is raised for a label of another type."""
    tag = tagged_label(label)
    # There are few distinct values, and Python distinguishes True from 1 where Polars may not.
    values = column if isinstance(column, list) else column.unique().to_list()
    same = [tagged_label(value) == tag for value in values]
    if isinstance(column, list):
        return np.array(same, dtype=np.bool_)
    here: Bools = column.eq_missing(label).to_numpy() if any(same) else np.zeros(len(column), dtype=np.bool_)
    return here


def count_keys(tree: OpenTree, keys: Any) -> SparseCounts:
    """How often each key occurs."""
    if tree.kind == "bits":
        keys = keys if isinstance(keys, np.ndarray) else list(keys)
        words = read_words(keys, tree.width)
        others = len(keys) - words[0].size if tree.outside else 0
        return SparseCounts.of_words(tree, *words, outside=others or None)
    if tree.kind == "columns":
        return _count_frame(tree, keys) if isinstance(keys, pl.DataFrame) else count_tuples(tree, keys)
    texts = keys if isinstance(keys, pl.Series) else pl.Series(list(keys), dtype=pl.Object)
    if texts.dtype != pl.String:  # values that are not texts are left out
        texts = pl.Series([key for key in texts.to_list() if type(key) is str and is_text(key)], dtype=pl.String)
    distinct = texts.drop_nulls().alias("key").value_counts(name="people")
    columns, lengths = split_paths(distinct["key"], tree.separator, tree.depth - 1)
    return SparseCounts.of_labels(tree, columns, lengths, distinct["people"].to_numpy().astype(np.int64))


def _count_frame(tree: OpenTree, keys: pl.DataFrame) -> SparseCounts:
    count = tree.depth - 1
    if keys.width != count:
        raise ValueError(f"keys must have {count} columns, found {keys.width}")
    if set(keys.columns) == set(tree.names):
        keys = keys[list(tree.names)]
    for name, dtype in keys.schema.items():
        if not (dtype in _TEXTS or dtype == pl.Boolean or dtype.is_integer() or dtype.is_temporal()):
            raise TypeError(f"keys: column {name!r} ({dtype}) must hold texts, integers, truth values or times")
    columns = keys.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).get_columns()
    return SparseCounts.of_labels(tree, columns, np.full(keys.height, count))


def count_tuples(tree: OpenTree, keys: Any, people: Ints | None = None) -> SparseCounts:
    """The number of people of each key. Labels of several types are distinct, sorted by type and then by value."""
    count = tree.depth - 1
    rows = [row for key in keys if (row := _tagged_row(key, count)) is not None]
    columns, labels = [], []
    for level in range(count):
        tags = [row[level] if len(row) > level else None for row in rows]
        number = {tag: index for index, tag in enumerate(sorted({tag for tag in tags if tag is not None}))}
        columns.append(pl.Series([None if tag is None else number[tag] for tag in tags], dtype=pl.Int64))
        labels.append([tag[1] if tag is not None and tag[0] else None for tag in tags])
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return SparseCounts.of_labels(tree, columns, lengths, people, labels=labels)


def _tagged_row(key: Any, count: int) -> tuple[tuple[str, Any], ...] | None:
    """A key's labels with their types; None if the key has an item that is not a label."""
    if type(key) not in (tuple, list):
        return None
    row = []
    for item in key[:count]:
        kind, label = tagged_label(item)
        if label is None:
            row.append(("", 0))
        elif kind in (bool, date) or (kind is int and -(2**63) <= label < 2**63) or (kind is str and is_text(label)):
            row.append((kind.__name__, label))
        else:
            return None
    return tuple(row)


@dataclass(frozen=True)
class ShownNodes:
    """Nodes level by level, siblings together, with all their ancestors and no trace of any other node."""

    tree: Tree | OpenTree
    levels: Ints
    parents: Ints
    """The index of each node's parent, never decreasing; -1 for the root."""
    labels: tuple[Any, ...] = ()
    """The nodes' own labels, one Polars series for each level below the root; empty for bits or without labels."""
    words: BitKeys | None = None
    """For an open tree of bits, the prefixes."""
    outside: int = -1
    """The index of the node "(outside)" if it is not among the labels, as for bits or numbers; else -1."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.levels.size

    @classmethod
    def of_places(cls, counts: SparseCounts, levels: Ints, firsts: Ints) -> ShownNodes:
        """Nodes of an open tree, each identified by its level and its first place among the keys."""
        tree, keys, parents = counts.tree, counts.keys, nested_parents(levels, firsts)
        if isinstance(keys, BitKeys):
            words = keys[firsts].first(tree.bits_at(levels))
            last = np.flatnonzero((levels == 1) & (firsts == counts.occupied.levels.size - 1) & counts.outside)
            return cls(tree, levels, parents, words=words, outside=int(last[0]) if last.size else -1)
        columns = keys.columns + keys.columns[-1:] * (tree.depth - 1 - len(keys.columns))  # no key is so deep
        by_level = _by_level(levels, keys.rows[firsts], tree.depth)
        labels = tuple(labels_at(column, rows) for column, rows in zip(columns, by_level, strict=True))
        return cls(tree, levels, parents, labels)

    @classmethod
    def of_tree(cls, tree: Tree) -> ShownNodes:
        """All nodes of a public tree, in its level order."""
        order, labels = tree.level_order, tree.labels
        if labels is None:
            return cls(tree, order.levels, order.parents)
        nodes = _by_level(order.levels, order.nodes, tree.depth)
        by_level = [[labels[node] for node in level.tolist()] for level in nodes]
        outside, first = -1, by_level[0] if by_level else []
        kinds = {type(label) for label in first if label is not None and label != OUTSIDE}
        if OUTSIDE in first and len(kinds) == 1 and str not in kinds:  # null, so that labels keep their type
            outside = 1 + first.index(OUTSIDE)
            first[outside - 1] = None
        return cls(tree, order.levels, order.parents, tuple(map(label_series, by_level)), outside=outside)

    def paths(self) -> list[tuple[Any, ...]]:
        """The path of each node of an open tree, as `KnownNodes` has it."""
        if self.words is None:
            return joined_paths(self.levels, self.parents, [None, *(label for each in self.labels for label in each)])
        assert isinstance(self.tree, OpenTree)
        prefixes = prefix_integers(self.words, self.tree).to_list()
        paths: list[tuple[Any, ...]] = list(zip(prefixes, self.tree.bits_at(self.levels).tolist(), strict=True))
        if self.outside >= 0:
            paths[self.outside] = (OUTSIDE,)
        return paths


@dataclass(frozen=True)
class ShownCells:
    """The cells of an open tree that a mechanism releases, and all their ancestors."""

    nodes: ShownNodes
    order: Ints
    """The cells in depth-first order, as indices of the arguments of `of`."""
    firsts: Ints
    """The first cell at or below each node, in that order."""
    is_cell: Bools
    """Which nodes are cells."""

    @classmethod
    def of(cls, counts: SparseCounts, places: Ints, levels: Ints) -> ShownCells:
        """The cells at `levels` above `places`."""
        starts = counts.occupied.first_places(places, levels)
        order = np.lexsort((levels, starts))
        starts, levels = starts[order], levels[order]
        meets = np.minimum(meets_between(counts.occupied.meets, starts), np.minimum(levels[1:], levels[:-1]))
        cells = Occupied(levels, meets, np.ones_like(levels))
        by_level = [cells.nodes_at(level)[0] for level in range(counts.tree.depth)]
        firsts, at = np.concatenate(by_level), np.repeat(np.arange(len(by_level)), [each.size for each in by_level])
        # A node may begin before its first cell, but any of its places gives its prefix.
        return cls(ShownNodes.of_places(counts, at, starts[firsts]), order, firsts, levels[firsts] == at)

    def cells(self) -> Ints:
        """The index among the nodes of each cell, in depth-first order."""
        cells = np.flatnonzero(self.is_cell)
        return cells[np.argsort(self.firsts[cells])]


def joined_paths(levels: Ints, parents: Ints, labels: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The path of each node, level by level: its parent's path and its own label."""
    paths: list[tuple[Any, ...]] = []
    for level, parent, label in zip(levels.tolist(), parents.tolist(), labels, strict=True):
        paths.append((*paths[parent], label) if level else ())
    return paths


def nested_parents(levels: Ints, firsts: Ints) -> Ints:
    """The parents of nodes level by level, each identified by its first place in depth-first order."""
    edges = np.append(0, np.cumsum(np.bincount(levels))).tolist()
    parents = np.full(levels.size, -1)
    for above, start, end in zip(edges, edges[1:], edges[2:], strict=False):
        parents[start:end] = above + np.searchsorted(firsts[above:start], firsts[start:end], side="right") - 1
    return parents


def contracted_parents(parents: Ints, kept: Bools) -> Ints:
    """For each kept node, its nearest kept ancestor, as an index among the kept nodes; -1 if there is none."""
    above = parents.copy()
    while (lost := np.flatnonzero((above >= 0) & ~kept[above])).size:
        above[lost] = parents[above[lost]]
    indices = np.cumsum(kept) - 1
    contracted: Ints = np.where(above >= 0, indices[above], -1)[kept]
    return contracted


def _by_level(levels: Ints, values: Ints, depth: int) -> list[Ints]:
    """The values of each level below the root, for nodes level by level."""
    ends = np.cumsum(np.bincount(levels, minlength=depth)).tolist()
    return [values[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class KnownNodes:
    """Public nodes of an open tree and all their ancestors; made by `KnownNodes.of`.

    A release shows all of them, including empty ones. An open node may have other children. Rows that lead to another
    child of a closed node count at the closed node.
    """

    tree: OpenTree
    paths: tuple[tuple[Any, ...], ...]
    """Tuples of labels, or (prefix, bits)."""
    closed: tuple[bool, ...]

    @classmethod
    def of(
        cls, tree: OpenTree, paths: Iterable[tuple[Any, ...]], *, closed: Iterable[tuple[Any, ...]] = ()
    ) -> KnownNodes:
        """The nodes at some paths and all their ancestors; those at `closed` have no other children."""
        shut = {check_path(tree, path) for path in closed}
        every: set[tuple[Any, ...]] = {(0, 0) if tree.kind == "bits" else ()}
        for path in (*paths, *shut):
            every.update(_with_ancestors(tree, check_path(tree, path)))
        ordered = sorted(every, key=lambda path: (level_of(tree, path), tuple(map(_sortable, path))))
        return cls(tree, tuple(ordered), tuple(path in shut for path in ordered))

    @property
    def highest_open(self) -> int:
        """The highest level with an open node; the level of the deepest keys if all are closed."""
        levels = (level_of(self.tree, path) for path, closed in zip(self.paths, self.closed, strict=True) if not closed)
        return min(levels, default=self.tree.depth - 1)

    def among(self, counts: SparseCounts) -> tuple[SparseCounts, Bools, Bools]:
        """The counts with a place for each known node, which places these are, and which are closed."""
        size, occupied = len(self.paths), counts.occupied
        if size == 1:
            root = np.arange(occupied.levels.size + 1) == 0
            return counts.with_root(), root, root & self.closed[0]
        levels = np.concatenate(([level_of(self.tree, path) for path in self.paths], occupied.levels))
        people = np.concatenate((np.zeros(size, dtype=np.int64), occupied.counts))
        join = _join_bits if isinstance(counts.keys, BitKeys) else _join_labels
        order, meets, joined = join(self, counts, levels)
        levels, people = levels[order], people[order]
        meets = np.minimum(meets, np.minimum(levels[1:], levels[:-1]))
        firsts = np.flatnonzero(np.append(True, (meets < levels[1:]) | (meets < levels[:-1])))
        sums = range_sums(people, firsts, np.append(firsts[1:], levels.size))
        which = np.maximum.reduceat(np.where(order < size, order, -1), firsts)  # -1 where no node is known
        places = Occupied(levels[firsts], meets[firsts[1:] - 1], sums)
        known = which >= 0
        return replace(joined, occupied=places, keys=joined.keys[firsts]), known, known & np.array(self.closed)[which]


def check_path(tree: OpenTree, path: Any) -> tuple[Any, ...]:
    """A path that is possible in the tree, with or without people."""
    if not isinstance(path, tuple):
        raise TypeError(f"a path ({type(path).__name__}) must be a tuple. Hint: (label, ...), or (prefix, bits)")
    if tree.kind == "bits":
        return path if tree.outside and path == (OUTSIDE,) else _check_prefix(tree, path)
    if tree.kind == "paths" and tree.depth > 1 and path == (None,):  # of rows without a path
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
            f"a path must be (prefix, bits) of a node: bits is a multiple of {tree.stride} up to "
            f"{tree.width}, or {tree.width} itself, and prefix is the least integer with these leading bits"
        )
    return prefix, bits


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


def _sortable(label: Any) -> tuple[str, Any]:
    return type(label).__name__, 0 if label is None else label


def _join_bits(known: KnownNodes, counts: SparseCounts, levels: Ints) -> tuple[Ints, Levels, SparseCounts]:
    """The depth-first order of known nodes and keys, the levels at which neighbours meet, and the sorted keys."""
    tree, size = known.tree, len(known.paths)
    assert isinstance(counts.keys, BitKeys)
    last = np.zeros(levels.size, dtype=np.bool_)  # the node "(outside)"
    last[:size] = [path == (OUTSIDE,) for path in known.paths]
    last[-1] |= counts.outside
    words = words_of([0 if out else path[0] for path, out in zip(known.paths, last.tolist(), strict=False)])
    keys = BitKeys.joined(BitKeys.of_integers(*words, tree.width), counts.keys)
    order = np.lexsort((levels, keys.low, keys.high, last))
    keys, last = keys[order], last[order]
    meets = keys[1:].common_bits(keys[:-1]) // min(tree.stride, 128)
    meets[last[1:] & ~last[:-1]] = 0
    return order, meets, replace(counts, keys=keys, outside=bool(last.any()))


def _join_labels(known: KnownNodes, counts: SparseCounts, levels: Ints) -> tuple[Ints, Levels, SparseCounts]:
    """The same for labels."""
    assert isinstance(counts.keys, LabelKeys)
    columns, rows = counts.keys.columns, counts.keys.rows
    numbers, labels = [], []
    for level in range(known.tree.depth - 1):
        public = [path[level] if len(path) > level else None for path in known.paths]
        # Below the deepest key there are only known nodes.
        column, at = (columns[level], rows) if level < len(columns) else ([None], np.zeros_like(rows))
        joined, number = _number_labels(public, column, at)
        numbers.append(np.where(levels > level, number, 0))
        labels.append(joined)
    order, meets = order_rows(numbers)
    return order, meets, replace(counts, keys=LabelKeys(tuple(labels), order))


def _number_labels(public: list[Any], column: Any, rows: Ints) -> tuple[Any, Ints]:
    """The public labels followed by those of the rows, and the rank of each, from 1."""
    if not isinstance(column, pl.Series):
        every = public + [column[row] for row in rows.tolist()]
        tags = list(map(_sortable, every))
        number = {tag: index for index, tag in enumerate(sorted(set(tags)), start=1)}
        return every, np.array([number[tag] for tag in tags])
    if column.dtype.is_integer() and column.dtype != pl.UInt128:  # a narrow type may not hold the public labels
        first = pl.Series(public, dtype=pl.Int128)
        narrow = first.cast(column.dtype, strict=False)
        fits = narrow.null_count() == first.null_count()
        first, column = (narrow, column) if fits else (first, column.cast(pl.Int128))
    else:
        first = pl.Series(public, dtype=column.dtype)
    labels = pl.concat([first, column.gather(rows)])
    return labels, label_numbers(labels) + 1
