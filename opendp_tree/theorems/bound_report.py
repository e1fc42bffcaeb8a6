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
    """
    ends, step = list(range(1, _SINGLE + 1)), 1
    while ends[-1] < most:
        step = max(1, (ends[-1] & -ends[-1]) // 4 if ends[-1].bit_count() == 1 else step)
        ends.append(ends[-1] + step)
    return tuple(sorted({*(end for end in ends if end < most), most - 1, most} - {0}))


def rows_per_unit_l1(d_in: int, *, changed: bool = False) -> int:
    """The L1 distance between histograms of rows per person, of frames that differ in `d_in` people.

    A person is in one bin. Where people are changed instead of added or removed, one goes and another comes.
    """
    return d_in * (2 if changed else 1)


def bound_report_epsilon(d_in: int | Fraction, *, scale: Fraction) -> Fraction:
    """The epsilon of integer Laplace noise of this scale on every bin, empty or not, at an L1 distance of `d_in`."""
    return d_in / scale


def margin_ends(share: Fraction, *, bound: int, first: int, last: int) -> tuple[Fraction, Fraction]:
    """The least and the largest of `min(x, bound) - share * x` over the numbers of rows x of one bin.

    The bin must not reach across the bound: the margin is then linear on it, and extreme at its ends. Over all people
    the margins add up to 0 if `share` is the share of rows that the bound keeps.
    """
    ends = [min(x, bound) - share * x for x in (first, last)]
    return min(ends), max(ends)


def laplace_moment(ratio: Real, tilt: Real) -> Real:
    """Mean of `tilt**z` for an integer z with P(z) proportional to `ratio**|z|`; tilt is between ratio and 1/ratio."""
    missed = 1 - ratio
    return missed * missed / ((1 - ratio * tilt) * (1 - ratio / tilt))


def tail_chance(ratio: Real, tilt: Real, *, weights: Sequence[int], reach: int) -> Real:
    """At most this is the chance that a weighted sum of such integers is `reach` or more, for any tilt above 1."""
    chance = tilt**0
    for weight in weights:
        chance = chance * laplace_moment(ratio, tilt**weight)
    return chance / tilt**reach
