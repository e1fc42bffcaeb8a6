"""The paper's algorithm, Laplace and Gaussian noise, and what cannot be beaten, by depth and alpha.

Asserts that the additive error shown for the paper's algorithm is the one that it has on an empty tree.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import opendp.prelude as dp

from benchmarks.cascade import gaussian_deviation
from benchmarks.timing import print_table
from opendp_tree import (
    Tree,
    leaf_domain,
    make_multiplicative_estimator,
    make_tree_gaussian,
    make_tree_laplace,
    then_tree_sum,
)
from opendp_tree.bounds import error_lower_bound
from opendp_tree.budget import Budget
from opendp_tree.error_measures import l2_error, linf_error
from opendp_tree.paper import multiplicative_threshold
from opendp_tree.planning.methods import Setting, TreeNoise
from opendp_tree.theorems.packing import balanced_gamma_squared

EPSILON, DELTA, ETA = 1.0, 1e-6, 0.01
ALPHAS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
DEPTHS = (2, 3, 5, 9, 17, 33, 129, 1025, 2**13, 2**16, 2**20)
MAKERS = {
    "laplace": (dp.l1_distance(T="i64"), dp.m.then_laplace, make_tree_laplace),
    "gaussian": (dp.l2_distance(T="f64"), dp.m.then_gaussian, make_tree_gaussian),
}
RUNS = 300


def run() -> None:
    dp.enable_features("contrib")
    against_noise()
    by_alpha()
    over_all_nodes()


def against_noise() -> None:
    """The table of the paper's introduction, in numbers."""
    print(
        f"Worst alpha-RMSE of a public tree; epsilon {EPSILON:g}, delta {DELTA:g}. Noise errs most at an empty node, "
        "at any alpha. The paper's is alpha * tau_min of its Algorithm Estimation, corrected: the additive error that "
        f"it guarantees, but for a chance of {ETA:g} a node, and that it has at every node of an empty tree. Clipped "
        "by the paper's lemma (half of the budget for each part), no error exceeds the column on the right.\n"
    )
    check_the_paper()
    names = [f"the paper's, alpha {alpha:g}" for alpha in ALPHAS]
    rows = []
    for depth in DEPTHS:
        laplace, gaussian = (noise_error(depth, law) for law in ("laplace", "gaussian"))
        errors = [laplace, gaussian, *(paper_error(depth, alpha) for alpha in ALPHAS), clipping_reach(depth)]
        rows.append((depth, *(f"{error:.3g}" for error in errors)))
    print_table(("depth", "Laplace", "Gaussian", *names, "clipped, at most"), rows)
    print("\nBelow which no mechanism is, on complete binary trees (packing; for Gaussian noise gamma_2):\n")
    columns = [(alpha, lower_bounds(2, alpha=alpha)) for alpha in (ALPHAS[0], ALPHAS[-1])]
    header = [f"{name}, alpha {alpha:g}" for alpha, found in columns for name in list(found)[:2]]
    rows = []
    for depth in DEPTHS:
        found = [lower_bounds(depth, alpha=alpha) for alpha, _ in columns]
        cells = [value for each in found for value in list(each.values())[:2]]
        rows.append((depth, *(f"{value:.3g}" for value in (*cells, list(found[0].values())[2]))))
    print_table(("depth", *header, list(columns[0][1])[2]), rows)


def by_alpha() -> None:
    """The slopes that the theorem promises: alpha**-3, and a step for each doubling of the depth."""
    rows = []
    for low, high in pairwise(ALPHAS):
        slope = math.log(paper_error(33, high) / paper_error(33, low)) / math.log(high / low)
        steps = [paper_error(2 * depth, low) - paper_error(depth, low) for depth in (2**5, 2**12, 2**19)]
        rows.append((f"{low:g} to {high:g}", f"{slope:.2f}", *(f"{step:.3g}" for step in steps)))
    print(
        "\nThe paper's: the slope in alpha on logarithmic axes (the theorem promises -3 as alpha falls), and what "
        "doubling a depth adds at the smaller alpha (the theorem promises the same at every depth):\n"
    )
    print_table(("alpha", "slope at depth 33", "from 2^5", "from 2^12", "from 2^19"), rows)


