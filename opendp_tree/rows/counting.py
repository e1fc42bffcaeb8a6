"""From rows to leaf counts, to counts and sums by leaf, or to records of people: how they are made, and their maps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from opendp.metrics import (
    change_one_distance,
    hamming_distance,
    insert_delete_distance,
    l1_distance,
    symmetric_distance,
)
from opendp.mod import ChangeOneIdDistance, Domain, ExtrinsicDomain, Metric, Transformation

from opendp_tree._arguments import check_integer, column_hint
from opendp_tree._opendp import extrinsic_domain, make_transformation, total_bound
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key, Labels, key_names
from opendp_tree.keys.lookup import Lookup
from opendp_tree.noise import uniform_words
from opendp_tree.rows.domains import (
    LEAF,
    PEOPLE,
    UNIT,
    Table,
    check_rows_are_here,
    column_kinds,
    guarded,
    kind_of,
    may_read_again,
    narrowed,
    schema_of,
)
from opendp_tree.rows.people import (
    PeoplePart,
    PeopleRecords,
    is_narrow_integer,
    kept_rows,
    people_domain,
    people_records,
    truncate,
)
from opendp_tree.rows.unit import Unit, Value, identifier_of, inner_metric, read_values
from opendp_tree.saturate import range_sums
from opendp_tree.theorems.noise import leaf_counts_l1
from opendp_tree.theorems.sums import STEPS, people_apart
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.labels import check_figure_names
from opendp_tree.trees.nodes import SparseCounts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

_MEMORY_UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1024 ** (index + 1) for index, letter in enumerate("KMGT")}}
_MEMORY_UNITS |= {f"{letter}B": 1000 ** (index + 1) for index, letter in enumerate("KMGT")}
_LARGEST_SHARE, _LARGEST_DEFAULT = 8, 2 * 2**30
_BYTES_A_RECORD, _BYTES_A_COLUMN = 160, 48
"""The bytes per row while people's records are sorted and weighed, and per further column: three times what was
measured, because allocators keep what a scan of files has used for a while.
"""
_MOST_PARTS = 1024
TOO_MANY_ROWS = 2**42
"""The sums of so many rows, of up to 2**20 steps each, could exceed 64 bits."""
_HASHED = (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Duration, pl.Binary)
_SAMPLE = 1 << 16


def read_memory(memory: int | str | None) -> int:
    """A number of bytes; by default an eighth of the machine's memory, at most 2 GiB."""
    if memory is None:
        return min(_machine_memory() // _LARGEST_SHARE, _LARGEST_DEFAULT)
    if not isinstance(memory, str):
        return check_integer(memory, name="memory", least=1)
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([A-Za-z]*)", memory.strip(), re.ASCII)
    if match is None or match[2] not in _MEMORY_UNITS or not 1 <= float(match[1]) * _MEMORY_UNITS[match[2]] < 2**62:
        raise ValueError(f"memory ({memory!r}) must be a number of bytes. Hint: '2GiB', or 2 * 2**30")
    return int(float(match[1]) * _MEMORY_UNITS[match[2]])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not known on this system
        return _LARGEST_SHARE * _LARGEST_DEFAULT


def _same_when_read_again(frame: pl.LazyFrame) -> pl.LazyFrame:
    """A frame that has the same rows in every pass: run now and held in memory, unless that is known of it."""
    return frame if may_read_again(frame) else _collect(frame).lazy()


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    return guarded(lambda: frame.collect(engine="streaming"))


@dataclass(frozen=True)
class FrameRows:
    """A frame that answers the questions of a `Table`; where an answer has no column `people`, a record is one row."""

    frame: pl.LazyFrame
    salt: int = 0
    """Of the hash that assigns people to parts. It need not be secret: it keeps a caller from choosing the parts."""

    def rows_per_key(self, key: Key, unit: str | None = None) -> pl.DataFrame:
        """The number of rows of each key, one record per key."""
        return grouped(self.selected(key, unit), key, pl.len().cast(pl.Int64).alias(PEOPLE))

    def sorted_keys(self, key: Key) -> pl.DataFrame:
        """The keys of bits: counted, or one record per row where few repeat and sorting them is faster."""
        source = FrameRows(_same_when_read_again(self.frame))
        keys = source.selected(key, None)
        sample = _collect(keys.head(_SAMPLE))
        if 2 * sample.n_unique() < sample.height:
            return source.rows_per_key(key)
        rows = _collect(keys)
        return rows.select(pl.first().sort()) if rows.dtypes[0].is_integer() else rows

    def rows_per_person(self, key: Key, unit: str, part: int, parts: int) -> pl.LazyFrame:
        """The person and the key of each row, for the people of one part."""
        dtype = guarded(self.frame.collect_schema)[unit]
        rows = self.selected(key, unit)
        if parts == 1:
            return rows
        # Codes of categories may differ from one pass to the next.
        value = pl.col(UNIT).cast(pl.String) if isinstance(dtype, (pl.Categorical, pl.Enum)) else pl.col(UNIT)
        if is_narrow_integer(dtype) or dtype in (*_HASHED, pl.Categorical, pl.Enum):
            return rows.filter(value.hash(self.salt) % parts == part)
        return rows if part == 0 else rows.clear()  # values of other types may be equal and differ in their hash

    def selected(self, key: Key, unit: str | None, *others: pl.Expr) -> pl.LazyFrame:
        """The columns that rows are grouped by, the person, and other columns; without rows that have no person."""
        columns = [*key.expressions(key.columns_used, guarded(self.frame.collect_schema)), *others]
        if unit is None:
            return self.frame.select(columns)
        return self.frame.filter(pl.col(unit).is_not_null()).select(*columns, pl.col(unit).alias(UNIT))


def grouped(rows: pl.LazyFrame, key: Key, *totals: pl.Expr) -> pl.DataFrame:
    """Totals of rows by key."""
    groups = rows.group_by(key_names(key)).agg(totals)
    # Counting piece by piece is faster, except for several columns of a frame that is in memory already.
    files = " SCAN " in guarded(lambda: groups.explain(optimized=False))
    engine: Literal["streaming", "in-memory"] = "streaming" if files or len(key.columns_used) == 1 else "in-memory"
    return guarded(lambda: groups.collect(engine=engine))


@dataclass(frozen=True)
class RowCounter:
    """Turns rows into leaf counts, leaf values, or records of people."""

    key: Key
    kinds: dict[str, str]
    """What each column that is used must hold."""
    unit: Unit | None
    """The bounds on a person's rows; None where all rows are counted."""
    lookup: Lookup | None
    """Finds the leaves of a public tree; None for open trees."""
    memory: int
    """The bytes that people's records may take before they are read part by part."""

    @classmethod
    def of(
        cls,
        key: Key,
        kinds: dict[str, str],
        unit: Unit | None,
        memory: int | str | None = None,
        values: tuple[Value, ...] = (),
    ) -> RowCounter:
        """The counter for frames whose columns hold these kinds."""
        used = (*key.columns_used, *([] if unit is None else [unit.column]), *(each.column for each in values))
        return cls(key, {name: kinds[name] for name in used}, unit, key.lookup(kinds), read_memory(memory))

    def source(self, data: Any) -> Table | FrameRows:
        """The frame or table, once its columns are sure to hold what was declared. Reads no row."""
        schema = schema_of(data)
        if schema is None:
            hint = "Hint: read_source makes one of other frames"
            raise TypeError(f"the data must be a Polars LazyFrame or DataFrame. {hint}")
        for name, kind in self.kinds.items():
            held = kind_of(schema[name]) if name in schema else "nothing: there is none"
            if held != kind:
                raise TypeError(f"the data: column {name!r} must hold {kind}, as input_domain says; it holds {held}")
        return data if isinstance(data, Table) else FrameRows(narrowed(data, self.kinds))

    def count(self, data: Any) -> Ints | SparseCounts:
        """The leaf counts of a frame or table."""
        unit = self.unit
        if unit is None:
            source = self.source(data)
            if isinstance(source, FrameRows) and self._is_open_bits:
                return self.by_leaf(source.sorted_keys(self.key))
            return self.by_leaf(source.rows_per_key(self.key))
        records = self.people(data)

        def kept(part: PeoplePart) -> Ints:
            return part.added(truncate(part.rows, part.starts, unit, partial(_draws, records, part)))

        (counts,) = records.summed(kept)
        # A key of which nothing is kept must not show: it would reveal that somebody has it.
        return counts if records.keys is None else records.keys.recounted(counts)

    def values(self, data: Any, values: tuple[Value, ...]) -> tuple[Ints | SparseCounts, tuple[Ints, ...]]:
        """The counts and the sums of steps by leaf. Rows without a number are left out before anything else is done."""
        source, unit = self.source(data), self.unit
        assert isinstance(source, FrameRows)
        names = [f"steps_{index}" for index in range(len(values))]
        steps = [step_of(value).alias(name) for value, name in zip(values, names, strict=True)]
        rows = source.selected(self.key, None if unit is None else unit.column, *steps).drop_nulls(names)
        if unit is not None:
            counted = guarded(rows.collect)
            keys = counted.select(key_names(self.key)).unique()
            leaves = keys.filter(pl.Series(self._leaves(keys) >= 0))
            if leaves.height < keys.height:  # rows without a leaf do not use up a person's bound
                counted = counted.join(leaves, on=leaves.columns, how="semi", nulls_equal=True)
            rows = counted[kept_rows(counted[UNIT], unit)].lazy()
        groups = grouped(rows, self.key, pl.len().cast(pl.Int64).alias(PEOPLE), *(pl.col(name).sum() for name in names))
        sums = (self.by_leaf(groups, name) for name in names)
        arrays = tuple(each.occupied.counts if isinstance(each, SparseCounts) else each for each in sums)
        return self.by_leaf(groups), arrays

    def by_leaf(self, groups: pl.DataFrame, column: str = PEOPLE) -> Ints | SparseCounts:
        """The sums of a column of groups by leaf, in an order that is the same for every column."""
        if self._is_open_bits:
            return _bit_counts(groups, self.key, column)
        counts = groups[column].to_numpy()
        if self.lookup is not None:
            leaves = self.key.leaves(groups, self.lookup)
            order = np.argsort(leaves)
            ends = np.searchsorted(leaves[order], np.arange(self.lookup.tree.leaf_count + 1))
            return range_sums(counts[order], ends[:-1], ends[1:])
        labels = self.key.labels(groups)
        if not (valid := self._valid(labels)).all():
            return self.by_leaf(groups.filter(valid), column)
        # Null stands for the end of a key or for a label, never for both below one node.
        return SparseCounts.of_labels(self.key.open_tree(), labels.columns, labels.lengths, counts)

    def people(self, data: Any) -> PeopleRecords:
        """The number of rows of each person at each leaf, to be read from a frame or a table part by part."""
        assert self.unit is not None
        unit, names, source = self.unit.column, key_names(self.key), self.source(data)
        if isinstance(source, FrameRows):
            source = FrameRows(_same_when_read_again(source.frame), int(uniform_words(1)[0]))
            held = 0 if self.kinds[unit] == "integer" else 1  # each row holds a leaf's number instead of its key
        else:
            held = len(self.kinds)
        groups = source.rows_per_key(self.key, unit)
        rows = int(groups[PEOPLE].sum())
        needed = rows * (_BYTES_A_RECORD + _BYTES_A_COLUMN * held)
        parts = max(1, min(-(-needed // self.memory), rows, _MOST_PARTS))
        leaves, size, sparse = self._numbered_leaves(groups.select(names).unique())

        def read(part: int) -> PeoplePart:
            records = source.rows_per_person(self.key, unit, part, parts)
            rows = _collect(records.join(leaves.lazy(), on=names, nulls_equal=True).drop(names))
            counts = rows[PEOPLE].to_numpy() if PEOPLE in rows.columns else None
            return people_records(size, rows[UNIT], rows[LEAF].to_numpy(), counts)

        # If there is only one part, it is kept for the next time.
        return PeopleRecords(self.key.hierarchy, sparse, parts, cache(read) if parts == 1 else read)

    def _numbered_leaves(self, keys: pl.DataFrame) -> tuple[pl.DataFrame, int, SparseCounts | None]:
        """The keys that belong to a leaf with its index, the number of leaves, and an open tree's keys in order."""
        leaves, sparse = self._leaves(keys), None
        if self.lookup is not None:
            size = self.lookup.tree.leaf_count
        else:
            firsts = np.unique(leaves[leaves >= 0])
            size = firsts.size
            # Each key is counted as its own number, which then stands at the index of its leaf.
            found = self.by_leaf(keys[firsts].with_columns(pl.Series(PEOPLE, np.arange(1, size + 1))))
            assert isinstance(found, SparseCounts)
            indices, sparse = np.zeros(keys.height, dtype=np.int64), found
            indices[firsts[sparse.occupied.counts - 1]] = np.arange(size)
            leaves = np.where(leaves >= 0, indices[leaves], -1)
        numbered = keys.with_columns(pl.Series(LEAF, leaves)).filter(pl.col(LEAF) >= 0)
        return numbered.cast({LEAF: pl.UInt32 if size < 2**32 else pl.Int64}), size, sparse

    def _leaves(self, groups: pl.DataFrame) -> Ints:
        """A number for each group, the same for groups of one leaf; -1 for groups that do not count."""
        if self.lookup is not None:
            return self.key.leaves(groups, self.lookup)
        if self._is_open_bits:
            high, low, valid = self.key.words(groups)
            # All that is not a key belongs to one leaf, if there is one.
            words = {"high": np.where(valid, high, 0), "low": np.where(valid, low, 0), "is_key": valid}
            columns = [pl.Series(name, array) for name, array in words.items()]
            valid = valid | self.key.open_tree().outside
        else:
            labels = self.key.labels(groups)
            columns = [column.alias(f"label_{level}") for level, column in enumerate(labels.columns)]
            columns.append(pl.Series("length", labels.lengths))
            valid = self._valid(labels)
        frame = pl.DataFrame(columns)
        first = frame.with_row_index(LEAF).select(pl.col(LEAF).min().over(frame.columns))[LEAF].to_numpy()
        return np.where(valid, first.astype(np.int64), -1)

    @property
    def _is_open_bits(self) -> bool:
        return self.lookup is None and self.key.open_tree().kind == "bits"

    def _valid(self, labels: Labels) -> Bools:
        return ~labels.with_null() if self.key.drops_nulls else np.ones(labels.lengths.size, dtype=np.bool_)


def _draws(records: PeopleRecords, part: PeoplePart, places: Ints) -> Words:
    """A random word for each of some records of a part, independent of all data and of one another."""
    return uniform_words(places.size)


def _bit_counts(groups: pl.DataFrame, key: Key, column: str) -> SparseCounts:
    """The sums of a column of groups by key of bits; without that column, each record is one row."""
    tree, (high, low, valid) = key.open_tree(), key.words(groups)
    counts = groups[column].to_numpy() if column in groups.columns else None
    if valid.all():
        return SparseCounts.of_words(tree, high, low, counts)
    outside = None
    if tree.outside:
        others = np.ones(int((~valid).sum()), dtype=np.int64) if counts is None else counts[~valid]
        outside = int(range_sums(others, np.array([0]), np.array([others.size]))[0])
    return SparseCounts.of_words(
        tree, high[valid], low[valid], None if counts is None else counts[valid], outside=outside
    )


def step_of(value: Value) -> pl.Expr:
    """The step of each row's number, from 0 to 2**20; null where the number is null or NaN."""
    number = pl.col(value.column).cast(pl.Float64, strict=False).fill_nan(None).clip(value.low, value.high)
    # Times a number: where Polars divides, the last bit depends on how many rows it divides at once.
    part = (number - value.low) * (STEPS / (value.high - value.low))
    return (part + 0.5).floor().clip(0, STEPS).cast(pl.Int64, strict=False)


@dataclass(frozen=True)
class LeafValues:
    """Counts and sums of rows by leaf.

    :param counts: The leaf counts: an array in the order of a public tree's leaves, or the sparse counts of an open
        tree.
    :param sums: For each value the sums of its steps, 0 to 2**20 per row, in the order of the counts.
    """

    counts: Ints | SparseCounts
    sums: tuple[Ints, ...]

    @property
    def people(self) -> Ints:
        """The counts as an array."""
        return self.counts.occupied.counts if isinstance(self.counts, SparseCounts) else self.counts


@dataclass(frozen=True)
class LeafValueSpace:
    """Describes a domain of `LeafValues`."""

    tree: Tree | OpenTree
    values: tuple[Value, ...]

    def holds(self, value: object) -> bool:
        """Whether a value is a member, by its form and by its size: sums of members never wrap."""
        if type(value) is not LeafValues or len(value.sums) != len(self.values):
            return False
        counts, rows = value.counts, value.people
        if isinstance(self.tree, OpenTree):
            fits = type(counts) is SparseCounts and counts.tree == self.tree
        else:
            fits = type(counts) is np.ndarray and counts.shape == (self.tree.leaf_count,)
        for array in (rows, *value.sums):
            fits = fits and type(array) is np.ndarray and array.dtype == np.int64 and array.shape == rows.shape
        # Floats add whole numbers exactly below 2**53, and larger sums stay above the limit.
        if not fits or not ((rows >= 0) & (rows < TOO_MANY_ROWS)).all() or rows.sum(dtype=np.float64) >= TOO_MANY_ROWS:
            return False
        return all(bool(((steps >= 0) & (steps <= STEPS * rows)).all()) for steps in value.sums)

    def read(self, value: object) -> LeafValues:
        """The value, if it is a member."""
        if not self.holds(value):
            raise TypeError("the data must be LeafValues of input_domain. Hint: make_leaf_values")
        assert isinstance(value, LeafValues)
        return value


def leaf_values_domain(tree: Tree | OpenTree, values: Value | Sequence[Value]) -> Domain:
    """The domain of counts and sums by leaf, of fewer than 2**42 rows; `make_leaf_values` makes its members.

    Counts are not negative, and a leaf's sums are from 0 to 2**20 times its rows. Distances between members are in
    rows: at a `symmetric_distance` of d, the two come from frames that differ in d rows, added or removed.

    :param tree: The public tree, or the open one.
    :param values: What is summed, as for `make_leaf_values`.
    """
    described = LeafValueSpace(tree, read_values(values))
    check_figure_names([each.column for each in described.values], tree.names)
    identifier = f"LeafValues({leaf_domain(tree)}, {described.values})"
    return extrinsic_domain(identifier, described.holds, described)


def read_space(input_domain: Domain) -> LeafValueSpace:
    """The description of a domain of `LeafValues`."""
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    if not isinstance(described, LeafValueSpace):
        raise ValueError(f"input_domain ({input_domain}) must hold leaf values. Hint: leaf_values_domain(tree, values)")
    return described


class Counting(NamedTuple):
    """The parts of a transformation of frames."""

    output_domain: Domain
    output_metric: Metric
    count: Callable[[Any], Any]
    stability_map: Callable[[Any], int]


def make_counting(input_domain: Domain, input_metric: Metric, **options: Any) -> Transformation:
    """Leaf counts of frames; leaf values where there are `values`; records of people where `records` is true."""
    return make_transformation(input_domain, input_metric, *read_counting(input_domain, input_metric, **options))


def read_counting(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str],
    unit: Unit | None = None,
    memory: int | str | None = None,
    records: bool = False,
    values: tuple[Value, ...] = (),
) -> Counting:
    """The parts of `make_counting`, of checked arguments."""
    key, kinds, person = Key.of(by), column_kinds(input_domain), Unit.of(unit)
    if values and person is not None and (person.rows is None or not person.weighs):
        hint = f"Hint: Unit({person.column!r}, rows=5)"
        raise ValueError(f"unit must be a bound on rows alone where there is a value. {hint}")
    if values and isinstance(input_domain, ExtrinsicDomain):
        check_rows_are_here("value", input_domain.descriptor)
    key.check_kinds(kinds)
    for value in values:
        value.check_kinds(kinds)
    changed, counter = _check_unit(input_metric, kinds, person), RowCounter.of(key, kinds, person, memory, values)
    if records and person is None:
        raise ValueError("unit must tell people apart. Hint: Unit('user', count='shares')")
    if records:
        distance = partial(people_apart, changed=changed)
    else:
        distance = partial(leaf_counts_l1, per_unit=1 if person is None else person.most_rows, changed=changed)

    def stability_map(d_in: Any) -> int:
        bound = total_bound(input_metric, d_in)
        if bound is None:
            raise ValueError("d_in must bound the whole frame. Hint: a Bound without `by`; truncate_per_group(k)")
        return distance(check_integer(bound, name="d_in", least=0))

    tree = key.hierarchy
    if records:
        return Counting(people_domain(tree), symmetric_distance(), counter.people, stability_map)
    if values:
        domain = leaf_values_domain(tree, values)
        return Counting(
            domain, symmetric_distance(), lambda data: LeafValues(*counter.values(data, values)), stability_map
        )
    return Counting(leaf_domain(tree), l1_distance(T="i64"), counter.count, stability_map)


def are_changed(metric: Metric) -> bool | None:
    """Whether a metric counts rows that are changed, not added or removed; None if it does not count rows."""
    if metric in (symmetric_distance(), insert_delete_distance()):
        return False
    return True if metric in (change_one_distance(), hamming_distance()) else None


def read_unit(metric: Metric, kinds: dict[str, str]) -> tuple[str | None, bool]:
    """The column that tells people apart, or None; and whether people or rows are changed, not added or removed."""
    name, inner = identifier_of(metric), inner_metric(metric)
    if name is None:
        changed = are_changed(inner)
        if changed is None:
            raise ValueError(
                f"input_metric ({metric}) must be symmetric_distance, insert_delete_distance, change_one_distance, "
                "hamming_distance, symmetric_id_distance, change_one_id_distance, or frame_distance of one of them"
            )
        return None, changed
    if name not in kinds:
        raise ValueError(f"unit: there is no column {name!r}. {column_hint(name, kinds)}")
    if kinds[name].startswith(("Object", "engine type")):
        raise ValueError(f"unit: the identifier {name!r} must be of a type whose values can be compared. Hint: text")
    return name, isinstance(inner, ChangeOneIdDistance)


def _check_unit(metric: Metric, kinds: dict[str, str], unit: Unit | None) -> bool:
    """Checks that unit and metric tell people apart by one column; whether people or rows are changed."""
    name, changed = read_unit(metric, kinds)
    if name is None and unit is not None:
        raise ValueError("unit needs an input_metric with an identifier. Hint: symmetric_id_distance('user')")
    if name is not None and unit is None:
        reason = f"because {name!r} identifies people. Hint: unit=Unit({name!r}, rows=5)"
        raise ValueError(f"unit must say how much of one person is counted, {reason}")
    if unit is not None and unit.column != name:
        hint = f"Hint: unit=Unit({name!r}, ...)"
        raise ValueError(f"unit ({unit.column!r}) must be {name!r}, which tells people apart. {hint}")
    return changed
