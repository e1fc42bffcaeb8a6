"""Pruned descent, which needs to know nothing but the depth: what it can promise for a budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from opendp.mod import Measurement

from opendp_tree._types import Floats
from opendp_tree.measurements.level_noise import level_scales
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.pruned_prediction import pruned_rmse, shown_chance, worst_pruned_rmse
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.planning.budget import Budget, Priced
from opendp_tree.planning.candidate import Candidate, Space, shown_from
from opendp_tree.planning.methods import PrunedDescent
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.theorems.bisection import least_whole

NEEDS = "nothing but the depth; delta above 0"
_SHARES = (0.1, 0.3)  # of delta for the threshold; the rest turns Gaussian noise into epsilon


@dataclass(frozen=True)
class Pruning:
    """One way to split delta, and what comes of it."""

    scale: float
    delta: float
    """What the thresholds may spend."""
    scales: tuple[float, ...]
    thresholds: tuple[int, ...]
    ends: tuple[int, ...]
    """How many levels lie on the paths to nodes that may err most."""


def pruned_candidate(method: PrunedDescent, facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """Noise on the nodes whose parents are shown, and a threshold.

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
    no = partial(Candidate.infeasible, method.name, needs=NEEDS)
    if budget.delta == 0:
        return no(reason="which nodes there are cannot be found without a delta")
    if noise == "laplace" and budget.rho is not None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho")
    weights = (1.0,) * facts.depth if method.weights is None else facts.normal_weights(method.weights)
    # Only Gaussian noise that becomes epsilon has a delta to split.
    shares = _SHARES if noise == "gaussian" and budget.rho is None else (1.0,)
    tried = (_pruning(noise, weights, budget, alpha, share) for share in shares)
    possible = [each for each in tried if each is not None]
    if not possible:
        return no(reason="the budget is so small that noise of its scale cannot be drawn")
    error, best = min(possible, key=lambda each: each[0])

    def shown(at: Floats) -> Floats:
        chance = np.ones_like(at)
        for (scale, threshold), times in Counter(zip(best.scales, best.thresholds, strict=True)).items():
            chance *= shown_chance(threshold - at, noise, scale) ** times
        return chance

    def curve(at: Floats) -> Floats:
        paths = ((best.scales[:end], best.thresholds[:end]) for end in best.ends)
        errors = [pruned_rmse(at, noise=noise, scales=s, thresholds=t, alpha=alpha) for s, t in paths]
        largest: Floats = np.maximum.reduce(errors)
        return largest

    def build(space: Space) -> Priced:
        def made(at: float) -> Measurement:
            return make_pruned_descent(
                space.domain,
                space.metric,
                at,
                tree=space.tree,
                delta=best.delta,
                d_in=budget.d_in,
                noise=noise,
                weights=None if method.weights is None else weights,
                confidence=space.confidence,
            )

        return budget.fit(made, best.scale)

    return Candidate(
        method.name,
        feasible=True,
        reason="large nodes are found from the root down; what is below the threshold counts as nobody",
        needs=NEEDS,
        error=error,
        bound=facts.levels is not None,
        guarantee="epsilon and delta" if noise == "laplace" else "zCDP and delta",
        parameters={"scale": best.scale, "threshold": max(best.thresholds), "threshold_delta": best.delta},
        shown_from=shown_from(shown, max(best.thresholds)),
        nonnegative=True,
        integers=True,
        curve=curve,
        builder=build,
        budget=budget,
    )


def _pruning(
    noise: str, weights: Sequence[float], budget: Budget, alpha: float, share: float
) -> tuple[float, Pruning] | None:
    """The error and the settings of one share of delta for the thresholds; None if noise for it cannot be drawn."""
    delta = budget.delta * share
    scale = budget.noise_scale(noise, len(weights), delta=budget.delta - delta if share < 1 else None)
    scales = level_scales(noise, scale, weights)
    if max(scales) > LARGEST_SCALE:
        return None
    by_scale = {each: lowest_threshold(noise, each, delta, budget.d_in) for each in set(scales)}
    thresholds = tuple(by_scale[each] for each in scales)
    # Of equal levels the deepest errs most; of others any may.
    ends = (len(scales),) if len(by_scale) == 1 else tuple(range(1, len(scales) + 1))
    pruning = Pruning(scale, delta, scales, thresholds, ends)
    error = max(
        worst_pruned_rmse(noise=noise, scales=scales[:end], thresholds=thresholds[:end], alpha=alpha) for end in ends
    )
    return error, pruning


def lowest_threshold(noise: str, scale: float, delta: float, d_in: int) -> int:
    """The threshold that `make_pruned_descent` finds for delta exactly, in floats: a prediction needs no more.

    Parameters
    ----------
    noise
        "laplace" or "gaussian".
    scale
        The scale of a level's noise.
    delta
        What thresholds may spend.
    d_in
        The distance at which they may spend it.

    Examples
    --------
    >>> lowest_threshold("laplace", 3.0, 1e-6, 1)
    41

    """

    def enough(threshold: int) -> bool:
        one, together = shown_chance(np.array([threshold - 1.0, threshold - float(d_in)]), noise, scale).tolist()
        hides = noise == "gaussian" or one <= -math.expm1(-1 / scale)
        return bool(hides and together <= delta and -math.expm1(d_in * math.log1p(-min(one, 0.5))) <= delta)

    return least_whole(enough)
