"""Reduction and estimation: an estimate of every node's count from a ladder of classifications."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise
from opendp_tree._arguments import (
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    check_type,
    computable,
    is_zero,
)
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import PrivacyStatement, amounts_of_loss, make_unfunded
from opendp_tree.paper.classification import (
    AccuracyWarning,
    Forest,
    check_round,
    classify,
    fitting,
    forest_below,
    group_map,
    people_reader,
    shortfall,
)
from opendp_tree.releases.release import TreeRelease
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import exp, round_down, round_up
from opendp_tree.theorems.paper import (
    Classifier,
    Ladder,
    estimation_threshold,
    geometric_ladder,
    least_radius,
    reduction_loss,
)
from opendp_tree.theorems.tails import truncated_laplace_delta
from opendp_tree.trees.tree import LevelOrder, Tree


def make_ladder_estimator(
    input_domain: Domain, input_metric: Metric, *, ladder: Ladder, tree: Tree | None = None
) -> Measurement:
    """An estimate of every node's count from a ladder of classifications: the paper's Algorithm Reduction.

    `approximate(max_divergence())`: at distance 1 the sum of what the ladder's rounds spend, at distance k by group
    privacy. Proof: docs/proofs/paper.md.

    The rounds are run from the highest down. What a round finds above is estimated by the round's mass, rounded
    down; all other nodes go on to the next round; what no round finds above is estimated by `ladder.base`.
    Accuracy: if the root weighs at most the highest mass, then with probability at least 1 - `ladder.eta` a node's
    estimate is at most `ladder.alpha` times its count above its count, or its count is at most `ladder.base`. This
    takes a connected ladder and rounds whose accuracy is guaranteed, or else there is an `AccuracyWarning`. Leaf counts
    below 0 are taken as 0. The release is a `TreeRelease` whose intervals are what that guarantee implies; where
    nothing is guaranteed, from 0 to infinity.

    Other parameters: as for `make_tree_sum`.

    :param ladder: The rounds, each with its mass, threshold and budget, and the estimate of what no round finds above.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> from opendp_tree.paper import Ladder, Round
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> low = Round(mass=2900, eta=0.05, alpha=0.25, threshold=2000, epsilon=0.5, delta=1e-7)
    >>> high = Round(mass=3400, eta=0.05, alpha=0.25, threshold=2300, epsilon=0.5, delta=1e-7)
    >>> ladder = Ladder(base=2500, rounds=(low, high))
    >>> estimator = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_ladder_estimator(ladder=ladder)
    >>> estimator.map(1)
    (1.0, 1.6106090981102968e-07)
    >>> estimator(tree.count([3] * 3300 + [5] * 100)).estimates
    array([3400., 3400., 2500., 3400., 2500., 2500., 2500.])
    """
    tree, node_counts = people_reader(input_domain, input_metric, tree)
    ladder = _check_ladder(ladder)
    if not ladder.is_connected():
        warnings.warn(
            "accuracy is not guaranteed (privacy is): in ladder, some round leaves more to the one below than its mass",
            AccuracyWarning,
            stacklevel=2,
        )
    parameters = {"alpha": float(ladder.alpha), "eta": float(ladder.eta)}
    return _make("ladder_estimator", input_domain, input_metric, tree, node_counts, ladder, parameters)


then_ladder_estimator = to_then(make_ladder_estimator)


def _check_ladder(ladder: Ladder) -> Ladder:
    """A ladder of floats: what is promised is computed from them, so how they were rounded does not matter."""
    check_type(ladder, Ladder, name="ladder", hint="Ladder(base=..., rounds=...)")

    def number(value: object) -> object:
        return float(value) if isinstance(value, Fraction) else value

    rounds = tuple(check_round(**{name: number(value) for name, value in vars(step).items()}) for step in ladder.rounds)
    return Ladder(check_scale(number(ladder.base), name="base"), rounds)


def make_multiplicative_estimator(
    input_domain: Domain,
    input_metric: Metric,
    *,
    alpha: float,
    epsilon: float,
    delta: float,
    eta: float,
    tau_min: float | None = None,
    mass_bound: int | None = None,
    tree: Tree | None = None,
) -> Measurement:
    """An estimate of every node's count with a relative error of alpha: the paper's Algorithm Estimation, corrected.

    `approximate(max_divergence())`: at distance 1, at most (`epsilon`, `delta`), as the sum of what the rounds that
    are configured spend; at distance k by group privacy. The map reports `delta` itself where a little less is lost, so
    that OpenDP's searches for `epsilon` can compare. Proof: docs/proofs/paper.md. Where the printed paper
    differs: docs/errata.md.

    Accuracy: for each node of count w, with probability at least 1 - `eta`, the estimate is between w and
    (1 + alpha) * w, or w is at most alpha * `tau_min` and the estimate is the largest integer up to that. So all counts
    up to alpha * `tau_min`, often millions, are estimated as one number: an `AccuracyWarning` says which, where Laplace
    noise on every node would err by less, and the statement has it as `one_number_up_to`.

    A leaf count below 0 is taken as 0, and w is the sum of the leaf counts so taken. The release is a `TreeRelease`
    whose intervals are what the promise implies; where an `AccuracyWarning` says that nothing is promised, from 0 to
    infinity.

    Other parameters: as for `make_tree_classifier`.

    :param alpha: The relative error that is promised.
    :param eta: The probability with which the promise may fail, node by node.
    :param tau_min: The count from which the relative error holds; by default the paper's, which is large: see
        `multiplicative_threshold`. Where a smaller one does not allow the promise, an `AccuracyWarning` says so.
    :param mass_bound: A public number that the root's count is known not to exceed; if it does, accuracy is lost and
        privacy is not. Without one, the root's count is released first, for half of the budget.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> estimator = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_multiplicative_estimator(
    ...     alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01, mass_bound=4_000_000
    ... )
    >>> estimator.map(1)
    (1.0, 1e-06)
    """
    tree, node_counts = people_reader(input_domain, input_metric, tree)
    granted = 1.0 if is_zero(epsilon) else epsilon
    request = _check_request(alpha=alpha, epsilon=granted, delta=delta, eta=eta, mass_bound=mass_bound)
    if is_zero(epsilon):
        return make_unfunded(input_domain, input_metric, delta=delta)
    tau = _default_tau_min(request, tree.depth) if tau_min is None else check_positive(tau_min, name="tau_min")
    if tau < 1:
        raise ValueError(f"tau_min ({tau_min}) must be at least 1: counts are whole")
    mass = LIMIT if mass_bound is None else mass_bound
    ladder = geometric_ladder(**request, tau_min=tau, mass=Fraction(mass), largest_scale=Fraction(noise.LARGEST_SCALE))
    reached = ladder.masses[-1]
    if reached < mass:
        warnings.warn(
            f"accuracy is not guaranteed (privacy is) for counts above {float(reached):.6g}: a longer ladder would "
            "need noise of a scale above 2**50, or more than 10,000 rounds. Hint: a larger tau_min or epsilon",
            AccuracyWarning,
            stacklevel=2,
        )
    one_number, deviation = math.floor(request["alpha"] * tau), math.sqrt(2) * tree.depth / float(epsilon)
    if one_number > deviation:
        warnings.warn(
            f"counts up to {one_number:,} are all estimated as {one_number:,} (privacy holds). Hint: plan(tree, "
            f"epsilon=..., delta=...).best, which errs by no more than about {deviation:.3g}, the deviation of "
            "Laplace noise on every node",
            AccuracyWarning,
            stacklevel=2,
        )
    root = None if mass_bound is not None else _root_noise(request["epsilon"], request["delta"])
    parameters = {"alpha": float(alpha), "tau_min": round_up(tau), "eta": float(eta), "one_number_up_to": one_number}
    options: dict[str, Any] = {"root": root, "promised": delta, "accurate": reached >= mass}
    made = "multiplicative_estimator", input_domain, input_metric, tree, node_counts
    return _make(*made, ladder, parameters, **options)


then_multiplicative_estimator = to_then(make_multiplicative_estimator)


def multiplicative_threshold(
    *, alpha: float, epsilon: float, delta: float, eta: float, depth: int, mass_bound: int | None = None
) -> float:
    """The tau_min that `make_multiplicative_estimator` takes by default: the paper's formula, corrected.

    Other parameters: as for `make_multiplicative_estimator`.

    :param depth: The depth of the tree.

    >>> multiplicative_threshold(alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01, depth=32) > 1e6
    True
    """
    request = _check_request(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, mass_bound=mass_bound)
    return float(_default_tau_min(request, check_integer(depth, name="depth", least=1)))


def _check_request(
    *, alpha: float, epsilon: float, delta: float, eta: float, mass_bound: int | None
) -> dict[str, Fraction]:
    """What the ladder may spend and promise, exactly: half of the budget, where the root's count gets the other."""
    share = Fraction(1, 2)
    if mass_bound is not None:
        check_integer(mass_bound, name="mass_bound", least=0)
        share = Fraction(1)
    return {
        "alpha": check_probability(alpha, name="alpha"),
        "epsilon": share * check_positive(epsilon, name="epsilon"),
        "delta": share * check_probability(delta, name="delta"),
        "eta": check_probability(eta, name="eta"),
    }


