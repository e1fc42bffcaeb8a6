"""Partition: alpha-errors over all non-empty nodes against noise on every node, in one run."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import opendp.prelude as dp

from benchmarks.cascade import CLASSES, Errors, cascade, counted, gaussian_deviation, nodes, normal_quantile
from benchmarks.timing import print_table, write_lines
from opendp_tree import Tree, leaf_domain, make_multiplicative_estimator, noise, plan_partition, saturate
from opendp_tree.measurements.partition_walk import PartitionWalk
from opendp_tree.trees.sparse_counts import SparseCounts

PEOPLE, EPSILON, DELTA = 1_000_000, 1.0, 1e-6
DEPTHS, ALPHAS = (9, 17, 33, 65, 129), (0.1, 0.5)
PAPER = "the paper's, public"
PAPER_DEPTH = 17  # deeper, the tree of all non-empty nodes has tens of millions
PICTURE = Path(__file__).parents[1] / "docs" / "benchmarks" / "partition_error.svg"


def run() -> None:
    dp.enable_features("contrib")
    rng = np.random.default_rng(11)  # data; baselines are only simulated, never released
    rows, lines = [], {}
    for depth in DEPTHS:
        counts = counted(cascade(PEOPLE, depth - 1, rng), depth - 1)
        for alpha in ALPHAS:
            found = measure(counts, alpha, rng)
            for name, errors in found.items():
                rows.append((depth, alpha, name, f"{errors.largest:.0f}", *(f"{x:.1f}" for x in errors.rmse)))
                if name != PAPER:  # its errors would flatten all others
                    lines.setdefault(f"{name}, alpha {alpha:g}", []).append((depth, errors.largest))
    classes = [f"RMSE {low}-{high}" if high < math.inf else f"RMSE {low}-" for low, high in pairwise(CLASSES)]
    print_table(("depth", "alpha", "mechanism", "largest", *classes), rows)
    write_lines(PICTURE, lines, title="Largest alpha-error over all non-empty nodes, epsilon 1, delta 1e-6", x="depth")


def measure(counts: SparseCounts, alpha: float, rng: np.random.Generator) -> dict[str, Errors]:
    """The errors of all mechanisms on one data set."""
    depth = counts.tree.depth
    deviation = gaussian_deviation(EPSILON, DELTA, math.sqrt(depth))
    pruning = gaussian_deviation(EPSILON, DELTA / 2, math.sqrt(depth))
    threshold = 1 + pruning * normal_quantile(DELTA / 2)
    cells = {minimise: partition(counts, alpha, minimise) for minimise in ("rmse", "largest")}
    names = ["partition", "partition, largest error", "pruned Gaussian", "Gaussian, public", "Laplace, public"]
    paper = paper_estimates(counts, alpha) if depth <= PAPER_DEPTH else None
    errors = {name: Errors(alpha) for name in (names if paper is None else [*names, PAPER])}
    alive = np.ones(counts.occupied.counts.size, dtype=bool)  # places whose ancestors are all shown
    for level, starts, truth in nodes(counts):
        for name, minimise in (("partition", "rmse"), ("partition, largest error", "largest")):
            places, levels, noisy = cells[minimise]
            below = levels >= level
            where = np.searchsorted(starts, places[below], side="right") - 1
            errors[name].add(truth, np.bincount(where, noisy[below], minlength=starts.size))
        if paper is not None:
            errors[PAPER].add(truth, paper[level])
        errors["Gaussian, public"].add(truth, truth + rng.normal(0, deviation, truth.size))
        errors["Laplace, public"].add(truth, truth + rng.laplace(0, depth / EPSILON, truth.size))
        estimate = truth + rng.normal(0, pruning, truth.size)
        shown = alive[starts] & (estimate >= threshold)
        errors["pruned Gaussian"].add(truth, np.where(shown, estimate, 0))
        alive &= np.repeat(shown, np.diff(np.append(starts, alive.size)))
    return errors


def paper_estimates(counts: SparseCounts, alpha: float) -> list[np.ndarray]:
    """The multiplicative estimator on the tree of all non-empty nodes, level by level."""
    places = [starts for _, starts, _ in nodes(counts)]
    offsets = np.cumsum([0, *(starts.size for starts in places)])
    parents = [np.array([-1])]
    for level in range(1, len(places)):
        above = np.searchsorted(places[level - 1], places[level], side="right") - 1
        parents.append(above + offsets[level - 1])
    tree = Tree.from_parents(np.concatenate(parents))
    estimator = make_multiplicative_estimator(
        leaf_domain(tree),
        dp.l1_distance(T="i64"),
        alpha=alpha,
        epsilon=EPSILON,
        delta=DELTA,
        eta=0.05,
        mass_bound=PEOPLE,
    )
    return np.split(estimator(counts.occupied.counts).estimates, offsets[1:-1])


def partition(counts: SparseCounts, alpha: float, minimise: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells with their noisy counts, as `make_partition_estimator` has them inside."""
    plan = plan_partition(
        depth=counts.tree.depth, epsilon=EPSILON, delta=DELTA, alpha=alpha, public=False, minimise=minimise
    ).fitted(epsilon=Fraction(EPSILON), delta=Fraction(DELTA))
    cells = PartitionWalk(counts.occupied, plan.scale, plan.shape).run()
    noisy = saturate.add(cells.residuals, noise.laplace(plan.count_scale, cells.residuals.size))
    return cells.places, cells.levels, noisy
