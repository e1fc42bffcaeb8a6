"""Rows of a Polars frame to records of people: who has how many rows at which leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from opendp.mod import Domain, ExtrinsicDomain, Metric, Transformation, assert_features

from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._opendp import extrinsic_domain, make_transformation, to_then
from opendp_tree._types import Ints
from opendp_tree.keys.key import Key
from opendp_tree.noise import uniform_below
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

    def placed(self) -> Ints:
        """For each leaf how many people are put there: each at the leaf of one of their rows, drawn evenly."""
        if not self.starts.size:
            return np.zeros(self.size, dtype=np.int64)
        running = np.cumsum(self.rows)
        drawn = running[self.starts] - self.rows[self.starts] + uniform_below(self.totals)
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
    from opendp_tree.rows.leaf_counts import LeafCounting

    assert_features("contrib")
    counting = LeafCounting.of(input_domain, input_metric, by=by, unit=unit, memory=memory, records=True)
    return make_transformation(input_domain, input_metric, *counting.space, counting.count, counting.stability_map)


then_people_records = to_then(make_people_records)


def read_records(data: Any, *, tree: Tree | OpenTree) -> PeopleRecords:
    """The records, once they are sure to be a member of the tree's domain."""
    if not _is_member(data, tree):
        raise TypeError("the data must be records of people of the tree of input_domain. Hint: make_people_records")
    records: PeopleRecords = replace(data, tree=tree)
    return records
