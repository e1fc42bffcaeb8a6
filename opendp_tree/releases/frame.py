"""The nodes of a release as rows of a frame, with rows for the rest of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._types import Array, Ints
from opendp_tree.releases.values import value_columns, values_of_rest
from opendp_tree.releases.writing import label_texts
from opendp_tree.trees.bits import BitKeys, prefix_integers, prefix_texts
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.nodes import ShownCells, ShownNodes, contracted_parents
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    from opendp_tree.releases.release import TreeRelease

OTHER = "(other)"
"""The label of rows for the rest of a node."""
BETWEEN = " / "
"""The separator between the labels of a path."""
_NULL = "(null)"
_ROUNDING = 2.0**-40  # smaller differences, relative to their terms, are rounding


def release_frame(release: TreeRelease, *, other: bool) -> pl.DataFrame:
    """One row per node, level by level; with `other` also rows for the rest of nodes."""
    frame = _float_frame(release, other=other)
    if not release.whole:
        return frame
    whole = pl.col("estimate").round(), pl.col("lower").floor(), pl.col("upper").ceil()
    return frame.with_columns(each.cast(pl.Int64, strict=False) for each in whole)  # null where it is not finite


def _float_frame(release: TreeRelease, *, other: bool) -> pl.DataFrame:
    nodes, order = release.nodes or ShownNodes.of_tree(release.tree), release.row_order  # type: ignore[arg-type]
    figures = value_columns(release.values)
    numbers = {"estimate": release.estimates, "lower": release.lower, "upper": release.upper, **figures}
    values: dict[str, Array] = {name: array.astype(np.float64, copy=False)[order] for name, array in numbers.items()}
    if release.cells is not None:
        values["cells"] = release.cells[order]
    shown = np.ones(order.size, dtype=np.bool_) if release.shown is None else release.shown[order]
    values["shown"] = shown
    counted = None if release.statement is None else release.statement.counted
    *places, path = node_columns(nodes)
    columns = [path, pl.Series("level", nodes.levels), *places]
    frame = pl.DataFrame([*columns, *(pl.Series(name, array) for name, array in values.items())])
    first = ["path", "estimate", "lower", "upper", *figures, "level"]
    frame = frame.select(*first, pl.exclude(first)).with_columns(
        other=pl.lit(False), counted=pl.lit(counted, dtype=pl.String)
    )
    parents = nodes.parents
    if release.nodes is not None and not shown.all():
        parents, frame = contracted_parents(parents, shown), frame.filter(pl.Series(shown))
        values = {name: array[shown] for name, array in values.items()}
    if not other:
        return frame.drop("other")
    above, rest = _unexplained(release, parents, values) if release.adds_up else (parents[:0], {})
    if not above.size:
        return frame
    added = _other_rows(frame[above], nodes.tree, [place.name for place in places], frame["level"])
    added = added.with_columns(pl.Series(name, array, nan_to_null=True) for name, array in rest.items())
    # Parents never decrease, so that a stable sort puts these rows after their siblings.
    return pl.concat([frame, added])[np.argsort(np.append(parents, above), kind="stable")]


def cell_frame(cells: ShownCells) -> pl.DataFrame:
    """One row per cell, depth first: its level, and its prefix or labels."""
    *places, _ = node_columns(cells.nodes)
    return pl.DataFrame([pl.Series("level", cells.nodes.levels), *places])[cells.cells()]


def _unexplained(release: TreeRelease, parents: Ints, values: Mapping[str, Array]) -> tuple[Ints, dict[str, Array]]:
    """The nodes whose shown children have another total, and the difference; its interval fails if the node's does."""
    shown, size = values["shown"], parents.size
    children = np.flatnonzero(shown & (parents >= 0))

    def children_of(array: Array) -> Array:
        return np.bincount(parents[children], array[children], minlength=size)

    number = np.bincount(parents[children], minlength=size)
    estimate, lower, upper = (values[name] for name in ("estimate", "lower", "upper"))
    rest = estimate - children_of(estimate)
    weight = np.abs(estimate) + children_of(np.abs(estimate))
    lacking = shown & (number > 0) & (np.abs(rest) > _ROUNDING * weight)
    if release.nodes is None:
        lacking &= number < np.bincount(parents[parents >= 0], minlength=size)
    low, high = np.zeros(size), upper
    if release.confidence == 1:
        low, high = (np.maximum(a - children_of(b), 0.0) for a, b in ((lower, upper), (upper, lower)))
    left = {"estimate": rest, "lower": np.minimum(low, rest), "upper": np.maximum(high, rest)}
    if "cells" in values:
        left["cells"] = values["cells"] - children_of(values["cells"]).astype(np.int64)
    left |= values_of_rest(release.values, values, rest, lambda array: array - children_of(array))
    above = np.flatnonzero(lacking)
    return above, {name: array[above] for name, array in left.items()}


