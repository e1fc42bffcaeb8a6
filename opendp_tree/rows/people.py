"""Rows of a Polars frame to records of people: who has how many rows at which leaf, and how many of them are kept.

All rows of a person are in one part, and no part knows of another. Into how many parts people fall says nothing about
what is kept of them, so the law of what is released is the same for any number. It shows in time and memory alone, and
so may depend on how many rows there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from opendp.mod import Domain, ExtrinsicDomain, Metric, Transformation, assert_features

from opendp_tree._arguments import check_integer
from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._opendp import extrinsic_domain, to_then
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key
from opendp_tree.noise import uniform_below, uniform_words
from opendp_tree.rows.grouping import UNIT, guarded, may_read_again
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts
from opendp_tree.trees.tree import Tree

__all__ = ["PeoplePart", "PeopleRecords", "make_people_records", "people_domain", "then_people_records"]

_PIECE = 1 << 20
"""So many records are weighed at a time, or as many as there are leaves, if these are more."""


@dataclass(frozen=True)
class PeoplePart:
    """Who of some people has how many rows at which leaf; who somebody is, nobody needs to know."""

    size: int
    starts: Ints
    leaves: Ints
    rows: Ints

    def pieces(self) -> Iterator[PeoplePart]:
        """The same records by fewer people at a time, so that what is computed of them takes little memory."""
        if not self.starts.size:
            yield self
        wanted = np.arange(0, self.leaves.size, max(_PIECE, self.size))
        firsts = np.searchsorted(self.starts, wanted).tolist()
        ends = np.append(self.starts, self.leaves.size)
        for first, last in pairwise(sorted({*firsts, self.starts.size})):
            records = slice(ends[first], ends[last])
            starts = self.starts[first:last] - ends[first]
            yield PeoplePart(self.size, starts, self.leaves[records], self.rows[records])

    @cached_property
    def people(self) -> Ints:
        """For each record the number of its person."""
        return np.repeat(np.arange(self.starts.size), self.lengths)

    @property
    def lengths(self) -> Ints:
        """For each person the number of records."""
        return np.diff(np.append(self.starts, self.leaves.size))

    @cached_property
    def totals(self) -> Ints:
        """For each person the number of all rows."""
        return np.add.reduceat(self.rows, self.starts) if self.starts.size else self.rows

    def placed(self, among: Bools | None = None) -> Ints:
        """For each leaf how many people are put there: each at one of their rows, drawn evenly `among` some leaves."""
        if not self.starts.size:
            return np.zeros(self.size, dtype=np.int64)
        rows = self.rows if among is None else np.where(among[self.leaves], self.rows, 0)
        totals, running = np.add.reduceat(rows, self.starts), np.cumsum(rows)
        some = totals > 0
        drawn = (running[self.starts] - rows[self.starts])[some] + uniform_below(totals[some])
        return np.bincount(self.leaves[np.searchsorted(running, drawn, side="right")], minlength=self.size)

    def added(self, weights: Ints) -> Ints:
        """For each leaf the sum of what its records weigh."""
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.leaves, weights)
        return sums


@dataclass(frozen=True)
class PeopleRecords:
    """Who has how many rows at which leaf, read from the data whenever it is asked for: one part of the people after
    the other, so that no more than one is in memory.
    """

    tree: Tree | OpenTree
    keys: SparseCounts | None
    parts: int
    read: Callable[[int], PeoplePart]

    def each(self) -> Iterator[PeoplePart]:
        """The records of all people, part by part. If there is only one, it is kept for the next time."""
        if self.parts == 1:
            yield self._all
            return
        for part in range(self.parts):
            yield self.read(part)

    @cached_property
    def _all(self) -> PeoplePart:
        return self.read(0)

    def summed(self, *weigh: Callable[[PeoplePart], Ints]) -> tuple[Ints, ...]:
        """What each function finds of some people, added up over all of them, in one pass over the data."""
        sums: tuple[Ints, ...] = ()
        for part in self.each():
            for piece in part.pieces():
                stop_if_interrupted()
                found = tuple(each(piece) for each in weigh)
                sums = tuple(map(np.add, sums, found)) if sums else found
            del part, piece  # before the next part is read
        return sums

    @property
    def sparse(self) -> SparseCounts:
        """The keys of an open tree."""
        assert self.keys is not None
        return self.keys

    def with_counts(self, counts: Ints) -> SparseCounts:
        """The keys of an open tree with these counts."""
        return replace(self.sparse, occupied=replace(self.sparse.occupied, counts=counts))


@dataclass(frozen=True)
class PeopleSpace:
    """Describes a domain of `PeopleRecords` of a tree."""

    tree: Tree | OpenTree


def people_domain(tree: Tree | OpenTree) -> Domain:
    """The domain of records of people at the leaves of a tree; `make_people_records` makes its members from frames.

    Under `symmetric_distance`, a distance of 1 is one person with all of their records.

    Parameters
    ----------
    tree
        The tree, public or open.
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


