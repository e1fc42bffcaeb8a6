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

    Parameters
    ----------
    d_in
        How many people come or go.
    finding
        What finding segments costs at distance 1.
    measuring
        What the tree costs at distance 1, for each number of levels that is possible, and what a count outside of the
        line costs.

    >>> curve_epsilon(2, finding=Fraction(1, 5), measuring=[Fraction(1, 2), Fraction(4, 5)])
    Fraction(2, 1)
    """
    return (finding + reduce(larger, measuring)) * d_in


def quantile_score(share: Fraction, *, below: int, upto: int, people: int) -> Fraction:
    """By how many people a value misses a quantile: 0 for every value with at most the share below, and at least at it.

    Parameters
    ----------
    share
        The quantile's, from 0 to 1.
    below
        How many are strictly below the value.
    upto
        How many are at or below it.
    people
        How many there are.

    >>> [str(quantile_score(Fraction(1, 2), below=below, upto=9, people=10)) for below in (6, 4)]
    ['1', '0']
    """
    wanted = share * people
    return max(Fraction(0), below - wanted, wanted - upto)


def score_sensitivity(share: Fraction) -> Fraction:
    """How far the score of a value moves, up or down, when one person comes or goes.

    Parameters
    ----------
    share
        The quantile's, from 0 to 1.

    >>> score_sensitivity(Fraction(1, 10))
    Fraction(9, 10)
    """
    return max(share, 1 - share)


def choice_epsilon(d_in: int | Fraction, *, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """The epsilon of choosing with weights exp(-score/scale), where one person moves a score up or down.

    Parameters
    ----------
    d_in
        How many people come or go.
    sensitivity
        How far one person moves a score at most.
    scale
        By what scores are divided.

    >>> choice_epsilon(1, sensitivity=Fraction(1, 2), scale=Fraction(2))
    Fraction(1, 2)
    """
    return 2 * d_in * sensitivity / scale


def choice_rho(d_in: int | Fraction, *, sensitivity: Fraction, scale: Fraction) -> Fraction:
    """The rho, in zero-concentrated privacy, of the same choice: an eighth of the square of its epsilon.

    Parameters
    ----------
    d_in, sensitivity, scale
        As for `choice_epsilon`.

    >>> choice_rho(1, sensitivity=Fraction(1, 2), scale=Fraction(2))
    Fraction(1, 32)
    """
    return choice_epsilon(d_in, sensitivity=sensitivity, scale=scale) ** 2 / 8


def grouped_epsilon(finding: Real, curve: Real) -> Real:
    """The epsilon of groups that were found at one cost and of a curve for each, all at another: rows are in one group.

    Both are at the same distance, and `curve` is linear in it.

    Parameters
    ----------
    finding
        What finding the groups costs.
    curve
        What one group's curve costs.

    >>> grouped_epsilon(Fraction(1, 2), Fraction(1, 2))
    Fraction(1, 1)
    """
    return finding + curve
