"""Mechanisms that need to know nothing but the depth: pruned descent, and the tree partition."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from opendp_tree.measurements.partition_curve import partition_rmse
from opendp_tree.measurements.partition_error import MOST_CELLS
from opendp_tree.measurements.partition_estimator import make_partition_estimator
from opendp_tree.measurements.partition_plan import LARGEST_SCALE, plan_partition, unmarked_chance
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.pruned_prediction import pruned_rmse, shown_chance, worst_pruned_rmse
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.candidate import Candidate, ReleaseOptions
from opendp_tree.planning.noise_candidates import base_scale
from opendp_tree.planning.tree_facts import TreeFacts

Floats = npt.NDArray[np.float64]
_SHARES = (0.1, 0.3)  # of delta for the threshold; the rest turns Gaussian noise into epsilon
_OFTEN = 0.95
NEEDS = "nothing but the depth; delta above 0"


def pruned_candidate(facts: TreeFacts, budget: Budget, alpha: float, *, noise: str) -> Candidate:
    """Noise on the nodes whose parents are shown, and a threshold."""
    name = f"pruned {noise}"
    no = partial(Candidate.infeasible, name, needs=NEEDS)
    if budget.delta == 0:
        return no(reason="which nodes there are cannot be found without a delta")
    if noise == "laplace" and budget.rho is not None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho")
    found = min(
        (made for share in _SHARES if (made := _pruning(facts, budget, alpha, noise, share)) is not None),
        default=None,
        key=lambda made: made[0],
    )
    if found is None:
        return no(reason="the budget is so small that noise of its scale cannot be drawn")
    error, scale, delta, threshold = found
    scales, thresholds = (scale,) * facts.depth, (threshold,) * facts.depth

    def build(domain: Domain, metric: Metric, options: ReleaseOptions) -> Measurement:
        def made(at: float) -> Measurement:
            return make_pruned_descent(
                domain,
                metric,
                at,
                tree=options.tree,
                delta=delta,
                d_in=budget.d_in,
                noise=noise,
                confidence=options.confidence,
            )

        return budget.fit(made, scale)

    return Candidate(
        name,
        True,
        "large nodes are found from the root down; what is below the threshold counts as nobody",
        error,
        False,
        "epsilon and delta" if noise == "laplace" else "zCDP and delta",
        NEEDS,
        {"scale": scale, "threshold": threshold, "threshold_delta": delta},
        _shown_from(lambda at: shown_chance(threshold - at, noise, scale) ** facts.depth, threshold),
        lambda at: pruned_rmse(at, noise=noise, scales=scales, thresholds=thresholds, alpha=alpha),
        build,
        budget,
    )


def _pruning(
    facts: TreeFacts, budget: Budget, alpha: float, noise: str, share: float
) -> tuple[float, float, float, int] | None:
    """The error, the scale, delta for the threshold, and the threshold of all levels, for one way to split delta."""
    if noise == "laplace" or budget.rho is not None:
        delta, scale = budget.delta, base_scale(facts.depth, budget, noise)
        if share != _SHARES[0]:  # nothing to split
            return None
    else:
        delta = budget.delta * share
        scale = budget.d_in * math.sqrt(facts.depth / (2 * budget.gaussian_rho(budget.delta - delta)))
    if scale > LARGEST_SCALE:
        return None
    threshold = _threshold(noise, scale, delta, budget.d_in)
    levels = facts.depth
    error = worst_pruned_rmse(noise=noise, scales=(scale,) * levels, thresholds=(threshold,) * levels, alpha=alpha)
    return error, scale, delta, threshold


def _threshold(noise: str, scale: float, delta: float, d_in: int) -> int:
    """The threshold that `make_pruned_descent` finds for delta exactly, in floats: a prediction needs no more."""

    def enough(threshold: int) -> bool:
        one, together = shown_chance(np.array([threshold - 1.0, threshold - float(d_in)]), noise, scale).tolist()
        hides = noise == "gaussian" or one <= -math.expm1(-1 / scale)
        return hides and together <= delta and -math.expm1(d_in * math.log1p(-min(one, 0.5))) <= delta

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def partition_candidate(facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """The private tree partition and noisy counts of its cells."""
    no = partial(Candidate.infeasible, "partition", needs=NEEDS)
    if budget.delta == 0:
        return no(reason="the partition needs a delta")
    one = budget.one_person
    if one is None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho")
    epsilon, delta = one
    cells = MOST_CELLS if facts.tree is None else min(MOST_CELLS, facts.tree.leaf_count)
    reason = "only heavy parts of the tree get noise, once on every path"
    if alpha == 0:  # nothing is forgiven, so noise adds up for as long as cells do
        reason += f"; alpha is 0, so this is for at most {cells:,} of them below a node"
    try:
        planned = plan_partition(
            depth=facts.depth, epsilon=epsilon, delta=delta, alpha=alpha, public=facts.public, most_cells=cells
        )
        plan = planned.fitted(epsilon=Fraction(epsilon), delta=Fraction(delta))
    except ValueError:
        return no(reason=f"epsilon and delta are too small for a partition of depth {facts.depth}")

    def build(domain: Domain, metric: Metric, options: ReleaseOptions) -> Measurement:
        return make_partition_estimator(
            domain,
            metric,
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            tree=options.tree,
            confidence=options.confidence,
            plan=plan,
        )

    return Candidate(
        "partition",
        True,
        reason,
        plan.error,
        False,
        "epsilon and delta",
        NEEDS,
        {
            "scale": plan.scale,
            "count_scale": plan.count_scale,
            "threshold": plan.shape.threshold,
            "radius": plan.shape.radius,
            "margin": plan.shape.margin,
            "fill": plan.fill,
        },
        _shown_from(lambda at: 1 - unmarked_chance(plan.scale, plan.shape, at), plan.shape.threshold),
        lambda at: partition_rmse(at, plan, alpha=alpha),
        build,
        budget,
    )


def _shown_from(chance: Callable[[Floats], Floats], threshold: float) -> float:
    """The least whole weight that is shown often enough, up to a hundred thresholds."""
    weights: Floats = np.unique(np.floor(np.geomspace(1, 100 * max(2.0, float(threshold)), 400))).astype(np.float64)
    shown = chance(weights)
    enough = np.flatnonzero(shown >= _OFTEN)
    return float(weights[enough[0]]) if enough.size else math.inf
