"""The nodes of a tree as rows of a frame: where each one is, and what its children leave unexplained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from opendp_tree.frames.writing import label_texts
from opendp_tree.trees.label_codes import label_series
from opendp_tree.trees.open_cells import CellKeys
from opendp_tree.trees.open_nodes import OpenNodes
from opendp_tree.trees.open_tree import BitKeys, OpenTree
from opendp_tree.trees.tree import Tree

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
OTHER = "(other)"
BETWEEN = " / "
_NULL = "(null)"
_ROUNDING = 2.0**-40  # a difference below this share of what it is the difference of is none


@dataclass(frozen=True)
class NodeRows:
    """Nodes as rows: level by level, siblings together, so that parents never fall from one row to the next."""

    levels: Ints
    parents: Ints
    places: list[pl.Series]
    """Label columns, or `prefix` and `bits`, or `node`: what says where a node is."""
    path: pl.Series
    separator: str
    """What joins the labels of `prefix`, if it is made of labels."""


def public_rows(tree: Tree) -> tuple[NodeRows, Ints]:
    """All nodes of a public tree, siblings by id; and the id of each row."""
    order = _row_order(tree)
    rows = np.empty_like(order)
    rows[order] = np.arange(order.size)
    levels, above = tree.node_levels[order], tree.parents[order]
    parents = np.where(above < 0, -1, rows[above])
    if tree.labels is None:
        names = pl.Series("node", order)
        path = names.cast(pl.String).scatter(0, "").alias("path")
        return NodeRows(levels, parents, [names], path, ""), order
    ends = np.cumsum(np.bincount(levels))
    labels = [
        label_series([tree.labels[node] for node in order[start:end].tolist()])
        for start, end in pairwise(ends.tolist())
    ]
    places = _label_columns(levels, parents, labels, tree.names)
    return NodeRows(levels, parents, places, _joined(parents, labels, BETWEEN, "path"), ""), order


def open_rows(tree: OpenTree, nodes: OpenNodes) -> NodeRows:
    """The nodes of an open tree that are shown, in their own order."""
    if nodes.words is not None:
        places = _prefix_columns(tree, nodes.levels, nodes.words)
        path = _prefix_path(tree, places)
    else:
        path = _joined(nodes.parents, nodes.labels, BETWEEN, "path")
        places = (
            [_joined(nodes.parents, nodes.labels, tree.separator, "prefix")]
            if tree.separator
            else _label_columns(nodes.levels, nodes.parents, nodes.labels, tree.names)
        )
    return NodeRows(nodes.levels, nodes.parents, places, path, tree.separator)


def release_frame(
    rows: NodeRows, values: Mapping[str, npt.NDArray[Any]], *, public: bool, certain: bool, other: bool
) -> pl.DataFrame:
    """One row a node, with `values` (`estimate`, `lower`, `upper`, `shown` among them) as columns.

    With `other`, also a row for what the shown children of a node leave unexplained, after the last of its children.
    Its ends are null unless the intervals are `certain`. In a `public` tree nobody is elsewhere than with the children.
    """
    columns = [pl.Series(name, array) for name, array in values.items()]
    frame = pl.DataFrame([pl.Series("level", rows.levels), *rows.places, rows.path, *columns])
    if not other:
        return frame
    frame = frame.with_columns(other=pl.lit(False))
    above, rest = _unexplained(rows.parents, values, public=public)
    if not above.size:
        return frame
    added = _other_rows(frame, above, rest, certain=certain, separator=rows.separator)
    # Parents never fall, so siblings end where their parent would be inserted.
    spots = np.searchsorted(rows.parents, above, side="right") + np.arange(above.size)
    order = np.empty(frame.height + above.size, dtype=np.int64)
    kept = np.ones(order.size, dtype=np.bool_)
    kept[spots] = False
    order[kept], order[spots] = np.arange(frame.height), frame.height + np.arange(above.size)
    return pl.concat([frame, added])[order]


def _unexplained(
    parents: Ints, values: Mapping[str, npt.NDArray[Any]], *, public: bool
) -> tuple[Ints, dict[str, npt.NDArray[Any]]]:
    """The rows whose shown children do not explain all of them, and by how much."""
    shown, size = values["shown"], parents.size
    children = np.flatnonzero(shown & (parents >= 0))
    at = parents[children]

    def children_of(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.bincount(at, array[children], minlength=size)

    number = np.bincount(at, minlength=size)
    rest = values["estimate"] - children_of(values["estimate"])
    weight = np.abs(values["estimate"]) + children_of(np.abs(values["estimate"]))
    found = shown & (number > 0) & (np.abs(rest) > _ROUNDING * weight)
    if public:
        found &= number < np.bincount(parents[parents >= 0], minlength=size)
    above = np.flatnonzero(found)
    lower, upper = children_of(values["lower"])[above], children_of(values["upper"])[above]
    left = {
        "estimate": rest[above],
        "lower": np.maximum(values["lower"][above] - upper, 0.0),
        "upper": np.maximum(values["upper"][above] - lower, 0.0),
    }
    if "cells" in values:
        left["cells"] = (values["cells"] - children_of(values["cells"]).astype(np.int64))[above]
    return above, left


def _other_rows(
    frame: pl.DataFrame, above: Ints, rest: Mapping[str, npt.NDArray[Any]], *, certain: bool, separator: str
) -> pl.DataFrame:
    """The parents' rows made into rows for the rest. Types stay: where a column holds no texts, it has null there."""
    parents = frame[above]
    level = pl.col("level")
    columns = [pl.Series(name, array) for name, array in rest.items() if certain or name not in ("lower", "upper")]
    changed: list[Any] = [level + 1, pl.lit(True).alias("other"), pl.lit(True).alias("shown"), _below("path", BETWEEN)]
    if not certain:
        changed += [pl.lit(None, dtype=pl.Float64).alias(name) for name in ("lower", "upper")]
    labels = frame.columns[1 : frame.columns.index("path")]
    if separator:
        changed.append(_below("prefix", separator))
    elif labels[0] in ("prefix", "node"):
        changed += [pl.lit(None, dtype=frame.schema[name]).alias(name) for name in labels]
    else:
        changed += [
            pl.when(level == place).then(pl.lit(OTHER)).otherwise(pl.col(name)).alias(name)
            for place, name in enumerate(labels)
            if frame.schema[name] == pl.String
        ]
    return parents.with_columns(changed).with_columns(columns)