def make_people_records(
    input_domain: Domain,
    input_metric: Metric,
    *,
    by: Key | str | Sequence[str],
    unit: Unit,
    memory: int | str | None = None,
) -> Transformation:
    """Who has how many rows at which leaf, from the rows of a frame: `people_domain`, under `symmetric_distance`.

    Stability, exact: `d_in` people under `symmetric_id_distance`, twice as many under `change_one_id_distance`, which
    counts those who come or go in pairs; under `frame_distance` of these, the bound on the whole frame in the place of
    `d_in`. Proof: docs/proofs/people_layers.md. Nothing that is raised depends on values in the data, only on its
    schema. The cost is one Polars group-by of the keys. Records are read when a measurement asks for them, part by part
    if need be, joined to the keys and sorted; once more where people are counted at nodes that must be found first.

    Parameters
    ----------
    input_domain
        OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    input_metric
        How far frames are apart, in people: one of those above.
    by
        Where a row belongs: a `Key`, which carries a public tree and all else that there is to say, or the names of
        columns from the coarsest to the finest.
    unit
        Who a person is. Of it only the column is used here: all rows of a person are recorded.
    memory
        How much of it people's records may take, in bytes or as a text such as "2 GiB". Where there are more, the data
        are read several times, a part of the people each time. By default None: an eighth of the machine's, at most
        2 GiB.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [1, 1, 1, 2, None], "city": ["ghent", "ghent", "liege", "liege", "ghent"]})
    >>> space = frame_domain(visits), dp.symmetric_id_distance("user")
    >>> records = space >> then_people_records(by="city", unit=Unit("user", count="shares"))
    >>> [part] = records(visits).each()
    >>> part.rows, part.leaves, records.map(1)
    (array([2, 1, 1]), array([0, 1, 1]), 1)

    """
    from opendp_tree.rows.leaf_counts import make_counting

    assert_features("contrib")
    return make_counting(input_domain, input_metric, by=by, unit=unit, memory=memory, records=True)


then_people_records = to_then(make_people_records)


def read_records(data: Any, *, tree: Tree | OpenTree) -> PeopleRecords:
    """The records, once they are sure to be a member of the tree's domain."""
    if not _is_member(data, tree):
        raise TypeError("the data must be records of people of the tree of input_domain. Hint: make_people_records")
    records: PeopleRecords = replace(data, tree=tree)
    return records


_UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1024 ** (place + 1) for place, letter in enumerate("KMGT")}}
_UNITS |= {f"{letter}B": 1000 ** (place + 1) for place, letter in enumerate("KMGT")}
_LARGEST_SHARE, _LARGEST_DEFAULT = 8, 2 * 2**30
_BYTES_A_RECORD, _BYTES_A_COLUMN = 160, 48
"""What a row takes while people's records are sorted and weighed, beside columns that are held: three times what was
measured, because allocators keep for a while what a scan of files has used before.
"""
_MOST_PARTS = 1024
_HASHED = (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Duration, pl.Binary)
_WIDE = (pl.Int128, pl.UInt128)


