"""The nodes of a release as rows of a frame, with rows for the rest of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Array, Ints
from opendp_tree.releases.values import values_of_rest
from opendp_tree.releases.writing import label_texts
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.label_keys import prefix_integers, prefix_texts
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownCells, ShownNodes, contracted_parents
from opendp_tree.trees.tree import Tree

OTHER = "(other)"
"""The label of rows for the rest of a node."""
FIRST = ("path", "estimate", "lower", "upper", "level")
"""The first columns of a frame."""
BETWEEN = " / "
"""The separator between the labels of a path."""
_NULL = "(null)"
_ROUNDING = 2.0**-40  # smaller differences, relative to their terms, are rounding


def release_frame(
    nodes: ShownNodes,
    values: Mapping[str, Array],
    *,
    certain: bool,
    other: bool,
    counted: str | None = None,
    adds_up: bool = True,
    sums: Mapping[str, tuple[float, float]] | None = None,
) -> pl.DataFrame:
    """One row per node, in the order of the nodes."""
    sums = {} if sums is None else sums
    columns = [pl.Series(name, array) for name, array in values.items()]
    columns.append(pl.repeat(counted, nodes.size, dtype=pl.String, eager=True).alias("counted"))
    *places, path = node_columns(nodes)
    frame = pl.DataFrame([path, pl.Series("level", nodes.levels), *places, *columns])
    first = [*FIRST[:-1], *sums, *FIRST[-1:]]
    frame = frame.select(*first, pl.exclude(first))
    parents, public, shown = nodes.parents, isinstance(nodes.tree, Tree), values["shown"]
    if not public and not shown.all():
        parents, frame = contracted_parents(parents, shown), frame.filter(pl.Series(shown))
        values = {name: array[shown] for name, array in values.items()}
    if not other:
        return frame
    frame = frame.with_columns(other=pl.lit(False)).select(pl.exclude("counted"), "counted")
    if not adds_up:
        return frame
    above, rest = _unexplained(parents, values, certain=certain, public=public, sums=sums)
    if not above.size:
        return frame
    separator = "" if isinstance(nodes.tree, Tree) else nodes.tree.separator
    labels = [place.name for place in places]
    added = _other_rows(frame, labels, above, rest, separator=separator, public=public)
    # Parents never decrease, so siblings end where their parent would be inserted.
    spots = np.searchsorted(parents, above, side="right") + np.arange(above.size)
    order = np.empty(frame.height + above.size, dtype=np.int64)
    kept = np.ones(order.size, dtype=np.bool_)
    kept[spots] = False
    order[kept], order[spots] = np.arange(frame.height), frame.height + np.arange(above.size)
    return pl.concat([frame, added])[order]


def cell_frame(cells: ShownCells) -> pl.DataFrame:
    """One row per cell, depth first: its level, and its prefix or labels."""
    *places, _ = node_columns(cells.nodes)
    return pl.DataFrame([pl.Series("level", cells.nodes.levels), *places])[cells.cells()]


def _unexplained(
    parents: Ints, values: Mapping[str, Array], *, certain: bool, public: bool, sums: Mapping[str, tuple[float, float]]
) -> tuple[Ints, dict[str, Array]]:
    """The nodes whose shown children have another total, and the difference.

    The rest is at least 0 and at most the node's count, so its interval fails only if the node's own does. If all
    intervals always hold, it is what they leave.
    """
    shown, size = values["shown"], parents.size
    children = np.flatnonzero(shown & (parents >= 0))
    at = parents[children]

    def children_of(array: Array) -> Array:
        return np.bincount(at, array[children], minlength=size)

    number = np.bincount(at, minlength=size)
    rest = values["estimate"] - children_of(values["estimate"])
    weight = np.abs(values["estimate"]) + children_of(np.abs(values["estimate"]))
    lacking = shown & (number > 0) & (np.abs(rest) > _ROUNDING * weight)
    if public:
        lacking &= number < np.bincount(parents[parents >= 0], minlength=size)
    above = np.flatnonzero(lacking)
    lower, upper = np.zeros(above.size), values["upper"][above]
    if certain:
        lower = np.maximum(values["lower"][above] - children_of(values["upper"])[above], 0.0)
        upper = np.maximum(values["upper"][above] - children_of(values["lower"])[above], 0.0)
    estimate = rest[above]
    left = {"estimate": estimate, "lower": np.minimum(lower, estimate), "upper": np.maximum(upper, estimate)}
    if "cells" in values:
        left["cells"] = (values["cells"] - children_of(values["cells"]).astype(np.int64))[above]
    of_values = {name: values[name] for name in sums}
    left |= values_of_rest(of_values, left["estimate"], lambda array: (array - children_of(array))[above], sums)
    return above, left


def _other_rows(
    frame: pl.DataFrame,
    labels: Sequence[str],
    above: Ints,
    rest: Mapping[str, Array],
    *,
    separator: str,
    public: bool,
) -> pl.DataFrame:
    """The parents' rows made into rows for the rest. Types are kept: columns that are not texts are null."""
    parents = frame[above]
    below = pl.col("level") + 1
    if not public:  # some levels of an open tree may not be shown
        levels = frame["level"].unique(maintain_order=True)
        below = pl.col("level").replace(levels[:-1], levels[1:])
    columns = [pl.Series(name, array, nan_to_null=True) for name, array in rest.items()]
    changed: list[Any] = [
        below.alias("level"),
        pl.lit(True).alias("other"),
        pl.lit(True).alias("shown"),
        _below("path", BETWEEN),
    ]
    if separator:
        changed.append(_below("prefix", separator))
    elif labels[0] in ("prefix", "node") or (public and "low" in labels):
        changed += [pl.lit(None, dtype=frame.schema[name]).alias(name) for name in labels]
    else:
        changed += [
            pl.when(below == place + 1).then(pl.lit(OTHER)).otherwise(pl.col(name)).alias(name)
            for place, name in enumerate(labels)
            if frame.schema[name] == pl.String
        ]
    return parents.with_columns(changed).with_columns(columns)


