"""Classification: which nodes are above a threshold, and what telling so reveals.

Proof: docs/proofs/classification.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, exp, round_up, sqrt_up
from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon
from opendp_tree.theorems.truncated_laplace import truncated_laplace_delta

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
    """The epsilon of a sparse vector over the levels, and of noisy counts at each level where it stops.

    >>> classification_epsilon(scale=Fraction(8), query_scale=Fraction(8), count_scale=Fraction(4), cutoff=2)
    Fraction(1, 1)
    """
    stops = sparse_vector_epsilon(
        1, scale=scale, query_scale=query_scale, cutoff=cutoff, monotonic=True, refreshed=True
    )
    return stops + cutoff / count_scale


def classification_delta(q: Real, *, radius: int, cutoff: int) -> Real:
    """The delta: at each stop, the mass of noise that only one of two neighbours can show.

    >>> classification_delta(Fraction(1, 2), radius=1, cutoff=2)
    Fraction(1, 2)
    """
    return truncated_laplace_delta(q, radius=radius, d_in=1) * cutoff


def classification_cutoff(wanted: Round) -> int:
    """How many disjoint nodes can be above, if no tree weighs more than the mass; 0 if none can.

    Nodes above weigh at least (1 - alpha) * threshold; more than half of the threshold, if the sparse vector is not off
    by more than that. So the cutoff does not grow beyond what half would give, as alpha goes to 1.

    >>> tenth = Fraction(1, 10)
    >>> classification_cutoff(Round(Fraction(250), tenth, tenth, Fraction(100), tenth, tenth))
    2
    """
    if wanted.mass < wanted.threshold:
        return 0
    return math.floor(wanted.mass / ((1 - min(wanted.alpha, _HALF)) * wanted.threshold))


def classifier(wanted: Round, *, depth: int) -> Classifier:
    """The noise that a round asks for, in a tree with `depth` levels. It never costs more than the round grants.

    >>> run = classifier(Round(*map(Fraction, (900, 0.1, 0.25, 800, 0.5, 1e-6))), depth=4)
    >>> run.cutoff, run.scale, run.count_scale, run.radius, run.margin
    (1, 8.0, 4.0, 47, 62)
    """
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

    >>> least_radius(Fraction(2), Fraction(1, 10**9))
    39
    """
    q = exp(-1 / scale)
    needed = ((1 - q) / Interval.of(delta) + 2 * q) / (1 + q)
    return max(1, _ceil(needed.ln() * Interval.of(scale)))


def least_half_margin(scale: Fraction, eta: Fraction, *, draws: int) -> int:
    """The smallest h such that all of `draws` Laplace draws are within h, except with probability eta.

    P(abs(z) > h) is 2 * q**(h + 1)/(1 + q).

    >>> least_half_margin(Fraction(8), Fraction(1, 10), draws=5)
    31
    """
    tail = Interval.of(2 * draws / eta) / (1 + exp(-1 / scale))
    return max(0, _ceil(tail.ln() * Interval.of(scale)) - 1)


def _ceil(value: Interval) -> int:
    return int(value.hi.to_integral_value(ROUND_CEILING))


def classification_threshold(wanted: Round, *, depth: int) -> float:
    """The threshold from which on the paper guarantees accuracy, rounded up. It suffices; it is not needed.

    >>> round(classification_threshold(Round(*map(Fraction, (900, 0.1, 0.25, 800, 0.5, 1e-6))), depth=4))
    1740
    """
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
