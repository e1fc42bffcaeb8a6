"""The geometric law, cut into digits that small tables can draw exactly.

With ratio q, the base-b digits of a geometric number are independent, because q**z is the product of
(q**(b**i))**z_i. Proof: docs/proofs/noise.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from opendp_tree.theorems.interval import Interval, exp, geometric_sum

BASE = 256
_LONGEST = 16  # the top digit's unit is at least a sixteenth of the scale, so that its table stays short


@dataclass(frozen=True)
class Digit:
    """A law on 0..size-1 (on all natural numbers if size is None) with P(j) proportional to exp(-rate * j)."""

    rate: Fraction
    size: int | None
    unit: int
    """What one step of the digit is worth."""

    def cdf(self, at: int) -> Interval:
        """The probability of a digit of at most `at`."""
        ratio = exp(-self.rate)
        if self.size is None:
            return 1 - ratio ** (at + 1)
        return geometric_sum(ratio, at + 1) / geometric_sum(ratio, self.size)

    def edges(self) -> Iterator[Interval]:
        """cdf(0), cdf(1), ... up to the last but one; without end if size is None."""
        ratio, least = exp(-self.rate), self.cdf(0)
        power, total = Interval.of(1), Interval.of(0)
        for _ in range(self.size - 1) if self.size is not None else count():
            total, power = total + power, power * ratio
            yield total * least


def geometric_digits(scale: Fraction, radius: int | None) -> tuple[Digit, ...]:
    """Digits, lowest first, whose sum is geometric with ratio exp(-1/scale); with a radius, once more than
    `radius` is rejected, geometric on 0..radius.

    At most half of the draws are rejected: the top digit stops at the last block that radius reaches into.
    """
    reach = scale if radius is None else min(scale, Fraction(radius + 1))
    digits: list[Digit] = []
    unit = 1
    while unit * _LONGEST < reach and (radius is None or unit * BASE <= radius):
        digits.append(Digit(rate=unit / scale, size=BASE, unit=unit))
        unit *= BASE
    size = None if radius is None else radius // unit + 1
    return (*digits, Digit(rate=unit / scale, size=size, unit=unit))


@dataclass(frozen=True)
class Sides:
    """The side of the difference of two geometric numbers of ratios exp(-1/scale): 0 from 0 up, 1 below 0.

    Given its side it is right or -1 - left, each again geometric with its own ratio.
    """

    right_scale: Fraction
    left_scale: Fraction
    unit: int = 1

    def cdf(self, at: int) -> Interval:
        """The probability of a difference of at least 0 at 0, then 1."""
        if at > 0:
            return Interval.of(1)
        right, left = exp(-1 / self.right_scale), exp(-1 / self.left_scale)
        return (1 - left) / (1 - right * left)

    def edges(self) -> Iterator[Interval]:
        """cdf(0)."""
        yield self.cdf(0)
