"""The privacy of pruned descent is tested in tests/privacy; here its bounds on noise."""

from fractions import Fraction

import pytest

from opendp_tree.theorems.pruned_descent import laplace_tail, noise_bound, noise_tail, pruned_chances


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3), Fraction(25)])
@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**9)])
def test_bounds_are_the_least(noise, scale, chance):
    bound = noise_bound(noise, scale, chance)
    assert noise_tail(noise, scale, bound + 1).hi * 2 <= chance
    if bound:
        assert noise_tail(noise, scale, bound).lo * 2 > chance


def test_bounds_follow_the_exact_law():
    """With q = 1/2 the chance of more than b is 2/3 * 2**-b; and ln 2 is just above 0.6931."""
    q, scale = Fraction(1, 2), 1 / Fraction(6931471805, 10**10)
    for bound in range(1, 12):
        chance = 2 * laplace_tail(q, bound + 1)
        assert chance == Fraction(2, 3) / 2**bound
        assert noise_bound("laplace", scale, chance * Fraction(1001, 1000)) == bound
        assert noise_bound("laplace", scale, chance * Fraction(999, 1000)) == bound + 1


def test_chances_add_up():
    for depth in (1, 2, 129):
        own, above = pruned_chances(Fraction(1, 10), depth)
        assert own + (depth - 1) * above <= Fraction(1, 10)
        assert 2 * above <= own
