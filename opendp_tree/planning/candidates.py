"""What each method can promise for a hierarchy and a budget: its candidate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import l1_distance
from opendp.mod import Measurement

from opendp_tree._opendp import make_function
from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.chosen_quantiles import SCALES as CHOICE_SCALES
from opendp_tree.mechanisms.chosen_quantiles import make_chosen_quantiles
from opendp_tree.mechanisms.curve import SCALES, make_bin_curve, make_segment_curve
from opendp_tree.mechanisms.find import choose_parameters, closed_parameters, variance
from opendp_tree.mechanisms.grouped_curves import make_grouped_curves
from opendp_tree.mechanisms.level_noise import laplace_excess
from opendp_tree.mechanisms.means import make_tree_means
from opendp_tree.mechanisms.people import choose_design, make_people_estimator
from opendp_tree.mechanisms.pruned_descent import make_pruned_descent
from opendp_tree.mechanisms.tree_estimator import ROOT_EVEN, make_tree_estimator, public_rmse
from opendp_tree.mechanisms.tree_noise import (
    gaussian_variance,
    laplace_variance,
    level_scales,
    make_tree_gaussian,
    make_tree_laplace,
)
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.paper.clipping import make_clipped_estimator
from opendp_tree.paper.estimation import make_multiplicative_estimator
from opendp_tree.planning.candidate import (
    Candidate,
    InfeasibleError,
    LevelError,
    Setting,
    Space,
    TreeFacts,
    Weights,
    check_levels,
    suited,
)
from opendp_tree.planning.cell_errors import totals_alpha_rmse, worst_alpha_rmse
from opendp_tree.planning.laws import (
    MOST_CELLS,
    PEOPLE,
    cell_chance,
    choice_scale,
    clipping_radius,
    deviation_curve,
    estimator_curve,
    expected_rank_error,
    known_errors,
    level_maxima,
    paper_error,
    pruning,
    shown_from,
    uses_segments,
)
from opendp_tree.planning.methods import (
    Auto,
    Curve,
    Line,
    Method,
    MultiplicativeEstimator,
    PeopleLayers,
    PrunedDescent,
    Quantiles,
    TreeEstimator,
    TreeNoise,
    read_method,
)
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.rows.leaf_values import LeafValueSpace
from opendp_tree.rows.unit import Unit
from opendp_tree.theorems.interval import round_down
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.level_weights import level_variances
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

ESTIMATOR_NEEDS = "nothing but the depth and a delta; or public nodes, and then no delta"
PRUNED_NEEDS = "nothing but the depth; delta above 0"
PRUNED_SHARES = (0.1, 0.3)  # of delta for the threshold; the rest turns Gaussian noise into epsilon
PEOPLE_NEEDS = "a unit; where nodes must be found, epsilon and delta; for Gaussian noise, delta or rho"
LINE_NEEDS = "a line of bins, such as Key.number"
Group = Callable[[Tree | OpenTree, Budget], Candidate]
NOISE_NEEDS = {"laplace": "public nodes", "gaussian": "public nodes, and delta or rho"}
PAPER_NEEDS = "public nodes, delta above 0, alpha above 0"
_CLIPPING = 0.5  # the share of epsilon and delta for the intervals that bound the error
_ETAS = (1e-1, 1e-3, 1e-6)


def noise_candidate(method: TreeNoise, setting: Setting) -> Candidate:
    """Noise on every node, as it is or with least squares."""
    (facts, budget, alpha), noise = setting, method.noise
    no = partial(Candidate, method.name, feasible=False, needs=NOISE_NEEDS[noise])
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
        return deviation_curve(error, alpha, at)

    def build(space: Space) -> Priced:
        options: dict[str, Any] = {name: getattr(method, name) for name in ("consistent", "nonnegative", "integers")}
        options |= {"tree": space.tree, "weights": weights, "confidence": space.confidence}
        make = make_tree_laplace if noise == "laplace" else make_tree_gaussian
        return budget.fit(lambda at: make(space.domain, space.metric, at, **options), scale)

    return Candidate(
        method.name,
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
        by_level=partial(_noise_levels, method, setting, scale, weights),
        builder=build,
        budget=budget,
        method=method,
    )


def _noise_levels(method: TreeNoise, setting: Setting, scale: float, weights: Weights) -> list[LevelError]:
    """The worst deviation of each level; without the tree that of noise as it is, which least squares lowers."""
    facts, variance = setting.facts, laplace_variance if method.noise == "laplace" else gaussian_variance
    shares = weights or (1.0,) * facts.depth
    if method.consistent and facts.tree is not None:
        ratios = level_maxima(facts.tree, level_variances(facts.tree, shares, noise=method.noise))
        squares = [variance(scale) * ratio for ratio in ratios]
    else:
        scales = level_scales(method.noise, scale, shares)
        squares = [variance(each) if each < math.inf else math.inf for each in scales]
    sizes = [None] * facts.depth if facts.tree is None else [nodes.size for nodes in facts.tree.levels]
    return [LevelError(level, math.sqrt(squares[level]), nodes=size) for level, size in enumerate(sizes)]


def paper_candidate(method: MultiplicativeEstimator, setting: Setting) -> Candidate:
    """Algorithm Estimation, clipped as in the lemma on the multiplicative RMSE."""
    facts, budget, alpha = setting
    no = partial(Candidate, method.name, feasible=False, needs=PAPER_NEEDS)
    if not facts.public:
        return no(reason="its rounds look at every node, so they need to know every node")
    one = budget.one_person
    if one is None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho" if budget.rho else "it needs a delta")
    if alpha == 0:
        return no(reason="its error is relative: alpha must be above 0")
    epsilon, delta = (part * (1 - _CLIPPING) for part in one)
    scale = facts.depth / epsilon
    radius = clipping_radius(scale, delta, facts.depth)
    etas = _ETAS if method.eta is None else (method.eta,)
    error, eta, tau = min(paper_error(facts.depth, epsilon, delta, alpha, eta, radius) for eta in etas)

    def build(space: Space) -> Priced:
        estimator = make_multiplicative_estimator(
            space.domain, space.metric, alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, tree=space.tree
        )
        clipped = budget.fit(
            lambda at: make_clipped_estimator(
                space.domain, space.metric, at, estimator=estimator, radius=radius, tree=space.tree
            ),
            scale,
        )
        statement = PrivacyStatement(method.name, "", budget.d_in, {}, parameters)  # the cost is told by `make`
        told = make_function(lambda release: replace(release, statement=statement))
        return Priced(clipped.measurement >> told, clipped.loss)

    parameters: dict[str, int | float | str | None] = {"tau_min": tau, "eta": eta, "scale": scale, "radius": radius}
    return Candidate(
        method.name,
        reason="rounds of sparse vectors, then intervals; its constants are large",
        needs=PAPER_NEEDS,
        error=error,
        bound=True,
        guarantee="epsilon and delta",
        parameters={name: value for name, value in parameters.items() if value is not None},
        shown_from=0.0,
        integers=True,
        curve=lambda at: np.minimum(error, np.maximum(math.sqrt(eta) * 2 * radius, alpha * tau - alpha * at)),
        by_level=lambda: [LevelError(level, error) for level in range(facts.depth)],
        builder=build,
        budget=budget,
        method=method,
    )


def weighs_people(unit: Unit | None, method: Method | str) -> bool:
    """Whether a release is one in which people are weighed: any with a unit, unless rows are to be kept."""
    chosen = read_method(method)
    if isinstance(chosen, PeopleLayers) and (unit is None or not unit.weighs):
        raise ValueError(f"method ({chosen.name}) needs a unit whose rows are weighed. Hint: Unit('user', rows=5)")
    return unit is not None and unit.weighs and isinstance(chosen, (Auto, PeopleLayers))


def people_candidate(method: PeopleLayers, unit: Unit, setting: Setting) -> Candidate:
    """Nodes found with one row a person, if they must be found, and layers with weights."""
    facts, budget, alpha = setting
    no = partial(Candidate, method.name, feasible=False, needs=PEOPLE_NEEDS)
    wanted = facts.levels if method.levels is None else method.levels
    levels = tuple(range(facts.depth)) if facts.public or wanted is None else tuple(sorted({0, *wanted}))
    bounds = unit.bounds(len(levels))
    try:
        design = choose_design(
            unit.count, bounds, budget, finds=not facts.closed, noise=method.noise, measuring=method.measuring
        )
    except ValueError as error:
        return no(reason=str(error).split(". Hint:")[0])
    deviations = design.deviations()

    def build(space: Space) -> Priced:
        made = make_people_estimator(
            space.domain,
            space.metric,
            count=unit.count,
            epsilon=budget.epsilon,
            delta=budget.delta if budget.rho is None else 0.0,
            rho=budget.rho,
            rows=unit.rows,
            nodes=unit.nodes,
            known=facts.known,
            noise=design.noise,
            measuring=method.measuring,
            levels=None if facts.public else levels,
            d_in=budget.d_in,
            confidence=space.confidence,
        )
        return budget.priced(made)

    tests = None if design.parameters is None else design.parameters.fringes[0]
    return Candidate(
        method.name if method.noise else f"people_{design.noise}",
        reason=f"noise of a count, by level from the root's: {', '.join(f'{each:.3g}' for each in deviations)}",
        needs=PEOPLE_NEEDS,
        error=max(deviations),
        guarantee="epsilon and delta" if tests else "zCDP" if design.noise == "gaussian" else "pure epsilon",
        parameters={
            "count": unit.count,
            "noise": design.noise,
            "most": ", ".join(map(str, bounds)),
            "noise_deviations": ", ".join(f"{each:.4g}" for each in deviations),
            "threshold": design.threshold or "none",
        },
        shown_from=0.0
        if tests is None or not tests.levels
        else shown_from(partial(cell_chance, tests), tests.thresholds[-1]),
        nonnegative=not (facts.public and design.adds_up),
        polishes=True,
        curve=partial(deviation_curve, max(deviations), alpha),
        by_level=lambda: [LevelError(level, each) for level, each in zip(levels, deviations, strict=True)],
        builder=build,
        budget=budget,
        method=method,
    )


def people_candidates(auto: Auto, unit: Unit, setting: Setting) -> tuple[Candidate, ...]:
    """Both noises, the better first."""
    found = [
        suited(people_candidate(PeopleLayers(noise, levels=auto.levels), unit, setting), auto)
        for noise in ("laplace", "gaussian")
    ]
    return tuple(sorted(found, key=lambda each: each.error if each.feasible else math.inf))


def means_candidate(
    space: LeafValueSpace, budget: Budget, *, method: Method | str, known: KnownNodes | None = None
) -> Candidate:
    """Counts, sums and means of a tree within a budget; one that is possible."""
    chosen, public = read_method(method), isinstance(space.tree, Tree)
    closed = public or (known is not None and all(known.closed))
    levels = None if public else getattr(chosen, "levels", None)
    if chosen not in (Auto(levels=levels), TreeNoise() if public else TreeEstimator(levels=levels)):
        raise InfeasibleError(
            f"method ({chosen.name}) must be left out, or say levels of an open tree alone, where there is a value. "
            "Hint: method='auto'"
        )
    if not closed and (budget.delta == 0 or budget.rho is not None):
        raise InfeasibleError(
            "epsilon and delta must both be given where nodes have to be found. Hint: delta=1e-6, or a public tree"
        )

    def build(given: Space) -> Priced:
        made = make_tree_means(
            given.domain,
            given.metric,
            epsilon=budget.pure_epsilon,
            delta=0.0 if closed else budget.delta,
            confidence=given.confidence,
            known=known,
            levels=levels,
            d_in=budget.d_in,
        )
        return budget.priced(made)

    return Candidate(
        "tree_means",
        reason="pairs of sums tell counts and sums at the price of one, and gaps tell the counts of cells",
        needs="nothing but the depth and a delta; or public nodes, and then no delta",
        guarantee="pure epsilon" if closed else "epsilon and delta",
        builder=build,
        budget=budget,
        method=chosen,
    )


def line_candidate(method: Line, tree: Tree | OpenTree, budget: Budget, *, group: Group) -> Candidate:
    """A curve or quantiles, as one of the ways to make a release; its error is in ranks."""
    if isinstance(method, Curve) and method.groups is not None:
        return _grouped(method, tree, budget, group)
    if not isinstance(tree, Tree):
        raise InfeasibleError(
            f"method ({method.name}) is not possible: nodes of an open tree have no order. It needs {LINE_NEEDS}. "
            "Hint: for curves by group, release_tree with by=Key.nested(Key.columns(...), Key.number(...))"
        )
    bins = tree.leaf_count if tree.ranges is None else tree.ranges.bins
    scale = choice_scale(method, budget) if isinstance(method, Quantiles) else budget.d_in / budget.pure_epsilon
    low, high = CHOICE_SCALES if isinstance(method, Quantiles) else SCALES
    if not low <= scale <= high / 2:
        raise InfeasibleError(
            f"method ({method.name}) is not possible: the budget is beyond what noise can be drawn for"
        )

    def build(space: Space) -> Priced:
        def made(at: float) -> Measurement:
            common: dict[str, Any] = {"tree": space.tree, "confidence": space.confidence}
            if isinstance(method, Quantiles):
                measure = None if budget.rho is None else zero_concentrated_divergence()
                return make_chosen_quantiles(
                    space.domain, space.metric, at, quantiles=method.at, output_measure=measure, **common
                )
            if uses_segments(method, bins):
                return make_segment_curve(space.domain, space.metric, at, finding=method.finding, **common)
            return make_bin_curve(space.domain, space.metric, at, **common)

        return budget.fit(made, scale)

    return priced_line(method, bins, budget, build)


def priced_line(
    method: Line, bins: int, budget: Budget, build: Callable[[Space], Priced] | None = None, *, people: int = PEOPLE
) -> Candidate:
    """A curve or quantiles with the expected error in ranks."""
    reason = "a tree over all bins, all quantiles with intervals"
    if isinstance(method, Quantiles):
        reason = "chosen by the exponential mechanism, without counts or intervals of values"
    elif method.segments:
        reason = "segments where people are, all quantiles with intervals"
    return Candidate(
        method.name,
        reason=reason,
        needs=LINE_NEEDS,
        error=expected_rank_error(method, bins, budget, people=people),
        guarantee="pure epsilon",
        shown_from=0.0,
        nonnegative=True,
        builder=build,
        budget=budget,
        method=method,
    )


def _grouped(method: Curve, tree: Tree | OpenTree, budget: Budget, group: Group) -> Candidate:
    """Groups by whatever counts them best, with a share of epsilon, and a curve for each with the rest."""
    assert method.groups is not None
    assert method.ranges is not None
    if not isinstance(tree, OpenTree):
        raise InfeasibleError("method: groups must be levels of an open tree. Hint: public_groups, where all are known")
    if budget.rho is not None and method.public_groups is None:
        raise InfeasibleError(
            "rho must not be given where groups are found. Hint: epsilon and delta, or Curve(public_groups=...)"
        )
    whole = budget.pure_epsilon
    part = Budget.of(
        epsilon=round_down(Fraction(method.grouping) * Fraction(whole)),
        delta=0.0 if method.public_groups is not None else budget.delta,
        rho=None,
        d_in=budget.d_in,
    )
    groups = OpenTree.columns(tree.names[: method.groups]) if method.public_groups is None else method.public_groups
    found = group(groups, part)
    bins, ranges, levels = method.ranges.bins, method.ranges, method.groups

    def build(space: Space) -> Priced:
        first = found.make(leaf_domain(groups), l1_distance(T="i64"), confidence=space.confidence)
        spent = first.map(budget.d_in)  # type: ignore[no-untyped-call]
        left = Fraction(whole) - Fraction(spent[0] if isinstance(spent, tuple) else spent)

        def made(at: float) -> Measurement:
            return make_grouped_curves(
                space.domain,
                space.metric,
                at,
                groups=first,
                levels=levels,
                ranges=ranges,
                finding=method.finding if uses_segments(method, bins) else 0.0,
                confidence=space.confidence,
            )

        return budget.fit(made, float(budget.d_in / left))

    return priced_line(method, bins, budget, build)


def estimator_candidate(method: TreeEstimator, setting: Setting) -> Candidate:
    """Find, count known nodes, measure; noise on every level where all nodes are known."""
    facts, budget, alpha = setting
    no = partial(Candidate, method.name, feasible=False, needs=ESTIMATOR_NEEDS)
    levels = _levels(method, facts)
    if facts.closed:
        return _pure_candidate(method, setting, levels)
    depth = facts.depth if levels is None else len(levels)
    if depth == 1:
        return no(reason="a tree of one level has no node to find")
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
    # Below the highest open node; what is below others has fewer levels, and lower thresholds.
    top = 0 if facts.known is None else facts.known.highest_open
    top = min(top if levels is None else sum(level <= top for level in levels) - 1, depth - 2)
    tests = chosen.fringes[max(top, 0)]
    left = float(chosen.alphas + chosen.betas) / 2
    cells: Floats = np.exp2(np.arange(MOST_CELLS.bit_length(), dtype=np.float64))
    error = max(worst_alpha_rmse(tests, alpha), float(totals_alpha_rmse(tests, left, alpha, cells).max()))
    threshold = tests.thresholds[-1]
    return Candidate(
        method.name,
        reason="nodes are found at one price whatever their number, with their counts; what is left measures totals",
        needs=ESTIMATOR_NEEDS,
        error=error,
        guarantee="epsilon and delta",
        parameters={
            "measuring": round(left * budget.d_in / budget.pure_epsilon, 3),
            "scale": float(tests.test_scale),
            "token_scale": float(tests.token_scale),
            "threshold": threshold,
            "radius": threshold - 1,
            "margin": tests.margins[-1],
            "levels": "all" if levels is None else ", ".join(map(str, levels)),
        },
        shown_from=shown_from(partial(cell_chance, tests), threshold),
        nonnegative=True,
        curve=partial(estimator_curve, tests, left, alpha),
        by_level=None if facts.known is None else partial(known_errors, facts.known, chosen, levels),
        builder=partial(_build_estimator, method, setting, levels),
        budget=budget,
        method=method,
    )


def _pure_candidate(method: TreeEstimator, setting: Setting, levels: tuple[int, ...] | None) -> Candidate:
    """All nodes are known: levels get noise, of a public tree little of it for the root, and least squares."""
    facts, budget, alpha = setting
    errors = None
    if not facts.public:
        assert facts.known is not None
        depth = facts.depth if levels is None else len(levels)
        chosen = closed_parameters(depth, Fraction(budget.pure_epsilon), d_in=budget.d_in)
        errors = known_errors(facts.known, chosen, levels)
        error, reason = (
            max(each.error for each in errors),
            "all nodes are known: levels get noise and are made to add up",
        )
    elif facts.tree is None:  # the root may have no better count than its own
        error = math.sqrt(2 * variance(budget.d_in / (budget.pure_epsilon * ROOT_EVEN)))
        reason = "levels get noise and are made to add up; how much that helps the root, the depth alone does not say"
    else:
        error = public_rmse(facts.tree, levels, budget.pure_epsilon, budget.d_in, method.weights)
        reason = "levels get noise and are made to add up, with shares that balance their errors"
    return Candidate(
        method.name,
        reason=reason,
        needs=ESTIMATOR_NEEDS,
        error=error,
        bound=facts.tree is None,
        guarantee="pure epsilon",
        parameters={"levels": "all" if levels is None else ", ".join(map(str, levels))},
        shown_from=0.0,
        nonnegative=True,
        curve=partial(deviation_curve, error, alpha),
        by_level=None if errors is None else lambda: errors,
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
    wanted = facts.levels if method.levels is None else check_levels(method.levels, facts.depth)
    levels = None if wanted is None else tuple(sorted({0, *wanted}))
    return None if levels is None or len(levels) == facts.depth else levels


def pruned_candidate(method: PrunedDescent, setting: Setting) -> Candidate:
    """Noise on the nodes whose parents are shown, and a threshold."""
    (facts, budget, alpha), noise = setting, method.noise
    no = partial(Candidate, method.name, feasible=False, needs=PRUNED_NEEDS)
    if budget.delta == 0:
        return no(reason="which nodes there are cannot be found without a delta")
    if noise == "laplace" and budget.rho is not None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho")
    weights = (1.0,) * facts.depth if method.weights is None else facts.normal_weights(method.weights)
    # Only Gaussian noise that becomes epsilon has a delta to split.
    shares = PRUNED_SHARES if noise == "gaussian" and budget.rho is None else (1.0,)
    tried = (pruning(noise, weights, budget, alpha, share) for share in shares)
    possible = [each for each in tried if each is not None]
    if not possible:
        return no(reason="the budget is so small that noise of its scale cannot be drawn")
    error, best = min(possible, key=lambda each: each[0])

    def build(space: Space) -> Priced:
        options: dict[str, Any] = {"tree": space.tree, "delta": best.delta, "d_in": budget.d_in, "noise": noise}
        options |= {"weights": None if method.weights is None else weights, "confidence": space.confidence}
        return budget.fit(lambda at: make_pruned_descent(space.domain, space.metric, at, **options), best.scale)

    return Candidate(
        method.name,
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
