"""Labels: names of levels, paths of labels and their nodes, and labels as Polars columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._arguments import is_text
from opendp_tree._types import Ints

_FIRST = ("level", "estimate", "lower", "upper", "cells", "shown", "path", "other", "counted")
RESERVED = (*_FIRST, "node", "prefix", "bits", "gap")
"""The columns of every release's frame."""
FIGURES = ("sum", "sum_lower", "sum_upper", "mean", "mean_lower", "mean_upper")
"""The columns that a release's frame has for each value."""


def check_names(names: Iterable[str] | None, *, count: int | None = None) -> tuple[str, ...]:
    """The column name of each level below the root."""
    if names is None:
        return tuple(f"label_{number}" for number in range(1, (count or 0) + 1))
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names ({names!r}) must be a collection of texts. Hint: wrap a single name: [name]")
    given = tuple(names)
    for name in given:
        if type(name) is not str:
            raise TypeError(f"names: {name!r} must be a text")
        if not name or not is_text(name):
            raise ValueError(f"names: {name!r} must be a text of at least one letter that can be written as UTF-8")
        if name in RESERVED:
            raise ValueError(f"names: {name!r} must not be one of {', '.join(RESERVED)}: columns of every release")
    if len(set(given)) < len(given):
        raise ValueError(f"names ({', '.join(given)}) must be distinct")
    if count is not None and len(given) != count:
        raise ValueError(f"names ({', '.join(given)}) must be {count}, one for each level below the root")
    return given


def figure_names(columns: Sequence[str]) -> list[str]:
    """The columns of a release's values: with several values, prefixed with the name of each."""
    return [f"{column}_{name}" if len(columns) > 1 else name for column in columns for name in FIGURES]


def check_figure_names(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise a ValueError if the columns of values and of levels have a name in common."""
    figures = figure_names(columns)
    taken = [name for name in figures if name in (*names, *RESERVED)]
    if taken or len(set(figures)) < len(figures):
        raise ValueError(
            f"value: the release would have two columns {(taken or figures)[0]!r}. Hint: rename the column of the data"
        )


Label = str | int | bool | date | None
LABEL_KINDS: dict[type, str] = {str: "text", int: "integer", bool: "boolean", date: "date"}
Path = tuple[Label, ...]
OUTSIDE = "(outside)"
"""The label of the leaf for values that belong to no other leaf."""


def tagged_label(label: Any) -> tuple[type, Any]:
    """A dictionary key that distinguishes 1, True and "1"."""
    if isinstance(label, np.generic):
        label = label.item()
    return type(label), label


def read_paths(paths: Iterable[Sequence[Label]]) -> tuple[list[int], list[Label]]:
    """Each node's parent and label, the root first; leaves are in the order of their paths."""
    parents: list[int] = [-1]
    labels: list[Label] = [None]
    nodes: dict[tuple[int, type, Hashable], int] = {}
    leaves: set[int] = set()
    for path in paths:
        if not isinstance(path, tuple | list) and (isinstance(path, str) or not isinstance(path, Sequence)):
            raise TypeError(f"paths must hold tuples of labels, found {path!r}. Hint: wrap a single label: (label,)")
        node = 0
        for item in path:
            label = item.item() if isinstance(item, np.generic) else item
            if not (label is None or isinstance(label, str | int | date)):
                raise TypeError(f"paths: label {label!r} must be a str, int, bool, date or None")
            parent, node = node, nodes.setdefault((node, type(label), label), len(parents))
            if node == len(parents):
                parents.append(parent)
                labels.append(label)
        if node in leaves:
            raise ValueError(f"paths: {tuple(path)!r} occurs twice")
        leaves.add(node)
    if not leaves:
        raise ValueError("paths must hold at least one path")
    if inner_leaves := leaves.intersection(parents):
        node = min(inner_leaves)
        names: list[Label] = []
        while node:
            names.append(labels[node])
            node = parents[node]
        raise ValueError(f"paths: {tuple(reversed(names))!r} is both a leaf and an inner node")
    return parents, labels


def split_paths(texts: pl.Series, separator: str, count: int) -> tuple[list[pl.Series], Ints]:
    """Texts split into columns of labels, and the number of labels of each; a null text is one null label."""
    # At most as many columns as the tree has levels and as the longest text needs, to limit the memory per text.
    stripped = texts.str.strip_prefix(separator).str.strip_suffix(separator)
    parts = stripped.str.count_matches(separator, literal=True).fill_null(0).to_numpy().astype(np.int64) + 1
    lengths = np.minimum(parts, count)
    deepest = int(lengths.max(initial=1))
    return stripped.str.splitn(separator, deepest + 1).struct.unnest().get_columns()[:deepest], lengths


def order_rows(numbers: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The depth-first order of rows of natural numbers, and in it the number of leading ones shared with the next."""
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


def label_numbers(column: pl.Series) -> Ints:
    """The rank of each label among the distinct ones, from 1; 0 for null."""
    labels = column.drop_nulls().unique().sort()
    places = pl.DataFrame({"label": labels, "place": np.arange(1, labels.len() + 1)})
    joined = pl.DataFrame({"label": column}).join(places, on="label", how="left", maintain_order="left")
    return joined["place"].fill_null(0).to_numpy().astype(np.int64, copy=False)


def labels_at(column: Any, rows: Ints) -> pl.Series:
    """Some labels of a column of `LabelKeys`, in a series that does not depend on any other label."""
    if not isinstance(column, pl.Series):
        return label_series([column[row] for row in rows.tolist()])
    # Built from values: a slice or a gather of texts would keep the buffers of all others alive. Times are read as
    # integers, because Python's times have no nanoseconds.
    if column.dtype == pl.Enum:  # their order is no longer needed
        return pl.Series(column.gather(rows).to_list(), dtype=pl.String)
    stored = column.to_physical()
    return pl.Series(stored.gather(rows).to_list(), dtype=stored.dtype).cast(column.dtype)


def label_series(labels: list[Any]) -> pl.Series:
    """Labels of one type as they are; labels of several types or of none, and integers of any size, as texts."""
    if len({type(label) for label in labels if label is not None}) == 1:
        for dtype in (None, pl.Int128, pl.UInt128):  # Polars infers no type for wide integers, and may have none
            with suppress(OverflowError, TypeError):
                return pl.Series(labels, dtype=dtype)
    return pl.Series([None if label is None else str(label) for label in labels], dtype=pl.String)


def column_name(expression: Any) -> str | None:
    """The column that an expression names; None if it is not just a column."""
    name = expression.meta.output_name(raise_if_undetermined=False)
    return name if name is not None and expression.meta.eq(pl.col(name)) else None
