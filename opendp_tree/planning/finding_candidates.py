"""Methods that find nodes, the tree partition and pruned descent: what they can promise for a budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from opendp.mod import Measurement

from opendp_tree._arguments import check_integer
from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, choose_parameters, closed_parameters, variance
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.mechanisms.partition.prediction import as_gaps, coarse, one_test, totals_alpha_rmse, worst_alpha_rmse
from opendp_tree.mechanisms.pruned_descent import make_pruned_descent, pruned_rmse, shown_chance, worst_pruned_rmse
from opendp_tree.mechanisms.tree_estimator import ROOT_EVEN, make_tree_estimator, public_rmse
from opendp_tree.mechanisms.tree_noise import level_scales
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.planning.candidate import Candidate, LevelError, Setting, Space, TreeFacts
from opendp_tree.planning.laws import deviation_curve, shown_from
from opendp_tree.planning.methods import PrunedDescent, TreeEstimator
from opendp_tree.theorems.interval import least_whole
from opendp_tree.trees.known_nodes import KnownNodes, level_of

ESTIMATOR_NEEDS = "nothing but the depth and a delta; or public nodes, and then no delta"
_MOST_CELLS = 2**20
_SURE = 6
"""Beyond so many thresholds the law of a test does not change any more."""
PRUNED_NEEDS = "nothing but the depth; delta above 0"
_SHARES = (0.1, 0.3)  # of delta for the threshold; the rest turns Gaussian noise into epsilon


def estimator_candidate(method: TreeEstimator, setting: Setting) -> Candidate:
    """Find, count known nodes, measure; noise on every level where all nodes are known."""
    facts, budget, alpha = setting
    no = partial(Candidate.infeasible, method.name, needs=ESTIMATOR_NEEDS)
    levels = _levels(method, facts)
    if facts.public:
        return _public_candidate(method, setting, levels)
    depth = facts.depth if levels is None else len(levels)
    if facts.closed:
        return _closed_candidate(method, setting, levels, depth)
    if budget.delta == 0:
        return no(reason="which nodes there are cannot be found without a delta")
    if budget.rho is not None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho, and without public nodes there is no pure one")
    try:
        chosen = choose_parameters(
            depth,
            Fraction(budget.pure_epsilon),
            Fraction(budget.delta),
            d_in=budget.d_in,
            measuring=None if method.measuring is None else float(method.measuring),
        )
    except ValueError:
        return no(reason=f"epsilon and delta are too small for a partition of depth {facts.depth}")
    tests, left = as_gaps(chosen), float(chosen.alphas + chosen.betas) / 2
    cells: Floats = np.exp2(np.arange(_MOST_CELLS.bit_length(), dtype=np.float64))
    error = max(worst_alpha_rmse(tests, alpha), float(totals_alpha_rmse(tests, left, alpha, cells).max()))
    threshold = tests.shape.thresholds[-1]
    return Candidate(
        method.name,
        feasible=True,
        reason="nodes are found at one price whatever their number, with their counts; what is left measures totals",
        needs=ESTIMATOR_NEEDS,
        error=error,
        bound=False,
        guarantee="epsilon and delta",
        parameters={
            "measuring": round(left * budget.d_in / budget.pure_epsilon, 3),
            "scale": tests.scale,
            "token_scale": tests.token_scale,
            "threshold": threshold,
            "radius": threshold - 1,
            "margin": tests.shape.margins[-1],
            "levels": "all" if levels is None else ", ".join(map(str, levels)),
        },
        shown_from=shown_from(partial(cell_chance, tests), threshold),
        nonnegative=True,
        integers=False,
        curve=partial(_curve, tests, left, alpha),
        by_level=None if facts.known is None else partial(known_errors, facts.known, chosen, levels),
        builder=partial(_build_estimator, method, setting, levels),
        budget=budget,
        method=method,
    )


def known_errors(known: KnownNodes, parameters: PartitionParameters, levels: Sequence[int] | None) -> list[LevelError]:
    """About the deviation of a known node's count by shown level, where no others are found.

    A leaf has its own rest, and a level above it a layer; the root of three levels or more is the sum of the level
    below it. In deep trees, whose layers follow what is found, nodes are bounded by the sum of all rests.
    """
    shown = list(range(known.tree.depth)) if levels is None else list(levels)
    numbers = Counter(level_of(known.tree, path) for path in known.paths)
    leaf = parameters.fringes[-1].rest_scales
    assert leaf is not None
    rest = sum(variance(float(scale)) for scale in leaf)
    layers = max(len(shown) - 2, 1)
    layer = sum(variance(layers / float(part)) for part in (parameters.alphas, parameters.betas))
    above = len(known.paths) * rest if len(shown) > NAMED else layer
    squares = [above] * (len(shown) - 1) + [rest]
    if 2 < len(shown) <= NAMED:
        squares[0] = layer * max(1, numbers[shown[1]])
    return [
        LevelError(level, math.sqrt(square), nodes=numbers[level])
        for level, square in zip(shown, squares, strict=True)
        if numbers[level]
    ]


def _closed_candidate(method: TreeEstimator, setting: Setting, levels: tuple[int, ...] | None, depth: int) -> Candidate:
    """All nodes are known: their rests and a layer per level get noise, and nothing is found."""
    facts, budget, alpha = setting
    chosen = closed_parameters(depth, Fraction(budget.pure_epsilon), d_in=budget.d_in)
    assert facts.known is not None
    errors = known_errors(facts.known, chosen, levels)
    error = max(each.error for each in errors)
    return Candidate(
        method.name,
        feasible=True,
        reason="all nodes are known: levels get noise and are made to add up",
        needs=ESTIMATOR_NEEDS,
        error=error,
        bound=True,
        guarantee="pure epsilon",
        parameters={"levels": "all" if levels is None else ", ".join(map(str, levels))},
        shown_from=0.0,
        nonnegative=True,
        curve=partial(deviation_curve, error, alpha),
        by_level=lambda: errors,
        builder=partial(_build_estimator, method, setting, levels),
        budget=budget,
        method=method,
    )


def _public_candidate(method: TreeEstimator, setting: Setting, levels: tuple[int, ...] | None) -> Candidate:
    """Noise on every level of a public tree, little of it for the root, and least squares."""
    facts, budget, alpha = setting
    if facts.tree is None:  # the root may have no better count than its own
        error = math.sqrt(2 * variance(budget.d_in / (budget.pure_epsilon * ROOT_EVEN)))
        reason = "levels get noise and are made to add up; how much that helps the root, the depth alone does not say"
    else:
        error = public_rmse(facts.tree, levels, budget.pure_epsilon, budget.d_in, method.weights)
        reason = "levels get noise and are made to add up, with shares that balance their errors"
    return Candidate(
        method.name,
        feasible=True,
        reason=reason,
        needs=ESTIMATOR_NEEDS,
        error=error,
        bound=facts.tree is None,
        guarantee="pure epsilon",
        parameters={"levels": "all" if levels is None else ", ".join(map(str, levels))},
        shown_from=0.0,
        nonnegative=True,
        integers=False,
        curve=partial(deviation_curve, error, alpha),
        builder=partial(_build_estimator, method, setting, levels),
        budget=budget,
        method=method,
    )


def _build_estimator(method: TreeEstimator, setting: Setting, levels: tuple[int, ...] | None, space: Space) -> Priced:
    facts, budget, alpha = setting
    made = make_tree_estimator(
        space.domain,
        space.metric,
        epsilon=budget.pure_epsilon,
        delta=0.0 if facts.closed else budget.delta,
        alpha=alpha,
        tree=space.tree,
        known=facts.known,
        confidence=space.confidence,
        measuring=method.measuring,
        weights=method.weights,
        levels=levels,
        d_in=budget.d_in,
    )
    return budget.priced(made)


def _levels(method: TreeEstimator, facts: TreeFacts) -> tuple[int, ...] | None:
    """The levels that are shown, with the root's; None for all."""
    wanted = facts.levels if method.levels is None else method.levels
    if wanted is None:
        return None
    levels = {0, *(check_integer(level, name="levels", least=0) for level in wanted)}
    if max(levels) >= facts.depth:
        raise ValueError(f"levels ({list(wanted)}) must be some of 0 to {facts.depth - 1}; the root's level is 0")
    return None if len(levels) == facts.depth else tuple(sorted(levels))


