"""Open categories: places kept and their errors, against a threshold release of every level, in one run.

The threshold release is run once through OpenDP's Polars group-bys, and simulated many times with the same law: Laplace
noise of scale 3 at every level, and the threshold that OpenDP chooses for a third of delta. What is left out counts as
0; errors are over all places that have rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.peers.data import LEVELS, Job, generate
from benchmarks.peers.measure import Level, kept, rmse
from benchmarks.rows_to_release import group_bys
from benchmarks.timing import print_table
from opendp_tree import OpenTree, leaf_domain, make_tree_estimator, noise
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.planning import make_tree_counts

EPSILON, DELTA = 1.0, 1e-6
ROUNDS = 5
EVEN = (0.01, 0.33, 0.33, 0.33)
TRIED = (0.01, 0.2, 0.39, 0.4)  # the best of five that were tried on these very rows: what a user cannot do
Release = Callable[[], list[Level]]


def run() -> None:
    dp.enable_features("contrib")
    job = generate()
    truth = job.truth()
    releases: dict[str, tuple[Release, int]] = {**ours(job), **per_level(job, truth)}
    rows = []
    for name, (release, rounds) in releases.items():
        found = [release() for _ in range(rounds)]
        levels = [[one[depth] for one in found] for depth in range(len(LEVELS))]
        keeps = [kept(level, known) for level, known in zip(levels, truth, strict=True)]
        errors = [rmse(level, known)[0] for level, known in zip(levels, truth, strict=True)]
        assert round(keeps[0]) == len(truth[0]), f"{name} loses states"
        rows.append((name, rounds, *(f"{value:,.0f}" for value in keeps), *(f"{error:.1f}" for error in errors)))
    there = " / ".join(f"{len(level):,}" for level in truth)
    print(f"{job.rows.height:,} rows, {there} places that have any, epsilon {EPSILON:g}, delta {DELTA:g}\n")
    print_table(
        ("release", "runs", *(f"{name} kept" for name in LEVELS), *(f"{name} RMSE" for name in LEVELS)),
        rows,
    )


def ours(job: Job) -> dict[str, tuple[Release, int]]:
    """The package's releases: the planner's choice first."""
    tree = OpenTree.columns(LEVELS)
    counts = tree.count(job.rows.select(LEVELS))
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    budget = {"epsilon": EPSILON, "delta": DELTA}
    makers = {
        "auto": make_tree_counts(*space, **budget),
        "partition, 30 % measures": make_tree_estimator(*space, **budget, measuring=0.3),
        "pruned descent, planned": make_tree_counts(*space, **budget, method="pruned_laplace"),
        "pruned descent, even below the root": make_pruned_descent(*space, 1 / EPSILON, delta=DELTA, weights=EVEN),
        "pruned descent, weights tried on this data": make_pruned_descent(
            *space, 1 / EPSILON, delta=DELTA, weights=TRIED
        ),
    }
    return {name: (lambda maker=maker: by_level(maker(counts).to_frame()), ROUNDS) for name, maker in makers.items()}


def by_level(frame: pl.DataFrame) -> list[Level]:
    """The counts of each level by place, from a frame of all nodes."""
    if "other" in frame.columns:
        frame = frame.filter(other=False)
    count = "estimate" if "estimate" in frame.columns else "count"
    places = frame.columns[frame.columns.index("level") + 1 :]
    tables = [frame.filter(level=at).select(*places[:at], count) for at in (1, 2, 3)]
    return [{row[:-1]: float(row[-1]) for row in table.iter_rows()} for table in tables]


def per_level(job: Job, truth: list[Level]) -> dict[str, tuple[Release, int]]:
    """A threshold release of every level: OpenDP's own, and its law."""

    def through_opendp() -> list[Level]:
        tables = group_bys(job.rows.lazy(), "unknown", job.keys)
        return [{row[:-1]: float(row[-1]) for row in table.iter_rows()} for table in tables]

    scale = len(LEVELS) / EPSILON
    threshold = opendp_threshold(scale, DELTA / len(LEVELS))

    def simulated() -> list[Level]:
        levels = []
        for level in truth:
            noisy = np.fromiter(level.values(), dtype=np.int64) + noise.laplace(scale, len(level))
            levels.append({place: float(n) for place, n in zip(level, noisy, strict=True) if n >= threshold})
        return levels

    name = f"per level, threshold {threshold}"
    return {"per level, through OpenDP": (through_opendp, 1), f"{name}, simulated": (simulated, ROUNDS)}


def opendp_threshold(scale: float, delta: float) -> int:
    """The least threshold at which one new place is shown with chance at most delta: P(1 + noise >= threshold)."""
    q = math.exp(-1 / scale)
    return 1 + math.ceil(-scale * math.log(delta * (1 + q)))
