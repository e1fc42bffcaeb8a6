"""Where a node is, as columns of a frame: its labels, or its prefix, or its id; and its path in one text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.releases.writing import label_texts
from opendp_tree.trees.bits import BitKeys
from opendp_tree.trees.label_keys import prefix_integers, prefix_texts
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownNodes
from opendp_tree.trees.tree import Tree

BETWEEN = " / "
"""What stands between the labels of a path."""
_NULL = "(null)"
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (2, 9999))


def node_columns(nodes: ShownNodes) -> list[pl.Series]:
    """Columns that say where each node is, and last its `path`, that in one text."""
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
    """`prefix`, as the least key that it begins or as an address, `bits`, its length, and the path, which is both."""
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
    """The ends of each node's range, and what it is called: a range says where it is without those above it."""
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
