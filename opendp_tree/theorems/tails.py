"""Tails of noise on the integers and of sums of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from opendp_tree.theorems.interval import Interval, Real, between, bisect, ceiling, exp, geometric_sum, least_whole

_NORMAL = NormalDist()

# Truncated integer Laplace noise: the privacy loss. Proof: docs/proofs/tree_noise.md.


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
    """The largest mass that one input puts on releases that an input at L1 distance `d_in` cannot produce."""
    return truncated_laplace_cdf(q, radius=radius, at=d_in - radius - 1)


def truncated_laplace_profile(q: Real, *, radius: int, d_in: int, log_ratio: Fraction, ratio: Real) -> Real:
    """The exact delta at every epsilon."""
    # Releases whose likelihood ratio exceeds `ratio` are a half-line: two values of the distribution function.
    if log_ratio >= d_in:
        return truncated_laplace_delta(q, radius=radius, d_in=d_in)
    cut = max(d_in - radius - 1, math.ceil((d_in - log_ratio) / 2) - 1)
    here = truncated_laplace_cdf(q, radius=radius, at=cut)
    there = truncated_laplace_cdf(q, radius=radius, at=cut - d_in)
    return here - ratio * there


# Tails of the discrete Gaussian law, P(z) proportional to exp(-z**2 / (2 * scale**2)). Proof: docs/proofs/noise.md.
LONGEST_SUM = 30
"""Up to this scale tails are summed term by term; beyond it, a bound in closed form is a few percent larger."""
_ROOT_OF_TWO_PI = Fraction(25066, 10000)  # rounded down


def gaussian_tail(scale: Fraction, at: int) -> Interval:
    """An interval that contains P(z >= at), or, for scales above `LONGEST_SUM`, whose upper end is not below it."""
    if at <= 0:
        return Interval.of(1) - gaussian_tail(scale, 1 - at) if scale <= LONGEST_SUM else Interval.of(1)
    if scale > LONGEST_SUM:  # P(z >= m) <= P(normal >= (m - 1) / scale), and Mills's bound on that
        steps = Fraction(at - 1) / scale
        density = exp(-(steps**2) / 2)
        return density / 2 if 5 * steps < 4 else density / Interval.of(_ROOT_OF_TWO_PI * steps)
    above, total = _sum_from(scale, at), _sum_from(scale, 1) * 2 + 1
    return above / total


@lru_cache(maxsize=1024)
def _sum_from(scale: Fraction, start: int) -> Interval:
    """The sum of exp(-z**2 / (2 scale**2)) over z >= start >= 1."""
    rate = 1 / (2 * scale**2)
    term, ratio, slower = exp(-rate * start**2), exp(-rate * (2 * start + 1)), exp(-2 * rate)
    first, total = term, Interval.of(0)
    while True:
        total, term = total + term, term * ratio
        # All further ratios are at most this one, so a geometric series bounds the rest.
        if ratio.hi < 1:
            left = term / (1 - ratio)
            if left.hi * 10**50 <= first.lo or left.hi == 0 or term.lo == 0:
                return Interval(total.lo, (total + left).hi)
        ratio = ratio * slower


# Pruned descent: the privacy loss of the shown nodes and their noisy counts. A node's tail is the probability that
# noise lifts a count of c to the threshold: P(noise >= threshold - c). Whatever one input can show and another cannot
# begins at a new node, and a path has one first new node. Proof: docs/proofs/pruned_descent.md.
def laplace_tail(q: Real, at: int, *, power: Real | None = None) -> Real:
    """P(z >= at) for integer Laplace noise, P(z) proportional to q**|z|."""
    beyond = (q ** _exponent(at) if power is None else power) / (1 + q)
    return beyond if at > 0 else 1 - beyond


def _exponent(at: int) -> int:
    """The distance from 0 to the lighter of the two sides of `at`."""
    return at if at > 0 else 1 - at


def noise_tail(noise: str, scale: Fraction, at: int) -> Interval:
    """P(z >= at) for "laplace" or "gaussian" noise on the integers, enclosed or bounded above."""
    if noise == "gaussian":
        return gaussian_tail(scale, at)
    return laplace_tail(exp(-1 / scale), at, power=exp(-_exponent(at) / scale))


@lru_cache(maxsize=4096)
def noise_bound(noise: str, scale: Fraction, chance: Fraction) -> int:
    """The least bound that noise exceeds with at most this probability, on both sides together."""
    if scale == 0:
        return 0
    if noise == "laplace":  # P(abs(z) > bound) is 2 * q**(bound + 1)/(1 + q)
        scales = (Interval.of(2 / chance) / (1 + exp(-1 / scale))).ln()
        return max(0, ceiling(scales * Interval.of(scale)) - 1)
    return least_whole(lambda above: gaussian_tail(scale, above).hi * 2 <= chance) - 1


def pruned_chances(miss: Fraction, depth: int) -> tuple[Fraction, Fraction]:
    """The shares of a miss probability: for a node's own noise, both sides together, and for each node on its path."""
    return miss * Fraction(9, 10), miss / 10 / depth


