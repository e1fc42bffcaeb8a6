"""Keys of bits to their counts, range by range where all of them at once would not fit into memory.

All rows with a key are in one range, and ranges come in the order of the keys: what is counted is the same for any
number of them. It shows in time and memory alone, as does whether rows are sorted or grouped, and so both may depend
on the data.

That holds for rows that are the same each time that they are read. A plan may draw, as a sample of each person's rows
does: read twice, it would keep twice as many. So only what `reads_the_same` is read range by range; any other plan runs
once, and its keys are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.key import Key
from opendp_tree.keys.key_columns import KEY, read_words
from opendp_tree.rows.groups import PEOPLE, group_rows, guarded
from opendp_tree.rows.parts import reads_the_same
from opendp_tree.saturate import range_sums
from opendp_tree.trees.sparse_counts import SparseCounts

__all__ = ["bit_counts", "count_keys"]

_SAMPLE = 1 << 16
_BYTES_SORTED, _BYTES_GROUPED = 64, 128
"""What a row takes while rows are sorted, and a key while rows are grouped by it: measured, rounded up."""
_MOST_RANGES = 1024


def count_keys(frame: pl.LazyFrame, key: Key, memory: int) -> SparseCounts:
    """How many rows each key of bits has: in so much memory, beside what the counts themselves take."""
    name = key.columns_used[0]
    numbers = frame.select(_as_number(frame, key))
    rows = int(_read(frame.select(pl.len())).item())
    differ = 2 * _read(numbers.head(_SAMPLE)).n_unique() >= min(rows, _SAMPLE)
    edges: list[int] = []
    if rows * _BYTES_SORTED > memory:
        distinct = int(_read(numbers.select(pl.col(name).approx_n_unique())).item())
        differ = 2 * distinct >= rows
        ranges = -(-(rows * _BYTES_SORTED if differ else distinct * _BYTES_GROUPED) // memory)
        if differ and not reads_the_same(frame):
            numbers = _read(numbers).lazy()
        if differ or reads_the_same(frame):
            edges = _edges(numbers, rows, min(ranges, _MOST_RANGES))
    read: Callable[[pl.LazyFrame], pl.DataFrame] = _sorted_rows if differ else partial(group_rows, key=key)
    source = numbers if differ or edges else frame  # where keys repeat, texts are read once they are few
    parts = (_counts(key, *_words(read(part), key)) for part in _parts(source, name, edges))
    return SparseCounts.joined(key.open_tree(), parts)


def bit_counts(groups: pl.DataFrame, key: Key, column: str) -> SparseCounts:
    """The sums of a column of groups of rows, by key of bits."""
    return _counts(key, *_words(groups, key, column))


def _counts(key: Key, high: Words, low: Words, valid: Bools, people: Ints | None) -> SparseCounts:
    tree = key.open_tree()
    if valid.all():
        return SparseCounts.of_words(tree, high, low, people)
    outside = 0
    if tree.outside:
        others = np.ones(int((~valid).sum()), dtype=np.int64) if people is None else people[~valid]
        outside = int(range_sums(others, np.array([0]), np.array([others.size]))[0])
    kept = None if people is None else people[valid]
    return SparseCounts.of_words(tree, high[valid], low[valid], kept, outside=outside)


def _words(groups: pl.DataFrame, key: Key, column: str = PEOPLE) -> tuple[Words, Words, Bools, Ints | None]:
    """Keys as words, which of them are keys, and whom they stand for: None for single rows."""
    return *read_words(groups, key), groups[column].to_numpy() if column in groups.columns else None


def _read(frame: pl.LazyFrame) -> pl.DataFrame:
    return guarded(lambda: frame.collect(engine="streaming"))


def _sorted_rows(numbers: pl.LazyFrame) -> pl.DataFrame:
    return _read(numbers).select(pl.first().sort().alias(f"{KEY}_0"))


def _edges(numbers: pl.LazyFrame, rows: int, ranges: int) -> list[int]:
    """Keys that part the others into about equal ranges, by a sample of rows from all over."""
    sampled = numbers.drop_nulls().gather_every(max(1, rows // _SAMPLE))
    sample = _read(sampled).to_series().sort()
    places = [sample.len() * place // ranges for place in range(1, ranges)] if sample.len() else []
    return sorted(set(sample.gather(places).to_list()))


def _parts(numbers: pl.LazyFrame, name: str, edges: list[int]) -> Iterator[pl.LazyFrame]:
    """The rows of each range of keys, in order; those without a key are in the first."""
    if not edges:
        yield numbers
        return
    key, dtype = pl.col(name), guarded(numbers.collect_schema)[name]
    ends = [pl.lit(edge, dtype) for edge in edges]
    yield numbers.filter((key < ends[0]) | key.is_null())
    for lower, upper in pairwise(ends):
        yield numbers.filter((key >= lower) & (key < upper))
    yield numbers.filter(key >= ends[-1])


def _as_number(frame: pl.LazyFrame, key: Key) -> pl.Expr:
    """The column of a key of bits as integers: texts that are no address become null."""
    name = key.columns_used[0]
    column = pl.col(name)
    if guarded(frame.collect_schema)[name].is_integer():
        return column
    return column.map_batches(partial(_numbers, key=key), return_dtype=pl.UInt128, is_elementwise=True)


def _numbers(texts: pl.Series, *, key: Key) -> pl.Series:
    high, low, valid = read_words(texts.alias(f"{KEY}_0").to_frame(), key)
    words: dict[str, Any] = {"high": high, "low": low, "valid": valid}
    number = pl.col("high").cast(pl.UInt128) * pl.lit(2**64, pl.UInt128) + pl.col("low")
    return pl.DataFrame(words).select(pl.when("valid").then(number).alias(texts.name)).to_series()
