"""Where a node is, as columns of a frame: its labels, or its prefix, or its id; and its path in one text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache

import numpy as np
import polars as pl

from opendp_tree._types import Ints, Words
from opendp_tree.releases.writing import label_texts
from opendp_tree.trees.bit_keys import BitKeys
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.shown_nodes import ShownNodes
from opendp_tree.trees.tree import Tree

BETWEEN = " / "
"""What stands between the labels of a path."""
_NULL = "(null)"
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((date(year, 1, 1) - date(1970, 1, 1)).days for year in (2, 9999))


def node_columns(nodes: ShownNodes) -> list[pl.Series]:
    """Columns that say where each node is, and last its `path`, that in one text.

    Label columns, called as the tree says; or `prefix` for paths; or `prefix` and `bits`; or `node`, the id.

    Parameters
    ----------
    nodes
        The nodes, one for each row.

    >>> [column.name for column in node_columns(ShownNodes.of_tree(Tree.balanced(branching=2, depth=2)))]
    ['node', 'path']
    """
    tree = nodes.tree
    if nodes.words is not None:
        assert isinstance(tree, OpenTree)
        places = _prefix_columns(tree, nodes.levels, nodes.words)
        return [*places, _prefix_path(tree, places)]
    if isinstance(tree, Tree) and tree.labels is None:
        ids = pl.Series("node", tree.level_order.nodes)
        return [ids, ids.cast(pl.String).scatter(0, "").alias("path")]
    path = _joined(nodes.parents, nodes.labels, BETWEEN, "path")
    if isinstance(tree, OpenTree) and tree.separator:
        return [_joined(nodes.parents, nodes.labels, tree.separator, "prefix"), path]
    return [*_label_columns(nodes.levels, nodes.parents, nodes.labels, tree.names), path]


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
