"""Consistent trees: ten million nodes against the tree sum of as many, and the gain in accuracy at every level.

Both parts assert what they claim: at most 5 times the sum's time, and no level worse than its raw counts.
"""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as dp
from scipy import optimize

from benchmarks.timing import best_of, print_table
from opendp_tree import Tree, make_consistent, noise
from opendp_tree.trees.least_squares import LeastSquares

NODES = 10_000_000
ROUNDS = 200
SCALE = 3.0


def run() -> None:
    dp.enable_features("contrib")
    speed()
    accuracy()
    projection()


def speed() -> None:
    rng = np.random.default_rng(7)  # data, not noise
    ids = np.arange(NODES)
    rows = []
    for name, parents in (
        ("binary", (ids - 1) // 2),
        ("ten children each", (ids - 1) // 10),
        ("random", (rng.random(NODES) * ids).astype(np.int64) - (ids == 0)),
    ):
        tree = Tree.from_parents(parents)
        counts = rng.integers(0, 100, tree.leaf_count)
        noisy = tree.sum(counts)
        summing = best_of(5, lambda tree=tree, counts=counts: tree.sum(counts))
        fits: list[LeastSquares] = []
        making = best_of(1, lambda tree=tree, fits=fits: fits.append(LeastSquares.of(tree, np.full(NODES, 2.0))))
        solving = best_of(5, lambda fit=fits[0], noisy=noisy: fit.solve(noisy))
        assert solving <= 5 * summing, f"{name}: {solving / summing:.1f} times the sum"
        rows.append((name, tree.depth, f"{making:.1f}", f"{solving:.2f}", f"{solving / summing:.2f}"))
    print_table(("tree", "depth", "seconds to make", "seconds to solve", "solve / sum"), rows)


def accuracy() -> None:
    tree = Tree.from_paths([(a, b, c) for a in range(50) for b in range(20) for c in range(10)])
    # Skewed: few large leaves, many empty ones.
    leaves = (10_000 / np.arange(1, tree.leaf_count + 1) ** 0.9).astype(np.int64)
    truth = tree.sum(np.random.default_rng(7).permutation(np.where(leaves > 3, leaves, 0)))
    variances = np.full(tree.depth, 1 / (2 * math.sinh(1 / (2 * SCALE)) ** 2))
    makers = {
        name: make_consistent(tree, variances=variances, noise="laplace", **options)
        for name, options in (
            ("consistent", {}),
            ("and non-negative", {"nonnegative": True}),
            ("and whole", {"nonnegative": True, "integers": True}),
        )
    }
    squares = {name: np.zeros(tree.node_count) for name in ("raw", *makers)}
    for _ in range(ROUNDS):
        noisy = truth + noise.laplace(SCALE, truth.size)
        squares["raw"] += (noisy - truth) ** 2
        for name, consistent in makers.items():
            squares[name] += (consistent(noisy).estimates - truth) ** 2
    print(f"\n50 × 20 × 10 leaves, Laplace noise of scale {SCALE:g}, RMSE over {ROUNDS} releases\n")
    rows = []
    for level, nodes in enumerate(tree.levels):
        errors = [math.sqrt(total[nodes].mean() / ROUNDS) for total in squares.values()]
        # The root is one node: its error alone is uncertain by some 6 % in 200 releases.
        assert errors[1] <= errors[0] * (1.2 if nodes.size == 1 else 1.0), f"level {level} is worse"
        rows.append((level, nodes.size, *(f"{error:.2f}" for error in errors), f"{errors[0] / errors[1]:.2f}"))
    print_table(("level", "nodes", *squares, "raw / consistent"), rows)


def projection() -> None:
    """The cost of going from the root down, against the constrained solution of the whole tree (dense, by SciPy)."""
    tree = Tree.balanced(branching=4, depth=4)
    every = np.eye(tree.leaf_count, dtype=np.int64)
    matrix = np.array([tree.sum(row) for row in every], dtype=np.float64).T
    plain, projected = (make_consistent(tree, variances=[2.0] * 4, nonnegative=flag) for flag in (False, True))
    rows = []
    for name, leaves in (
        ("all leaves empty", np.zeros(64, dtype=np.int64)),
        ("one leaf in five holds 30", np.where(np.arange(64) % 5 == 0, 30, 0)),
        ("all leaves hold 30", np.full(64, 30)),
    ):
        truth = tree.sum(leaves)
        squares = np.zeros(3)
        for _ in range(ROUNDS):
            noisy = truth + noise.laplace(4.0, truth.size)
            best = matrix @ optimize.nnls(matrix, noisy.astype(np.float64))[0]
            found = (plain(noisy).estimates, projected(noisy).estimates, best)
            squares += [((values - truth) ** 2).mean() for values in found]
        errors = np.sqrt(squares / ROUNDS)
        rows.append((name, *(f"{error:.2f}" for error in errors), f"{errors[1] / errors[2]:.2f}"))
    print("\nNon-negative estimates, 4 × 4 × 4 leaves, Laplace noise of scale 4, RMSE over all nodes\n")
    print_table(("data", "consistent", "from the root down", "whole tree at once", "ratio"), rows)