def cell_chance(parameters: GapParameters, weights: Floats) -> Floats:
    """The chance that a leaf of each weight is a cell."""
    rough, step = coarse(parameters)
    chances = _chances(rough)
    found: Floats = np.interp(weights / step, np.arange(chances.size), chances)
    return found


@lru_cache(maxsize=64)
def _chances(parameters: GapParameters) -> Floats:
    """The chances of leaves of 0, 1, ... people."""
    most = _SURE * parameters.shape.thresholds[-1]
    return np.array([one_test(parameters, people).shown for people in range(most + 1)])


def _curve(parameters: GapParameters, epsilon: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of a leaf, or of a node with cells of about the threshold below it, whichever is larger."""
    rough, step = coarse(parameters)
    most = _SURE * rough.shape.thresholds[-1]
    # From there on a leaf's error has one law, of which alpha forgives more and more.
    at = np.minimum(np.rint(weights / step), most)
    by_count = {
        people: max(one_test(rough, people, alpha=alpha, is_leaf=leaf).mean_square for leaf in (True, False))
        for people in np.unique(at).astype(int).tolist()
    }
    leaf = step * np.sqrt(np.array([by_count[people] for people in at.astype(int).tolist()]))
    # A node that is tested several times may err more: as much more as the worst of all does.
    leaf *= max(1.0, worst_alpha_rmse(parameters, alpha) / max(float(leaf.max(initial=0.0)), 1e-9))
    cells = np.append(np.maximum(weights / parameters.shape.thresholds[-1], 1.0), _MOST_CELLS)
    many = np.where(cells > 1, totals_alpha_rmse(parameters, epsilon, alpha, cells), 0.0)[:-1]
    found: Floats = np.maximum(np.where(at < most, leaf, 0.0), many)
    return found


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
    noise: str

    def shown(self, at: Floats) -> Floats:
        """The chance that the deepest node of a chain is shown, where all of its nodes have these weights."""
        chance = np.ones_like(at)
        for (scale, threshold), times in Counter(zip(self.scales, self.thresholds, strict=True)).items():
            chance *= shown_chance(threshold - at, self.noise, scale) ** times
        return chance

    def errors(self, alpha: float, at: Floats) -> Floats:
        """The largest alpha-RMSE of nodes of these weights."""
        paths = ((self.scales[:end], self.thresholds[:end]) for end in self.ends)
        errors = [pruned_rmse(at, noise=self.noise, scales=s, thresholds=t, alpha=alpha) for s, t in paths]
        largest: Floats = np.maximum.reduce(errors)
        return largest


def pruned_candidate(method: PrunedDescent, setting: Setting) -> Candidate:
    """Noise on the nodes whose parents are shown, and a threshold."""
    (facts, budget, alpha), noise = setting, method.noise
    no = partial(Candidate.infeasible, method.name, needs=PRUNED_NEEDS)
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
        needs=PRUNED_NEEDS,
        error=error,
        bound=facts.levels is not None,
        guarantee="epsilon and delta" if noise == "laplace" else "zCDP and delta",
        parameters={"scale": best.scale, "threshold": max(best.thresholds), "threshold_delta": best.delta},
        shown_from=shown_from(best.shown, max(best.thresholds)),
        nonnegative=True,
        integers=True,
        polishes=True,
        curve=partial(best.errors, alpha),
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
    pruning = Pruning(scale, delta, scales, thresholds, ends, noise)
    error = max(
        worst_pruned_rmse(noise=noise, scales=scales[:end], thresholds=thresholds[:end], alpha=alpha) for end in ends
    )
    return error, pruning


def lowest_threshold(noise: str, scale: float, delta: float, d_in: int) -> int:
    """The threshold that `make_pruned_descent` finds for delta exactly, in floats: a prediction needs no more.

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
