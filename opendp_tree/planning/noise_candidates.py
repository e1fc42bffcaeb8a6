"""Noise on every node, as it is or with least squares: what it can promise for a budget."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from opendp_tree.measurements.excess import laplace_excess, normal_excess
from opendp_tree.measurements.level_noise import gaussian_variance, laplace_variance
from opendp_tree.measurements.partition_plan import LARGEST_SCALE
from opendp_tree.measurements.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.candidate import Candidate, ReleaseOptions
from opendp_tree.planning.tree_facts import TreeFacts

Floats = npt.NDArray[np.float64]
NEEDS = {"laplace": "public nodes", "gaussian": "public nodes, and delta or rho"}


def noise_candidate(facts: TreeFacts, budget: Budget, alpha: float, *, noise: str, consistent: bool) -> Candidate:
    """Noise on every node, as it is or with least squares."""
    name = f"{noise}, least squares" if consistent else noise
    no = partial(Candidate.infeasible, name, needs=NEEDS[noise])
    if not facts.public:
        return no(reason="noise on every node needs to know every node")
    if noise == "gaussian" and budget.rho is None and budget.delta == 0:
        return no(reason="Gaussian noise has no epsilon without a delta")
    scale = base_scale(facts.depth, budget, noise)
    if scale > LARGEST_SCALE:
        return no(reason="the budget is so small that noise of its scale cannot be drawn")
    variance = laplace_variance if noise == "laplace" else gaussian_variance
    weights = facts.base_weights
    widest = scale / facts.wanted_weight ** (1.0 if noise == "laplace" else 0.5)
    error = math.sqrt(variance(widest))
    bound, reason = False, "every node is public and gets noise of its own"
    if consistent:
        solved = facts.least_squares(noise)
        bound, reason = solved is None, "levels are made to add up, which lowers the error of every node"
        if solved is not None:
            weights, ratio = solved
            error = ratio * math.sqrt(variance(scale))

    def curve(at: Floats) -> Floats:
        if noise == "laplace" and not consistent:
            return np.sqrt(2 * laplace_excess(alpha * at, widest))
        return np.sqrt(2 * normal_excess(alpha * at, np.full_like(at, max(error, 1e-9))))

    def build(domain: Domain, metric: Metric, options: ReleaseOptions) -> Measurement:
        make = make_tree_laplace if noise == "laplace" else make_tree_gaussian

        def made(at: float) -> Measurement:
            return make(
                domain,
                metric,
                at,
                tree=options.tree,
                weights=weights,
                consistent=consistent,
                confidence=options.confidence,
                nonnegative=options.nonnegative,
                integers=options.integers,
            )

        return budget.fit(made, scale)

    return Candidate(
        name,
        True,
        reason,
        error,
        bound,
        "pure epsilon" if noise == "laplace" else "zCDP",
        NEEDS[noise],
        {"scale": scale, "weights": "equal" if weights is None else ", ".join(f"{w:.3g}" for w in weights)},
        0.0,
        curve,
        build,
        budget,
    )


def base_scale(depth: int, budget: Budget, noise: str) -> float:
    """The scale of noise on every level at weight 1, for weights that sum to the depth."""
    if noise == "laplace":
        return depth * budget.d_in / budget.pure_epsilon
    return budget.d_in * math.sqrt(depth / (2 * budget.gaussian_rho(budget.delta)))
