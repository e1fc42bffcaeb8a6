"""Counts and noise: how far counts move, how noise is drawn exactly, and what noisy counts reveal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum, round_up

# Leaf counts: how far they move when rows or people are added, removed or changed. Proof: docs/proofs/counting.md.


def leaf_counts_l1(d_in: int, *, per_unit: int = 1, changed: bool = False) -> int:
    """The L1 distance between leaf counts of frames that differ in `d_in` units.

    A unit is a row, or all rows of one person, of which at most `per_unit` are counted. A changed unit is one removed
    and one added.
    """
    return d_in * per_unit * (2 if changed else 1)


def per_person(*, rows: int | None, leaves: int | None, rows_per_leaf: int) -> int:
    """The largest number of rows counted of one person, under one or both of two bounds."""
    bounds = (rows, None if leaves is None else leaves * rows_per_leaf)
    return min(bound for bound in bounds if bound is not None)


# Tree sum: how far node counts move when leaf counts move. Proof: docs/proofs/counting.md.
def tree_sum_l1(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The L1 distance between node counts: each unit at a leaf is counted at most `depth` times."""
    return Fraction(d_in) * depth


def tree_sum_l2_squared(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The square of the L2 distance: worst when the whole distance falls on one deepest leaf."""
    return Fraction(d_in) ** 2 * depth


def tree_sum_linf(d_in: int | Fraction) -> Fraction:
    """The largest change of any one node's count, reached at the root."""
    return Fraction(d_in)


# The laws that noise is drawn from. A geometric number of ratio q is drawn by its base-b digits from small tables: they
# are independent, because q**z is the product of (q**(b**i))**z_i. The discrete Gaussian law is P(z) proportional to
# exp(-z**2 / (2 * scale**2)). Proof: docs/proofs/noise.md.
BASE = 256
_LONGEST = 16  # the top digit's unit is at least a sixteenth of the scale, so that its table stays short


@dataclass(frozen=True)
class Digit:
    """A law on 0..size-1 (on all natural numbers if size is None) with P(j) proportional to exp(-rate * j)."""

    rate: Fraction
    size: int | None
    unit: int
    """The value of one step of the digit."""

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
    """Digits, lowest first, whose sum is geometric; with a radius, sums above it are rejected."""
    # At most half of the draws are rejected: the top digit stops at the last block that the radius reaches.
    reach = scale if radius is None else min(scale, Fraction(radius + 1))
    digits: list[Digit] = []
    unit = 1
    while unit * _LONGEST < reach and (radius is None or unit * BASE <= radius):
        digits.append(Digit(rate=unit / scale, size=BASE, unit=unit))
        unit *= BASE
    size = None if radius is None else radius // unit + 1
    return (*digits, Digit(rate=unit / scale, size=size, unit=unit))


def proposal_scale(scale: Fraction) -> int:
    """The scale of the Laplace law that Gaussian candidates are drawn from: the best integer."""
    return math.floor(scale) + 1


def gaussian_acceptance(magnitude: int, scale: Fraction) -> Interval:
    """The probability with which a Laplace number of this magnitude is kept."""
    distance = (magnitude - scale**2 / proposal_scale(scale)) / scale
    return exp(-(distance**2) / 2)


# Noise on every node of a tree, with one scale per level: the privacy loss. Proof: docs/proofs/tree_noise.md.
def laplace_epsilon(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise, with one scale for each set of counts that moves by `d_in` in L1."""
    return d_in * sum((times / scale for scale, times in Counter(scales).items()), Fraction(0))


def gaussian_rho(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The rho, in zero-concentrated privacy, of discrete Gaussian noise with these scales on the measured levels."""
    return Fraction(d_in) ** 2 / 2 * sum((times / scale**2 for scale, times in Counter(scales).items()), Fraction(0))


# Sparse vector: which queries are above a noisy threshold. Proof: docs/proofs/sparse_vector.md.
def sparse_vector_epsilon(
    sensitivity: int | Fraction,
    *,
    scale: Fraction,
    query_scale: Fraction,
    cutoff: int,
    monotonic: bool,
    refreshed: bool,
) -> Fraction:
    """The epsilon of up to `cutoff` answers "above", with or without their gaps."""
    thresholds = cutoff if refreshed else 1
    shifts = cutoff if monotonic else 2 * cutoff
    return sensitivity * (thresholds / scale + shifts / query_scale)


# Group privacy: from the loss of one person to that of several. Proof: docs/proofs/counting.md.
_HUGE = 10**6
"""Beyond this epsilon the exponential is not computed: delta is 1 for every delta in use."""


def group_delta(delta: Real, *, ratio: Real, k: int) -> Real:
    """The delta for k people, where one costs `delta` and `ratio` is e**epsilon of one."""
    return delta * geometric_sum(ratio, k)


def group_loss(epsilon: Fraction, delta: Interval, *, k: int) -> tuple[float, float]:
    """The pair (epsilon, delta) for k people, rounded up."""
    total = round_up(k * epsilon)
    if k == 0 or delta.hi == 0:
        return total, 0.0
    if k == 1:
        return total, min(1.0, round_up(delta))
    if k * epsilon > _HUGE:
        return total, 1.0
    return total, min(1.0, round_up(group_delta(delta, ratio=exp(epsilon), k=k)))


# Releases over time: their joint cost, where each may depend on earlier ones. Proof: docs/proofs/series.md.
def families_amount(families: Iterable[Iterable[Fraction]]) -> Fraction:
    """Epsilon, delta or rho of one row that lies in at most one release of each family: the sum of the largest."""
    return sum((max(amounts, default=Fraction(0)) for amounts in families), Fraction(0))