def read_memory(memory: int | str | None) -> int:
    """A number of bytes; by default an eighth of the machine's memory, and at most 2 GiB."""
    if memory is None:
        return min(_machine_memory() // _LARGEST_SHARE, _LARGEST_DEFAULT)
    if not isinstance(memory, str):
        return check_integer(memory, name="memory", least=1)
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([A-Za-z]*)", memory.strip(), re.ASCII)
    if found is None or found[2] not in _UNITS or not 1 <= float(found[1]) * _UNITS[found[2]] < 2**62:
        raise ValueError(f"memory ({memory!r}) must be a number of bytes. Hint: '2GiB', or 2 * 2**30")
    return int(float(found[1]) * _UNITS[found[2]])


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # there is no way to ask on this system
        return _LARGEST_SHARE * _LARGEST_DEFAULT


def new_salt() -> bytes:
    """Sixteen secure bytes, to key a hash. Nothing depends on their being secret: they keep order from being chosen."""
    return uniform_words(2).tobytes()


def parts_for(rows: int, columns: int, memory: int) -> int:
    """Into how many parts to take so many rows, each with so many columns besides, for each to stay within memory."""
    needed = rows * (_BYTES_A_RECORD + _BYTES_A_COLUMN * columns)
    return max(1, min(-(-needed // memory), rows, _MOST_PARTS))


def frame_parts(frame: pl.LazyFrame, unit: str, rows: int, memory: int) -> int:
    """Into how many parts to take the people of a frame; one where values of its identifier have no hash."""
    dtype = guarded(frame.collect_schema)[unit]
    if _hashable(dtype, unit) is None:
        return 1
    return parts_for(rows, 0 if dtype.is_integer() else 1, memory)  # of the key, each row has a number alone


def same_when_read_again(frame: pl.LazyFrame) -> pl.LazyFrame:
    """A frame that has the same rows in every pass: one of which that is not known is run now, and held."""
    return frame if may_read_again(frame) else guarded(lambda: frame.collect(engine="streaming")).lazy()


def people_part(frame: pl.LazyFrame, unit: str, salt: bytes, part: int, parts: int) -> pl.LazyFrame:
    """The rows of the people of one part; a person's part is a hash of the salt and the identifier's value."""
    value = _hashable(guarded(frame.collect_schema)[unit], unit)
    if parts == 1 or value is None:
        return frame
    return frame.filter(value.hash(int.from_bytes(salt[:8], "little")) % parts == part)


def _hashable(dtype: Any, unit: str) -> pl.Expr | None:
    """The values of an identifier, where equal ones surely have equal hashes in every pass."""
    column = pl.col(unit)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)  # codes may differ from one pass to the next
    plain = dtype.is_integer() and dtype not in _WIDE
    return column if plain or dtype in _HASHED else None


def people_records(size: int, units: pl.Series, leaves: Ints, rows: Ints | None = None) -> PeoplePart:
    """The records of rows that come in any order: whose each is, none null, and at which of `size` leaves."""
    bits = max(size - 1, 0).bit_length()
    # Person and leaf in one word: one sort of plain integers puts both in order.
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
    """A number from 0 to below 2**bits for each row, the same for rows of one person alone; a new array."""
    if units.dtype.is_integer() and units.dtype not in _WIDE:
        values = units.to_numpy()
        if values.size and int(values.max()) - int(values.min()) >= 1 << bits:
            values = units.rank("dense").to_numpy()
        wide = values.astype(np.int64 if np.issubdtype(values.dtype, np.signedinteger) else np.uint64, copy=False)
        return (wide - (wide.min() if wide.size else wide.dtype.type(0))).view(np.int64)
    order, starts = by_unit(units)
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
    return numbers


def by_unit(units: pl.Series) -> tuple[Ints, Ints]:
    """An order of rows in which each unit's are together, and where each unit starts in it."""
    if units.dtype.is_integer() and units.dtype not in _WIDE:
        order = np.argsort(units.to_numpy())
        return order, _run_starts(units.to_numpy()[order])
    places = pl.DataFrame({UNIT: units}).with_row_index("place").group_by(UNIT).agg("place")["place"]
    sizes = places.list.len().to_numpy().astype(np.int64)
    return places.explode().to_numpy().astype(np.int64), np.cumsum(sizes) - sizes


def _run_starts(values: Ints) -> Ints:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])


def truncate(rows: Ints, starts: Ints, unit: Unit, draw: Callable[[Ints], Words]) -> Ints:
    """How many of its rows each pair of a person and a leaf keeps."""
    kept = rows if unit.leaves is None else np.minimum(rows, unit.rows_per_leaf)
    sizes = np.diff(np.append(starts, rows.size))
    crowded = np.zeros(sizes.size, dtype=np.bool_)
    if unit.leaves is not None:
        crowded |= sizes > unit.leaves
    if unit.rows is not None and rows.size:
        crowded |= np.add.reduceat(kept, starts) > unit.rows
    if not crowded.any():
        return kept
    places = np.flatnonzero(np.repeat(crowded, sizes))
    sizes = sizes[crowded]
    places = places[shuffled(sizes, lambda: draw(places))]
    starts = np.cumsum(sizes) - sizes
    ordered = kept[places]
    if unit.leaves is not None:
        ordered[np.arange(places.size) - np.repeat(starts, sizes) >= unit.leaves] = 0
    if unit.rows is not None:
        before = np.cumsum(ordered) - ordered
        before -= np.repeat(before[starts], sizes)
        ordered = np.clip(unit.rows - before, 0, ordered)
    kept = kept.copy()
    kept[places] = ordered
    return kept


def shuffled(sizes: Ints, draw: Callable[[], Words]) -> Ints:
    """A uniformly random order within each run of `sizes` places. Equal words say nothing of the order: draw again."""
    persons = np.repeat(np.arange(sizes.size), sizes)
    # Mostly the person and the first bits of the draw, in one word, tell all apart: one sort instead of two.
    bits = np.uint64(sizes.size.bit_length())
    joined = persons.astype(np.uint64) << (np.uint64(64) - bits) | draw() >> bits
    order = np.argsort(joined)
    tied = joined[order][1:] == joined[order][:-1]
    while tied.any():
        words = draw()
        order = np.lexsort((words, persons))
        tied = (words[order][1:] == words[order][:-1]) & (persons[1:] == persons[:-1])
    return order
