"""The paper's algorithms: classification, reduction, estimation and clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, exp, round_up, sqrt_up
from opendp_tree.theorems.laplace import truncated_laplace_delta
from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon

# Classification: which nodes are above a threshold, and what telling so reveals.
# Proof: docs/proofs/classification.md.


_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Round:
    """What one classification is asked for: the paper's (M, eta, alpha, tau, epsilon, delta).

    Theorems take fractions, and so are exact. `make_ladder_estimator` reads ints and floats as well.
    """

    mass: Fraction
    """M: no tree of the forest is expected to weigh more."""
    eta: Fraction
    alpha: Fraction
    threshold: Fraction
    epsilon: Fraction
    delta: Fraction

    @property
    def slack(self) -> Fraction:
        """How far a comparison may be off."""
        return self.alpha * self.threshold


@dataclass(frozen=True)
class Classifier:
    """What is really run for a round: integers, and noise scales that are exactly the floats that noise is drawn at.

    A cutoff of 0 runs nothing: every node is below.
    """

    threshold: int
    cutoff: int
    scale: float
    """The scale of the sparse vector's two noises."""
    count_scale: float
    radius: int
    margin: int
    """How far the sparse vector may be off, except with probability eta: the paper's Delta."""

    @property
    def count_threshold(self) -> int:
        """What a noisy count at the stopped level is compared with."""
        return self.threshold - self.margin - self.radius

    @property
    def error(self) -> int:
        """How far a comparison may be off, except with probability eta."""
        return self.margin + 2 * self.radius

    def left(self, mass: Fraction) -> Fraction:
        """What a node that is not yet above when the answers "above" run out weighs at most, but for chance eta.

        It is disjoint from the nodes that the answers were about, in a tree of `mass`.

        >>> Classifier(800, 2, scale=8.0, count_scale=4.0, radius=47, margin=62).left(Fraction(1600))
        Fraction(124, 1)
        """
        return mass - self.cutoff * (self.threshold - self.margin)

    def is_accurate(self, wanted: Round) -> bool:
        """Whether it keeps what its round asks for: no comparison is too far off, and no heavy node is left.

        >>> wanted = Round(*map(Fraction, (900, 0.1, 0.25, 800, 0.5, 1e-6)))
        >>> classifier(wanted, depth=4).is_accurate(wanted)
        True
        """
        heavy = (1 + wanted.alpha) * wanted.threshold
        return self.error <= wanted.slack and self.left(wanted.mass) < heavy

    def loss(self) -> tuple[Fraction, Interval]:
        """The exact epsilon and delta of one classification of a forest, at distance 1."""
        if self.cutoff == 0:
            return Fraction(0), Interval.of(0)
        scale, count_scale = Fraction(self.scale), Fraction(self.count_scale)
        return (
            classification_epsilon(scale=scale, query_scale=scale, count_scale=count_scale, cutoff=self.cutoff),
            classification_delta(exp(-1 / count_scale), radius=self.radius, cutoff=self.cutoff),
        )


def classification_epsilon(*, scale: Fraction, query_scale: Fraction, count_scale: Fraction, cutoff: int) -> Fraction:
    """The epsilon of a sparse vector over the levels, and of noisy counts at each level where it stops."""
    stops = sparse_vector_epsilon(
        1, scale=scale, query_scale=query_scale, cutoff=cutoff, monotonic=True, refreshed=True
    )
    return stops + cutoff / count_scale


def classification_delta(q: Real, *, radius: int, cutoff: int) -> Real:
    """The delta: at each stop, the mass of noise that only one of two neighbours can show."""
    return truncated_laplace_delta(q, radius=radius, d_in=1) * cutoff


def classification_cutoff(wanted: Round) -> int:
    """How many disjoint nodes can be above, if no tree weighs more than the mass; 0 if none can.

    Nodes above weigh at least (1 - alpha) * threshold; more than half of the threshold, if the sparse vector is not off
    by more than that. So the cutoff does not grow beyond what half would give, as alpha goes to 1.
    """
    if wanted.mass < wanted.threshold:
        return 0
    return math.floor(wanted.mass / ((1 - min(wanted.alpha, _HALF)) * wanted.threshold))


def classifier(wanted: Round, *, depth: int) -> Classifier:
    """The noise that a round asks for, in a tree with `depth` levels. It never costs more than the round grants."""
    cutoff = classification_cutoff(wanted)
    threshold = math.ceil(wanted.threshold)
    if cutoff == 0:
        return Classifier(threshold, 0, 0.0, 0.0, 0, 0)
    # Half of epsilon for the stops, half for the counts, as in the paper.
    scale, count_scale = round_up(4 * cutoff / wanted.epsilon), round_up(2 * cutoff / wanted.epsilon)
    radius = least_radius(Fraction(count_scale), wanted.delta / cutoff)
    half = least_half_margin(Fraction(scale), wanted.eta, draws=depth + min(cutoff, depth))
    return Classifier(threshold, cutoff, scale, count_scale, radius, 2 * half)


def least_radius(scale: Fraction, delta: Fraction) -> int:
    """The smallest radius at which truncated Laplace noise loses at most `delta` at distance 1, in closed form.

    P(noise = radius) <= delta is q**-radius >= ((1 - q)/delta + 2q)/(1 + q).
    """
    q = exp(-1 / scale)
    needed = ((1 - q) / Interval.of(delta) + 2 * q) / (1 + q)
    return max(1, _ceil(needed.ln() * Interval.of(scale)))


