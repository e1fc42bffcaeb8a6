"""Frames to counts and sums of steps by leaf: one pass where rows are protected, row by row where people are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.keys.kind import key_names
from opendp_tree.noise import uniform_words
from opendp_tree.rows.bounding import shuffled
from opendp_tree.rows.groups import PEOPLE, UNIT, collect_groups, guarded, read_frame, selected_keys
from opendp_tree.rows.leaf_values import LeafValues
from opendp_tree.rows.parts import by_unit
from opendp_tree.rows.row_counts import RowCounter
from opendp_tree.rows.value import Value
from opendp_tree.theorems.tree_means import STEPS
from opendp_tree.trees.sparse_counts import SparseCounts


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
