"""Labels of keys as Polars columns: how they are read, sorted and taken out again; prefixes of bits as texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Bools, Ints, Words
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts

_TEXTS = (pl.String, pl.Categorical, pl.Enum)


def count_labels(tree: OpenTree, keys: Any) -> SparseCounts:
    """How often each key occurs."""
    if tree.kind == "paths":
        return _count_paths(tree, keys)
    return _count_frame(tree, keys) if isinstance(keys, pl.DataFrame) else count_tuples(tree, keys)


def _count_frame(tree: OpenTree, keys: pl.DataFrame) -> SparseCounts:
    count = tree.depth - 1
    if keys.width != count:
        raise ValueError(f"keys must have {count} columns, found {keys.width}")
    if set(keys.columns) == set(tree.names):
        keys = keys[list(tree.names)]
    for name, dtype in keys.schema.items():
        if not (dtype in _TEXTS or dtype == pl.Boolean or dtype.is_integer() or dtype.is_temporal()):
            raise TypeError(f"keys: column {name!r} ({dtype}) must hold texts, integers, truth values or times")
    columns = keys.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).get_columns()
    return SparseCounts.of_labels(tree, columns, np.full(keys.height, count))


def _count_paths(tree: OpenTree, keys: Any) -> SparseCounts:
    """What is no text is left out."""
    given = keys if isinstance(keys, pl.Series) else pl.Series(list(keys), dtype=pl.Object)
    if given.dtype != pl.String:
        given = pl.Series([key for key in given.to_list() if type(key) is str and is_text(key)], dtype=pl.String)
    distinct = given.drop_nulls().alias("key").value_counts(name="people")
    columns, lengths = split_paths(distinct["key"], tree.separator, tree.depth - 1)
    return SparseCounts.of_labels(tree, columns, lengths, distinct["people"].to_numpy().astype(np.int64))


def count_tuples(tree: OpenTree, keys: Any, people: Ints | None = None) -> SparseCounts:
    """How many people each key has. Labels of several types stay apart, sorted by type and then by value."""
    count = tree.depth - 1
    rows = [row for key in keys if (row := _tagged_row(key, count)) is not None]
    columns, labels = [], []
    for level in range(count):
        tags = [row[level] if len(row) > level else None for row in rows]
        number = {tag: place for place, tag in enumerate(sorted({tag for tag in tags if tag is not None}))}
        columns.append(pl.Series([None if tag is None else number[tag] for tag in tags], dtype=pl.Int64))
        labels.append([tag[1] if tag is not None and tag[0] else None for tag in tags])
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return SparseCounts.of_labels(tree, columns, lengths, people, labels=labels)


def _tagged_row(key: Any, count: int) -> tuple[tuple[str, Any], ...] | None:
    """A key's labels with their types, in which equal means alike; None if the key holds what is no label."""
    if type(key) not in (tuple, list):
        return None
    row = []
    for given in key[:count]:
        label = given.item() if isinstance(given, np.generic) else given
        kind = type(label)
        if label is None:
            row.append(("", 0))
        elif kind in (bool, date) or (kind is int and -(2**63) <= label < 2**63) or (kind is str and is_text(label)):
            row.append((kind.__name__, label))
        else:
            return None
    return tuple(row)


def split_paths(texts: pl.Series, separator: str, count: int) -> tuple[list[pl.Series], Ints]:
    """Texts split into columns of labels, and how many labels each has; a null text is one label, null."""
    # No further than the tree is deep, and than any text reaches: neither one text of a million separators nor a tree
    # of a thousand levels may take so much memory for every text.
    stripped = texts.str.strip_prefix(separator).str.strip_suffix(separator)
    parts = stripped.str.count_matches(separator, literal=True).fill_null(0).to_numpy().astype(np.int64) + 1
    lengths = np.minimum(parts, count)
    deepest = int(lengths.max(initial=1))
    return stripped.str.splitn(separator, deepest + 1).struct.unnest().get_columns()[:deepest], lengths


def sort_labels(columns: Sequence[pl.Series]) -> tuple[Ints, Ints]:
    """The depth-first order of rows of labels, and in that order how many labels each row shares with the next."""
    # Distinct labels are sorted as they are, and rows by their numbers: far fewer comparisons of texts.
    return order_rows([_numbered(column) for column in columns])


