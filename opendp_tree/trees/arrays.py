"""What a tree's parents determine, computed by pointer doubling: log2(depth) passes whatever the shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Ints


def check_parents(parents: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ints:
    """A private copy of `parents`, once it is sure to hold one root and valid ids (cycles are seen later)."""
    given = np.asarray(parents)
    if given.size == 0:
        raise ValueError("parents must hold at least one node")
    if given.ndim != 1:
        raise ValueError(f"parents must be one-dimensional, found {given.ndim} dimensions")
    if given.dtype.kind not in "iu":
        raise TypeError(f"parents must be integers, found {given.dtype}")
    if given.size > 2**31:
        raise ValueError(f"parents holds {given.size} nodes; at most 2**31 fit")
    outside = np.flatnonzero((given < -1) | (given >= given.size))
    if outside.size:
        node = int(outside[0])
        raise ValueError(f"parents[{node}] ({given[node]}) must be -1 or a node id from 0 to {given.size - 1}")
    array = given.astype(np.int64)
    roots = np.flatnonzero(array == -1)
    if roots.size == 0:
        raise ValueError("parents has no root. Hint: the root's parent is -1")
    if roots.size > 1:
        raise ValueError(
            f"parents has {roots.size} roots, the first two at {roots[0]} and {roots[1]}; there must be one"
        )
    return array


def node_levels(parents: Ints) -> Ints:
    """The number of steps from each node up to the root; a cycle is an error."""
    root = int(np.argmin(parents))
    levels = np.ones(parents.size, dtype=np.int64)
    levels[root] = 0
    for ancestors in _doubling(parents):
        levels += levels[ancestors]
    return levels


def subtree_ranges(parents: Ints, own: Ints) -> tuple[Ints, Ints]:
    """For each node the range first..last of places that its subtree takes in depth-first order, siblings by id."""
    nodes = parents.size
    root = int(np.argmin(parents))
    totals = own.copy()
    steps = np.ones(nodes, dtype=np.int64)
    steps[root] = 0
    stride = 1
    # totals[v] covers what is fewer than `stride` levels below v; those whose ancestor at exactly that distance is v
    # bring the next `stride` levels.
    for ancestors in _doubling(parents, close=True):
        exact = np.flatnonzero(steps == stride)
        totals += np.bincount(ancestors[exact], weights=totals[exact], minlength=nodes).astype(np.int64)
        steps += steps[ancestors]
        stride *= 2
    # What earlier siblings and the parent itself take, summed over the way up to the root.
    order = np.arange(nodes) if (parents[1:] >= parents[:-1]).all() else np.argsort(parents, kind="stable")
    sorted_parents, sorted_totals = parents[order], totals[order]
    before = np.cumsum(sorted_totals) - sorted_totals
    is_first = np.concatenate(([True], sorted_parents[1:] != sorted_parents[:-1]))
    before -= before[is_first][np.cumsum(is_first) - 1]
    first = np.empty(nodes, dtype=np.int64)
    first[order] = before + own[sorted_parents]
    first[root] = 0
    for ancestors in _doubling(parents, close=True):
        first += first[ancestors]
    return first, first + totals


def _doubling(parents: Ints, *, close: bool = False) -> Iterator[Ints]:
    """Each node's ancestor 1, 2, 4, ... levels up (the root above itself), while any of them is not the root."""
    root = int(np.argmin(parents))
    ancestors = parents.copy()
    ancestors[root] = root
    for _ in range(parents.size.bit_length() + 1):
        if (ancestors == root).all():
            if close:
                yield ancestors
            return
        yield ancestors
        ancestors = ancestors[ancestors]
    node = int(ancestors[np.flatnonzero(ancestors != root)[0]])
    raise ValueError(f"parents has a cycle through node {node}")
