"""The discrete Gaussian law on the integers: P(z) proportional to exp(-z**2 / (2 * scale**2)).

It is drawn by rejection from a Laplace law. Proof: docs/proofs/noise.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from opendp_tree.theorems.interval import Interval, exp

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