def order_rows(numbers: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The same for rows of natural numbers."""
    sizes = [int(column.max(initial=0)) + 1 for column in numbers]
    if sum(map(math.log2, sizes)) < 62:  # one integer holds a whole row
        joined = numbers[0]
        for column, size in zip(numbers[1:], sizes[1:], strict=True):
            joined = joined * size + column
        order = np.argsort(joined)
    else:
        order = np.lexsort(numbers[::-1])
    meets = np.full(max(order.size - 1, 0), len(numbers))
    for level in reversed(range(len(numbers))):
        column = numbers[level][order]
        meets[column[1:] != column[:-1]] = level
    return order, meets


def _numbered(column: pl.Series) -> Ints:
    """The place of each label among the distinct ones, from 1; 0 for null."""
    labels = column.drop_nulls().unique().sort()
    places = pl.DataFrame({"label": labels, "place": np.arange(1, labels.len() + 1)})
    joined = pl.DataFrame({"label": column}).join(places, on="label", how="left", maintain_order="left")
    return joined["place"].fill_null(0).to_numpy().astype(np.int64, copy=False)


def place_labels(column: Any, rows: Ints, public: list[Any], present: Bools) -> tuple[Ints, Any]:
    """A column of public labels and then of rows' labels: numbers (0 where no label is present), and the labels."""
    if column is None:
        column, rows = [None], np.zeros_like(rows)
    if isinstance(column, pl.Series):
        if column.dtype.is_integer() and column.dtype != pl.UInt128:  # which may be too small for public labels
            first = pl.Series(public, dtype=pl.Int128)
            narrow = first.cast(column.dtype, strict=False)
            fits = narrow.null_count() == first.null_count()
            first, column = (narrow, column) if fits else (first, column.cast(pl.Int128))
        else:
            first = pl.Series(public, dtype=column.dtype)
        labels = pl.concat([first, column.gather(rows)])
        return np.where(present, _numbered(labels) + 1, 0), labels
    every = public + [column[row] for row in rows.tolist()]
    tags = [(type(label).__name__, 0 if label is None else label) for label in every]
    number = {tag: place for place, tag in enumerate(sorted(set(tags)), start=1)}
    return np.where(present, [number[tag] for tag in tags], 0), every


def labels_at(column: Any, rows: Ints) -> pl.Series:
    """Some labels of a column of `LabelKeys`, in a series that depends on no label but those asked for."""
    if not isinstance(column, pl.Series):
        return label_series([column[row] for row in rows.tolist()])
    # Built anew from values: a slice or a gather of texts would keep the buffers of all others alive. Times go through
    # the integers that they are, because Python's hold no nanoseconds.
    if column.dtype == pl.Enum:  # their order has done its work
        return pl.Series(column.gather(rows).to_list(), dtype=pl.String)
    stored = column.to_physical()
    return pl.Series(stored.gather(rows).to_list(), dtype=stored.dtype).cast(column.dtype)


def label_series(labels: list[Any]) -> pl.Series:
    """Labels of one type as they are; of several types, and where there are none, as texts."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1:
        labels = [None if label is None else str(label) for label in labels]
    return pl.Series(labels, dtype=None if len(kinds) == 1 else pl.String)


def record_frame(columns: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """A frame of plain columns."""
    return pl.DataFrame(dict(columns), strict=False)


def column_name(expression: Any) -> str | None:
    """The column that an expression is; None if it is anything but a column."""
    name = expression.meta.output_name(raise_if_undetermined=False)
    return name if name is not None and expression.meta.eq(pl.col(name)) else None


def prefix_texts(prefixes: BitKeys, bits: Ints, tree: OpenTree) -> pl.Series:
    """Each prefix with its length, `10.0.0.0/8`: an address, or the least integer that it begins."""
    high, low = prefixes.to_the_right(tree.width)
    if tree.shown_as == "integer":
        first = prefix_integers(prefixes, tree)
    else:
        first = _ipv4(low) if tree.shown_as == "ipv4" else _ipv6(high, low)
    return pl.select(pl.concat_str(first, pl.lit("/"), pl.Series(bits))).to_series()


def prefix_integers(prefixes: BitKeys, tree: OpenTree) -> pl.Series:
    """The least integer that each prefix begins."""
    high, low = prefixes.to_the_right(tree.width)
    if tree.width <= 64:
        return pl.Series(low, dtype=pl.UInt64)
    both = pl.Series(high).cast(pl.UInt128), pl.Series(low).cast(pl.UInt128)
    return pl.select(both[0] * pl.lit(2**64, dtype=pl.UInt128) + both[1]).to_series()


def _ipv4(words: Words) -> pl.Series:
    parts = [pl.Series(words >> np.uint64(shift) & np.uint64(255)) for shift in (24, 16, 8, 0)]
    return pl.select(pl.concat_str(parts, separator=".")).to_series()


def _ipv6(high: Words, low: Words) -> pl.Series:
    """Addresses as RFC 5952 writes them: the longest run of zeros, if longer than one, becomes `::`."""
    shifts = (48, 32, 16, 0)
    groups = np.stack([word >> np.uint64(shift) & np.uint64(0xFFFF) for word in (high, low) for shift in shifts])
    texts = [_hexadecimals().gather(group) for group in groups]
    runs = np.zeros((9, high.size), dtype=np.int64)  # the zeros that begin at each group
    for place in reversed(range(8)):
        runs[place] = np.where(groups[place] == 0, runs[place + 1] + 1, 0)
    longest = runs.max(axis=0)
    cases = np.where(longest > 1, runs.argmax(axis=0) * 9 + longest, 0)
    address = pl.Series([""]).new_from_index(0, high.size)
    for case in np.unique(cases).tolist():
        rows = np.flatnonzero(cases == case)
        start, length = divmod(case, 9)
        here = [text.gather(rows) for text in texts]
        if length:
            left, right = (_together(part, rows.size) for part in (here[:start], here[start + length :]))
            joined = pl.select(pl.concat_str(left, pl.lit("::"), right)).to_series()
        else:
            joined = _together(here, rows.size)
        address = address.scatter(rows, joined)
    return address


def _together(parts: list[pl.Series], size: int) -> pl.Series:
    if not parts:
        return pl.Series([""]).new_from_index(0, size)
    return pl.select(pl.concat_str(parts, separator=":")).to_series()


@lru_cache(maxsize=1)
def _hexadecimals() -> pl.Series:
    return pl.Series([f"{number:x}" for number in range(2**16)])
