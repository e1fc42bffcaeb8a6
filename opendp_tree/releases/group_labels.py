"""Which group a key belongs to.

Labels are matched by type and value, as texts that contain both. So the group of a row does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.label_keys import count_tuples, label_series
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.sparse_counts import LabelKeys, SparseCounts
from opendp_tree.trees.tree import Tree

_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_NANOSECONDS = {"ms": 10**6, "us": 10**3, "ns": 1}
_MARKS = {str: "t", int: "i", bool: "b", date: "d"}


def typed_texts(labels: Any) -> pl.Series:
    """Labels as texts that are equal if and only if type and value are; null stays null."""
    if not isinstance(labels, pl.Series):
        return pl.Series([None if label is None else _typed(label) for label in labels], dtype=pl.String)
    kind, values = labels.dtype, labels
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        ticks = pl.lit(_NANOSECONDS[kind.time_unit], pl.Int128)
        values = pl.select(labels.to_physical().cast(pl.Int128) * ticks).to_series()
    return pl.select(pl.lit(_mark(kind)) + values.cast(pl.String)).to_series()


def _typed(label: Any) -> str:
    return f"{_MARKS[type(label)]}{str(label).lower() if type(label) is bool else label}"


def _mark(kind: pl.DataType) -> str:
    """The prefix of a label's typed text that stands for its type; no prefix begins another."""
    if kind in _TEXTS:
        return "t"
    if kind.is_integer():
        return "i"
    if isinstance(kind, pl.Datetime):
        return "n" if kind.time_zone is None else "z"
    return {"Boolean": "b", "Date": "d", "Time": "c", "Duration": "u"}.get(str(kind.base_type()), f"({kind})")


def _untyped(text: str | None) -> Any:
    """The label of a typed text."""
    if text is None:
        return None
    mark, value = text[0], text[1:]
    if mark == "b":
        return value == "true"
    return int(value) if mark == "i" else date.fromisoformat(value) if mark == "d" else value


def place_labels(counts: SparseCounts) -> list[pl.Series]:
    """The labels of each key, level by level, as typed texts."""
    assert isinstance(counts.keys, LabelKeys)
    return [typed_texts(_taken(column, counts.keys.rows)) for column in counts.keys.columns]


def _taken(column: Any, rows: Ints) -> Any:
    return column.gather(rows) if isinstance(column, pl.Series) else [column[row] for row in rows.tolist()]


def count_groups(tree: OpenTree, counts: SparseCounts) -> SparseCounts:
    """The counts of groups: the first labels of each key."""
    assert isinstance(counts.keys, LabelKeys)
    count, people = tree.depth - 1, counts.occupied.counts
    columns = [_taken(column, counts.keys.rows) for column in counts.keys.columns[:count]]
    lengths = np.minimum(counts.occupied.levels, count)
    if not has_lists(counts):
        return SparseCounts.of_labels(tree, columns, lengths, people)
    keys = [row[:length] for row, length in zip(zip(*columns, strict=True), lengths.tolist(), strict=True)]
    made = count_tuples(tree, keys, people)
    assert isinstance(made.keys, LabelKeys)
    return replace(made, keys=LabelKeys(tuple(map(typed_texts, made.keys.columns)), made.keys.rows))


def has_lists(counts: SparseCounts) -> bool:
    """Whether labels are in lists, as those of tuples are."""
    assert isinstance(counts.keys, LabelKeys)
    return not isinstance(counts.keys.columns[0], pl.Series)


def plain_labels(release: TreeRelease) -> TreeRelease:
    """A release of typed texts with the labels themselves."""
    if release.nodes is None:
        return release
    labels = tuple(label_series([_untyped(text) for text in own.to_list()]) for own in release.nodes.labels)
    return replace(release, nodes=replace(release.nodes, labels=labels))


def shown_groups(release: TreeRelease, levels: int, *, typed: bool = False) -> pl.DataFrame:
    """The labels of the shown groups as typed texts, and the index of each in the release's arrays."""
    frame = release.to_frame(other=False).with_columns(node=release.row_order)
    found = frame.filter((pl.col("level") == levels) & pl.col("shown"))
    labels = {name: f"label_{at}" for at, name in enumerate(release.tree.names)}
    found = found.select(*labels, "node").rename(labels)
    if not typed:
        found = found.with_columns(typed_texts(found[label]).alias(label) for label in labels.values())
    return found.unique(list(labels.values()), keep="none", maintain_order=True)  # a row is in one group


def leaf_groups(tree: Tree) -> pl.DataFrame:
    """The labels of the leaves of a public tree, as typed texts."""
    paths = [tree.path(int(node)) for node in tree.leaves]
    return pl.DataFrame(
        {f"label_{at}": typed_texts(label_series([path[at] for path in paths])) for at in range(tree.depth - 1)}
    )


def owners_of(columns: Sequence[pl.Series], levels: Ints, groups: pl.DataFrame) -> Ints:
    """The row of each key's group; -1 for keys that are in none."""
    names = [f"label_{at}" for at in range(len(columns))]
    left = pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
    right = groups.select(names).with_row_index("group")
    found = left.join(right, on=names, how="left", nulls_equal=True, maintain_order="left")["group"]
    owners: Ints = found.cast(pl.Int64).fill_null(-1).to_numpy().copy()
    owners[levels < len(columns)] = -1
    return owners


def places_among(labels: pl.Series, names: Sequence[str]) -> Ints:
    """The index of each label among some names; -1 for other labels."""
    known = pl.Enum(typed_texts(pl.Series(names, dtype=pl.String)))
    found: Ints = labels.cast(known, strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return found
