"""Packing: lower bounds on the error of every private mechanism on a tree, rounded down.

An accurate mechanism distinguishes inputs that put a heap of people on different leaves; privacy limits how well it
can. Proof: docs/proofs/bounds.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, between, bisect, exp, sqrt_down
from opendp_tree.theorems.noise import group_delta

_ONE, _NONE = Interval.of(1), Interval.of(0)
_HUGE = 10**5
"""Beyond this epsilon nothing is hidden: the bounds are below the smallest float."""


def information_limits(
    steps: int, *, epsilon: Fraction | None = None, delta: Fraction | None = None, rho: Fraction | None = None
) -> tuple[Interval, Interval]:
    """How far apart the laws of releases can be after some steps of the budget: nats, and the mass lost beside them.

    Pure: y tanh(y / 2) with y = steps * epsilon. With delta: y, and the delta of group privacy. zCDP: steps**2 * rho.
    All functions that take a `budget` take it as epsilon, with or without delta, or as rho.
    """
    if rho is not None:
        return Interval.of(steps**2 * rho), _NONE
    if epsilon is None:
        raise ValueError("epsilon or rho must be given")
    if steps * epsilon > _HUGE:
        return Interval.of(steps * epsilon), _ONE if delta else _NONE
    if delta:
        return Interval.of(steps * epsilon), group_delta(Interval.of(delta), ratio=exp(epsilon), k=steps)
    grown = exp(steps * epsilon)
    return Interval.of(steps * epsilon) * ((grown - 1) / (grown + 1)), _NONE


def two_point_risk(steps: int, **budget: Fraction | None) -> Fraction:
    """A lower bound on the mean squared error, in units of the distance squared, of distinguishing two counts."""
    nats, lost = information_limits(steps, **budget)
    if lost.hi >= 1 or nats.hi > _HUGE:
        return Fraction(0)
    if budget.get("rho") is not None:
        return Fraction(((0 - nats).exp() / 4).lo)
    chance = 1 / (1 + exp(steps * (budget["epsilon"] or 0)))
    return Fraction(((1 - lost) * chance * (1 - chance)).lo)


def entropy_needed(*, levels: int, branching: int, nats: Interval, lost: Interval) -> Fraction:
    """A lower bound, in nats, on the average entropy, per level, of the child that a heap lies under."""
    if levels == 0 or lost.hi >= 1:
        return Fraction(0)
    kept = 1 - lost
    left = Interval.of(branching).ln() * levels + kept.ln() - nats
    return Fraction((kept * left / levels).lo) if left.lo > 0 else Fraction(0)


def level_entropy(eta: Fraction, *, branching: int) -> Interval:
    """The entropy of a child among `branching` that is right with probability 1 - eta, the others equally likely."""
    if eta == 0:
        return _NONE
    wrong, right = Interval.of(eta), Interval.of(1 - eta)
    return wrong * (Interval.of((branching - 1) / eta).ln()) - right * right.ln()


def level_risk(eta: Fraction, *, branching: int) -> Fraction:
    """The mean squared error per child of the mean of that law: the least with this entropy."""
    return (1 - (1 - eta) ** 2 - eta**2 / (branching - 1)) / branching


def risk_needed(entropy: Fraction, *, branching: int) -> Fraction:
    """A lower bound on the mean squared error per child, in units of the heap squared, at this entropy."""
    if entropy <= 0:
        return Fraction(0)
    on_curve = level_risk(least_failure(entropy, branching=branching), branching=branching)
    if branching == 2:
        return on_curve
    # From the law that is right with probability 1 - 1/k to the uniform one, the largest entropy is linear.
    slope = Interval.of(branching - 1).ln() * (branching - 1) / (branching - 2)
    missing = (Interval.of(branching).ln() - Interval.of(entropy)) / slope
    on_line = Fraction((Interval.of(1 - Fraction(1, branching)) - missing).lo) / branching
    return max(on_curve, on_line)


def least_failure(entropy: Fraction, *, branching: int = 2) -> Fraction:
    """A failure probability, at most 1/branching, whose `level_entropy` is nearly this and certainly not above it."""
    goal = float(entropy)

    def exceeds(eta: float) -> bool:
        return eta * (math.log(branching - 1) - math.log(eta)) - (1 - eta) * math.log1p(-eta) > goal

    near = bisect(exceeds, 0.0, 1 / branching, middle=between)
    for bits in range(40, 0, -1):  # `between` stops at this precision
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
    d_in: int = 1,
    **budget: Fraction | None,
) -> float:
    """A lower bound on the alpha-mRMSE of every mechanism within the budget at distance `d_in`, rounded down."""
    nats, lost = information_limits(steps, **budget)
    entropy = entropy_needed(levels=levels, branching=branching, nats=nats, lost=lost)
    risk = max(two_point_risk(steps, **budget), risk_needed(entropy, branching=branching))
    return sqrt_down(risk * ((1 - alpha) * steps * d_in) ** 2)


def accuracy_is_impossible(steps: int, *, levels: int, eta: Fraction, **budget: Fraction | None) -> bool:
    """Whether no mechanism can distinguish, with probability 1 - eta, a heap of this many steps from an empty node."""
    if 2 * eta >= 1:
        return False
    nats, lost = information_limits(steps, **budget)
    if level_entropy(eta, branching=2).hi < entropy_needed(levels=levels, branching=2, nats=nats, lost=lost):
        return True
    if budget.get("rho") is not None:  # the divergence of an answer that is right with probability 1 - eta
        return bool((Interval.of((1 - eta) / eta).ln() * Interval.of(1 - 2 * eta)).lo > nats.hi)
    spent = steps * (budget["epsilon"] or 0)
    if spent > _HUGE:
        return False
    return bool((Interval.of(eta) * (1 + exp(spent))).hi < (1 - lost).lo)


def packing_threshold(steps: int, *, alpha: Fraction, d_in: int = 1) -> Fraction:
    """The least threshold tau for (alpha, eta)-accuracy, if a heap of this many steps cannot be distinguished."""
    return steps * d_in / (alpha * max(Fraction(2), 1 / (1 - alpha)))


# The gamma-2 norm of a tree. Proof: docs/proofs/bounds.md.
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
        return 0.0  # the bound is smaller than any float
    spread = exp(2 * rho) - 1 if rho is not None else exp(epsilon or 0) - 2 + exp(-(epsilon or 0))
    # Only its upper end: the lower one may be 0 for a tiny budget.
    return sqrt_down(Fraction((Interval.of(gamma_squared * d_in**2) / Interval(spread.hi, spread.hi)).lo))
