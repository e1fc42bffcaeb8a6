"""Labels of keys as codes, and back: what open trees are counted by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from opendp_tree._arguments import is_text

_TEXTS = (pl.String, pl.Categorical, pl.Enum)


Coded = tuple[npt.NDArray[np.int64], tuple[Any, ...]]
"""Rows of codes, one column a level, in which -1 ends a row; and for each level the labels that its codes stand for."""


def code_columns(keys: Any, names: Sequence[str]) -> Coded:
    """Rows of labels: a frame with one column a level, or tuples, of which shorter ones stop early.

    A frame's columns are taken by `names`, the levels', if they are called so, and as they come if not.
    """
    count = len(names)
    if isinstance(keys, pl.DataFrame):
        if keys.width != count:
            raise ValueError(f"keys must have {count} columns, found {keys.width}")
        if set(keys.columns) == set(names):
            keys = keys[list(names)]
        for name, dtype in keys.schema.items():
            if not (dtype in _TEXTS or dtype == pl.Boolean or dtype.is_integer() or dtype.is_temporal()):
                raise TypeError(f"keys: column {name!r} ({dtype}) must hold texts, integers, truth values or times")
        keys = keys.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        coded = [code_labels(column) for column in keys.iter_columns()]
        return np.column_stack([codes for codes, _ in coded]), tuple(labels for _, labels in coded)
    rows = [row for key in keys if (row := _row(key, count)) is not None]
    codes = np.full((len(rows), count), -1, dtype=np.int64)
    labels = []
    for level in range(count):
        present = [(place, row[level]) for place, row in enumerate(rows) if len(row) > level]
        found = sorted({tag for _, tag in present})
        number = {tag: code for code, tag in enumerate(found)}
        codes[[place for place, _ in present], level] = [number[tag] for _, tag in present]
        labels.append([tag[1] if tag[0] else None for tag in found])
    return codes, tuple(labels)


def code_paths(keys: Any, separator: str, count: int) -> tuple[Coded, npt.NDArray[np.int64]]:
    """Texts, split at a separator, and how often each row of codes occurs; what is no text is left out."""
    given = keys if isinstance(keys, pl.Series) else pl.Series(list(keys), dtype=pl.Object)
    if given.dtype != pl.String:
        given = pl.Series([key for key in given.to_list() if type(key) is str and is_text(key)], dtype=pl.String)
    distinct = given.drop_nulls().alias("key").value_counts(name="people")
    parts = distinct["key"].str.strip_prefix(separator).str.strip_suffix(separator).str.split(separator)
    deepest = min(count, max(1, parts.list.len().to_numpy().max(initial=1)))
    coded = [code_labels(parts.list.get(level, null_on_oob=True), ends=True) for level in range(deepest)]
    codes = np.column_stack([codes for codes, _ in coded]), tuple(labels for _, labels in coded)
    return codes, distinct["people"].to_numpy().astype(np.int64)


def decode(labels: Any, codes: npt.NDArray[np.int64]) -> pl.Series:
    """The labels of one level; null where a key ended. Depends on no label but those asked for."""
    asked = codes[codes >= 0]
    # Built anew from values: a slice or a gather of texts would keep the buffers of all others alive. Times go through
    # the integers that they are, because Python's hold no nanoseconds.
    stored = labels.to_physical() if isinstance(labels, pl.Series) else labels
    values = (
        stored.gather(asked).to_list() if isinstance(stored, pl.Series) else [stored[code] for code in asked.tolist()]
    )
    column = np.full(codes.size, None, dtype=object)
    column[codes >= 0] = values
    if isinstance(labels, pl.Series):
        return pl.Series(column.tolist(), dtype=stored.dtype).cast(labels.dtype)
    return label_series(column.tolist())


def record_frame(columns: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """A frame of plain columns."""
    return pl.DataFrame(dict(columns), strict=False)


def code_labels(column: pl.Series, *, ends: bool = False) -> tuple[npt.NDArray[np.int64], pl.Series]:
    """Codes in the order of the labels; null ends a key (-1), or is a label of its own."""
    labels = column.unique().sort(nulls_last=False)
    if ends:
        labels = labels.drop_nulls()
    codes = pl.DataFrame({"label": column}).join(
        pl.DataFrame({"label": labels, "code": np.arange(labels.len())}),
        on="label",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["code"]
    return codes.fill_null(-1).to_numpy().astype(np.int64), labels


def column_name(expression: Any) -> str | None:
    """The column that an expression is; None if it is anything but a column."""
    name = expression.meta.output_name(raise_if_undetermined=False)
    return name if name is not None and expression.meta.eq(pl.col(name)) else None


def _row(key: Any, count: int) -> tuple[tuple[str, Any], ...] | None:
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


def label_series(labels: list[Any]) -> pl.Series:
    """Labels of one type as they are; of several types, and where there are none, as texts."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1:
        labels = [None if label is None else str(label) for label in labels]
    return pl.Series(labels, dtype=None if len(kinds) == 1 else pl.String)
