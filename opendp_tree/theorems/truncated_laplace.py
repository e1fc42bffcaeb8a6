"""Truncated integer Laplace noise: what its release reveals.

The law is P(z) proportional to q**|z| on the integers -radius..radius, with q = exp(-1/scale).
Proof: docs/proofs/truncated_laplace.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_tree.theorems.interval import Real, geometric_sum


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
