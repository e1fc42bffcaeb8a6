"""Noise on every node, as it is or with least squares: what it can promise for a budget."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from opendp.mod import Measurement

from opendp_tree._types import Floats
from opendp_tree.measurements.excess import laplace_excess, normal_excess
from opendp_tree.measurements.level_noise import gaussian_variance, laplace_variance, level_scales
from opendp_tree.measurements.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.planning.budget import Budget, Priced
from opendp_tree.planning.candidate import Candidate, Space
from opendp_tree.planning.methods import TreeNoise
from opendp_tree.planning.tree_facts import TreeFacts

NEEDS = {"laplace": "public nodes", "gaussian": "public nodes, and delta or rho"}


def noise_candidate(method: TreeNoise, facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """Noise on every node, as it is or with least squares.

    Parameters
    ----------
    method
        The noise and its options.
    facts
        The hierarchy.
    budget
        What may be spent.
    alpha
        The share of a count that an error may have and be forgiven.

    """
    noise = method.noise
    no = partial(Candidate.infeasible, method.name, needs=NEEDS[noise])
    if not facts.public:
        return no(reason="noise on every node needs to know every node")
    if noise == "gaussian" and budget.rho is None and budget.delta == 0:
        return no(reason="Gaussian noise has no epsilon without a delta")
    scale = budget.noise_scale(noise, facts.depth)
    if scale > LARGEST_SCALE:
        return no(reason="the budget is so small that noise of its scale cannot be drawn")
    variance = laplace_variance if noise == "laplace" else gaussian_variance
    weights = facts.base_weights if method.weights is None else facts.normal_weights(method.weights)
    widest = level_scales(noise, scale, [facts.least_weight(weights)])[0]
    error = math.sqrt(variance(widest)) if widest < math.inf else math.inf
    bound, reason = False, "every node is public and gets noise of its own"
    if method.consistent:
        bound, reason = facts.tree is None, "levels are made to add up, which lowers the error of every node"
        if facts.tree is not None:
            weights, ratio = facts.least_squares(noise, weights if method.weights is not None else None)
            error = ratio * math.sqrt(variance(scale))

    def curve(at: Floats) -> Floats:
        if noise == "laplace" and not method.consistent:
            return np.sqrt(2 * laplace_excess(alpha * at, widest))
        return np.sqrt(2 * normal_excess(alpha * at, np.full_like(at, max(error, 1e-9))))

    def build(space: Space) -> Priced:
        make = make_tree_laplace if noise == "laplace" else make_tree_gaussian

        def made(at: float) -> Measurement:
            return make(
                space.domain,
                space.metric,
                at,
                tree=space.tree,
                weights=weights,
                consistent=method.consistent,
                confidence=space.confidence,
                nonnegative=method.nonnegative,
                integers=method.integers,
            )

        return budget.fit(made, scale)

    return Candidate(
        method.name,
        feasible=True,
        reason=reason,
        needs=NEEDS[noise],
        error=error,
        bound=bound,
        guarantee="pure epsilon" if noise == "laplace" else "zCDP",
        parameters={"scale": scale, "weights": "equal" if weights is None else ", ".join(f"{w:.3g}" for w in weights)},
        shown_from=0.0,
        nonnegative=method.nonnegative,
        integers=method.integers or not method.consistent,
        curve=curve,
        builder=build,
        budget=budget,
    )
