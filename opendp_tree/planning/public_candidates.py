"""Methods that need public nodes, noise on every node and the paper's estimator: what they can promise for a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from opendp.mod import Measurement

from opendp_tree._opendp import make_function
from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.level_noise import laplace_excess, normal_excess
from opendp_tree.mechanisms.tree_noise import (
    gaussian_variance,
    laplace_variance,
    level_scales,
    make_tree_gaussian,
    make_tree_laplace,
)
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.paper.clipping import make_clipped_estimator
from opendp_tree.paper.estimation import make_multiplicative_estimator, multiplicative_threshold
from opendp_tree.planning.candidate import Candidate, Setting, Space
from opendp_tree.planning.methods import MultiplicativeEstimator, TreeNoise
from opendp_tree.planning.tree_facts import Weights
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.paper import clipped_mrmse

NOISE_NEEDS = {"laplace": "public nodes", "gaussian": "public nodes, and delta or rho"}
PAPER_NEEDS = "public nodes, delta above 0, alpha above 0"
_CLIPPING = 0.5  # the share of epsilon and delta for the intervals that bound the error
_ETAS = (1e-1, 1e-3, 1e-6)


def noise_candidate(method: TreeNoise, setting: Setting) -> Candidate:
    """Noise on every node, as it is or with least squares."""
    (facts, budget, alpha), noise = setting, method.noise
    no = partial(Candidate.infeasible, method.name, needs=NOISE_NEEDS[noise])
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

    return Candidate(
        method.name,
        feasible=True,
        reason=reason,
        needs=NOISE_NEEDS[noise],
        error=error,
        bound=bound,
        guarantee="pure epsilon" if noise == "laplace" else "zCDP",
        parameters={"scale": scale, "weights": "equal" if weights is None else ", ".join(f"{w:.3g}" for w in weights)},
        shown_from=0.0,
        nonnegative=method.nonnegative,
        integers=method.integers or not method.consistent,
        curve=curve,
        builder=partial(_build_noise, method, weights, budget, scale),
        budget=budget,
    )


def _build_noise(method: TreeNoise, weights: Weights, budget: Budget, scale: float, space: Space) -> Priced:
    make = make_tree_laplace if method.noise == "laplace" else make_tree_gaussian

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


def paper_candidate(method: MultiplicativeEstimator, setting: Setting) -> Candidate:
    """Algorithm Estimation, clipped as in the lemma on the multiplicative RMSE."""
    facts, budget, alpha = setting
    no = partial(Candidate.infeasible, method.name, needs=PAPER_NEEDS)
    if not facts.public:
        return no(reason="its rounds look at every node, so they need to know every node")
    one = budget.one_person
    if one is None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho" if budget.rho else "it needs a delta")
    if alpha == 0:
        return no(reason="its error is relative: alpha must be above 0")
    epsilon, delta = (part * (1 - _CLIPPING) for part in one)
    scale = facts.depth / epsilon
    radius = _radius(scale, delta, facts.depth)
    etas = _ETAS if method.eta is None else (method.eta,)
    error, eta, tau = min(_error(facts.depth, epsilon, delta, alpha, eta, radius) for eta in etas)

    def build(space: Space) -> Priced:
        estimator = make_multiplicative_estimator(
            space.domain, space.metric, alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, tree=space.tree
        )

        def made(at: float) -> Measurement:
            return make_clipped_estimator(
                space.domain, space.metric, at, estimator=estimator, radius=radius, tree=space.tree
            )

        clipped = budget.fit(made, scale)
        statement = PrivacyStatement(method.name, "", budget.d_in, {}, parameters)  # the cost is told by `make`

        def release(found: TreeRelease) -> TreeRelease:
            return replace(found, statement=statement)

        return Priced(clipped.measurement >> make_function(release), clipped.loss)

    parameters: dict[str, int | float | str | None] = {"tau_min": tau, "eta": eta, "scale": scale, "radius": radius}
    return Candidate(
        method.name,
        feasible=True,
        reason="rounds of sparse vectors, then intervals; its constants are large",
        needs=PAPER_NEEDS,
        error=error,
        bound=True,
        guarantee="epsilon and delta",
        parameters={name: value for name, value in parameters.items() if value is not None},
        shown_from=0.0,
        integers=True,
        curve=lambda at: np.minimum(error, np.maximum(math.sqrt(eta) * 2 * radius, alpha * tau - alpha * at)),
        builder=build,
        budget=budget,
    )


def _radius(scale: float, delta: float, depth: int) -> int:
    """A radius that suffices for delta: on each level P(noise = radius) is at most its share of it."""
    most = depth * -math.expm1(-1 / scale) / ((1 + math.exp(-1 / scale)) * delta)
    return max(1, math.ceil(scale * math.log(max(most, 1.0)))) + 1


def _error(
    depth: int, epsilon: float, delta: float, alpha: float, eta: float, radius: int
) -> tuple[float, float, float]:
    tau = multiplicative_threshold(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, depth=depth)
    bound = clipped_mrmse(alpha=Fraction(alpha), tau=Fraction(tau), eta=Fraction(eta), radius=radius)
    return bound, eta, tau
