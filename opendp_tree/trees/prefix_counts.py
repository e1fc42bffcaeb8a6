"""How many people an open tree has at a path and below it, for those who ask for single nodes."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from opendp_tree._types import Bools
from opendp_tree.saturate import range_sums
from opendp_tree.trees.bit_keys import BitKeys
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.paths import OUTSIDE, tagged_label
from opendp_tree.trees.sparse_counts import SparseCounts

_WORD = 2**64 - 1


def check_path(tree: OpenTree, path: Any) -> tuple[Any, ...]:
    """A path that a tree can hold, whether or not anybody is there."""
    if not isinstance(path, tuple):
        raise TypeError(f"a path ({type(path).__name__}) must be a tuple. Hint: (label, ...), or (prefix, bits)")
    if tree.kind == "bits":
        return path if tree.outside and path == (OUTSIDE,) else _check_prefix(tree, path)
    kinds = (str,) if tree.kind == "paths" else (str, int, date, type(None))
    if len(path) >= tree.depth or not all(isinstance(label, kinds) for label in path):
        words = "each a text" if len(kinds) == 1 else "each a text, a number, a date or None"
        raise ValueError(f"a path must have at most {tree.depth - 1} labels, {words}")
    return path


def _check_prefix(tree: OpenTree, path: tuple[Any, ...]) -> tuple[int, int]:
    whole = len(path) == 2 and all(isinstance(part, (int, np.integer)) and not isinstance(part, bool) for part in path)
    if not whole:
        raise ValueError("a path in a tree of bits must be two integers: (prefix, bits)")
    prefix, bits = map(int, path)
    lengths = {min(level * tree.stride, tree.width) for level in range(tree.depth)}
    if bits not in lengths or not 0 <= prefix < 2**tree.width or prefix % 2 ** (tree.width - bits):
        raise ValueError(
            f"a path must be (prefix, bits) of a node: bits a level of the tree, up to {tree.width} by {tree.stride}, "
            "and prefix the least integer that begins so"
        )
    return prefix, bits


def people_at(counts: SparseCounts, path: tuple[Any, ...]) -> int:
    """How many people are at a path and below it; 0 where there is nobody. Clamped to 2**62 - 1."""
    if isinstance(counts.keys, BitKeys):
        is_key = np.arange(counts.occupied.levels.size) < counts.occupied.levels.size - counts.outside
        if path == (OUTSIDE,):
            chosen = ~is_key
        else:
            chosen = _begin_with(counts.keys, *path, width=counts.tree.width) & (is_key | (path[1] == 0))
    else:
        chosen = counts.occupied.levels >= len(path)
        for column, label in zip(counts.keys.columns, path, strict=False):
            chosen &= _equal(column, label)[counts.keys.rows]
        if len(path) > len(counts.keys.columns):  # nobody's key is that long
            return 0
    people = counts.occupied.counts[chosen]
    return int(range_sums(people, np.array([0]), np.array([people.size]))[0])


def _begin_with(keys: BitKeys, prefix: int, bits: int, *, width: int) -> Bools:
    wanted = BitKeys.of_integers(
        np.array([prefix >> 64], dtype=np.uint64), np.array([prefix & _WORD], dtype=np.uint64), width
    )
    found = keys.first(np.full(keys.high.size, bits))
    same: Bools = (found.high == wanted.high) & (found.low == wanted.low)
    return same


def _equal(column: Any, label: Any) -> Bools:
    """Where a column of labels has this one. One of another type than the column's is nowhere; nothing is raised."""
    wanted = tagged_label(label)
    if isinstance(column, list):
        return np.fromiter((tagged_label(each) == wanted for each in column), dtype=np.bool_, count=len(column))
    if label is None:
        nulls: Bools = column.is_null().to_numpy()
        return nulls
    # Distinct values are few, and Python tells True from 1 where Polars need not.
    values = column.unique().to_list()
    if not any(tagged_label(each) == wanted for each in values):
        return np.zeros(len(column), dtype=np.bool_)
    here: Bools = column.eq_missing(label).to_numpy()
    return here