def least_half_margin(scale: Fraction, eta: Fraction, *, draws: int) -> int:
    """The smallest h such that all of `draws` Laplace draws are within h, except with probability eta.

    P(abs(z) > h) is 2 * q**(h + 1)/(1 + q).
    """
    tail = Interval.of(2 * draws / eta) / (1 + exp(-1 / scale))
    return max(0, _ceil(tail.ln() * Interval.of(scale)) - 1)


def _ceil(value: Interval) -> int:
    return int(value.hi.to_integral_value(ROUND_CEILING))


def classification_threshold(wanted: Round, *, depth: int) -> float:
    """The threshold from which on the paper guarantees accuracy, rounded up. It suffices; it is not needed."""
    levels = Interval.of(2 * depth / wanted.eta).ln() * 48
    counts = log_of_counts(wanted.epsilon, wanted.delta) * 6
    largest = max(Fraction(levels.hi), Fraction(counts.hi))
    return sqrt_up(2 * wanted.mass / (wanted.alpha * wanted.epsilon) * largest)


def log_of_counts(epsilon: Fraction, delta: Fraction) -> Interval:
    """The paper's ln(1 + (e**(epsilon/2) - 1)/delta); for a huge epsilon a number above it.

    >>> round(round_up(log_of_counts(Fraction(1), Fraction(1e-6))), 3)
    13.383
    """
    if epsilon > 2000:  # e**(epsilon/2)/delta is larger
        return Interval.of(epsilon / 2) - Interval.of(delta).ln()
    return (1 + (exp(epsilon / 2) - 1) / Interval.of(delta)).ln()


# Reduction: estimates from a ladder of classifications. Proof: docs/proofs/reduction.md.


@dataclass(frozen=True)
class Ladder:
    """Rounds of classification from the lowest up, and the estimate of what no round finds above."""

    base: Fraction
    """The estimate of nodes that no round finds above: M_0 of the paper."""
    rounds: tuple[Round, ...]

    @property
    def masses(self) -> tuple[Fraction, ...]:
        """M_0, M_1, ...: the estimates, of which M_i is given to the nodes that round i finds above."""
        return self.base, *(step.mass for step in self.rounds)

    @property
    def alpha(self) -> Fraction:
        """The relative error that the ladder allows a node that some round finds above."""
        return max((_spread(step) - 1 for step in self.rounds), default=Fraction(0))

    @property
    def eta(self) -> Fraction:
        """The probability with which a node's estimate may fail."""
        return sum((step.eta for step in self.rounds), Fraction(0))

    def is_connected(self) -> bool:
        """Whether each round's mass covers what the round above it leaves: M_i >= (1 + alpha) * tau of the next.

        >>> half, one = Fraction(1, 2), Fraction(1)
        >>> step = Round(Fraction(30), half, half, Fraction(10), one, half)
        >>> Ladder(Fraction(15), (step,)).is_connected(), Ladder(Fraction(14), (step,)).is_connected()
        (True, False)
        """
        covered = zip(self.masses, self.rounds, strict=False)
        return all(mass >= (1 + step.alpha) * step.threshold for mass, step in covered) and all(
            step.mass >= (1 - step.alpha) * step.threshold for step in self.rounds
        )


def _spread(step: Round) -> Fraction:
    return step.mass / ((1 - step.alpha) * step.threshold)


def reduction_loss(classifiers: Iterable[Classifier]) -> tuple[Fraction, Interval]:
    """What a ladder's classifications reveal together: the sums, by basic composition."""
    epsilon, delta = Fraction(0), Interval.of(0)
    for run in classifiers:
        more_epsilon, more_delta = run.loss()
        epsilon, delta = epsilon + more_epsilon, delta + more_delta
    return epsilon, delta


# Estimation: the geometric ladder of the multiplicative estimator, and the threshold that it can promise.
# Proof: docs/proofs/estimation.md.


MOST_ROUNDS = 10_000


def ladder_slack(alpha: Fraction) -> Fraction:
    """The slack of each round: the paper's beta."""
    return alpha / (6 + 5 * alpha)


def ladder_ratio(alpha: Fraction) -> Fraction:
    """By how much each round's mass exceeds that of the round below: r = (1 + alpha)(1 - beta)/(1 + beta)."""
    return 1 + 2 * alpha / 3


def ladder_normaliser(alpha: Fraction) -> Fraction:
    """C, the sum over all i >= 1 of i * r**(1 - i)."""
    return ((3 + 2 * alpha) / (2 * alpha)) ** 2


def estimation_threshold(*, alpha: Fraction, epsilon: Fraction, delta: Fraction, eta: Fraction, depth: int) -> float:
    """A tau_min that suffices for the ladder of this budget, rounded up."""
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


# Clipping: estimates moved into intervals that always hold the truth.
# Proof: docs/proofs/clipping.md.


def clipping_delta(q: Real, *, radius: int, d_in: int, depth: int) -> Real:
    """The delta: the chance that some level shows noise that only one of the two inputs can show."""
    return 1 - (1 - truncated_laplace_delta(q, radius=radius, d_in=d_in)) ** depth


def clipped_mrmse(*, alpha: Fraction, tau: Fraction, eta: Fraction, radius: int) -> float:
    """A bound on the alpha-mRMSE of clipped estimates that were (alpha, eta)-accurate above tau, rounded up."""
    return sqrt_up((alpha * tau) ** 2 + eta * 4 * radius**2)