def _other_rows(parents: pl.DataFrame, tree: Tree | OpenTree, labels: Sequence[str], levels: pl.Series) -> pl.DataFrame:
    """The parents' rows made into rows for the rest. Types are kept: columns that are not texts are null."""
    below = pl.col("level") + 1
    if isinstance(tree, OpenTree):  # some of its levels may not be shown
        shown = levels.unique(maintain_order=True)
        below = pl.col("level").replace(shown[:-1], shown[1:])

    def rest_of(name: str, separator: str) -> pl.Expr:
        inner = pl.concat_str(pl.col(name), pl.lit(separator + OTHER))
        return pl.when(pl.col("level") == 0).then(pl.lit(OTHER)).otherwise(inner).alias(name)

    changed: list[Any] = [below.alias("level"), pl.lit(True).alias("other"), pl.lit(True).alias("shown")]
    changed.append(rest_of("path", BETWEEN))
    if isinstance(tree, OpenTree) and tree.separator:
        changed.append(rest_of("prefix", tree.separator))
    elif labels[0] in ("prefix", "node") or (isinstance(tree, Tree) and "low" in labels):
        changed += [pl.lit(None, dtype=parents.schema[name]).alias(name) for name in labels]
    else:
        changed += [
            pl.when(below == place + 1).then(pl.lit(OTHER)).otherwise(pl.col(name)).alias(name)
            for place, name in enumerate(labels)
            if parents.schema[name] == pl.String
        ]
    return parents.with_columns(changed)


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
    path = _joined(nodes, BETWEEN, "path")
    if nodes.outside >= 0:
        path = path.scatter(nodes.outside, OUTSIDE)
    if isinstance(tree, OpenTree) and tree.separator:
        return [_joined(nodes, tree.separator, "prefix"), path]
    return [*_label_columns(nodes.levels, nodes.parents, nodes.labels, tree.names), path]


def _prefix_columns(nodes: ShownNodes, tree: OpenTree, words: BitKeys) -> list[pl.Series]:
    """`prefix` (its smallest key, or an address), `bits` (its length), and the path, which has both."""
    bits = tree.bits_at(nodes.levels)
    texts = prefix_texts(words, bits, tree)
    prefix = prefix_integers(words, tree) if tree.shown_as == "integer" else texts
    path = pl.select(pl.when(pl.Series(bits) > 0).then(texts).otherwise(pl.lit(""))).to_series()
    places = [prefix.alias("prefix"), pl.Series("bits", bits)]
    if nodes.outside >= 0:
        inside = pl.Series(np.arange(nodes.size) != nodes.outside)  # scatter does not take UInt128
        places = [pl.select(pl.when(inside).then(place)).to_series() for place in places]
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


def _joined(nodes: ShownNodes, separator: str, name: str) -> pl.Series:
    """The labels from below the root down to each row in one text, which is empty for the root."""
    texts = [label_texts(own).fill_null(_NULL) for own in nodes.labels]
    texts[1:] = [separator + text for text in texts[1:]]
    parts = _label_columns(nodes.levels, nodes.parents, texts, [str(level) for level in range(len(texts))])
    root = pl.repeat("", nodes.size, eager=True)
    return pl.select(pl.concat_str(root, *parts, ignore_nulls=True).alias(name)).to_series()
