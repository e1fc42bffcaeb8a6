"""Frames to leaf counts: group the rows, find each group's leaf, bound what a person contributes, add up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KEY, key_names
from opendp_tree.keys.lookup import Lookup
from opendp_tree.noise import uniform_words
from opendp_tree.rows.grouping import (
    LEAF,
    PEOPLE,
    UNIT,
    check_columns,
    coarse_groups,
    collect_groups,
    group_rows,
    guarded,
    read_frame,
    selected_keys,
    unit_leaves,
)
from opendp_tree.rows.leaf_values import LeafValues
from opendp_tree.rows.people import (
    PeoplePart,
    PeopleRecords,
    by_unit,
    frame_parts,
    new_salt,
    parts_for,
    people_part,
    people_records,
    read_memory,
    same_when_read_again,
    shuffled,
    truncate,
)
from opendp_tree.rows.tables import Table
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value
from opendp_tree.saturate import range_sums
from opendp_tree.theorems.tree_means import STEPS
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
    """How many bytes people's records may take together before they are read part by part."""

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


_SAMPLE = 1 << 16


def count_keys(frame: pl.LazyFrame, key: Key) -> SparseCounts:
    """How many rows each key of bits has. Whether rows are sorted or grouped shows in time and memory alone."""
    frame = same_when_read_again(frame)
    numbers = frame.select(_as_number(frame, key))
    sample = _read(numbers.head(_SAMPLE))
    repeat = 2 * sample.n_unique() < sample.height
    rows = group_rows(frame, key) if repeat else _read(numbers).select(pl.first().sort().alias(f"{KEY}_0"))
    return bit_counts(rows, key, PEOPLE)


def bit_counts(groups: pl.DataFrame, key: Key, column: str) -> SparseCounts:
    """The sums of a column of groups of rows, by key of bits; without that column, each is one row."""
    tree, (high, low, valid) = key.open_tree(), key.words(groups)
    people = groups[column].to_numpy() if column in groups.columns else None
    if valid.all():
        return SparseCounts.of_words(tree, high, low, people)
    outside = 0
    if tree.outside:
        others = np.ones(int((~valid).sum()), dtype=np.int64) if people is None else people[~valid]
        outside = int(range_sums(others, np.array([0]), np.array([others.size]))[0])
    kept = None if people is None else people[valid]
    return SparseCounts.of_words(tree, high[valid], low[valid], kept, outside=outside)


def _read(frame: pl.LazyFrame) -> pl.DataFrame:
    return guarded(lambda: frame.collect(engine="streaming"))


def _as_number(frame: pl.LazyFrame, key: Key) -> pl.Expr:
    """The column of a key of bits as integers: texts that are no address become null."""
    name = key.columns_used[0]
    column = pl.col(name)
    if guarded(frame.collect_schema)[name].is_integer():
        return column
    return column.map_batches(partial(_numbers, key=key), return_dtype=pl.UInt128, is_elementwise=True)


def _numbers(texts: pl.Series, *, key: Key) -> pl.Series:
    high, low, valid = key.words(texts.alias(f"{KEY}_0").to_frame())
    words: dict[str, Any] = {"high": high, "low": low, "valid": valid}
    number = pl.col("high").cast(pl.UInt128) * pl.lit(2**64, pl.UInt128) + pl.col("low")
    return pl.DataFrame(words).select(pl.when("valid").then(number).alias(texts.name)).to_series()


@dataclass(frozen=True)
class ValueCounter:
    """How the rows of a frame become counts and sums of steps by leaf."""

    rows: RowCounter
    values: tuple[Value, ...]

    def count(self, data: Any) -> LeafValues:
        """The counts and sums of a frame. Rows without a number are left out before anything else is done."""
        frame = read_frame(data, self.rows.kinds)
        groups = self._grouped(frame) if self.rows.unit is None else self._bounded(frame)
        counts = self.rows.by_leaf(groups, PEOPLE)
        sums = tuple(_plain(self.rows.by_leaf(groups, name)) for name in self._names)
        return LeafValues(counts, sums)

    @property
    def _names(self) -> list[str]:
        return [f"steps_{place}" for place in range(len(self.values))]

    def _selected(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Keys, and the step of each value, of the rows that have all of them."""
        columns = selected_keys(frame, self.rows.key)
        if self.rows.unit is not None:
            columns.append(pl.col(self.rows.unit.column).alias(UNIT))
        steps = [step_of(each).alias(name) for each, name in zip(self.values, self._names, strict=True)]
        return frame.select(*columns, *steps).drop_nulls([*self._names, *([] if self.rows.unit is None else [UNIT])])

    def _grouped(self, frame: pl.LazyFrame) -> pl.DataFrame:
        names = key_names(self.rows.key)
        grouped = self._selected(frame).group_by(names).agg(pl.len().cast(pl.Int64).alias(PEOPLE), *self._totals())
        return guarded(lambda: collect_groups(grouped, len(names)))

    def _totals(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in self._names]

    def _bounded(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """Groups of the rows that are kept: of each person so many, in a uniformly random order of that person's."""
        unit = self.rows.unit
        assert unit is not None
        assert unit.rows is not None
        rows = self.rows.counted_rows(guarded(self._selected(frame).collect))
        order, starts = by_unit(rows[UNIT])
        sizes = np.diff(np.append(starts, order.size))
        order = order[shuffled(sizes, lambda: uniform_words(order.size))]
        kept = order[np.arange(order.size) - np.repeat(starts, sizes) < unit.rows]
        names = key_names(self.rows.key)
        return rows[kept].group_by(names).agg(pl.len().cast(pl.Int64).alias(PEOPLE), *self._totals())


def step_of(value: Value) -> pl.Expr:
    """The step of each row's number, 0 to 2**20, whatever it is; null where there is none, or NaN."""
    number = pl.col(value.column).cast(pl.Float64, strict=False).fill_nan(None).clip(value.low, value.high)
    # Times a number: where Polars divides, the last bit depends on how many rows it divides at once.
    part = (number - value.low) * (STEPS / (value.high - value.low))
    return (part + 0.5).floor().clip(0, STEPS).cast(pl.Int64, strict=False)


def _plain(sums: Ints | SparseCounts) -> Ints:
    return sums.occupied.counts if isinstance(sums, SparseCounts) else sums
