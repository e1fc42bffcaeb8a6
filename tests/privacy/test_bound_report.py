"""Exact: all small frames of a few people, all neighbours, every outcome of a window, in rational numbers.

1/scale is ln 2, so that the mass of an integer z is proportional to 2**-|z|, and epsilon over ln 2 is a power of 2.
"""

import math
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import polars as pl
import pytest

from opendp_tree import Key
from opendp_tree.rows.counting import RowCounter
from opendp_tree.rows.leaf_counts import histogram
from opendp_tree.theorems.noise import laplace_epsilon, leaf_counts_l1
from opendp_tree.theorems.tails import bin_ends
from tests.privacy.bound_law import laplace_moment, margin_ends, tail_chance
from tests.privacy.divergence import on_window, worst_ratio

HALF = Fraction(1, 2)
MOST = 3
ROWS = range(MOST + 3)
FRAMES = list(product(ROWS, repeat=3))
"""How many rows each of three possible people has; 0: they are not there."""


def counted(rows):
    """The histogram of a frame, by the code that releases it. Rows without a person come and go with the others."""
    users = [user for user, count in enumerate(rows) for _ in range(count)]
    frame = pl.DataFrame({"user": pl.Series(users + [None] * len(users), dtype=pl.Int64)})
    counter = RowCounter.of(Key.columns("user"), {"user": "integer"}, None)
    return tuple(histogram(counter, frame, np.array(bin_ends(MOST))).tolist())


HISTOGRAMS = {rows: counted(rows) for rows in FRAMES}


def law(counts, ratio=HALF):
    """The mass of each outcome of a window, up to a factor that is the same for all histograms."""
    return on_window(counts, range(-2, 6), ratio)


def gone(k):
    """Pairs of frames: in the second, k people of the first are not there."""
    for rows in FRAMES:
        there = [person for person, count in enumerate(rows) if count]
        for lost in combinations(there, k):
            yield rows, tuple(0 if person in lost else count for person, count in enumerate(rows))


def changed(k):
    """Pairs of frames in which k people have other rows."""
    for rows, others in product(FRAMES, repeat=2):
        if sum(a != b for a, b in zip(rows, others, strict=True)) == k and min(rows) and min(others):
            yield rows, others


def worst(pairs, count=HISTOGRAMS.get, make=law):
    """The largest likelihood ratio, either way; None if an outcome is possible on one side only."""
    return worst_ratio(make, {(count(one), count(other)) for one, other in pairs})


def claimed(k, *, changed=False):
    """e**epsilon, where epsilon is in units of ln 2."""
    return Fraction(2) ** int(laplace_epsilon(leaf_counts_l1(k, changed=changed), scales=[Fraction(1)]))


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_epsilon_of_people_who_come_or_go_is_tight(k):
    assert worst(gone(k)) == claimed(k)


@pytest.mark.parametrize("k", [1, 2])
def test_epsilon_of_people_who_are_changed_is_tight(k):
    assert worst(changed(k)) == claimed(k, changed=True)


def test_epsilon_is_proportional_to_distance_and_rate():
    for k, scale in product(range(5), (Fraction(1, 3), Fraction(7), Fraction(20))):
        assert laplace_epsilon(k, scales=[scale]) == k * laplace_epsilon(1, scales=[scale]) == k / scale


# Mutants: each is a plausible mistake, and the exact comparison above must reject it.


def test_mutant_one_bin_for_every_row_of_a_person_is_rejected():
    def every_row(rows):
        return tuple(sum(min(count, MOST) >= bound for count in rows) for bound in bin_ends(MOST))

    assert worst(gone(1), count=every_row) > claimed(1)


def test_mutant_rows_counted_instead_of_people_is_rejected():
    def by_rows(rows):
        return tuple(sum(count for count in rows if min(count, MOST) == bound) for bound in bin_ends(MOST))

    assert worst(gone(1), count=by_rows) > claimed(1)


def test_mutant_empty_bins_left_out_is_rejected():
    def without_empty(counts):
        kept = [place for place, count in enumerate(counts) if count]
        return {
            tuple(zip(kept, outcome, strict=True)): mass
            for outcome, mass in law([counts[place] for place in kept]).items()
        }

    assert worst(gone(1), make=without_empty) is None


def test_mutant_noise_of_half_the_scale_is_rejected():
    assert worst(gone(1), make=lambda counts: law(counts, HALF**2)) > claimed(1)


