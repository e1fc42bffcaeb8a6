"""Which bound on the rows of a person? What a noisy histogram of rows per person costs, and what it proves.

Proof: docs/proofs/bound_report.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from opendp_tree.theorems.interval import Real

_SINGLE = 8
"""Up to here every number of rows has a bin of its own; beyond, each octave has four."""


def bin_ends(most: int) -> tuple[int, ...]:
    """The largest number of rows of each bin, which are also the bounds that a report speaks of.

    1 to 8 each have a bin, then there are four an octave. So does `most`: everybody who has more is there.

    Parameters
    ----------
    most
        The largest bound that the report speaks of.

    >>> bin_ends(5), bin_ends(40)
    ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 39, 40))
    """
    ends, step = list(range(1, _SINGLE + 1)), 1
    while ends[-1] < most:
        step = max(1, (ends[-1] & -ends[-1]) // 4 if ends[-1].bit_count() == 1 else step)
        ends.append(ends[-1] + step)
    return tuple(sorted({*(end for end in ends if end < most), most - 1, most} - {0}))


def rows_per_unit_l1(d_in: int, *, changed: bool = False) -> int:
    """The L1 distance between histograms of rows per person, of frames that differ in `d_in` people.

    A person is in one bin. Where people are changed instead of added or removed, one goes and another comes.

    Parameters
    ----------
    d_in
        How many people differ.
    changed
        Whether people are changed. By default they are added or removed.

    >>> rows_per_unit_l1(3), rows_per_unit_l1(3, changed=True)
    (3, 6)
    """
    return d_in * (2 if changed else 1)


def bound_report_epsilon(d_in: int | Fraction, *, scale: Fraction) -> Fraction:
    """The epsilon of integer Laplace noise of this scale on every bin, empty or not, at an L1 distance of `d_in`.

    Parameters
    ----------
    d_in
        The L1 distance of the histograms.
    scale
        Of the noise of each bin.

    >>> bound_report_epsilon(2, scale=Fraction(20))
    Fraction(1, 10)
    """
    return d_in / scale


def margin_ends(share: Fraction, *, bound: int, first: int, last: int) -> tuple[Fraction, Fraction]:
    """The least and the largest of `min(x, bound) - share * x` over the numbers of rows x of one bin.

    The bin must not reach across the bound: the margin is then linear on it, and extreme at its ends. Over all people
    the margins add up to 0 if `share` is the share of rows that the bound keeps.

    Parameters
    ----------
    share
        The share of rows that is asked about.
    bound
        How many rows of each person are kept.
    first, last
        The least and the largest number of rows in the bin.

    >>> margin_ends(Fraction(1, 2), bound=8, first=17, last=20), margin_ends(Fraction(1, 2), bound=8, first=5, last=5)
    ((Fraction(-2, 1), Fraction(-1, 2)), (Fraction(5, 2), Fraction(5, 2)))
    """
    ends = [min(x, bound) - share * x for x in (first, last)]
    return min(ends), max(ends)


def laplace_moment(ratio: Real, tilt: Real) -> Real:
    """The mean of `tilt**z` for an integer z with P(z) proportional to `ratio**|z|`; tilt is between ratio and 1/ratio.

    Parameters
    ----------
    ratio
        exp(-1/scale), the ratio of the noise.
    tilt
        Whose powers are meant.

    >>> laplace_moment(Fraction(1, 2), Fraction(1)), laplace_moment(Fraction(1, 2), Fraction(3, 2))
    (Fraction(1, 1), Fraction(3, 2))
    """
    missed = 1 - ratio
    return missed * missed / ((1 - ratio * tilt) * (1 - ratio / tilt))


def tail_chance(ratio: Real, tilt: Real, *, weights: Sequence[int], reach: int) -> Real:
    """At most this is the chance that a weighted sum of such integers is `reach` or more, for any tilt above 1.

    Parameters
    ----------
    ratio
        exp(-1/scale), the ratio of the noise.
    tilt
        Any number above 1 for which all moments exist; the best is the one of least chance.
    weights
        What each integer counts for.
    reach
        What the sum must not reach.

    >>> tail_chance(Fraction(1, 2), Fraction(3, 2), weights=[1, 1], reach=10) < Fraction(1, 25)
    True
    """
    chance = tilt**0
    for weight in weights:
        chance = chance * laplace_moment(ratio, tilt**weight)
    return chance / tilt**reach
