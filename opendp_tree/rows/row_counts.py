"""Frames to leaf counts: group the rows, find each group's leaf, bound what a person contributes, add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.noise import uniform_words
from opendp_tree.rows.bounding import truncate
from opendp_tree.rows.groups import (
    PEOPLE,
    UNIT,
    check_columns,
    coarse_groups,
    group_rows,
    key_names,
    read_frame,
)
from opendp_tree.rows.key import Key
from opendp_tree.rows.key_columns import numbered_leaves, read_labels, read_words
from opendp_tree.rows.key_ranges import bit_counts, count_keys
from opendp_tree.rows.lookup import Lookup
from opendp_tree.rows.parts import added_up, frame_parts, new_salt, parts_for, people_part, read_memory
from opendp_tree.rows.people import PeopleRecords
from opendp_tree.rows.tables import SpreadTable, Table, bounds_by_value
from opendp_tree.rows.unit import Unit
from opendp_tree.saturate import range_sums
from opendp_tree.trees.distant_counts import DistantCounts
from opendp_tree.trees.sparse_counts import SparseCounts

LEAF = "leaf"


@dataclass(frozen=True)
class RowCounter:
    """How the rows of a frame become leaf counts."""

    key: Key
    kinds: dict[str, str]
    """What each column that is used must hold."""
    unit: Unit | None
    """Who is counted, and how much of each; None for all rows."""
    lookup: Lookup | None
    """For a public tree."""
    memory: int
    """How many bytes people's records, or keys of bits, may take together before they are taken part by part."""

    @classmethod
    def of(
        cls,
        key: Key,
        kinds: dict[str, str],
        used: dict[str, str],
        unit: Unit | None,
        memory: int | str | None = None,
    ) -> RowCounter:
        """The counter for frames whose columns hold these kinds, of which some are used."""
        lookup = None if key.tree is None else Lookup(key.tree, key.label_kinds(kinds), key.outside_leaf)
        return cls(key, used, unit, lookup, read_memory(memory))

    def count(self, data: Any) -> Ints | SparseCounts | DistantCounts:
        """The leaf counts of a frame or table."""
        if isinstance(data, SpreadTable):
            check_columns(data.column_types(), self.kinds)
            distant = data.distant_counts(self.key, self.unit, new_salt())
            if distant is not None:
                return distant
        rows = self.unit is None and not isinstance(data, Table)
        if rows and self.lookup is None and self.key.open_tree().kind == "bits":
            return count_keys(read_frame(data, self.kinds), self.key, self.memory)
        return self.by_leaf(self._groups(data), PEOPLE)

    def by_leaf(self, groups: pl.DataFrame, column: str) -> Ints | SparseCounts:
        """The sums of a column of groups by leaf, in an order that is the same for every column."""
        if self.lookup is None and self.key.open_tree().kind == "bits":
            return bit_counts(groups, self.key, column)
        people = groups[column].to_numpy()
        if self.lookup is not None:
            leaves = self._public_leaves(groups, self.lookup)
            order = np.argsort(leaves)
            ends = np.searchsorted(leaves[order], np.arange(self.lookup.tree.leaf_count + 1))
            return range_sums(people[order], ends[:-1], ends[1:])
        labels = read_labels(groups, self.key)
        return labels.sparse(self.key.open_tree(), people, self._valid(labels.with_null()))

    def _groups(self, data: Any) -> pl.DataFrame:
        """The keys that occur and how many rows are kept of each, of all people together."""
        unit = self.unit
        if isinstance(data, Table) and (unit is None or bounds_by_value(self.key)):
            check_columns(data.column_types(), self.kinds)
            return coarse_groups(data.leaf_counts(self.key, unit, new_salt()), self.key)
        if unit is None:
            return group_rows(read_frame(data, self.kinds), self.key, None)
        # A key of which nothing is kept must not show: it would tell that somebody has it.
        kept = (self._bounded(pairs, unit).filter(pl.col(PEOPLE) > 0) for pairs in self.records(data, unit.column))
        return added_up(kept, key_names(self.key))

    def records(self, data: Any, unit: str) -> Iterator[pl.DataFrame]:
        """How many rows each person has of each key, one part of the people after the other."""
        salt = new_salt()
        if isinstance(data, Table):
            check_columns(data.column_types(), self.kinds)
            rows = int(data.leaf_counts(self.key, None, salt)[PEOPLE].sum())
            parts = parts_for(rows, len(self.kinds), self.memory)
            for part in range(parts):
                yield coarse_groups(data.records(self.key, unit, salt, part, parts), self.key)
            return
        frame = read_frame(data, self.kinds)
        parts = frame_parts(frame, unit, len(self.kinds), self.memory)
        for part in range(parts):
            yield group_rows(people_part(frame, unit, salt, part, parts), self.key, unit)

    def people(self, data: Any) -> PeopleRecords:
        """Who has how many rows at which leaf, of all people in a frame or a table."""
        assert self.unit is not None
        pairs = pl.concat(self.records(data, self.unit.column))
        keys = pairs.select(key_names(self.key)).unique()
        leaves = self._open_leaves(keys) if self.lookup is None else self._public_leaves(keys, self.lookup)
        sparse = None
        if self.lookup is None:
            sparse, leaves = self._sparse_places(keys, leaves)
        people, places, rows = self._person_leaf_rows(pairs, keys, leaves)
        starts = np.flatnonzero(np.append(True, people[1:] != people[:-1])[: people.size])
        return PeopleRecords(self.key.hierarchy, starts, places, rows, sparse)

    def _sparse_places(self, keys: pl.DataFrame, leaves: Ints) -> tuple[SparseCounts, Ints]:
        """The distinct leaves of an open tree, and for each key the place of its leaf among them; -1 for none."""
        distinct, first, inverse = np.unique(leaves, return_index=True, return_inverse=True)
        kept = distinct >= 0
        chosen = keys[first[kept]]
        tree, numbers = self.key.open_tree(), np.arange(1, chosen.height + 1)
        if tree.kind == "bits":
            high, low, valid = read_words(chosen, self.key)
            outside = int(numbers[~valid].sum())  # of what is no key, all at one leaf, if there is one
            sparse = SparseCounts.of_words(tree, high[valid], low[valid], numbers[valid], outside=outside)
        else:
            labels = read_labels(chosen, self.key)
            sparse = labels.sparse(tree, numbers, np.ones(chosen.height, dtype=np.bool_))
        # Each leaf was given its own number as its count: where that number came to stand is its place.
        places = np.empty(chosen.height, dtype=np.int64)
        places[sparse.occupied.counts - 1] = np.arange(chosen.height)
        by_leaf = np.full(distinct.size, -1)
        by_leaf[kept] = places
        return sparse, by_leaf[inverse.reshape(-1)]

    def _person_leaf_rows(self, pairs: pl.DataFrame, keys: pl.DataFrame, leaves: Ints) -> tuple[Ints, Ints, Ints]:
        """Number of the person, leaf and rows of each pair, sorted; the one place where people are told apart."""
        pairs = pairs.join(
            keys.with_columns(pl.Series(LEAF, leaves)), on=key_names(self.key), how="left", nulls_equal=True
        )
        pairs = pairs.filter(pl.col(LEAF) >= 0).group_by(UNIT, LEAF).agg(pl.col(PEOPLE).sum())
        order, starts = by_unit(pairs[UNIT])
        people = np.empty(order.size, dtype=np.int64)
        people[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
        places, rows = pairs[LEAF].to_numpy(), pairs[PEOPLE].to_numpy()
        order = np.lexsort((places, people))
        return people[order], places[order], rows[order]

    def counted_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of some rows with keys that belong to a leaf."""
        keys = rows.select(key_names(self.key)).unique()
        leaves = self._open_leaves(keys) if self.lookup is None else self._public_leaves(keys, self.lookup)
        kept = keys.filter(pl.Series(leaves >= 0))
        return rows if kept.height == keys.height else rows.join(kept, on=kept.columns, how="semi", nulls_equal=True)

    def _valid(self, with_null: Bools) -> Bools:
        return ~with_null if self.key.drops_nulls else np.ones_like(with_null)

    def _public_leaves(self, groups: pl.DataFrame, lookup: Lookup) -> Ints:
        """The place among the leaves of each group; -1 for groups that do not count."""
        if self.key.kind == "number":
            return numbered_leaves(groups, self.key)
        labels = read_labels(groups, self.key)
        leaves = lookup.leaves(labels)
        leaves[~self._valid(labels.with_null())] = -1
        return leaves

    def _open_leaves(self, groups: pl.DataFrame) -> Ints:
        """A number for each group, equal for groups of one leaf; -1 for groups that do not count."""
        if self.key.open_tree().kind == "bits":
            high, low, valid = read_words(groups, self.key)
            # What is no key is all at one leaf, if there is one.
            words = {"high": np.where(valid, high, 0), "low": np.where(valid, low, 0), "is_key": valid}
            columns = [pl.Series(name, array) for name, array in words.items()]
            valid = valid | self.key.open_tree().outside
        else:
            labels = read_labels(groups, self.key)
            columns = [column.alias(f"label_{level}") for level, column in enumerate(labels.columns)]
            columns.append(pl.Series("length", labels.lengths))
            valid = self._valid(labels.with_null())
        frame = pl.DataFrame(columns)
        first = frame.with_row_index(LEAF).select(pl.col(LEAF).min().over(frame.columns))[LEAF].to_numpy()
        return np.where(valid, first.astype(np.int64), -1)

    def _bounded(self, pairs: pl.DataFrame, unit: Unit) -> pl.DataFrame:
        """Groups of keys, without units, of which each person contributes no more than the unit says."""
        names = key_names(self.key)
        if self.lookup is None and self.key.kind == "columns":  # each key is a leaf of its own
            pairs = pairs.drop_nulls(names) if self.key.drops_nulls else pairs
            return pairs.with_columns(self._kept(pairs, unit)).group_by(names).agg(pl.col(PEOPLE).sum())
        keys = pairs.select(names).unique()
        leaves = self._open_leaves(keys) if self.lookup is None else self._public_leaves(keys, self.lookup)
        pairs = pairs.join(keys.with_columns(pl.Series(LEAF, leaves)), on=names, how="left", nulls_equal=True)
        pairs = pairs.filter(pl.col(LEAF) >= 0).group_by(UNIT, LEAF).agg(pl.col(PEOPLE).sum())
        counts = pairs.select(LEAF, self._kept(pairs, unit)).group_by(LEAF).agg(pl.col(PEOPLE).sum())
        any_key = keys.with_columns(pl.Series(LEAF, leaves)).unique(LEAF, keep="any")
        return counts.join(any_key, on=LEAF, how="left").select(*names, PEOPLE)

    def _kept(self, pairs: pl.DataFrame, unit: Unit) -> pl.Series:
        """How many rows of each pair of a person and a leaf are kept."""
        order, starts = by_unit(pairs[UNIT])
        rows = pairs[PEOPLE].to_numpy()[order]
        kept = np.empty_like(rows)
        kept[order] = truncate(rows, starts, unit, lambda places: _draws(pairs, order[places]))
        return pl.Series(PEOPLE, kept)


def _draws(pairs: pl.DataFrame, places: Ints) -> Words:
    """A number for each pair of a person and a leaf, independent of all data and of one another."""
    return uniform_words(places.size)


def by_unit(units: pl.Series) -> tuple[Ints, Ints]:
    """An order of rows in which each unit's are together, and where each unit starts in it."""
    if units.dtype.is_integer() and units.dtype not in (pl.Int128, pl.UInt128):
        order = np.argsort(units.to_numpy())
        ordered = units.to_numpy()[order]
        return order, np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: order.size])
    places = pl.DataFrame({UNIT: units}).with_row_index("place").group_by(UNIT).agg("place")["place"]
    sizes = places.list.len().to_numpy().astype(np.int64)
    return places.explode().to_numpy().astype(np.int64), np.cumsum(sizes) - sizes
