"""Records of people: how many rows each person has at each leaf, and how many of them are kept.

All rows of a person are in one part, and parts are processed independently. The law of the result is the same for any
number of parts, so the number may depend on how many rows there are: it affects only time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from opendp.mod import Domain, ExtrinsicDomain

from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._opendp import extrinsic_domain
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.noise import uniform_below, uniform_words
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.nodes import SparseCounts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

_PIECE = 1 << 20
"""The number of records that are weighed at a time, unless there are more leaves."""


@dataclass(frozen=True)
class PeoplePart:
    """The numbers of rows of some people at each leaf: one record per person and leaf, without identifiers."""

    size: int
    """The number of leaves of the tree."""
    starts: Ints
    """The first record of each person."""
    leaves: Ints
    rows: Ints

    def pieces(self) -> Iterator[PeoplePart]:
        """The same records for fewer people at a time, so that computations on them take little memory."""
        if not self.starts.size:
            yield self
        firsts = np.searchsorted(self.starts, np.arange(0, self.leaves.size, max(_PIECE, self.size))).tolist()
        ends = np.append(self.starts, self.leaves.size)
        for first, last in pairwise(sorted({*firsts, self.starts.size})):
            records = slice(ends[first], ends[last])
            starts = self.starts[first:last] - ends[first]
            yield PeoplePart(self.size, starts, self.leaves[records], self.rows[records])

    @cached_property
    def people(self) -> Ints:
        """The number of each record's person."""
        return np.repeat(np.arange(self.starts.size), self.lengths)

    @property
    def lengths(self) -> Ints:
        """The number of each person's records."""
        return np.diff(np.append(self.starts, self.leaves.size))

    @cached_property
    def totals(self) -> Ints:
        """The number of each person's rows."""
        return np.add.reduceat(self.rows, self.starts) if self.starts.size else self.rows

    def placed(self, among: Bools | None = None) -> Ints:
        """The number of people placed at each leaf: each at one of their rows, drawn uniformly `among` some leaves."""
        if not self.starts.size:
            return np.zeros(self.size, dtype=np.int64)
        rows = self.rows if among is None else np.where(among[self.leaves], self.rows, 0)
        totals, running = np.add.reduceat(rows, self.starts), np.cumsum(rows)
        some = totals > 0
        drawn = (running[self.starts] - rows[self.starts])[some] + uniform_below(totals[some])
        return np.bincount(self.leaves[np.searchsorted(running, drawn, side="right")], minlength=self.size)

    def added(self, weights: Ints) -> Ints:
        """The sum of the weights of each leaf's records."""
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.leaves, weights)
        return sums


@dataclass(frozen=True)
class PeopleRecords:
    """The records of all people, read from the data on demand, one part of the people in memory at a time."""

    tree: Tree | OpenTree
    keys: SparseCounts | None
    parts: int
    read: Callable[[int], PeoplePart]

    def each(self) -> Iterator[PeoplePart]:
        """The records of all people, part by part."""
        return map(self.read, range(self.parts))

    def summed(self, *weigh: Callable[[PeoplePart], Ints]) -> tuple[Ints, ...]:
        """The sums over all people of what each function computes, in one pass over the data."""
        sums: tuple[Ints, ...] = ()
        for part in self.each():
            for piece in part.pieces():
                stop_if_interrupted()
                computed = tuple(each(piece) for each in weigh)
                sums = tuple(map(np.add, sums, computed)) if sums else computed
            del part, piece  # before the next part is read
        return sums

    @property
    def sparse(self) -> SparseCounts:
        """The keys of an open tree."""
        assert self.keys is not None
        return self.keys


@dataclass(frozen=True)
class PeopleSpace:
    """Describes a domain of `PeopleRecords` of a tree."""

    tree: Tree | OpenTree


def people_domain(tree: Tree | OpenTree) -> Domain:
    """The domain of records of people at the leaves of a tree; `make_people_records` makes its members from frames.

    Under `symmetric_distance`, a distance of 1 is one person with all of their records.

    :param tree: The tree, public or open.
    """
    if not isinstance(tree, (Tree, OpenTree)):
        raise TypeError(f"tree ({type(tree).__name__}) must be a Tree or an OpenTree")
    name = tree.digest if isinstance(tree, Tree) else tree
    return extrinsic_domain(f"PeopleRecords({name})", lambda value: _is_member(value, tree), PeopleSpace(tree))


def _is_member(value: object, tree: Tree | OpenTree) -> bool:
    return type(value) is PeopleRecords and value.tree == tree


def tree_of_people(input_domain: Domain) -> Tree | OpenTree | None:
    """The tree of a domain of records of people; None for any other domain."""
    described = input_domain.descriptor if isinstance(input_domain, ExtrinsicDomain) else None
    return described.tree if isinstance(described, PeopleSpace) else None


