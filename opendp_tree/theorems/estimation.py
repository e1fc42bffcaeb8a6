"""Estimation: the geometric ladder of the multiplicative estimator, and the threshold that it can promise.

Proof: docs/proofs/estimation.md.
"""

from __future__ import annotations

from fractions import Fraction

from opendp_tree.theorems.classification import Round, log_of_counts
from opendp_tree.theorems.interval import Interval, round_up
from opendp_tree.theorems.reduction import Ladder

MOST_ROUNDS = 10_000


def ladder_slack(alpha: Fraction) -> Fraction:
    """The slack of each round: the paper's beta.

    >>> ladder_slack(Fraction(1, 2))
    Fraction(1, 17)
    """
    return alpha / (6 + 5 * alpha)


def ladder_ratio(alpha: Fraction) -> Fraction:
    """By how much each round's mass exceeds that of the round below: r = (1 + alpha)(1 - beta)/(1 + beta).

    >>> ladder_ratio(Fraction(1, 2))
    Fraction(4, 3)
    """
    return 1 + 2 * alpha / 3


def ladder_normaliser(alpha: Fraction) -> Fraction:
    """C, the sum over all i >= 1 of i * r**(1 - i).

    >>> ladder_normaliser(Fraction(1, 2))
    Fraction(16, 1)
    """
    return ((3 + 2 * alpha) / (2 * alpha)) ** 2


def estimation_threshold(*, alpha: Fraction, epsilon: Fraction, delta: Fraction, eta: Fraction, depth: int) -> float:
    """A tau_min that suffices for the ladder of this budget, rounded up.

    >>> half = Fraction(1, 2)
    >>> round(estimation_threshold(alpha=half, epsilon=Fraction(1), delta=Fraction(1e-6), eta=half, depth=32))
    432884
    """
    beta = ladder_slack(alpha)
    levels = Interval.of(4 * depth / eta).ln() * 48
    counts = log_of_counts(epsilon, delta) * 6
    largest = max(Fraction(levels.hi), Fraction(counts.hi))
    factor = 2 * (1 + alpha) * (1 - beta**2) / beta * ladder_normaliser(alpha)
    return round_up(factor * largest / (alpha * epsilon))


def geometric_ladder(
    *,
    alpha: Fraction,
    tau_min: Fraction,
    epsilon: Fraction,
    delta: Fraction,
    eta: Fraction,
    mass: Fraction,
    largest_scale: Fraction,
) -> Ladder:
    """The ladder from alpha * tau_min up to the first rung of at least `mass`, which spends epsilon and delta in all.

    It ends early where the noise would exceed `largest_scale`.

    >>> quarter = Fraction(1, 4)
    >>> ladder = geometric_ladder(alpha=2 * quarter, tau_min=Fraction(900), epsilon=Fraction(1), delta=quarter,
    ...     eta=quarter, mass=Fraction(1000), largest_scale=Fraction(2**50))
    >>> [int(mass) for mass in ladder.masses], sum(step.epsilon for step in ladder.rounds)
    ([450, 600, 800, 1066], Fraction(1, 1))
    """
    beta, ratio = ladder_slack(alpha), ladder_ratio(alpha)
    masses, weights = [alpha * tau_min], list[Fraction]()
    decay = float(1 / ratio)
    while masses[-1] < mass and len(weights) < MOST_ROUNDS:
        place = len(weights) + 1
        weight = Fraction(place * decay ** (place - 1))
        if weight * epsilon * largest_scale < 4 * ladder_normaliser(alpha):
            break
        weights.append(weight)
        # A float, so that numbers stay short; rounded down, so that no rung is too far from the one below.
        masses.append(-Fraction(round_up(-masses[-1] * ratio)))
    total = sum(weights, Fraction(0))
    rounds = tuple(
        Round(
            mass=masses[place],
            eta=eta / 2**place,
            alpha=beta,
            threshold=masses[place - 1] / (1 + beta),
            epsilon=epsilon * weight / total,
            delta=delta * weight / total,
        )
        for place, weight in enumerate(weights, start=1)
    )
    return Ladder(masses[0], rounds)
