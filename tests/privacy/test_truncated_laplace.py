"""Exact: every release of small inputs is enumerated in rational numbers, and compared without tolerance."""

from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.tails import truncated_laplace_delta, truncated_laplace_profile
from tests.privacy.divergence import joint, laplace, largest_ratio, splits, worst

RATIOS = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 16)]


def release_law(q, radius, counts, *, low=None):
    """The law of counts plus noise; `low` moves the noise's lower end away from -radius."""
    law = {z: mass for z, mass in laplace(q, radius).items() if low is None or z >= low}
    return joint([{count + z: mass / sum(law.values()) for z, mass in law.items()} for count in counts])


def worst_of(q, radius, k, ratio, dimension=1, **mutation):
    """The largest divergence over all ways to be k apart."""
    apart = [
        tuple(s * x for s, x in zip(signs, split, strict=True))
        for split in splits(k, dimension)
        for signs in product((1, -1), repeat=dimension)
    ]
    return worst(lambda x: release_law(q, radius, x, **mutation), [((0,) * dimension, x) for x in apart], ratio)


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("radius", [1, 2, 3, 5])
def test_delta_is_tight_for_one_count(q, radius):
    for k in range(2 * radius + 3):
        assert worst_of(q, radius, k, 1 / q**k) == truncated_laplace_delta(q, radius=radius, d_in=k)


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize(("radius", "dimension"), [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3)])
def test_no_split_over_a_vector_is_worse(q, radius, dimension):
    for k in range(2 * radius + 2):
        assert worst_of(q, radius, k, 1 / q**k, dimension) == truncated_laplace_delta(q, radius=radius, d_in=k)


@pytest.mark.parametrize("root", [Fraction(1, 2), Fraction(3, 4)])
@pytest.mark.parametrize(("radius", "dimension"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 3)])
def test_the_profile_is_exact_at_every_epsilon(root, radius, dimension):
    """Epsilon in steps of a quarter of 1/scale, where its exponential is rational; the vector is never worse."""
    q = root**4
    for k in range(1, 2 * radius + 2):
        for quarters in range(4 * k + 3):
            ratio = 1 / root**quarters
            claimed = truncated_laplace_profile(
                q,
                radius=radius,
                d_in=k,
                log_ratio=Fraction(min(quarters, 4 * k), 4),
                ratio=1 / root ** min(quarters, 4 * k),
            )
            assert worst_of(q, radius, k, ratio, dimension) == claimed


def test_untruncated_ratio_is_the_exponential():
    """On releases that both inputs can produce, the ratio is at most, and somewhere is, exp(k/scale)."""
    q, radius = Fraction(1, 2), 4
    for k in range(1, 5):
        here, there = release_law(q, radius, (0,)), release_law(q, radius, (k,))
        both = {outcome: mass for outcome, mass in here.items() if outcome in there}
        assert largest_ratio(both, there) == 1 / q**k


# Mutants: each is a plausible mistake, and the exact comparison above must reject it.


def test_mutant_support_off_by_one_is_rejected():
    """Noise on -radius+1..radius, as from an exclusive range."""
    q, radius = Fraction(1, 2), 3
    assert worst_of(q, radius, 1, 1 / q, low=-radius + 1) > truncated_laplace_delta(q, radius=radius, d_in=1)


def test_mutant_radius_counted_one_too_wide_is_rejected():
    q, radius = Fraction(1, 2), 3
    assert worst_of(q, radius, 1, 1 / q) > truncated_laplace_delta(q, radius=radius + 1, d_in=1)


def test_mutant_tail_without_the_group_size_is_rejected():
    """The tail of one person, whatever the distance."""
    q, radius, k = Fraction(1, 2), 3, 2
    assert worst_of(q, radius, k, 1 / q**k) > truncated_laplace_delta(q, radius=radius, d_in=1)


def test_mutant_tail_times_the_group_size_is_rejected():
    """Superadditive, not additive: k times the tail of one person is too little."""
    q, radius, k = Fraction(1, 2), 3, 2
    assert worst_of(q, radius, k, 1 / q**k) > k * truncated_laplace_delta(q, radius=radius, d_in=1)


def test_mutant_profile_cut_one_too_low_is_rejected():
    q, radius, k = Fraction(1, 4), 3, 2
    cut_low = truncated_laplace_profile(q, radius=radius, d_in=k, log_ratio=Fraction(2), ratio=Fraction(1))
    assert worst_of(q, radius, k, Fraction(1)) > cut_low
