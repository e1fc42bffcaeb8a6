"""Distinct keys of a frame as labels, level by level, or as words of bits, or as places among ranges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import polars as pl

from opendp_tree._types import Bools, Ints, Words
from opendp_tree.keys.addresses import read_ipv4, read_ipv6, split_urls
from opendp_tree.keys.key import Key
from opendp_tree.keys.key_levels import TEXT_PARTS
from opendp_tree.keys.number_places import NOWHERE
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.label_keys import prefix_texts, split_paths
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts

KEY = "key"
FIRST_DAY, LAST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
_SLICE = 1 << 18
_WEEKDAYS = pl.Enum(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])


def key_names(key: Key) -> list[str]:
    """What the columns of a key are called once rows are grouped."""
    return [f"{KEY}_{place}" for place in range(len(key.columns_used))]


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
    if key.kind == "nested":
        return _nested_labels(groups, key)
    if key.kind == "columns":
        frame = groups.select(key_names(key)).cast({pl.Categorical: pl.String, pl.Enum: pl.String})
        return Labels(tuple(frame.iter_columns()), np.full(groups.height, frame.width))
    given = groups[f"{KEY}_0"]
    if key.kind == "addresses":
        return _address_labels(given, key)
    if key.kind in ("path", "url"):
        split = split_paths(given.cast(pl.String), key.separator, key.depth - 1) if key.kind == "path" else None
        columns, lengths = split or split_urls(given.cast(pl.String), key.depth - 1)
        return Labels(tuple(columns), lengths)
    columns_of = _calendar_labels if key.kind == "calendar" else _bit_labels
    levels, absent = columns_of(given, key)
    # What is absent has one label, null, and no more.
    return Labels(levels, np.where(absent, 1, key.depth - 1))


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


def numbered_leaves(groups: pl.DataFrame, key: Key) -> Ints:
    """The place among the leaves of a tree of ranges of each distinct key; -1 for keys that do not count."""
    assert key.tree is not None
    assert key.tree.ranges is not None
    bins, outside = key.tree.ranges.bins, key.outside_leaf
    places = groups[f"{KEY}_0"].to_numpy().copy()
    none = places == NOWHERE
    if key.outside == "ends":
        places = places.clip(0, bins - 1)
    places[(places < 0) | (places >= bins)] = outside
    places[none] = -1 if key.drops_nulls else outside
    return places


def _nested_labels(groups: pl.DataFrame, key: Key) -> Labels:
    """The labels of several keys, one after another. All but the last have all of theirs: null fills up."""
    columns: list[pl.Series] = []
    start, lengths = 0, np.zeros(groups.height, dtype=np.int64)
    for part in key.inner:
        names = [f"{KEY}_{start + place}" for place in range(len(part.columns_used))]
        own = groups.select(pl.col(name).alias(to) for name, to in zip(names, key_names(part), strict=True))
        labels = _part_labels(own, part)
        start, lengths = start + len(names), len(columns) + labels.lengths
        columns += labels.columns
    return Labels(tuple(columns), lengths)


def _part_labels(groups: pl.DataFrame, part: Key) -> Labels:
    """The labels of a key below others, as frames show them."""
    if part.kind in ("bits", "ip"):
        high, low, valid = read_words(groups, part)
        return Labels(_prefixes(high, low, valid, part), np.where(valid, part.depth - 1, 1))
    return _range_labels(groups, part) if part.kind == "number" else read_labels(groups, part)


def _integer_words(given: pl.Series, width: int) -> tuple[Words, Words, Bools]:
    size = given.len()
    high, low, valid = np.zeros(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.bool_)
    number, is_wide = pl.col("number"), given.dtype in (pl.Int128, pl.UInt128)
    inside = (number >= 0).fill_null(False)
    known = pl.when(inside).then(number).otherwise(0).cast(given.dtype)
    base = pl.lit(2**64, dtype=given.dtype if is_wide else pl.UInt128)
    words = {"low": known % base, "high": known // base} if is_wide else {"low": known}
    for start in range(0, size, _SLICE):  # there may be very many
        part, frame = slice(start, start + _SLICE), given.slice(start, _SLICE).alias("number").to_frame()
        found = frame.select(inside.alias("inside"), **{name: word.cast(pl.UInt64) for name, word in words.items()})
        low[part], valid[part] = found["low"].to_numpy(), found["inside"].to_numpy()
        if is_wide:
            high[part] = found["high"].to_numpy()
    if width < 128:
        valid &= high < np.uint64(1 << max(width - 64, 0))
    if width < 64:
        valid &= low < np.uint64(1 << width)
    return high, low, valid


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


def _prefixes(high: Words, low: Words, valid: Bools, key: Key) -> tuple[pl.Series, ...]:
    """The prefixes of each level as texts; null for what is no key."""
    keys, tree = BitKeys.of_integers(high, low, key.width), key.open_tree()
    columns = []
    for level in range(1, key.depth):
        bits = tree.bits_at(np.full(high.size, level))
        texts = prefix_texts(keys.first(bits), bits, tree)
        columns.append(pl.select(pl.when(pl.Series(valid)).then(texts)).to_series())
    return tuple(columns)


def _address_labels(given: pl.Series, key: Key) -> Labels:
    """The version of each address, then its prefixes; null for what is no address."""
    texts = given.cast(pl.String)
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, texts.len())
    columns, lengths = [nothing] * (key.depth - 1), np.ones(texts.len(), dtype=np.int64)
    has_colon = texts.str.contains(":", literal=True).fill_null(False).to_numpy()
    for part, version, likely in zip(key.inner, ("IPv4", "IPv6"), (~has_colon, has_colon), strict=True):
        given = texts.filter(pl.Series(likely)).alias(f"{KEY}_0")
        high, low, valid = read_words(given.to_frame(), part)
        rows = np.flatnonzero(likely)[valid]
        prefixes = _prefixes(high[valid], low[valid], valid[valid], part)
        for level, own in enumerate((pl.Series([version]).new_from_index(0, rows.size), *prefixes)):
            columns[level] = columns[level].clone().scatter(rows, own)
        lengths[rows] = part.depth
    return Labels(tuple(columns), lengths)


def _range_labels(groups: pl.DataFrame, part: Key) -> Labels:
    """The range of each number at every level, in order of value; null for what is no number."""
    assert part.tree is not None
    assert part.tree.ranges is not None
    tree, bins = part.tree, part.tree.ranges.bins
    places = groups[f"{KEY}_0"].to_numpy()
    if part.outside == "ends":
        places = np.where(places == NOWHERE, NOWHERE, places.clip(0, bins - 1))
    inside = (places >= 0) & (places < bins)
    columns = []
    for level, nodes in enumerate(tree.levels[1:], start=1):
        names = [str((tree.labels or ())[node]) for node in nodes.tolist()]
        above = tree.ancestors_at(tree.leaves[places.clip(0, bins - 1)], np.full(places.size, level))
        codes = np.searchsorted(nodes, above)  # ids of a level ascend with values
        if level == 1 and OUTSIDE not in names:
            names.append(OUTSIDE)
        if level == 1:
            codes = np.where(inside | (places == NOWHERE), codes, len(names) - 1)
        kept = pl.Series(inside | ((level == 1) & (places != NOWHERE)))
        texts = pl.Series(codes, dtype=pl.UInt32).cast(pl.Enum(names))
        columns.append(pl.select(pl.when(kept).then(texts)).to_series())
    return Labels(tuple(columns), np.where(inside, part.depth - 1, 1))


def _calendar_labels(given: pl.Series, key: Key) -> tuple[tuple[pl.Series, ...], Bools]:
    steps = given.to_physical().cast(pl.Int64)
    hours = steps % 24 if "hour" in key.parts else steps
    days = steps // 24 if "hour" in key.parts else steps
    inside = days.is_between(FIRST_DAY, LAST_DAY).fill_null(False)
    dates = pl.select(pl.when(inside).then(days).cast(pl.Int32).cast(pl.Date)).to_series()
    calendar = pl.lit(dates).dt
    number: dict[str, pl.Expr] = {
        "year": calendar.iso_year() if "week" in key.parts else calendar.year(),
        "quarter": "Q" + calendar.quarter().cast(pl.String),
        "month": calendar.month(),
        "week": "W" + calendar.week().cast(pl.String).str.zfill(2),
        "weekday": (calendar.weekday() - 1).cast(pl.UInt32).cast(_WEEKDAYS),
        "day": calendar.day(),
        "hour": pl.lit(hours),
    }
    whole = [number[part] if part in TEXT_PARTS else number[part].cast(pl.Int64) for part in key.parts]
    return tuple(pl.select(pl.when(inside).then(part)).to_series() for part in whole), ~inside.to_numpy()
