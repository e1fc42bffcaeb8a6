"""Frames to leaf counts: group the rows, find each group's leaf, bound what a person contributes, add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.noise import uniform_words
from opendp_tree.rows.bounding import truncate
from opendp_tree.rows.groups import PEOPLE, UNIT, group_rows, key_names, read_frame
from opendp_tree.rows.key import Key
from opendp_tree.rows.key_columns import numbered_leaves, read_labels, read_words
from opendp_tree.rows.lookup import Lookup
from opendp_tree.rows.unit import Unit
from opendp_tree.saturate import range_sums
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

    @classmethod
    def of(cls, key: Key, kinds: dict[str, str], used: dict[str, str], unit: Unit | None) -> RowCounter:
        """The counter for frames whose columns hold these kinds, of which some are used."""
        lookup = None if key.tree is None else Lookup(key.tree, key.label_kinds(kinds), key.outside_leaf)
        return cls(key, used, unit, lookup)

    def count(self, data: Any) -> Ints | SparseCounts:
        """The leaf counts of a frame."""
        groups = group_rows(read_frame(data, self.kinds), self.key, None if self.unit is None else self.unit.column)
        if self.unit is not None:
            # A key of which nothing is kept must not show: it would tell that somebody has it.
            groups = self._bounded(groups, self.unit).filter(pl.col(PEOPLE) > 0)
        return self.by_leaf(groups, PEOPLE)

    def by_leaf(self, groups: pl.DataFrame, column: str) -> Ints | SparseCounts:
        """The sums of a column of groups by leaf, in an order that is the same for every column."""
        people = groups[column].to_numpy()
        if self.lookup is not None:
            leaves = self._public_leaves(groups, self.lookup)
            order = np.argsort(leaves)
            ends = np.searchsorted(leaves[order], np.arange(self.lookup.tree.leaf_count + 1))
            return range_sums(people[order], ends[:-1], ends[1:])
        tree = self.key.open_tree()
        if tree.kind == "bits":
            high, low, valid = read_words(groups, self.key)
            outside = 0
            if tree.outside:
                outside = int(range_sums(people[~valid], np.array([0]), np.array([people.size - valid.sum()]))[0])
            return SparseCounts.of_words(tree, high[valid], low[valid], people[valid], outside=outside)
        labels = read_labels(groups, self.key)
        return labels.sparse(tree, people, self._valid(labels.with_null()))

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
        return counts.join(any_key, on=LEAF, how="left").drop(LEAF)

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