def _below(name: str, separator: str) -> pl.Expr:
    """The text of a row that lies below this one and has no name."""
    inner = pl.concat_str(pl.col(name), pl.lit(separator + OTHER))
    return pl.when(pl.col("level") == 0).then(pl.lit(OTHER)).otherwise(inner).alias(name)


def cell_frame(cells: CellKeys) -> pl.DataFrame:
    """A row a cell: its level, and its prefix or labels."""
    if cells.words is None:
        return _label_frame(cells.tree, cells.levels, cells.columns)
    return pl.DataFrame([pl.Series("level", cells.levels), *_prefix_columns(cells.tree, cells.levels, cells.words)])


def _label_frame(tree: OpenTree, levels: Ints, columns: Sequence[pl.Series]) -> pl.DataFrame:
    """Level and one column a label, null below a row's level; for paths, level and the labels joined as `prefix`."""
    if not tree.separator:
        named = [column.alias(name) for column, name in zip(columns, tree.names, strict=True)]
        return pl.DataFrame([pl.Series("level", levels), *named])
    named = [column.alias(str(number)) for number, column in enumerate(columns)]
    prefix = pl.concat_str([column.name for column in named], separator=tree.separator, ignore_nulls=True)
    return pl.DataFrame([pl.Series("level", levels), *named]).select("level", prefix.alias("prefix"))


def _prefix_columns(tree: OpenTree, levels: Ints, words: BitKeys) -> list[pl.Series]:
    """`prefix`, as the least key that it begins or as an address, and `bits`, its length."""
    bits = pl.Series("bits", tree.bits_at(levels))
    high, low = words.to_the_right(tree.width)
    if tree.shown_as != "integer":
        address = _ipv4(low) if tree.shown_as == "ipv4" else _ipv6(high, low)
        prefix = pl.select(pl.concat_str(address, pl.lit("/"), bits.cast(pl.String))).to_series()
    elif tree.width <= 64:
        prefix = pl.Series(low, dtype=pl.UInt64)
    else:
        both = pl.Series(high).cast(pl.UInt128), pl.Series(low).cast(pl.UInt128)
        prefix = pl.select(both[0] * pl.lit(2**64, dtype=pl.UInt128) + both[1]).to_series()
    return [prefix.alias("prefix"), bits]


def _prefix_path(tree: OpenTree, places: list[pl.Series]) -> pl.Series:
    """A prefix says where it is without those above it; as an integer, with its length."""
    prefix, bits = places
    text = prefix if tree.shown_as != "integer" else pl.concat_str(prefix, pl.lit("/"), bits)
    return pl.select(pl.when(bits == 0).then(pl.lit("")).otherwise(text).alias("path")).to_series()


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


def _row_order(tree: Tree) -> Ints:
    """Node ids by level, and within a level in depth-first order."""
    if tree.parents[0] == -1 and (tree.parents[1:] >= tree.parents[:-1]).all():
        return np.arange(tree.node_count)
    first, _ = tree._node_ranges
    return np.argsort(tree.node_levels * tree.node_count + first)


def _label_columns(levels: Ints, parents: Ints, labels: Sequence[pl.Series], names: Sequence[str]) -> list[pl.Series]:
    """For each level below the root, the label of every row's ancestor there; null for rows above it."""
    ends = np.cumsum(np.bincount(levels, minlength=len(names) + 1))
    columns = []
    for level, (own, name) in enumerate(zip(labels, names, strict=True), start=1):
        places = np.full(levels.size, own.len())
        places[ends[level - 1] : ends[level]] = np.arange(own.len())
        for start, end in zip(ends[level:], ends[level + 1 :], strict=False):
            places[start:end] = places[parents[start:end]]
        columns.append(own.extend_constant(None, 1).gather(places).alias(name))
    return columns


def _joined(parents: Ints, labels: Sequence[pl.Series], separator: str, name: str) -> pl.Series:
    """The labels from below the root down to each row, as one text; the root's is empty."""
    above = pl.Series([""] * min(parents.size, 1), dtype=pl.String)
    parts, first, start = [above], 0, 1
    for level, own in enumerate(labels, start=1):
        text = label_texts(own).fill_null(_NULL)
        if level > 1:
            before = above.gather(parents[start : start + own.len()] - first)
            text = pl.select(pl.concat_str(before, pl.lit(separator), text)).to_series()
        parts.append(text)
        above, first, start = text, start, start + own.len()
    return pl.concat(parts).alias(name)