def test_mutant_change_charged_once_is_rejected():
    assert worst(changed(1)) > claimed(1)


def test_mutant_a_bin_for_those_beyond_the_most_only_where_there_are_any_is_rejected():
    def open_ended(rows):
        return tuple(sum(count == bound for count in rows) for bound in range(1, max(MOST, *rows) + 1))

    def padded(counts):
        return {(len(counts), *outcome): mass for outcome, mass in law(counts[:1]).items()}

    assert worst(gone(1), count=open_ended, make=padded) is None


def test_mutant_rows_without_a_person_counted_as_people_is_rejected():
    """Somebody with four such rows is four people."""

    def nobodies(rows):
        return (HISTOGRAMS[rows][0] + rows[0], *HISTOGRAMS[rows][1:])

    pairs = [((4, 1, 2), (0, 1, 2))]
    assert worst(pairs, count=nobodies) > claimed(1)


# What the intervals rest on.


def test_bins_are_public_cover_all_and_are_narrow():
    for most in (2, 3, 7, 8, 9, 10, 17, 40, 200, 1000, 2**20):
        ends = bin_ends(most)
        assert ends[0] == 1
        assert ends[-1] == most
        assert ends[-2] == most - 1  # the last bin holds only those with `most` rows or more
        for before, end in pairwise(ends):
            assert before < end
            assert end == before + 1 or Fraction(end - before - 1, before + 1) <= Fraction(1, 4)


def test_margins_are_extreme_at_the_ends_of_bins():
    ends = bin_ends(40)
    for bound, share in product(ends, (Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(1))):
        for first, last in zip((1, *(end + 1 for end in ends)), ends, strict=False):
            margins = [min(x, bound) - share * x for x in range(first, last + 1)]
            assert margin_ends(share, bound=bound, first=first, last=last) == (min(margins), max(margins))


def test_margins_add_up_to_nothing_at_the_share_that_is_kept():
    people = [1, 1, 4, 9, 20, 33, 40, 40]
    for bound in bin_ends(40):
        share = Fraction(sum(min(x, bound) for x in people), sum(people))
        assert sum(margin_ends(share, bound=bound, first=x, last=x)[0] for x in people) == 0


@pytest.mark.parametrize("tilt", [Fraction(1), Fraction(5, 4), Fraction(4, 5), Fraction(19, 10)])
def test_the_moment_is_the_sum_of_its_series(tilt):
    ratio, reach = HALF, 10
    inner = sum(ratio ** abs(z) * tilt**z for z in range(-reach, reach + 1))
    outer = sum((ratio * each) ** (reach + 1) / (1 - ratio * each) for each in (tilt, 1 / tilt))
    assert laplace_moment(ratio, tilt) == (1 - ratio) / (1 + ratio) * (inner + outer)


@pytest.mark.parametrize("weights", [(1,), (1, 1), (1, -2), (3, 1)])
def test_the_tail_is_below_its_bound(weights):
    """All outcomes of a window, and everything outside it, against the bound at several tilts."""
    reach, unit = 24, (1 - HALF) / (1 + HALF)
    outside = len(weights) * 2 * unit * HALF ** (reach + 1) / (1 - HALF)
    masses = {}
    for outcome in product(range(-reach, reach + 1), repeat=len(weights)):
        total = sum(weight * z for weight, z in zip(weights, outcome, strict=True))
        masses[total] = masses.get(total, 0) + unit ** len(weights) * HALF ** sum(map(abs, outcome))
    largest = max(map(abs, weights))
    for tilt in (Fraction(21, 20), Fraction(11, 10), Fraction(6, 5)):
        assert HALF * tilt**largest < 1
        for at in range(0, 10 * largest, 3):
            chance = sum(mass for total, mass in masses.items() if total >= at) + outside
            assert chance <= tail_chance(HALF, tilt, weights=weights, reach=at)


def test_mutant_the_tail_of_a_gaussian_of_the_same_variance_is_rejected():
    """The variance is 4; P(z >= t) is 2**-t / 1.5, and such a Gaussian's Chernoff bound is e**(-t * t / 8)."""
    chance = HALF**12 * (1 - HALF) / (1 + HALF) / (1 - HALF)
    assert tail_chance(HALF, Fraction(9, 5), weights=[1], reach=12) >= chance
    assert chance > math.exp(-(12**2) / 8)
