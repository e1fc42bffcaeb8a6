"""Counts along a line: what curves and chosen quantiles reveal.

Segments are found by the private tree partition, then a fresh tree over them is measured. A quantile is chosen with a
weight that falls with the number of people by which a value misses it. Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import reduce

from opendp_tree.theorems.interval import Real, larger


def curve_epsilon(d_in: int, *, finding: Real, measuring: Iterable[Real]) -> Real:
    """The epsilon of segments that cost `finding` at distance 1, and of a tree over them.

    How many levels that tree has depends on the segments: the largest of what it may cost counts.
    """
    return (finding + reduce(larger, measuring)) * d_in


def quantile_score(share: Fraction, *, below: int, upto: int, people: int) -> Fraction:
    """By how many people a value misses a quantile: 0 for every value with at most the share below, at least at it."""
    wanted = share * people
    return max(Fraction(0), below - wanted, wanted - upto)


def score_sensitivity(share: Fraction) -> Fraction:
    """How far the score of a value moves, up or down, when one person comes or goes."""
    return max(share, 1 - share)


def choice_epsilon(d_in: int | Fraction, *, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """The epsilon of choosing with weights exp(-score/scale), where one person moves a score up or down."""
    return 2 * d_in * sensitivity / scale


def choice_rho(d_in: int | Fraction, *, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """The rho, in zero-concentrated privacy, of the same choice: an eighth of the square of its epsilon."""
    return choice_epsilon(d_in, sensitivity=sensitivity, scale=scale) ** 2 / 8


def grouped_epsilon(finding: Real, curve: Real) -> Real:
    """The epsilon of groups that were found at one cost and of a curve for each, all at another: rows are in one group.

    Both are at the same distance, and `curve` is linear in it.
    """
    return finding + curve
