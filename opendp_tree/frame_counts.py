"""Frames to leaf counts: group the rows, find each group's leaf, bound what a person contributes, add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from opendp_tree.frame_groups import PEOPLE, UNIT, group_rows, read_frame
from opendp_tree.frame_keys import Bools, read_labels, read_words
from opendp_tree.frame_lookup import Lookup
from opendp_tree.frames import code_labels
from opendp_tree.keys import Key
from opendp_tree.noise import uniform_words
from opendp_tree.open_tree import SparseCounts
from opendp_tree.saturate import range_sums
from opendp_tree.truncation import Limits, truncate

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Keep = Callable[[Bools, Callable[[], Ints]], tuple[Ints, Ints]]


def _draws(pairs: pl.DataFrame) -> Words:
    """A number for each pair of a person and a leaf, independent of all data and of one another."""
    return uniform_words(pairs.height)


@dataclass(frozen=True)
class RowCounter:
    """How the rows of a frame become leaf counts."""

    key: Key
    kinds: dict[str, str]
    """What each column that is used must hold."""
    drop_nulls: bool
    unit: str | None
    limits: Limits | None
    lookup: Lookup | None
    """For a public tree."""
    other: int
    """The place among the leaves for what the public tree lacks; -1 to drop it."""

    def count(self, data: Any) -> Ints | SparseCounts:
        """The leaf counts of a frame."""
        groups = group_rows(read_frame(data, self.kinds), self.key, self.unit)
        if self.lookup is not None:
            return self._count_public(groups, self.lookup)
        tree = self.key.open_tree()
        if tree.kind == "bits":
            high, low, valid = read_words(groups, self.key)
            rows, people = self._kept(groups, valid, lambda: _row_ids(np.column_stack((_ranks(high), _ranks(low)))))
            return SparseCounts.of_words(tree, high[rows], low[rows], people)
        labels = read_labels(groups, self.key)
        valid = ~labels.with_null() if self.drop_nulls else np.ones(groups.height, dtype=np.bool_)
        codes, texts = labels.codes()
        rows, people = self._kept(groups, valid, lambda: _row_ids(codes))
        return SparseCounts.of_labels(tree, codes[rows], texts, people=people)

    def _count_public(self, groups: pl.DataFrame, lookup: Lookup) -> Ints:
        labels = read_labels(groups, self.key)
        leaves = lookup.leaves(labels)
        leaves[leaves < 0] = self.other
        if self.drop_nulls:
            leaves[labels.with_null()] = -1
        rows, people = self._kept(groups, leaves >= 0, lambda: leaves)
        order = np.argsort(leaves[rows])
        ends = np.searchsorted(leaves[rows][order], np.arange(lookup.tree.leaf_count + 1))
        return range_sums(people[order], ends[:-1], ends[1:])

    def _kept(self, groups: pl.DataFrame, valid: Bools, leaf_ids: Callable[[], Ints]) -> tuple[Ints, Ints]:
        """Which groups count, and how many rows of each: all, or what the limits leave of each person's."""
        people = groups[PEOPLE].to_numpy().astype(np.int64)
        rows = np.flatnonzero(valid)
        if self.limits is None:
            return rows, people[rows]
        pairs = groups.with_columns(leaf=leaf_ids(), row=np.arange(groups.height)).filter(valid)
        pairs = pairs.group_by(UNIT, "leaf").agg(pl.col(PEOPLE).cast(pl.Int64).sum(), pl.exclude(PEOPLE).first())
        units = code_labels(pairs[UNIT])[0]
        leaves, counts = pairs["leaf"].to_numpy(), pairs[PEOPLE].to_numpy()
        kept = truncate(units, leaves, counts, _draws(pairs), self.limits)
        return pairs["row"].to_numpy()[kept > 0], kept[kept > 0]


def _ranks(words: Words) -> Ints:
    return np.unique(words, return_inverse=True)[1].astype(np.int64)


def _row_ids(codes: Ints) -> Ints:
    """One number a row, equal for equal rows and in their lexicographic order."""
    ids: Ints = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if (int(ids.max(initial=0)) + 1) * size > 2**62:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
        ids = ids * size + column + 1
    return ids
