"""The private tree partition: what its cells reveal.

Notation: q = exp(-1/scale), depth d, threshold T, radius R, margin A, carrier level L = T - A. A test's noise is
truncated geometric on 0..R; a token is geometric on all natural numbers. Proof: docs/proofs/tree_partition.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum


@dataclass(frozen=True)
class PartitionShape:
    """The integers of a partition, checked: 0 <= margin <= radius, radius >= 1, threshold > radius and 2 * margin."""

    depth: int
    threshold: int
    radius: int
    margin: int

    def __post_init__(self) -> None:
        for name in ("depth", "threshold", "radius", "margin"):
            if type(getattr(self, name)) is not int:
                raise TypeError(f"{name} ({getattr(self, name)!r}) must be an integer")
        if self.depth < 1:
            raise ValueError(f"depth ({self.depth}) must be at least 1")
        if self.radius < 1:
            raise ValueError(f"radius ({self.radius}) must be at least 1")
        if not 0 <= self.margin <= self.radius:
            raise ValueError(f"margin ({self.margin}) must be from 0 to radius ({self.radius})")
        least = max(self.radius + 1, 2 * self.margin + 1)
        if self.threshold < least:
            raise ValueError(f"threshold ({self.threshold}) must be at least {least}: above radius and 2 * margin")

    @property
    def carrier(self) -> int:
        """The carrier level L: from this residual on, tests share a token along a chain."""
        return self.threshold - self.margin

    @property
    def doubt(self) -> int:
        """The least residual that may become a cell."""
        return self.threshold - self.radius


def partition_quiet(q: Real, shape: PartitionShape) -> Real:
    """1 - pi: the chance that a test's noise is at most the margin."""
    return geometric_sum(q, shape.margin + 1) / geometric_sum(q, shape.radius + 1)


def partition_ratio(q: Real, shape: PartitionShape) -> Real:
    """e**epsilon at distance 1: one shift of a token or of a test's noise, and 1/(1 - pi) for each level.

    >>> from fractions import Fraction
    >>> partition_ratio(Fraction(1, 2), PartitionShape(depth=1, threshold=3, radius=1, margin=1))
    Fraction(2, 1)
    """
    return 1 / (q * partition_quiet(q, shape) ** shape.depth)


def partition_delta(q: Real, shape: PartitionShape) -> Real:
    """Delta at distance 1: noise at its end on one of the levels, or two carriers that meet in one input only.

    >>> from fractions import Fraction
    >>> partition_delta(Fraction(1, 2), PartitionShape(depth=1, threshold=4, radius=1, margin=1))
    Fraction(5, 6)
    """
    at_the_end = q**shape.radius / geometric_sum(q, shape.radius + 1)
    meeting = q ** (shape.threshold - 2 * shape.margin) + q ** (shape.carrier - 1) * shape.depth
    return at_the_end * shape.depth + meeting


def partition_epsilon(scale: Fraction, shape: PartitionShape) -> Interval:
    """The logarithm of `partition_ratio` at q = exp(-1/scale), enclosed."""
    return Interval.of(1 / scale) - partition_quiet(exp(-1 / scale), shape).ln() * shape.depth


def top_chance_given_token(q: Real, *, radius: int, missing: int) -> Real:
    """The chance of "top" in a test whose token asks for noise of at least `missing`.

    >>> top_chance_given_token(Fraction(1, 2), radius=1, missing=1)
    Fraction(1, 3)
    """
    return q**missing * geometric_sum(q, radius - missing + 1) / geometric_sum(q, radius + 1)


def top_chance(q: Real, *, radius: int, missing: int) -> Real:
    """The chance of "top" in a test with a token of its own, `missing` below the threshold.

    >>> top_chance(Fraction(1, 2), radius=1, missing=1)
    Fraction(1, 6)
    """
    # Noise of missing + i and a token of at most i: the sum of q**(missing + i) * (1 - q**(i + 1)).
    terms = radius - missing + 1
    both = geometric_sum(q, terms) - q * geometric_sum(q * q, terms)
    return q**missing * both / geometric_sum(q, radius + 1)


@dataclass(frozen=True)
class FirstTop:
    """The number of tests that answer "bottom" before the first "top", or `span` if that many do."""

    scale: Fraction
    radius: int
    missing: int
    token_known: bool
    span: int
    unit: int = 1

    def _bottom(self) -> Interval:
        q = exp(-1 / self.scale)
        chance = top_chance_given_token if self.token_known else top_chance
        return 1 - chance(q, radius=self.radius, missing=self.missing)

    def cdf(self, at: int) -> Interval:
        """The chance of at most `at` answers "bottom"."""
        return Interval.of(1) if at >= self.span else 1 - self._bottom() ** (at + 1)

    def edges(self) -> Iterator[Interval]:
        """cdf(0), ..., cdf(span - 1)."""
        bottom = self._bottom()
        all_bottom = bottom
        for _ in range(self.span):
            yield 1 - all_bottom
            all_bottom = all_bottom * bottom
