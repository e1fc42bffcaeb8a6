"""Synthetic people in a deep tree, and the counts of all its non-empty nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from opendp_tree.trees.nodes import SparseCounts
from opendp_tree.trees.open_tree import OpenTree


def cascade(people: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Keys of `width` bits, as high and low words: at every node people split by an uneven random share.

    Shares are drawn per level and per prefix of up to twelve bits before it, so that branches differ.
    """
    prefix = np.zeros(people, dtype=np.int64)
    words = np.zeros((people, 2), dtype=np.uint64)
    for _ in range(width):
        shares = rng.beta(0.6, 1.4, size=4096)
        bit = rng.random(people) < shares[prefix]
        prefix = ((prefix << 1) | bit) & 4095
        shift = np.uint64(1)
        words[:, 0] = (words[:, 0] << shift) | (words[:, 1] >> np.uint64(63))
        words[:, 1] = (words[:, 1] << shift) | bit.astype(np.uint64)
    return words


def counted(words: np.ndarray, width: int) -> SparseCounts:
    """The keys as sparse counts of their open tree."""
    return OpenTree.bits(width).count(words)


def nodes(counts: SparseCounts) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Level by level: the first place of each non-empty node, and its true count."""
    joins = np.concatenate(([-1], counts.occupied.meets))
    running = np.concatenate(([0], np.cumsum(counts.occupied.counts)))
    for level in range(counts.tree.depth):
        starts = np.flatnonzero(joins < level)
        yield level, starts, np.diff(np.append(running[starts], running[-1]))


def gaussian_deviation(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation of Gaussian noise that is (epsilon, delta)-DP (Balle and Wang, 2018)."""

    def tail(x: float) -> float:
        return 0.5 * math.erfc(x / math.sqrt(2))

    low, high = 0.01, 1e4
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        lost = tail(epsilon * middle - 0.5 / middle) - math.exp(epsilon) * tail(epsilon * middle + 0.5 / middle)
        low, high = (low, middle) if lost <= delta else (middle, high)
    return high * sensitivity
