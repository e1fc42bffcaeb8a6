"""Partition: time from arrays of keys to a release, against sorting the same keys and against noise on every node."""

from __future__ import annotations

import resource

import numpy as np
import opendp.prelude as dp

from benchmarks.cascade import cascade
from benchmarks.timing import best_of, print_table
from opendp_tree import OpenTree, leaf_domain, make_tree_estimator


def run() -> None:
    dp.enable_features("contrib")
    rng = np.random.default_rng(5)  # data, not noise
    rows = []
    for keys in (500_000, 1_000_000, 2_000_000):
        words = rng.integers(0, 2**64, (keys, 2), dtype=np.uint64)
        words[:, 0] >>= rng.integers(0, 40, keys, dtype=np.uint64)
        rows.append(("random, 128 bits", *measure(words, 128)))
    words = rng.integers(0, 2**64, (1_000_000, 2), dtype=np.uint64)
    words[:, 0] = rng.zipf(1.2, 1_000_000).clip(max=2**62).astype(np.uint64)
    rows.append(("random, high words by Zipf's law, 128 bits", *measure(words, 128)))
    words = cascade(10_000_000, 32, rng)
    rows.append(("cascade, 10^7 people, 32 bits", *measure(words, 32)))
    print_table(
        (
            "keys",
            "distinct",
            "seconds to sort",
            "to count / sort",
            "seconds to release",
            "to release / sort",
            "nodes",
            "OpenDP's Gaussian / all",
        ),
        rows,
    )
    print(f"\nPeak memory of the whole run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


def measure(words: np.ndarray, width: int) -> tuple[object, ...]:
    """Ratios for one array of keys."""
    tree = OpenTree.bits(width)
    keys = words if width > 64 else words[:, 1].copy()
    columns = (words[:, 1].copy(), words[:, 0].copy())
    sorting = best_of(3, lambda: np.lexsort(columns))
    estimator = make_tree_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    counting = best_of(3, lambda: tree.count(keys))
    both = best_of(3, lambda: estimator(tree.count(keys)))
    counts = tree.count(keys)
    nodes = int(counts.occupied.counts.size * tree.depth - counts.occupied.meets.sum()) - counts.occupied.meets.size
    # One of OpenDP's own draws for every non-empty node; measured on a part, as it is linear.
    gaussian = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), 25.0)
    zeros = np.zeros(20_000, dtype=np.int64)
    their_time = best_of(3, lambda: gaussian(zeros)) / zeros.size * nodes
    return (
        f"{counts.occupied.counts.size:,}",
        f"{sorting:.2f}",
        f"{counting / sorting:.2f}",
        f"{both:.2f}",
        f"{both / sorting:.2f}",
        f"{nodes:,}",
        f"{their_time / both:.0f}",
    )