def _default_tau_min(request: dict[str, Fraction], depth: int) -> Fraction:
    with computable("alpha, epsilon, delta and eta"):
        tau_min = estimation_threshold(**request, depth=depth)
    if not math.isfinite(tau_min):
        raise ValueError(f"alpha ({float(request['alpha'])}) is too small for a default tau_min. Hint: give tau_min")
    return Fraction(tau_min)


def _root_noise(epsilon: Fraction, delta: Fraction) -> tuple[float, int]:
    """The scale and the radius of the truncated noise on the root's count."""
    scale = round_up(1 / epsilon)
    radius = least_radius(Fraction(scale), delta) if math.isfinite(scale) else LIMIT + 1
    if radius > LIMIT:
        raise ValueError(
            f"epsilon ({float(2 * epsilon)}) must be larger: the noise on the root's count would exceed "
            "2**62 - 1. Hint: mass_bound"
        )
    return scale, radius


# What the two estimators share.


def _make(
    mechanism: str,
    input_domain: Domain,
    input_metric: Metric,
    tree: Tree,
    node_counts: Callable[[Any], Ints],
    ladder: Ladder,
    parameters: Mapping[str, int | float],
    *,
    root: tuple[float, int] | None = None,
    promised: float = 0.0,
    accurate: bool = True,
) -> Measurement:
    """An estimator that runs a ladder; `root` is the scale and the radius of the noise on the root's count, if any."""
    classifiers = tuple(fitting(step, depth=tree.depth) for step in ladder.rounds)
    for number, (step, run) in enumerate(zip(ladder.rounds, classifiers, strict=True), start=1):
        if (missing := shortfall(step, run, depth=tree.depth)) is not None:
            warnings.warn(f"round {number} of {len(classifiers)}: {missing}", AccuracyWarning, stacklevel=3)
            break
    epsilon, delta = reduction_loss(classifiers)
    if root is not None:
        scale, radius = Fraction(root[0]), root[1]
        epsilon += 1 / scale
        delta += truncated_laplace_delta(exp(-1 / scale), radius=radius, d_in=1)
    privacy_map, measure = group_map((epsilon, delta), promised=promised), approximate(max_divergence())
    order, masses = tree.level_order, ladder.masses
    whole = forest_below(order)
    estimates, lower, upper = rungs(ladder, classifiers, accurate=accurate)
    confidence, parameters = max(0.0, round_down(1 - ladder.eta)), {**parameters, "rounds": len(classifiers)}

    def function(data: Any) -> TreeRelease:
        weights = node_counts(data)[order.nodes]
        rounds = len(classifiers)
        if root is not None:
            # Never below the truth. Fewer rounds may be run than are paid for: this noisy count says how many.
            root_bound = int(weights[0]) + root[1] + int(noise.truncated_laplace(*root, 1)[0])
            rounds = min(rounds, bisect.bisect_left(masses, root_bound))
        at = reduce_to_rungs(order, whole, weights, classifiers[:rounds])
        spent = amounts_of_loss(measure, privacy_map(1))
        statement = PrivacyStatement(mechanism, measure_name(measure), 1, spent, parameters)
        return TreeRelease(tree, estimates[at], lower[at], upper[at], confidence, statement)

    return make_measurement(input_domain, input_metric, measure, function, privacy_map)


