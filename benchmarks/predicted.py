"""Predicted against measured: the worst alpha-RMSE of any node, for every mechanism.

Asserts what it claims: predictions within 10 % of what is measured and four standard errors, bounds not below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp

from benchmarks.cascade import gaussian_deviation
from benchmarks.planner_grid import measure_partition
from benchmarks.timing import print_table
from benchmarks.worst_case import (
    FEWEST,
    Measured,
    battery,
    level_battery,
    measured_error,
)
from opendp_tree import (
    Tree,
    TreeEstimator,
    leaf_domain,
    make_multiplicative_estimator,
    make_tree_gaussian,
    make_tree_laplace,
)
from opendp_tree.budget import Budget
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.mechanisms.pruned_descent import Pruning
from opendp_tree.mechanisms.tree_noise import laplace_variance
from opendp_tree.paper import multiplicative_threshold
from opendp_tree.planning.laws import worst_pruned_rmse
from opendp_tree.planning.methods import Setting as Asked
from opendp_tree.planning.plan import predict
from opendp_tree.trees.least_squares import LeastSquares

METRIC = dp.l1_distance(T="i64")
ETA = 0.01


@dataclass(frozen=True)
class Setting:
    """What a user knows before choosing a mechanism."""

    depth: int
    epsilon: float
    delta: float
    alpha: float

    def __str__(self) -> str:
        return f"{self.depth} | {self.epsilon:g} | {self.delta:g} | {self.alpha:g}"


SETTINGS = (
    Setting(3, 1.0, 1e-6, 0.1),
    Setting(3, 0.1, 1e-9, 0.05),
    Setting(3, 2.0, 1e-5, 0.5),
    Setting(6, 1.0, 1e-6, 0.0),
    Setting(6, 0.5, 1e-6, 0.1),
    Setting(6, 2.0, 1e-9, 0.5),
    Setting(12, 1.0, 1e-6, 0.1),
    Setting(12, 0.1, 1e-5, 0.5),
    Setting(12, 2.0, 1e-9, 0.05),
    Setting(33, 1.0, 1e-6, 0.1),
    Setting(33, 0.5, 1e-5, 0.5),
    Setting(33, 2.0, 1e-6, 0.05),
)


def run() -> None:
    dp.enable_features("contrib")
    rows = []
    for setting in SETTINGS:
        for name, predicted, measured, bound in every(setting):
            low, high = 0.9 * measured.error - 4 * measured.deviation, 1.1 * measured.error + 4 * measured.deviation
            assert low <= predicted <= (math.inf if bound else high), f"{name} at {setting}: {predicted} for {measured}"
            figures = (f"{predicted:.4g}{' (bound)' if bound else ''}", f"{measured.error:.4g}")
            ratios = (f"{100 * measured.deviation / measured.error:.1f} %", f"{predicted / measured.error:.3f}")
            rows.append((*str(setting).split(" | "), name, *figures, *ratios, measured.situation))
    header = ("depth", "epsilon", "delta", "alpha", "mechanism", "predicted", "measured", "standard error", "ratio")
    print_table((*header, "worst situation found"), rows)
    print("\nWith alpha = 0 the partition is left out: its worst nodes have many cells, which these inputs have not.")


def every(setting: Setting) -> Iterator[tuple[str, float, Measured, bool]]:
    """For each mechanism its name, the error predicted and measured, and whether the prediction is but a bound."""
    yield from everywhere(setting)
    for law in ("laplace", "gaussian"):
        yield f"pruned_{law}", *pruned(setting, law), False
    if setting.alpha > 0:
        yield "tree_estimator", *partition(setting), False
    if setting.depth <= 6 and setting.alpha >= 0.5:
        yield "multiplicative_estimator", *paper(setting), True


def scales(setting: Setting) -> dict[str, float]:
    """Of noise on every node: epsilon or delta split evenly over the levels."""
    deviation = gaussian_deviation(setting.epsilon, setting.delta, math.sqrt(setting.depth))
    return {"laplace": setting.depth / setting.epsilon, "gaussian": deviation}


def everywhere(setting: Setting) -> Iterator[tuple[str, float, Measured, bool]]:
    """Noise on every node of a tree alike everywhere, at most some ten thousand nodes. Empty nodes err most."""
    branching = {3: 60, 6: 5, 12: 2}.get(setting.depth, 1)
    tree = Tree.balanced(branching=branching, depth=setting.depth)
    empty = level_battery(tree, np.zeros(tree.leaf_count, dtype=np.int64))
    repeats = max(30, 4000 // tree.leaf_count)
    makers = {"laplace": make_tree_laplace, "gaussian": make_tree_gaussian}
    for law, scale in scales(setting).items():
        # A discrete Gaussian's variance falls short of its scale's square by less than shows.
        variance = laplace_variance(scale) if law == "laplace" else scale**2
        fitted = LeastSquares.of(tree, np.full(tree.node_count, variance)).variances
        # The root is one node: at many runs it would count, at few its chance would decide.
        fitted = fitted[np.bincount(tree.node_levels)[tree.node_levels] * repeats >= FEWEST]
        found = measured_error(
            makers[law](leaf_domain(tree), METRIC, scale), empty, alpha=setting.alpha, repeats=repeats
        )
        yield f"tree_{law}", math.sqrt(fitted.max()), found, False


def pruned(setting: Setting, law: str) -> tuple[float, Measured]:
    """A chain of all levels, root and all, hangs below a heavy root: so the tree is one deeper."""
    scale = scales(setting)[law]
    pruning = Pruning.of(noise=law, scales=[scale] * setting.depth, threshold=None, delta=setting.delta, d_in=1)
    threshold = pruning.thresholds[0]
    predicted = worst_pruned_rmse(pruning, setting.alpha)
    chains = battery(setting.depth + 1, alpha=setting.alpha, open=True, threshold=threshold, spread=scale)
    descent = make_pruned_descent(leaf_domain(chains.tree), METRIC, scale, threshold=threshold, noise=law)
    return predicted, measured_error(descent, chains, alpha=setting.alpha)


def partition(setting: Setting) -> tuple[float, Measured]:
    """The estimator of an open tree."""
    budget = Budget.of(epsilon=setting.epsilon, delta=setting.delta)
    found = predict(TreeEstimator(), Asked.of(setting.depth, budget, nodes="open", alpha=setting.alpha))
    return found.error, measure_partition(found, setting.depth, setting.epsilon, setting.delta, setting.alpha)


def paper(setting: Setting) -> tuple[float, Measured]:
    """Nodes below alpha * tau_min are estimated as that, all others within alpha of the truth; but for chance `ETA`."""
    budget = {"alpha": setting.alpha, "epsilon": setting.epsilon, "delta": setting.delta, "eta": ETA}
    bound = setting.alpha * multiplicative_threshold(depth=setting.depth, **budget)
    bad = battery(setting.depth, alpha=setting.alpha, open=False, threshold=int(bound), spread=bound / 4, copies=400)
    estimator = make_multiplicative_estimator(leaf_domain(bad.tree), METRIC, **budget)
    return bound, measured_error(estimator, bad, alpha=setting.alpha)
