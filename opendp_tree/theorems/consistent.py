"""Intervals around least-squares estimates: how many standard deviations hold the truth with a stated probability.

An estimate's error is a weighted sum of independent noises. `multiplier` times its standard deviation is exceeded with
probability at most 1 - confidence, whatever the weights are. Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from opendp_tree.theorems.bisection import between, bisect

_NORMAL = NormalDist()
_STEPS = 200
_SLACK = 1e-9  # far more than the quadrature errs


def normal_multiplier(confidence: float) -> float:
    """For normal noise, exactly: the error is normal.

    >>> round(normal_multiplier(0.95), 4)
    1.96
    """
    return -_NORMAL.inv_cdf((1 - confidence) / 2)


@lru_cache(maxsize=256)
def gaussian_multiplier(confidence: float, *, least_scale: float, measured: int) -> float:
    """For discrete Gaussian noise of scales of at least `least_scale` on `measured` nodes.

    The smaller of two sound bounds: sub-Gaussian, and smoothing by normal noise of scale tau, which costs little
    where the noise is wide. It tends to the normal multiplier as the scale grows.

    >>> [round(gaussian_multiplier(0.95, least_scale=s, measured=1000), 3) for s in (1.0, 10.0, 1000.0)]
    [2.716, 2.117, 1.963]
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


@lru_cache(maxsize=256)
def laplace_multiplier(confidence: float, *, least_variance: float) -> float:
    """For Laplace noise, on the integers or on the reals, of variances of at least `least_variance`.

    >>> [round(laplace_multiplier(0.95, least_variance=v), 3) for v in (2.0, 18.0, 2e6)]
    [2.936, 2.516, 2.163]
    """
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

    >>> laplace_sum_tail(2.0) >= math.exp(-math.sqrt(2) * 2.0)  # one Laplace number
    True
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
