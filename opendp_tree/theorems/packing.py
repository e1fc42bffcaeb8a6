"""Packing: what no private mechanism can do on a tree, in numbers that are rounded down.

Many inputs, each a heap of people on one leaf, must be told apart level by level; privacy says that hardly anything
about the leaf may be told. Proof: docs/proofs/packing.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_tree.theorems.distances import group_delta
from opendp_tree.theorems.interval import Interval, between, bisect, exp, sqrt_down

_ONE, _NONE = Interval.of(1), Interval.of(0)
_HUGE = 10**5
"""Beyond this many units of epsilon nothing is hidden; what is left of a bound is below the smallest float."""


def information_limits(
    steps: int, *, epsilon: Fraction | None = None, delta: Fraction = Fraction(0), rho: Fraction | None = None
) -> tuple[Interval, Interval]:
    """How far apart the laws of releases can be after a number of steps of the budget: in nats, but for a lost mass.

    Pure: y tanh(y / 2) with y = steps * epsilon. With delta: y, and what group privacy makes of delta. zCDP:
    steps**2 * rho.
    """
    if rho is not None:
        return Interval.of(steps**2 * rho), _NONE
    if epsilon is None:
        raise ValueError("epsilon or rho must be given")
    if steps * epsilon > _HUGE:
        return Interval.of(steps * epsilon), _NONE if delta == 0 else _ONE
    if delta:
        return Interval.of(steps * epsilon), group_delta(Interval.of(delta), ratio=exp(epsilon), k=steps)
    grown = exp(steps * epsilon)
    return Interval.of(steps * epsilon) * ((grown - 1) / (grown + 1)), _NONE


def two_point_risk(
    steps: int, *, epsilon: Fraction | None = None, delta: Fraction = Fraction(0), rho: Fraction | None = None
) -> Fraction:
    """A lower bound on the mean squared error, in units of the distance squared, of telling two counts apart.

    The counts lie this many steps of the budget apart, and the error is that of the worse one.
    """
    nats, lost = information_limits(steps, epsilon=epsilon, delta=delta, rho=rho)
    if lost.hi >= 1 or nats.hi > _HUGE:
        return Fraction(0)
    if rho is not None:
        return Fraction(((0 - nats).exp() / 4).lo)
    chance = 1 / (1 + exp(steps * (epsilon or 0)))
    return Fraction(((1 - lost) * chance * (1 - chance)).lo)


def entropy_needed(*, levels: int, branching: int, nats: Interval, lost: Interval) -> Fraction:
    """A lower bound, in nats, on how uncertain the child that a heap lies under must stay at each level on average."""
    if levels == 0 or lost.hi >= 1:
        return Fraction(0)
    kept = 1 - lost
    left = Interval.of(branching).ln() * levels + kept.ln() - nats
    return Fraction((kept * left / levels).lo) if left.lo > 0 else Fraction(0)


def level_entropy(eta: Fraction, *, branching: int) -> Interval:
    """The entropy of one child among `branching` that is right with chance 1 - eta, all others being equally likely."""
    if eta == 0:
        return _NONE
    wrong, right = Interval.of(eta), Interval.of(1 - eta)
    return wrong * (Interval.of((branching - 1) / eta).ln()) - right * right.ln()


def level_risk(eta: Fraction, *, branching: int) -> Fraction:
    """The mean squared error per child of that law's own mean: the least that leaves this entropy."""
    return (1 - (1 - eta) ** 2 - eta**2 / (branching - 1)) / branching


def risk_needed(entropy: Fraction, *, branching: int) -> Fraction:
    """A lower bound on the mean squared error per child, in units of the heap squared, that leaves this entropy."""
    if entropy <= 0:
        return Fraction(0)
    on_curve = level_risk(least_failure(entropy, branching=branching), branching=branching)
    if branching == 2:
        return on_curve
    # From the law that is right with chance 1 - 1/k to the uniform one, the largest entropy follows a straight line.
    slope = Interval.of(branching - 1).ln() * (branching - 1) / (branching - 2)
    missing = (Interval.of(branching).ln() - Interval.of(entropy)) / slope
    on_line = Fraction((Interval.of(1 - Fraction(1, branching)) - missing).lo) / branching
    return max(on_curve, on_line)


