"""Keys of bits to their counts: rows are sorted where most keys differ, and grouped where they repeat."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KEY
from opendp_tree.rows.groups import PEOPLE, group_rows, guarded
from opendp_tree.rows.parts import same_when_read_again
from opendp_tree.saturate import range_sums
from opendp_tree.trees.sparse_counts import SparseCounts

__all__ = ["bit_counts", "count_keys"]

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
