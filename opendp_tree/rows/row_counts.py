"""Frames to leaf counts: group the rows, find each group's leaf, bound what a person contributes, add up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import key_names
from opendp_tree.keys.lookup import Lookup
from opendp_tree.noise import uniform_words
from opendp_tree.rows.bit_keys import bit_counts, count_keys
from opendp_tree.rows.bounding import truncate
from opendp_tree.rows.groups import (
    LEAF,
    PEOPLE,
    UNIT,
    check_columns,
    coarse_groups,
    group_rows,
    guarded,
    read_frame,
    unit_leaves,
)
from opendp_tree.rows.parts import (
    frame_parts,
    new_salt,
    parts_for,
    people_part,
    people_records,
    read_memory,
    same_when_read_again,
)
from opendp_tree.rows.people import PeoplePart, PeopleRecords
from opendp_tree.rows.tables import Table
from opendp_tree.rows.unit import Unit
from opendp_tree.saturate import range_sums
from opendp_tree.trees.sparse_counts import SparseCounts


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
    """How many bytes people's records, or keys of bits, may take together before they are read part by part."""

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
        return cls(key, used, unit, key.lookup(kinds), read_memory(memory))

    def count(self, data: Any) -> Ints | SparseCounts:
        """The leaf counts of a frame or table."""
        if self.unit is not None:
            return self._bounded(self.people(data), self.unit)
        is_open_bits = self.lookup is None and self.key.open_tree().kind == "bits"
        if is_open_bits and not isinstance(data, Table):
            return count_keys(read_frame(data, self.kinds), self.key)
        return self.by_leaf(self._groups(data), PEOPLE)

    def _bounded(self, records: PeopleRecords, unit: Unit) -> Ints | SparseCounts:
        """The rows of all people at each leaf, of each no more than the unit says."""

        def kept(part: PeoplePart) -> Ints:
            draw = partial(_draws, records, part)
            return part.added(truncate(part.rows, part.starts, unit, draw))

        (counts,) = records.summed(kept)
        # A key of which nothing is kept must not show: it would tell that somebody has it.
        return counts if records.keys is None else records.keys.recounted(counts)

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
        labels = self.key.labels(groups)
        return labels.sparse(self.key.open_tree(), people, self._valid(labels.with_null()))

    def _groups(self, data: Any) -> pl.DataFrame:
        """The keys that occur and how many rows are counted of each."""
        if isinstance(data, Table):
            check_columns(data.column_types(), self.kinds)
            return coarse_groups(data.rows_per_key(self.key), self.key)
        return group_rows(read_frame(data, self.kinds), self.key)

    def people(self, data: Any) -> PeopleRecords:
        """Who has how many rows at which leaf, to be read from a frame or a table part by part."""
        assert self.unit is not None
        unit, salt, only = self.unit.column, new_salt(), pl.DataFrame()
        if isinstance(data, Table):
            check_columns(data.column_types(), self.kinds)
            groups = coarse_groups(data.rows_per_key(self.key, unit), self.key)
            parts = parts_for(int(groups[PEOPLE].sum()), len(self.kinds), self.memory)
            if parts == 1:  # then records are read once, and keys are theirs
                only = groups = self._records(data, 0, 1)
        else:
            data = same_when_read_again(read_frame(data, self.kinds)).filter(pl.col(unit).is_not_null())
            groups = group_rows(data, self.key)
            parts = frame_parts(data, unit, int(groups[PEOPLE].sum()), self.memory)
        leaves, size, sparse = self._leaf_places(groups.select(key_names(self.key)).unique())

        def read(part: int) -> PeoplePart:
            if isinstance(data, Table):
                pairs = only if parts == 1 else self._records(data, part, parts)
                pairs = pairs.join(leaves, on=key_names(self.key), nulls_equal=True)
                return people_records(size, pairs[UNIT], pairs[LEAF].to_numpy(), pairs[PEOPLE].to_numpy())
            rows = unit_leaves(people_part(data, unit, salt, part, parts), self.key, unit, leaves)
            return people_records(size, rows[UNIT], rows[LEAF].to_numpy())

        return PeopleRecords(self.key.hierarchy, sparse, parts, read)

    def _records(self, table: Table, part: int, parts: int) -> pl.DataFrame:
        """How many rows each person of a part has at each key."""
        assert self.unit is not None
        records = guarded(table.rows_per_person(self.key, self.unit.column, part, parts).collect)
        return coarse_groups(records, self.key)

    def _leaf_places(self, keys: pl.DataFrame) -> tuple[pl.DataFrame, int, SparseCounts | None]:
        """The keys that belong to a leaf with its place, the number of leaves, and an open tree's keys in order."""
        if self.lookup is None:
            sparse, places = self._sparse_places(keys, self._open_leaves(keys))
            size = sparse.occupied.counts.size
        else:
            sparse, places, size = None, self._public_leaves(keys, self.lookup), self.lookup.tree.leaf_count
        numbered = keys.with_columns(pl.Series(LEAF, places)).filter(pl.col(LEAF) >= 0)
        return numbered.cast({LEAF: pl.UInt32}) if size < 2**32 else numbered, size, sparse

    def _sparse_places(self, keys: pl.DataFrame, leaves: Ints) -> tuple[SparseCounts, Ints]:
        """The distinct leaves of an open tree, and for each key the place of its leaf among them; -1 for none."""
        distinct, first, inverse = np.unique(leaves, return_index=True, return_inverse=True)
        kept = distinct >= 0
        chosen = keys[first[kept]]
        tree, numbers = self.key.open_tree(), np.arange(1, chosen.height + 1)
        if tree.kind == "bits":
            high, low, valid = self.key.words(chosen)
            outside = int(numbers[~valid].sum())  # of what is no key, all at one leaf, if there is one
            sparse = SparseCounts.of_words(tree, high[valid], low[valid], numbers[valid], outside=outside)
        else:
            labels = self.key.labels(chosen)
            sparse = labels.sparse(tree, numbers, np.ones(chosen.height, dtype=np.bool_))
        # Each leaf was given its own number as its count: where that number came to stand is its place.
        places = np.empty(chosen.height, dtype=np.int64)
        places[sparse.occupied.counts - 1] = np.arange(chosen.height)
        by_leaf = np.full(distinct.size, -1)
        by_leaf[kept] = places
        return sparse, by_leaf[inverse.reshape(-1)]

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
        return self.key.leaves(groups, lookup)

    def _open_leaves(self, groups: pl.DataFrame) -> Ints:
        """A number for each group, equal for groups of one leaf; -1 for groups that do not count."""
        if self.key.open_tree().kind == "bits":
            high, low, valid = self.key.words(groups)
            # What is no key is all at one leaf, if there is one.
            words = {"high": np.where(valid, high, 0), "low": np.where(valid, low, 0), "is_key": valid}
            columns = [pl.Series(name, array) for name, array in words.items()]
            valid = valid | self.key.open_tree().outside
        else:
            labels = self.key.labels(groups)
            columns = [column.alias(f"label_{level}") for level, column in enumerate(labels.columns)]
            columns.append(pl.Series("length", labels.lengths))
            valid = self._valid(labels.with_null())
        frame = pl.DataFrame(columns)
        first = frame.with_row_index(LEAF).select(pl.col(LEAF).min().over(frame.columns))[LEAF].to_numpy()
        return np.where(valid, first.astype(np.int64), -1)


def _draws(records: PeopleRecords, part: PeoplePart, places: Ints) -> Words:
    """A number for each of some records of a part, independent of all data and of one another."""
    return uniform_words(places.size)
