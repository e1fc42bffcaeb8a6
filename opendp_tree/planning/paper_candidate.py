"""The paper's estimator, with its constants corrected and clipped to a bounded error: a reference, ranked honestly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._opendp import make_function
from opendp_tree.paper.clipped_estimator import make_clipped_estimator
from opendp_tree.paper.multiplicative_estimator import make_multiplicative_estimator, multiplicative_threshold
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.candidate import Candidate, ReleaseOptions
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.clipping import clipped_mrmse
from opendp_tree.trees.domains import CountSpace

Floats = npt.NDArray[np.float64]
NEEDS = "public nodes, delta above 0, alpha above 0"
_CLIPPING = 0.5  # the share of epsilon and delta for the intervals that bound the error
_ETAS = (1e-1, 1e-3, 1e-6)


def paper_candidate(facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """Algorithm Estimation, clipped as in the lemma on the multiplicative RMSE."""
    no = partial(Candidate.infeasible, "paper", needs=NEEDS)
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
    error, eta, tau = min(_error(facts.depth, epsilon, delta, alpha, eta, radius) for eta in _ETAS)

    def build(domain: Domain, metric: Metric, options: ReleaseOptions) -> Measurement:
        estimator = make_multiplicative_estimator(
            domain, metric, alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, tree=options.tree
        )

        def made(at: float) -> Measurement:
            return make_clipped_estimator(domain, metric, at, estimator=estimator, radius=radius, tree=options.tree)

        clipped = budget.fit(made, scale)
        tree = CountSpace.of(domain).leaf_tree(options.tree)
        statement = PrivacyStatement("clipped_estimator", "", 1, {}, parameters)

        def release(estimates: object) -> TreeRelease:
            # An estimate is within two radii of the truth, always. Floats do not hold all integers beyond 2**53:
            # outward by more than all roundings.
            found = np.asarray(estimates, dtype=np.float64)
            reach = 2.0 * radius + np.where(np.abs(found) + radius > 2**51, (np.abs(found) + radius) * 2.0**-50, 0.0)
            return TreeRelease(tree, found, np.maximum(found - reach, 0), found + reach, 1.0, statement)

        return clipped >> make_function(release)

    parameters: dict[str, int | float | str | None] = {"tau_min": tau, "eta": eta, "scale": scale, "radius": radius}
    return Candidate(
        "paper",
        True,
        "rounds of sparse vectors, then intervals; its constants are large",
        error,
        True,
        "epsilon and delta",
        NEEDS,
        {name: value for name, value in parameters.items() if value is not None},
        0.0,
        lambda at: np.minimum(error, np.maximum(math.sqrt(eta) * 2 * radius, alpha * tau - alpha * at)),
        build,
        budget,
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