def read_records(data: Any, *, tree: Tree | OpenTree) -> PeopleRecords:
    """The records, if they are a member of the tree's domain."""
    if not _is_member(data, tree):
        raise TypeError("the data must be records of people of the tree of input_domain. Hint: make_people_records")
    records: PeopleRecords = replace(data, tree=tree)
    return records


def is_narrow_integer(dtype: Any) -> bool:
    """Whether a data type is an integer type of NumPy."""
    return bool(dtype.is_integer()) and dtype not in (pl.Int128, pl.UInt128)


def people_records(size: int, units: pl.Series, leaves: Ints, rows: Ints | None = None) -> PeoplePart:
    """The records of rows in any order, by their persons, none null, and leaves, of which there are `size`."""
    bits = max(size - 1, 0).bit_length()
    # Person and leaf in one word: one sort of plain integers orders both.
    joined = person_numbers(units, 63 - bits)
    joined <<= bits
    joined |= leaves
    if rows is None:
        joined = pl.Series(joined).sort().to_numpy()
        firsts = _run_starts(joined)
        rows = np.append(firsts[1:], joined.size)[: firsts.size]
        rows -= firsts
    else:
        order = np.argsort(joined)
        joined = joined[order]
        firsts = _run_starts(joined)
        rows = np.add.reduceat(rows[order], firsts) if firsts.size else rows
    pairs = joined[firsts]
    del joined, firsts
    starts = _run_starts(pairs >> bits)
    pairs &= (1 << bits) - 1
    return PeoplePart(size, starts, pairs, rows)


def person_numbers(units: pl.Series, bits: int) -> Ints:
    """A number from 0 to below 2**bits for each row, different for different persons; a new array."""
    if is_narrow_integer(units.dtype):
        values = units.to_numpy()
        if values.size and int(values.max()) - int(values.min()) >= 1 << bits:
            values = units.rank("dense").to_numpy()
        wide = values.astype(np.int64 if np.issubdtype(values.dtype, np.signedinteger) else np.uint64, copy=False)
        return (wide - (wide.min() if wide.size else wide.dtype.type(0))).view(np.int64)
    rows = pl.DataFrame({"unit": units}).with_row_index("row")
    return rows.select(pl.col("row").min().over("unit")).to_series().to_numpy().astype(np.int64)


def _run_starts(values: Ints) -> Ints:
    """The index at which each run of equal values begins."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])


def truncate(rows: Ints, starts: Ints, unit: Unit, draw: Callable[[Ints], Words]) -> Ints:
    """The number of rows that each pair of a person and a leaf keeps."""
    kept = rows if unit.leaves is None else np.minimum(rows, unit.rows_per_leaf)
    sizes = np.diff(np.append(starts, rows.size))
    crowded = np.zeros(sizes.size, dtype=np.bool_)
    if unit.leaves is not None:
        crowded |= sizes > unit.leaves
    if unit.rows is not None and rows.size:
        crowded |= np.add.reduceat(kept, starts) > unit.rows
    if not crowded.any():
        return kept
    records = np.flatnonzero(np.repeat(crowded, sizes))
    sizes = sizes[crowded]
    records = records[shuffled(sizes, lambda: draw(records))]
    starts = np.cumsum(sizes) - sizes
    ordered = kept[records]
    if unit.leaves is not None:
        ordered[np.arange(records.size) - np.repeat(starts, sizes) >= unit.leaves] = 0
    if unit.rows is not None:
        before = np.cumsum(ordered) - ordered
        before -= np.repeat(before[starts], sizes)
        ordered = np.clip(unit.rows - before, 0, ordered)
    kept = kept.copy()
    kept[records] = ordered
    return kept


def shuffled(sizes: Ints, draw: Callable[[], Words]) -> Ints:
    """A uniformly random order within runs of these sizes; where two words of a run are equal, all are drawn again."""
    persons = np.repeat(np.arange(sizes.size), sizes)
    # The person and the first bits of the draw, in one word, nearly always differ: one sort instead of two.
    bits = np.uint64(sizes.size.bit_length())
    joined = persons.astype(np.uint64) << (np.uint64(64) - bits) | draw() >> bits
    order = np.argsort(joined)
    tied = joined[order][1:] == joined[order][:-1]
    while tied.any():
        words = draw()
        order = np.lexsort((words, persons))
        tied = (words[order][1:] == words[order][:-1]) & (persons[1:] == persons[:-1])
    return order


def kept_rows(units: pl.Series, unit: Unit) -> Ints:
    """The indices of the rows that are kept, drawn uniformly at random among those of each person."""
    persons = person_numbers(units, 63)
    order = np.argsort(persons)
    kept = truncate(np.ones_like(order), _run_starts(persons[order]), unit, lambda rows: uniform_words(rows.size))
    return order[kept > 0]
