"""Discrete Gaussian noise on the integers: how it is drawn, what it reveals, how far sums of it reach."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from opendp_tree.theorems.interval import Interval, exp

# The discrete Gaussian law on the integers: P(z) proportional to exp(-z**2 / (2 * scale**2)).
# Proof: docs/proofs/noise.md.


_NORMAL = NormalDist()
LONGEST_SUM = 30
"""Up to this scale tails are summed term by term; beyond, a bound in closed form is a few percent away."""
_ROOT_OF_TWO_PI = Fraction(25066, 10000)  # rounded down


def proposal_scale(scale: Fraction) -> int:
    """The scale of the Laplace law that Gaussian numbers are chosen from: the best integer."""
    return math.floor(scale) + 1


def gaussian_acceptance(magnitude: int, scale: Fraction) -> Interval:
    """The probability with which a Laplace number of this magnitude is kept."""
    distance = (magnitude - scale**2 / proposal_scale(scale)) / scale
    return exp(-(distance**2) / 2)


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
        # All further ratios are at most this one, so a geometric series bounds what is left.
        if ratio.hi < 1:
            left = term / (1 - ratio)
            if left.hi * 10**50 <= first.lo or left.hi == 0 or term.lo == 0:
                return Interval(total.lo, (total + left).hi)
        ratio = ratio * slower


# Noise on every node of a tree. Proof: docs/proofs/tree_noise.md.


def gaussian_rho(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The rho, in zero-concentrated privacy, of discrete Gaussian noise with these scales on the measured levels."""
    return Fraction(d_in) ** 2 / 2 * sum((count / scale**2 for scale, count in Counter(scales).items()), Fraction(0))


# Intervals around least-squares estimates: how many standard deviations hold the truth.
# Proof: docs/proofs/consistent.md.


def normal_multiplier(confidence: float) -> float:
    """For normal noise, exactly: the error is normal."""
    return -_NORMAL.inv_cdf((1 - confidence) / 2)


@lru_cache(maxsize=256)
def gaussian_multiplier(confidence: float, *, least_scale: float, measured: int) -> float:
    """For discrete Gaussian noise of scales of at least `least_scale` on `measured` nodes.

    The smaller of two sound bounds: sub-Gaussian, and smoothing by normal noise of scale tau, which costs little
    where the noise is wide. It tends to the normal multiplier as the scale grows.
    """
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
