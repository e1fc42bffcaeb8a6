"""Estimation: every node's count up to a factor, with an error that grows with the logarithm of the depth."""

from __future__ import annotations

import bisect
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from opendp.measures import approximate, max_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise
from opendp_tree._arguments import check_integer, check_positive, check_probability, computable, is_zero, read_distance
from opendp_tree._opendp import make_measurement, to_then
from opendp_tree.mechanisms.searches import make_unfunded, with_promised_delta
from opendp_tree.paper.classification import AccuracyWarning, whole
from opendp_tree.paper.reduction import Rungs, paper_statement, reduce_to_classes, run_by
from opendp_tree.releases.release import TreeRelease
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.distances import group_loss
from opendp_tree.theorems.interval import Interval, exp, round_up
from opendp_tree.theorems.laplace import truncated_laplace_delta
from opendp_tree.theorems.paper import Ladder, estimation_threshold, geometric_ladder, least_radius, reduction_loss
from opendp_tree.trees.domains import CountSpace, check_metric
from opendp_tree.trees.tree import Tree

__all__ = ["make_multiplicative_estimator", "multiplicative_threshold", "then_multiplicative_estimator"]


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
    that OpenDP's searches for `epsilon` can compare. Proof: docs/proofs/estimation.md. Where the printed paper
    differs: docs/errata.md.

    Accuracy: for each node of count w, with probability at least 1 - `eta`, the estimate is between w and
    (1 + alpha) * w, or w is at most alpha * `tau_min` and the estimate is the largest integer up to that. Without
    `tau_min` it is the paper's, which is large: see `multiplicative_threshold`. So all counts up to alpha * `tau_min`,
    often millions, are estimated as one number: an `AccuracyWarning` says which, where Laplace noise on every node
    would err by less, and the statement has it as `one_number_up_to`. A smaller one may be given; where the
    noise then does not allow the promise, an `AccuracyWarning` says so.

    The ladder of rounds starts above the root's count. That count is released first, for half of epsilon and delta;
    or `mass_bound` is a public number that it is known not to exceed, and nothing is spent on it. If it is exceeded
    after all, accuracy is lost and privacy is not.

    A leaf count below 0 is taken as 0, and w is the sum of the leaf counts so taken. The release is a `TreeRelease`.
    Its intervals are what the promise implies, with a confidence of 1 - `eta`: from (1 - the round's alpha) times its
    threshold to the estimate, from 0 for what no round finds; where an `AccuracyWarning` says that nothing is promised,
    from 0 to infinity. A million nodes take seconds; a small `alpha` means many rounds of some
    milliseconds.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared size, vectors are
        cut to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`, of an integer type or f64.
    alpha
        The relative error that is promised.
    epsilon
        What may be spent at distance 1. With 0, which OpenDP's searches try, there is a map and no release.
    delta
        What may be lost at distance 1.
    eta
        The probability with which the promise may fail, node by node.
    tau_min
        The count from which the relative error holds; by default the paper's, which is large: see
        `multiplicative_threshold`. Where a smaller one does not allow the promise, an `AccuracyWarning` says
        so.
    mass_bound
        A public number that the root's count is known not to exceed. Without one, the root's count is released
        first, for half of the budget.
    tree
        The tree, where `input_domain` does not carry it.

    Examples
    --------
    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> estimator = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_multiplicative_estimator(
    ...     alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01, mass_bound=4_000_000
    ... )
    >>> estimator.map(1)
    (1.0, 1e-06)
    >>> counts = np.array([3_000_000, 0, 40, 0])
    >>> release, truth = estimator(counts), tree.sum(counts)
    >>> bool((release.lower <= truth).all()), bool((truth <= release.upper).all())
    (True, True)
    """
    assert_features("contrib")
    space, tree = CountSpace.of_leaves(input_domain, tree)
    check_metric(input_metric, l1_distance)
    if is_zero(epsilon):
        _Request.of(alpha=alpha, epsilon=1.0, delta=delta, eta=eta, mass_bound=mass_bound)
        return make_unfunded(input_domain, input_metric, delta=delta)
    exact = _Request.of(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, mass_bound=mass_bound)
    tau = exact.tau_min(tree.depth) if tau_min is None else _check_tau_min(tau_min)
    ladder = exact.ladder(tau)
    classifiers = run_by(ladder, depth=tree.depth)
    root = _RootCount.of(exact)
    order = tree.level_order
    masses, places = ladder.masses, range(len(classifiers) + 1)
    found = Rungs.of(ladder, classifiers, accurate=masses[-1] >= exact.mass)
    one_number = math.floor(exact.alpha * tau)
    _warn_of_one_number(one_number, math.sqrt(2) * tree.depth / float(exact.epsilon))
    parameters: dict[str, int | float | str | None] = {"alpha": float(alpha), "tau_min": round_up(tau)}
    parameters |= {"eta": float(eta), "rounds": len(classifiers), "one_number_up_to": one_number}

    def function(data: Any) -> TreeRelease:
        weights = tree.sum(space.read_people(data))[order.nodes]
        rounds = len(classifiers)
        if root is not None:
            rounds = min(rounds, bisect.bisect_left(masses, root.upper_bound(int(weights[0]))))
        by_node = reduce_to_classes(order, whole(order), weights, classifiers[:rounds], places)
        statement = paper_statement("multiplicative_estimator", privacy_map(1), parameters)
        return found.release(tree, by_node, statement)

    # With the root's count released, fewer rounds may be run than are paid for; which, is read off that release.
    epsilon_1, delta_1 = reduction_loss(classifiers)
    if root is not None:
        epsilon_1, delta_1 = epsilon_1 + root.epsilon, delta_1 + root.delta

    def privacy_map(d_in: int | float) -> tuple[float, float]:
        return with_promised_delta(group_loss(epsilon_1, delta_1, k=math.floor(read_distance(d_in))), delta)

    return make_measurement(input_domain, input_metric, approximate(max_divergence()), function, privacy_map)


then_multiplicative_estimator = to_then(make_multiplicative_estimator)


def multiplicative_threshold(
    *, alpha: float, epsilon: float, delta: float, eta: float, depth: int, mass_bound: int | None = None
) -> float:
    """The tau_min that `make_multiplicative_estimator` takes by default: the paper's formula, corrected.

    Parameters
    ----------
    alpha
        The relative error that is promised.
    epsilon
        What may be spent.
    delta
        What may be lost.
    eta
        The probability with which the promise may fail.
    depth
        Of the tree.
    mass_bound
        A public bound on the root's count, if there is one.

    Examples
    --------
    >>> multiplicative_threshold(alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01, depth=32) > 1e6
    True
    """
    exact = _Request.of(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, mass_bound=mass_bound)
    return float(exact.tau_min(check_integer(depth, name="depth", least=1)))


def _warn_of_one_number(one_number: int, noise_deviation: float) -> None:
    """Public facts say that small counts cannot be told apart, where plain noise would tell them."""
    if one_number > noise_deviation:
        warnings.warn(
            f"counts up to {one_number:,} are all estimated as {one_number:,} (privacy holds). Hint: plan(tree, "
            f"epsilon=..., delta=...).best, which errs by no more than about {noise_deviation:.3g}, the deviation of "
            "Laplace noise on every node",
            AccuracyWarning,
            stacklevel=3,
        )


def _check_tau_min(tau_min: float) -> Fraction:
    exact = check_positive(tau_min, name="tau_min")
    if exact < 1:
        raise ValueError(f"tau_min ({tau_min}) must be at least 1: counts are whole")
    return exact


@dataclass(frozen=True)
class _Request:
    """The arguments, exactly."""

    alpha: Fraction
    epsilon: Fraction
    delta: Fraction
    eta: Fraction
    mass_bound: int | None

    @classmethod
    def of(cls, *, alpha: float, epsilon: float, delta: float, eta: float, mass_bound: int | None) -> _Request:
        return cls(
            alpha=check_probability(alpha, name="alpha"),
            epsilon=check_positive(epsilon, name="epsilon"),
            delta=check_probability(delta, name="delta"),
            eta=check_probability(eta, name="eta"),
            mass_bound=None if mass_bound is None else check_integer(mass_bound, name="mass_bound", least=0),
        )

    @property
    def share(self) -> Fraction:
        """How much of the budget the ladder gets; the root's count gets the rest."""
        return Fraction(1, 2) if self.mass_bound is None else Fraction(1)

    @property
    def mass(self) -> int:
        """What the root weighs at most."""
        return LIMIT if self.mass_bound is None else self.mass_bound

    def tau_min(self, depth: int) -> Fraction:
        with computable("alpha, epsilon, delta and eta"):
            found = estimation_threshold(
                alpha=self.alpha,
                epsilon=self.share * self.epsilon,
                delta=self.share * self.delta,
                eta=self.eta,
                depth=depth,
            )
        if not math.isfinite(found):
            raise ValueError(f"alpha ({float(self.alpha)}) is too small for a default tau_min. Hint: give tau_min")
        return Fraction(found)

    def ladder(self, tau_min: Fraction) -> Ladder:
        """The rounds that reach the mass bound, or every count there can be."""
        mass = self.mass
        found = geometric_ladder(
            alpha=self.alpha,
            tau_min=tau_min,
            epsilon=self.share * self.epsilon,
            delta=self.share * self.delta,
            eta=self.eta,
            mass=Fraction(mass),
            largest_scale=Fraction(noise.LARGEST_SCALE),
        )
        if (reached := found.masses[-1]) < mass:
            warnings.warn(
                f"accuracy is not guaranteed (privacy is) for counts above {float(reached):.6g}: a longer ladder would "
                "need noise of a scale above 2**50, or more than 10,000 rounds. Hint: a larger tau_min or epsilon",
                AccuracyWarning,
                stacklevel=3,
            )
        return found


@dataclass(frozen=True)
class _RootCount:
    """A noisy count that is never below the truth."""

    scale: float
    radius: int

    @classmethod
    def of(cls, request: _Request) -> _RootCount | None:
        if request.mass_bound is not None:
            return None
        scale = round_up(2 / request.epsilon)
        if not math.isfinite(scale):
            raise ValueError(f"epsilon ({float(request.epsilon)}) must be larger. Hint: mass_bound")
        radius = least_radius(Fraction(scale), request.delta / 2)
        if radius > LIMIT:
            raise ValueError(
                f"epsilon ({float(request.epsilon)}) must be larger: the noise on the root's count would exceed "
                "2**62 - 1. Hint: mass_bound"
            )
        return cls(scale, radius)

    @property
    def epsilon(self) -> Fraction:
        return 1 / Fraction(self.scale)

    @property
    def delta(self) -> Interval:
        return truncated_laplace_delta(exp(-1 / Fraction(self.scale)), radius=self.radius, d_in=1)

    def upper_bound(self, count: int) -> int:
        return count + self.radius + int(noise.truncated_laplace(self.scale, self.radius, 1)[0])
