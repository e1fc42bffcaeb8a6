"""Tree sum: ten million nodes, against np.add.reduceat over an array of as many, in one run."""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp

from benchmarks.timing import best_of, print_table
from opendp_tree import Tree, leaf_domain, make_tree_sum

NODES = 10_000_000


def run() -> None:
    dp.enable_features("contrib")
    rng = np.random.default_rng(7)  # data, not noise
    ids = np.arange(NODES)
    values = rng.integers(0, 100, NODES)
    yardstick = best_of(3, lambda: np.add.reduceat(values, ids[::2]))
    rows = []
    for name, parents in (
        ("binary", (ids - 1) // 2),
        ("ten children each", (ids - 1) // 10),
        ("one chain", ids - 1),
        ("random, ids shuffled", _random(rng)),
    ):
        building = best_of(1, lambda parents=parents: Tree.from_parents(parents).leaf_ranges)
        tree = Tree.from_parents(parents)
        counts = rng.integers(0, 100, tree.leaf_count)
        plain = best_of(3, lambda tree=tree, counts=counts: tree.sum(counts))
        chain = make_tree_sum(leaf_domain(tree), dp.l1_distance(T="i64"), carrier="array")
        through = best_of(3, lambda chain=chain, counts=counts: chain(counts))
        rows.append(
            (
                name,
                tree.depth,
                f"{building:.1f}",
                f"{plain / yardstick:.2f}",
                f"{through / yardstick:.2f}",
            )
        )
    print(f"np.add.reduceat of {NODES:,} int64 in pairs: {yardstick * 1e3:.0f} ms\n")
    print_table(("tree", "depth", "seconds to build", "sum / reduceat", "sum in a chain / reduceat"), rows)


def _random(rng: np.random.Generator) -> np.ndarray:
    parents = (rng.random(NODES) * np.arange(NODES)).astype(np.int64)
    names = rng.permutation(NODES)
    shuffled = np.empty(NODES, dtype=np.int64)
    shuffled[names] = names[parents]
    shuffled[names[0]] = -1
    return shuffled
