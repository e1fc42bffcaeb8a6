"""Scale: seconds and memory of a release against people, leaves and depth."""

from __future__ import annotations

import multiprocessing
import time
import tracemalloc

import numpy as np
import opendp.prelude as dp

from benchmarks.timing import print_table
from opendp_tree import OpenTree, leaf_domain
from opendp_tree.planning import make_tree_counts

PEOPLE, LEAVES = 1_000_000, 100_000
CASES = (
    *(("people", people, LEAVES, 8) for people in (100_000, 1_000_000, 10_000_000)),
    *(("leaves", PEOPLE, leaves, 8) for leaves in (1_000, 30_000, 1_000_000)),
    *(("depth", PEOPLE, LEAVES, stride) for stride in (32, 16, 8, 4, 2, 1)),
)
"""What varies, people, distinct leaves at most, and bits of prefix a level, of 64."""


def run() -> None:
    rows = []
    for varied, people, leaves, stride in CASES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # memory is that of a process of its own
            counting, releasing, memory, depth, shown = pool.apply(release, (people, leaves, stride))
        each = 1e9 * (counting + releasing) / people
        case = (varied, f"{people:,}", f"{leaves:,}", depth)
        rows.append((*case, f"{counting:.2f}", f"{releasing:.2f}", f"{each:.0f}", f"{memory:.0f}", f"{shown:,}"))
    header = ("varied", "people", "leaves", "depth", "count, s", "release, s", "ns a person", "MiB", "nodes shown")
    print_table(header, rows)


def release(people: int, leaves: int, stride: int) -> tuple[float, float, float, int, int]:
    """Seconds to count keys and to release, the memory that both took, the depth, and how many nodes were shown."""
    dp.enable_features("contrib")
    rng = np.random.default_rng(5)  # data
    pool = rng.integers(0, 2**63, leaves, dtype=np.uint64) * np.uint64(2)
    keys = pool[(leaves * rng.random(people) ** 3).astype(np.int64)]
    tree = OpenTree.bits(64, stride=stride)
    made = make_tree_counts(leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    start = time.perf_counter()
    counts = tree.count(keys)
    counted = time.perf_counter()
    found = made(counts)
    end = time.perf_counter()
    tracemalloc.start()  # once more, because tracing takes time
    made(tree.count(keys))
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    return counted - start, end - counted, memory, tree.depth, found.estimates.size