def hides_for_a_shift(scale: Fraction, tail: Interval) -> bool:
    """Whether 1 - tail is certainly at least exp(-1/scale), so that hiding a node costs no more than a shift."""
    rate = 1 / scale
    # 1 - exp(-x) >= x - x**2 / 2, which loses no digits where x is tiny.
    return bool(tail.hi <= rate - rate**2 / 2 or tail.hi <= (1 - exp(-rate)).lo)


def pruned_deltas(one: Real, all_at_once: Real, d_in: int) -> tuple[Real, Real]:
    """One level's delta at distance `d_in` is the larger: one new node of all units, or `d_in` nodes of one unit."""
    return all_at_once, 1 - (1 - one) ** d_in


def pruned_laplace_epsilon(d_in: Fraction, *, scales: Sequence[Fraction], tails: Sequence[Interval]) -> Interval:
    """The epsilon for Laplace noise of these scales, given the tails of a single unit at the levels' thresholds."""
    shifts, rest = Fraction(0), Interval.of(0)
    for scale, tail in zip(scales, tails, strict=True):
        if hides_for_a_shift(scale, tail):
            shifts += 1 / scale
        else:
            worse = max((1 / (1 - tail)).ln().hi, Interval.of(1 / scale).hi)
            rest = rest + Interval(worse, worse)
    return (Interval.of(shifts) + rest) * Interval.of(d_in)


# Bounds on rows per person from a noisy histogram: the cost and the guarantees. Proof: docs/proofs/quantiles.md.
_SINGLE = 8
"""Up to here every number of rows has its own bin; beyond, each octave has four."""


def bin_ends(most: int) -> tuple[int, ...]:
    """The largest number of rows of each bin; these are also the bounds that a report compares."""
    ends, step = list(range(1, _SINGLE + 1)), 1
    while ends[-1] < most:
        step = max(1, (ends[-1] & -ends[-1]) // 4 if ends[-1].bit_count() == 1 else step)
        ends.append(ends[-1] + step)
    return tuple(sorted({*(end for end in ends if end < most), most - 1, most} - {0}))


# Intervals around least-squares estimates: the number of standard deviations for a stated probability.
# Proof: docs/proofs/tree_noise.md.
def normal_multiplier(confidence: float) -> float:
    """For normal noise, exactly: the error is normal."""
    return -_NORMAL.inv_cdf((1 - confidence) / 2)


@lru_cache(maxsize=256)
def gaussian_multiplier(confidence: float, *, least_scale: float, measured: int) -> float:
    """For discrete Gaussian noise of scales of at least `least_scale` on `measured` nodes."""
    # The smaller of two sound bounds: sub-Gaussian, and smoothing by normal noise of scale tau, good for wide noise.
    eta = 1 - confidence
    best = math.sqrt(2 * math.log(2 / eta))
    for tenths in range(8, 41):
        tau = tenths / 10
        width = 2 * math.pi**2 * (least_scale * tau) ** 2 / (least_scale**2 + tau**2)
        if width < 1:  # narrow noise: smoothing says nothing
            continue
        excess = 2 * math.exp(-width) / (1 - math.exp(-width))
        ratio = tau / least_scale
        for quarters in range(17):
            # P(error > m) <= exp(measured * excess) * P(normal > (m - u) / wider) / P(normal >= -u / ratio)
            u = ratio * quarters / 4
            tail = eta * math.exp(-measured * excess) * _NORMAL.cdf(quarters / 4) / 2
            if tail > 1e-300:
                best = min(best, u - math.sqrt(1 + ratio**2) * _NORMAL.inv_cdf(tail))
    return best


_STEPS = 200
_SLACK = 1e-9  # far more than the error of the quadrature


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
    """Chernoff's bound: of all weighted sums with one variance, a single Laplace number has the largest moments."""
    # sinh(x)/x is at most its value at the largest x that a number on the integers can have.
    widest = math.asinh(1 / math.sqrt(2 * least_variance))
    stretch = 1 / (math.sqrt(2 * least_variance) * widest) if widest > 1e-9 else 1 + 1e-9
    rates = [place / 100 for place in range(1, 100)]
    return stretch / math.sqrt(2) * min((math.log(2 / eta) - math.log1p(-(rate**2))) / rate for rate in rates)


def laplace_sum_tail(multiple: float) -> float:
    """A bound on P(|S| > multiple * sd) for every weighted sum S of independent Laplace numbers."""
    # A Laplace number is normal with an exponential variance: Jensen's inequality on the tail's convex majorant.
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
    """A multiple whose tail bound is at most eta; infinite where floats are too coarse."""
    low, high = 0.1, 1.0
    while laplace_sum_tail(high) > eta:
        low, high = high, 2 * high
        if high > 100:
            return math.inf
    return bisect(lambda multiple: laplace_sum_tail(multiple) <= eta, low, high, middle=between)
