"""Integer Laplace noise: what it reveals, where it ends, and how far sums of it reach."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from opendp_tree.theorems.interval import Real, between, bisect, geometric_sum

# Noise on every node of a tree, of one scale for each level: what the noisy counts reveal.
# Proof: docs/proofs/tree_noise.md.


def laplace_epsilon(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise: a scale for each set of counts that moves by at most `d_in` in L1.

    The sets are the levels of a tree, or one histogram.
    """
    return d_in * sum((count / scale for scale, count in Counter(scales).items()), Fraction(0))


# Truncated integer Laplace noise: what its release reveals. Proof: docs/proofs/truncated_laplace.md.


def truncated_laplace_cdf(q: Real, *, radius: int, at: int) -> Real:
    """The probability that the noise is at most `at`."""
    if at < -radius:
        return q * 0
    if at >= radius:
        return q**0
    total = geometric_sum(q, radius + 1) + q * geometric_sum(q, radius)
    if at < 0:
        return q**-at * geometric_sum(q, radius + at + 1) / total
    return (q * geometric_sum(q, radius) + geometric_sum(q, at + 1)) / total


def truncated_laplace_delta(q: Real, *, radius: int, d_in: int) -> Real:
    """The largest mass that one input puts on releases that an input at L1 distance `d_in` cannot produce.

    Together with epsilon = d_in/scale this is the exact (epsilon, delta) of the mechanism.
    """
    return truncated_laplace_cdf(q, radius=radius, at=d_in - radius - 1)


def truncated_laplace_profile(q: Real, *, radius: int, d_in: int, log_ratio: Fraction, ratio: Real) -> Real:
    """The exact delta at every epsilon.

    The releases on which the likelihood ratio exceeds `ratio` form a half-line, so the hockey-stick sum
    is a difference of two values of the distribution function. From epsilon = d_in/scale on it is `delta`.
    """
    if log_ratio >= d_in:
        return truncated_laplace_delta(q, radius=radius, d_in=d_in)
    cut = max(d_in - radius - 1, math.ceil((d_in - log_ratio) / 2) - 1)
    here = truncated_laplace_cdf(q, radius=radius, at=cut)
    there = truncated_laplace_cdf(q, radius=radius, at=cut - d_in)
    return here - ratio * there


# Which bound on the rows of a person? What a noisy histogram of rows per person costs, and what it proves.
# Proof: docs/proofs/bound_report.md.


_SINGLE = 8
"""Up to here every number of rows has a bin of its own; beyond, each octave has four."""


def bin_ends(most: int) -> tuple[int, ...]:
    """The largest number of rows of each bin, which are also the bounds that a report speaks of.

    1 to 8 each have a bin, then there are four an octave. So does `most`: everybody who has more is there.
    """
    ends, step = list(range(1, _SINGLE + 1)), 1
    while ends[-1] < most:
        step = max(1, (ends[-1] & -ends[-1]) // 4 if ends[-1].bit_count() == 1 else step)
        ends.append(ends[-1] + step)
    return tuple(sorted({*(end for end in ends if end < most), most - 1, most} - {0}))


def rows_per_unit_l1(d_in: int, *, changed: bool = False) -> int:
    """The L1 distance between histograms of rows per person, of frames that differ in `d_in` people.

    A person is in one bin. Where people are changed instead of added or removed, one goes and another comes.
    """
    return d_in * (2 if changed else 1)


def margin_ends(share: Fraction, *, bound: int, first: int, last: int) -> tuple[Fraction, Fraction]:
    """The least and the largest of `min(x, bound) - share * x` over the numbers of rows x of one bin.

    The bin must not reach across the bound: the margin is then linear on it, and extreme at its ends. Over all people
    the margins add up to 0 if `share` is the share of rows that the bound keeps.
    """
    ends = [min(x, bound) - share * x for x in (first, last)]
    return min(ends), max(ends)


def laplace_moment(ratio: Real, tilt: Real) -> Real:
    """Mean of `tilt**z` for an integer z with P(z) proportional to `ratio**|z|`; tilt is between ratio and 1/ratio."""
    missed = 1 - ratio
    return missed * missed / ((1 - ratio * tilt) * (1 - ratio / tilt))


def tail_chance(ratio: Real, tilt: Real, *, weights: Sequence[int], reach: int) -> Real:
    """At most this is the chance that a weighted sum of such integers is `reach` or more, for any tilt above 1."""
    chance = tilt**0
    for weight in weights:
        chance = chance * laplace_moment(ratio, tilt**weight)
    return chance / tilt**reach


# Intervals around least-squares estimates: how many standard deviations hold the truth with a stated probability.
# Proof: docs/proofs/consistent.md.


_NORMAL = NormalDist()
_STEPS = 200
_SLACK = 1e-9  # far more than the quadrature errs


@lru_cache(maxsize=256)
def laplace_multiplier(confidence: float, *, least_variance: float) -> float:
    """For Laplace noise, on the integers or on the reals, of variances of at least `least_variance`."""
    eta = 1 - confidence
    best = min(1 / math.sqrt(eta), _laplace_chernoff(eta, least_variance))  # or Chebyshev
    wider = math.sqrt(1 + 1 / (2 * least_variance))
    for step in range(13):
        u = step / 4 / math.sqrt(least_variance)
        kept = max(0.5, 1 - math.exp(-2 * (step / 4) ** 2))
        best = min(best, u + wider * _laplace_quantile(eta * kept))
    return best


def _laplace_chernoff(eta: float, least_variance: float) -> float:
    """Chernoff's bound: of all weighted sums of one variance, a single Laplace number has the largest moments.

    sinh(x)/x is at most its value at the largest x that a number on the integers can have.
    """
    widest = math.asinh(1 / math.sqrt(2 * least_variance))
    stretch = 1 / (math.sqrt(2 * least_variance) * widest) if widest > 1e-9 else 1 + 1e-9
    rates = [place / 100 for place in range(1, 100)]
    return stretch / math.sqrt(2) * min((math.log(2 / eta) - math.log1p(-(rate**2))) / rate for rate in rates)


def laplace_sum_tail(multiple: float) -> float:
    """A bound on P(|S| > multiple * sd) for every weighted sum S of independent Laplace numbers.

    A Laplace number is normal with an exponential variance. The normal tail as a function of the variance is replaced
    by its least convex majorant of the form "itself, then a tangent", and Jensen's inequality does the rest.
    """
    turn = multiple**2 / 3
    step = turn / _STEPS
    total = 0.0
    for place in range(1, _STEPS + 1):  # Simpson's rule; the integrand vanishes at 0
        at = place * step
        weight = 1 if place == _STEPS else 4 if place % 2 else 2
        total += weight * math.erfc(multiple / math.sqrt(2 * at)) * math.exp(-at)
    tangent = math.erfc(math.sqrt(1.5)) + _NORMAL.pdf(math.sqrt(3)) * math.sqrt(3) / turn
    return min(1.0, total * step / 3 + math.exp(-turn) * tangent + _SLACK)


def _laplace_quantile(eta: float) -> float:
    """A multiple whose tail bound is at most eta; infinite where floats cannot tell."""
    low, high = 0.1, 1.0
    while laplace_sum_tail(high) > eta:
        low, high = high, 2 * high
        if high > 100:
            return math.inf
    return bisect(lambda multiple: laplace_sum_tail(multiple) <= eta, low, high, middle=between)