def over_all_nodes() -> None:
    """The two older measures of the paper's introduction, measured."""
    rows = []
    trees = {"binary, depth 10": Tree.balanced(branching=2, depth=10), "50 x 20": Tree.from_paths(np.ndindex(50, 20))}
    for shape, tree in trees.items():
        empty = np.zeros(tree.leaf_count, dtype=np.int64)
        scales = {
            "laplace": tree.depth / EPSILON,
            "gaussian": gaussian_deviation(EPSILON, DELTA, math.sqrt(tree.depth)),
        }
        for law, scale in scales.items():
            space, truth = (leaf_domain(tree), dp.l1_distance(T="i64")), tree.sum(empty)
            metric, noise, make = MAKERS[law]
            plain = space >> then_tree_sum(output_metric=metric, carrier="vector") >> noise(scale)
            fitted = make(*space, scale)
            runs = {
                law: np.array([plain(empty) for _ in range(RUNS)]),
                f"{law}, least squares": np.array([fitted(empty).estimates for _ in range(RUNS)]),
            }
            for name, estimates in runs.items():
                seen = l2_error(estimates, truth), linf_error(estimates, truth)
                rows.append((shape, name, *(f"{figure:.3g}" for figure in seen)))
    print(
        f"\nErrors over all nodes at once, {RUNS} releases: l2 (the root of the mean square), "
        "l-infinity (the mean of the largest):\n"
    )
    print_table(("tree", "noise", "l2", "l-infinity"), rows)


def noise_error(depth: int, law: str) -> float:
    """That of the noise before least squares: of a tree, only the depth is known."""
    return TreeNoise(law)._predict(Setting.of(depth, _budget(), nodes="public"))["error"]


def paper_error(depth: int, alpha: float, *, epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """The paper's alpha * tau_min: what an empty node is estimated as, and what the theorem bounds."""
    return alpha * multiplicative_threshold(alpha=alpha, epsilon=epsilon, delta=delta, eta=ETA, depth=depth)


def check_the_paper() -> None:
    """On an empty tree no round is run, and every estimate is alpha * tau_min, rounded down."""
    tree = Tree.balanced(branching=2, depth=3)
    for alpha in ALPHAS:
        budget = {"alpha": alpha, "epsilon": EPSILON, "delta": DELTA, "eta": ETA}
        estimator = make_multiplicative_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), **budget)
        estimates = estimator(np.zeros(tree.leaf_count, dtype=np.int64)).estimates
        assert (estimates == math.floor(paper_error(tree.depth, alpha))).all()


def clipping_reach(depth: int) -> float:
    """Twice the radius of the truncated noise that clips: a clipped estimate is always within that.

    Half of epsilon and delta clip; on each level P(noise = radius) is at most its share of delta.
    """
    scale, delta = depth / (EPSILON / 2), DELTA / 2
    most = depth * -math.expm1(-1 / scale) / ((1 + math.exp(-1 / scale)) * delta)
    return 2.0 * (max(1, math.ceil(scale * math.log(max(most, 1.0)))) + 1)


def lower_bounds(depth: int, *, alpha: float, epsilon: float = EPSILON, delta: float = DELTA) -> dict[str, float]:
    """What cannot be beaten on a complete binary tree.

    Gaussian noise of a linear mechanism is the same at an empty node, where no alpha forgives anything.
    """
    gamma = math.sqrt(balanced_gamma_squared(branching=2, depth=depth))
    return {
        "any mechanism, at least": error_lower_bound(depth, epsilon=epsilon, delta=delta, alpha=alpha),
        "any pure mechanism, at least": error_lower_bound(depth, epsilon=epsilon, alpha=alpha),
        "any Gaussian mechanism, at least": gamma * gaussian_deviation(epsilon, delta, 1.0),
    }


def _budget() -> Budget:
    return Budget.of(epsilon=EPSILON, delta=DELTA, rho=None, d_in=1)
