"""Distinct keys of a frame as labels, level by level, or as words of bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.rows.addresses import read_ipv4, read_ipv6
from opendp_tree.rows.groups import FIRST_DAY, KEY, LAST_DAY
from opendp_tree.rows.key import Key
from opendp_tree.trees.label_keys import split_paths
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts


@dataclass(frozen=True)
class Labels:
    """One column of labels for each level that a key reaches; a key ends after `lengths` of them, and null before that
    is a label.
    """

    columns: tuple[pl.Series, ...]
    lengths: Ints

    def with_null(self) -> Bools:
        """Which keys have null among their labels."""
        with_null = np.zeros(self.lengths.size, dtype=np.bool_)
        for level, column in enumerate(self.columns):
            if column.null_count():
                with_null |= column.is_null().to_numpy() & (self.lengths > level)
        return with_null

    def sparse(self, tree: OpenTree, people: Ints, valid: Bools) -> SparseCounts:
        """The counts of the keys that are valid, for `people` each."""
        # Null stands for the end of a key or for a label, never for both below one node.
        if valid.all():
            return SparseCounts.of_labels(tree, self.columns, self.lengths, people)
        columns = [column.filter(valid) for column in self.columns]
        return SparseCounts.of_labels(tree, columns, self.lengths[valid], people[valid])


def read_labels(groups: pl.DataFrame, key: Key) -> Labels:
    """The labels of each distinct key."""
    if key.kind == "columns":
        frame = groups.select(pl.col(f"^{KEY}_[0-9]+$")).cast({pl.Categorical: pl.String, pl.Enum: pl.String})
        return Labels(tuple(frame.iter_columns()), np.full(groups.height, frame.width))
    given = groups[f"{KEY}_0"]
    if key.kind == "path":
        return _path_labels(given.cast(pl.String), key)
    columns_of = _date_labels if key.kind == "date" else _bit_labels
    columns, absent = columns_of(given, key)
    # What is absent has one label, null, and no more.
    return Labels(columns, np.where(absent, 1, key.depth - 1))


def read_words(groups: pl.DataFrame, key: Key) -> tuple[Words, Words, Bools]:
    """Each distinct key as high and low words, and which of them are keys at all."""
    given = groups[f"{KEY}_0"]
    if given.dtype.is_integer():
        return _integer_words(given, key.width)
    texts = given.cast(pl.String)
    if key.width == 128:
        return read_ipv6(texts)
    low, valid = read_ipv4(texts)
    return np.zeros_like(low), low, valid


def _integer_words(given: pl.Series, width: int) -> tuple[Words, Words, Bools]:
    number = pl.col("number")
    frame = given.alias("number").to_frame().select(number, inside=(number >= 0).fill_null(False))
    frame = frame.with_columns(pl.when("inside").then("number").otherwise(0).cast(given.dtype).alias("number"))
    if given.dtype in (pl.Int128, pl.UInt128):
        base = pl.lit(2**64, dtype=given.dtype)
        words = frame.select(high=(number // base).cast(pl.UInt64), low=(number % base).cast(pl.UInt64))
    else:
        words = frame.select(number.cast(pl.UInt64).alias("low")).with_columns(pl.lit(0, pl.UInt64).alias("high"))
    high, low, valid = words["high"].to_numpy(), words["low"].to_numpy(), frame["inside"].to_numpy()
    if width < 128:
        valid = valid & (high < np.uint64(1 << max(width - 64, 0)))
    return high, low, valid & (low < np.uint64(1 << width)) if width < 64 else valid


def _bit_labels(given: pl.Series, key: Key) -> tuple[tuple[pl.Series, ...], Bools]:
    """The key's bits, `stride` at a time from the first, as integers."""
    high, low, valid = read_words(given.alias(f"{KEY}_0").to_frame(), key)
    columns = []
    for start in range(0, key.width, key.stride):
        stop = min(start + key.stride, key.width)
        chunk = _bits(high, low, key.width - stop, stop - start).astype(np.int64)
        columns.append(pl.select(pl.when(pl.Series(valid)).then(pl.Series(chunk))).to_series())
    return tuple(columns), ~valid


def _bits(high: Words, low: Words, shift: int, count: int) -> Words:
    """`count` bits that have `shift` bits below them."""
    if shift >= 64:
        moved = high >> np.uint64(shift - 64)
    elif shift == 0:
        moved = low
    else:
        moved = (low >> np.uint64(shift)) | (high << np.uint64(64 - shift))
    return moved & np.uint64((1 << count) - 1)


def _path_labels(given: pl.Series, key: Key) -> Labels:
    columns, lengths = split_paths(given, key.separator, key.depth - 1)
    return Labels(tuple(columns), lengths)


def _date_labels(given: pl.Series, key: Key) -> tuple[tuple[pl.Series, ...], Bools]:
    steps = given.to_physical().cast(pl.Int64)
    hours = steps % 24 if "hour" in key.parts else steps
    days = steps // 24 if "hour" in key.parts else steps
    inside = days.is_between(FIRST_DAY, LAST_DAY).fill_null(False)
    dates = pl.select(pl.when(inside).then(days).cast(pl.Int32).cast(pl.Date)).to_series()
    values = {"year": dates.dt.year(), "month": dates.dt.month(), "day": dates.dt.day(), "hour": hours}
    columns = [pl.select(pl.when(inside).then(values[part]).cast(pl.Int64)).to_series() for part in key.parts]
    return tuple(columns), ~inside.to_numpy()