def _below(name: str, separator: str) -> pl.Expr:
    """The path of the row for the rest of this node."""
    inner = pl.concat_str(pl.col(name), pl.lit(separator + OTHER))
    return pl.when(pl.col("level") == 0).then(pl.lit(OTHER)).otherwise(inner).alias(name)


def node_columns(nodes: ShownNodes) -> list[pl.Series]:
    """The columns that locate each node: its labels, or its prefix, or its id; and last its `path`."""
    tree = nodes.tree
    if nodes.words is not None:
        assert isinstance(tree, OpenTree)
        return _prefix_columns(nodes, tree, nodes.words)
    if isinstance(tree, Tree) and tree.ranges is not None:
        return _range_columns(tree, tree.ranges, nodes.labels)
    if isinstance(tree, Tree) and tree.labels is None:
        ids = pl.Series("node", tree.level_order.nodes)
        return [ids, ids.cast(pl.String).scatter(0, "").alias("path")]
    path = _joined(nodes.parents, nodes.labels, BETWEEN, "path")
    if nodes.outside >= 0:
        path = path.scatter(nodes.outside, OUTSIDE)
    if isinstance(tree, OpenTree) and tree.separator:
        return [_joined(nodes.parents, nodes.labels, tree.separator, "prefix"), path]
    return [*_label_columns(nodes.levels, nodes.parents, nodes.labels, tree.names), path]


def _prefix_columns(nodes: ShownNodes, tree: OpenTree, words: BitKeys) -> list[pl.Series]:
    """`prefix` (its smallest key, or an address), `bits` (its length), and the path, which has both."""
    bits = tree.bits_at(nodes.levels)
    texts = prefix_texts(words, bits, tree)
    prefix = prefix_integers(words, tree) if tree.shown_as == "integer" else texts
    path = pl.select(pl.when(pl.Series(bits) > 0).then(texts).otherwise(pl.lit(""))).to_series()
    places = [prefix.alias("prefix"), pl.Series("bits", bits)]
    if nodes.outside >= 0:
        places = [place.scatter(nodes.outside, None) for place in places]
        path = path.scatter(nodes.outside, OUTSIDE)
    return [*places, path.alias("path")]


def _range_columns(tree: Tree, ranges: NumberRange, labels: Sequence[pl.Series]) -> list[pl.Series]:
    """The ends of each node's range, and its name as the path: a range needs no labels above it."""
    nodes, (first, last) = tree.level_order.nodes, tree.leaf_ranges
    small = all(not isinstance(edge, int) or abs(edge) < 2**63 for edge in (ranges.edges[0], ranges.edges[-1]))
    edges = pl.Series(ranges.edges if small else [float(edge) for edge in ranges.edges])
    is_range = pl.Series(first[nodes] < ranges.bins)
    ends = [
        pl.select(pl.when(is_range).then(edges.gather(places[nodes].clip(max=ranges.bins))).alias(name)).to_series()
        for places, name in ((first, "low"), (last, "high"))
    ]
    return [*ends, pl.concat([pl.Series("path", [""]), *(label_texts(own) for own in labels)]).alias("path")]


def _label_columns(levels: Ints, parents: Ints, labels: Sequence[pl.Series], names: Sequence[str]) -> list[pl.Series]:
    """For each level below the root, the label of each row's ancestor there; null for rows above that level."""
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
    """The labels from below the root down to each row in one text, which is empty for the root."""
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