def rungs(ladder: Ladder, classifiers: Sequence[Classifier], *, accurate: bool) -> tuple[Floats, Floats, Floats]:
    """For each rung, from the lowest up, its estimate and the ends of the counts that the guarantee allows there."""
    runs = zip(ladder.rounds, classifiers, strict=True)
    holds = accurate and ladder.is_connected() and all(run.is_accurate(step) for step, run in runs)
    bounds = [min(LIMIT, math.floor(mass)) for mass in ladder.masses]
    least = [0, *(math.ceil((1 - step.alpha) * step.threshold) for step in ladder.rounds)]
    # Floats do not hold all integers beyond 2**53: outward.
    lower = np.array([round_down(Fraction(count)) if holds else 0.0 for count in least])
    upper = np.array([round_up(Fraction(bound)) if holds else math.inf for bound in bounds])
    return np.array(bounds, dtype=np.float64), lower, upper


def reduce_to_rungs(order: LevelOrder, forest: Forest, weights: Ints, classifiers: Sequence[Classifier]) -> Ints:
    """For each node id the highest round, from 1, that finds the node above; 0 if none does."""
    by_node = np.zeros(order.nodes.size, dtype=np.int64)
    for number in range(len(classifiers), 0, -1):
        if forest.members.size == 0:
            break
        above = classify(order, forest, weights, classifiers[number - 1])
        by_node[order.nodes[forest.members[above]]] = number
        forest = Forest.of(order, forest.members[~above])
    return by_node