def least_failure(entropy: Fraction, *, branching: int = 2) -> Fraction:
    """A chance of failure, at most 1/branching, whose `level_entropy` is surely not above this, and nearly equal."""
    goal = float(entropy)

    def exceeds(eta: float) -> bool:
        return eta * (math.log(branching - 1) - math.log(eta)) - (1 - eta) * math.log1p(-eta) > goal

    near = bisect(exceeds, 0.0, 1 / branching, middle=between)
    for bits in range(50, 0, -1):
        eta = Fraction(near) * (1 - Fraction(1, 2**bits))
        if level_entropy(eta, branching=branching).hi <= entropy:
            return eta
    return Fraction(0)


def packing_rmse(
    steps: int,
    *,
    levels: int,
    branching: int = 2,
    alpha: Fraction = Fraction(0),
    epsilon: Fraction | None = None,
    delta: Fraction = Fraction(0),
    rho: Fraction | None = None,
    d_in: int = 1,
) -> float:
    """A lower bound on the alpha-mRMSE of every mechanism within the budget at distance `d_in`, rounded down.

    For trees that contain a complete one with `levels` levels below the root. Any number of `steps` gives a bound; some
    are better than others.
    """
    nats, lost = information_limits(steps, epsilon=epsilon, delta=delta, rho=rho)
    entropy = entropy_needed(levels=levels, branching=branching, nats=nats, lost=lost)
    two_point = two_point_risk(steps, epsilon=epsilon, delta=delta, rho=rho)
    risk = max(two_point, risk_needed(entropy, branching=branching))
    return sqrt_down(risk * ((1 - alpha) * steps * d_in) ** 2)


def accuracy_is_impossible(
    steps: int,
    *,
    levels: int,
    eta: Fraction,
    epsilon: Fraction | None = None,
    delta: Fraction = Fraction(0),
    rho: Fraction | None = None,
) -> bool:
    """Whether no mechanism can tell, at every node with chance 1 - eta, a heap of this many steps from nobody."""
    if 2 * eta >= 1:
        return False
    nats, lost = information_limits(steps, epsilon=epsilon, delta=delta, rho=rho)
    if level_entropy(eta, branching=2).hi < entropy_needed(levels=levels, branching=2, nats=nats, lost=lost):
        return True
    if rho is not None:  # the divergence of the answer "heavy", which is right with chance 1 - eta in both inputs
        return bool((Interval.of((1 - eta) / eta).ln() * Interval.of(1 - 2 * eta)).lo > nats.hi)
    if steps * (epsilon or 0) > _HUGE:
        return False
    return bool((Interval.of(eta) * (1 + exp(steps * (epsilon or 0)))).hi < (1 - lost).lo)


def packing_threshold(steps: int, *, alpha: Fraction, d_in: int = 1) -> Fraction:
    """The threshold tau that (alpha, eta)-accuracy needs at least, where a heap of this many steps cannot be told."""
    return steps * d_in / (alpha * max(Fraction(2), 1 / (1 - alpha)))


# The gamma-2 norm of a tree. Proof: docs/proofs/factorization.md.


def balanced_gamma_squared(*, branching: int, depth: int) -> Fraction:
    """gamma_2 squared of a complete tree, exactly."""
    return Fraction(depth * (branching - 1) + 2, branching + 1)


def unbiased_rmse(
    gamma_squared: Fraction, *, epsilon: Fraction | None = None, rho: Fraction | None = None, d_in: int = 1
) -> float:
    """A lower bound on the worst node's RMSE of every unbiased mechanism within a pure or zCDP budget, rounded down."""
    if rho is None and epsilon is None:
        raise ValueError("epsilon or rho must be given")
    if (rho or 0) > 10 * _HUGE or (epsilon or 0) > 10 * _HUGE:
        return 0.0  # what the formula gives is smaller than any float
    spread = exp(2 * rho) - 1 if rho is not None else exp(epsilon or 0) - 2 + exp(-(epsilon or 0))
    # Its upper end alone: the other may be 0, where a budget is too small for so many digits.
    return sqrt_down(Fraction((Interval.of(gamma_squared * d_in**2) / Interval(spread.hi, spread.hi)).lo))
