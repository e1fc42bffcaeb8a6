"""The paper's algorithms: classification, reduction, estimation and clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, ceiling, exp, round_up, sqrt_up
from opendp_tree.theorems.noise import sparse_vector_epsilon
from opendp_tree.theorems.tails import noise_bound, truncated_laplace_delta

# Classification: which nodes are above a threshold, and the privacy loss. Proof: docs/proofs/paper.md.


@dataclass(frozen=True)
class Round:
    """The requirements of one classification: the paper's (M, eta, alpha, tau, epsilon, delta).

    Theorems take fractions, and so are exact. `make_ladder_estimator` reads ints and floats as well.
    """

    mass: Fraction
    """M: the largest weight expected of a tree of the forest."""
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
    """What is run for a round: integers, and the exact floats at which noise is drawn."""

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
        """The threshold for noisy counts at a level where the sparse vector stops."""
        return self.threshold - self.margin - self.radius

    @property
    def error(self) -> int:
        """How far a comparison may be off, except with probability eta."""
        return self.margin + 2 * self.radius

    def left(self, mass: Fraction) -> Fraction:
        """The largest weight, except with probability eta, of a node not above when the answers "above" run out."""
        return mass - self.cutoff * (self.threshold - self.margin)

    def is_accurate(self, wanted: Round) -> bool:
        """Whether it meets its round's requirements: comparisons err little enough, and no heavy node is left."""
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
    """The epsilon of a sparse vector over the levels and of the noisy counts at each level where it stops."""
    noise = {"scale": scale, "query_scale": query_scale}
    return sparse_vector_epsilon(1, **noise, cutoff=cutoff, monotonic=True, refreshed=True) + cutoff / count_scale


def classification_delta(q: Real, *, radius: int, cutoff: int) -> Real:
    """The delta: for each stop, the mass of noise that only one of two neighbours can produce."""
    return truncated_laplace_delta(q, radius=radius, d_in=1) * cutoff


def classification_cutoff(wanted: Round) -> int:
    """The number of disjoint nodes that can be above, if no tree weighs more than the mass."""
    # Nodes above weigh at least (1 - alpha) * threshold, and more than half of it if the sparse vector errs by less.
    if wanted.mass < wanted.threshold:
        return 0
    return math.floor(wanted.mass / ((1 - min(wanted.alpha, Fraction(1, 2))) * wanted.threshold))


def classifier(wanted: Round, *, depth: int) -> Classifier:
    """The noise for a round in a tree with `depth` levels. It never costs more than the round's budget."""
    cutoff = classification_cutoff(wanted)
    threshold = math.ceil(wanted.threshold)
    if cutoff == 0:
        return Classifier(threshold, 0, 0.0, 0.0, 0, 0)
    # Half of epsilon for the stops, half for the counts, as in the paper.
    scale, count_scale = round_up(4 * cutoff / wanted.epsilon), round_up(2 * cutoff / wanted.epsilon)
    radius = least_radius(Fraction(count_scale), wanted.delta / cutoff)
    half = noise_bound("laplace", Fraction(scale), wanted.eta / (depth + min(cutoff, depth)))  # for all draws together
    return Classifier(threshold, cutoff, scale, count_scale, radius, 2 * half)


def least_radius(scale: Fraction, delta: Fraction) -> int:
    """The smallest radius at which truncated Laplace noise loses at most `delta` at distance 1, in closed form."""
    # P(noise = radius) <= delta is q**-radius >= ((1 - q)/delta + 2q)/(1 + q).
    q = exp(-1 / scale)
    needed = ((1 - q) / Interval.of(delta) + 2 * q) / (1 + q)
    return max(1, ceiling(needed.ln() * Interval.of(scale)))


def classification_threshold(wanted: Round, *, depth: int) -> float:
    """A threshold that is sufficient for accuracy by the paper, rounded up; smaller ones may do."""
    largest = larger_logarithm(2 * depth / wanted.eta, wanted.epsilon, wanted.delta)
    return sqrt_up(2 * wanted.mass / (wanted.alpha * wanted.epsilon) * largest)


def larger_logarithm(levels: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The paper's max(48 ln(levels), 6 ln(1 + (e**(epsilon/2) - 1)/delta)), rounded up; more for a huge epsilon."""
    if epsilon > 2000:  # e**(epsilon/2)/delta is larger
        counts = Interval.of(epsilon / 2) - Interval.of(delta).ln()
    else:
        counts = (1 + (exp(epsilon / 2) - 1) / Interval.of(delta)).ln()
    return max(Fraction((Interval.of(levels).ln() * 48).hi), Fraction((counts * 6).hi))


# Reduction: estimates from a ladder of classifications.
@dataclass(frozen=True)
class Ladder:
    """Rounds of classification from the lowest up, and the estimate of nodes that no round finds above."""

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
        spreads = (step.mass / ((1 - step.alpha) * step.threshold) for step in self.rounds)
        return max((spread - 1 for spread in spreads), default=Fraction(0))

    @property
    def eta(self) -> Fraction:
        """The probability with which a node's estimate may fail."""
        return sum((step.eta for step in self.rounds), Fraction(0))

    def is_connected(self) -> bool:
        """Whether each mass covers what the next round leaves: M_i >= (1 + alpha) * tau of the next."""
        covered = zip(self.masses, self.rounds, strict=False)
        return all(mass >= (1 + step.alpha) * step.threshold for mass, step in covered) and all(
            step.mass >= (1 - step.alpha) * step.threshold for step in self.rounds
        )


def reduction_loss(classifiers: Iterable[Classifier]) -> tuple[Fraction, Interval]:
    """The joint loss of a ladder's classifications: the sums, by basic composition."""
    losses = [run.loss() for run in classifiers]
    return sum((epsilon for epsilon, _ in losses), Fraction(0)), sum((delta for _, delta in losses), Interval.of(0))


# Estimation: the geometric ladder of the multiplicative estimator, and the threshold that it guarantees.
MOST_ROUNDS = 10_000


def ladder_slack(alpha: Fraction) -> Fraction:
    """The slack of each round: the paper's beta."""
    return alpha / (6 + 5 * alpha)


def ladder_ratio(alpha: Fraction) -> Fraction:
    """The ratio of each round's mass to that of the round below: r = (1 + alpha)(1 - beta)/(1 + beta)."""
    return 1 + 2 * alpha / 3


def ladder_normaliser(alpha: Fraction) -> Fraction:
    """C, the sum over all i >= 1 of i * r**(1 - i)."""
    return ((3 + 2 * alpha) / (2 * alpha)) ** 2


def estimation_threshold(*, alpha: Fraction, epsilon: Fraction, delta: Fraction, eta: Fraction, depth: int) -> float:
    """A tau_min that is sufficient for the ladder of this budget, rounded up."""
    beta = ladder_slack(alpha)
    largest = larger_logarithm(4 * depth / eta, epsilon, delta)
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
    """The ladder from alpha * tau_min up to the first rung of at least `mass`, or to the largest scale."""
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
def clipping_delta(q: Real, *, radius: int, d_in: int, depth: int) -> Real:
    """The delta: the probability that some level's noise is one that only one of the two inputs can produce."""
    return 1 - (1 - truncated_laplace_delta(q, radius=radius, d_in=d_in)) ** depth
