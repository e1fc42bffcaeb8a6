from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.laplace import truncated_laplace_cdf, truncated_laplace_delta, truncated_laplace_profile

ratios = st.fractions(min_value=Fraction(1, 100), max_value=Fraction(99, 100), max_denominator=100)
radii = st.integers(1, 12)


@given(ratios, radii, st.integers(-15, 15))
def test_cdf_is_the_sum_of_the_masses(q, radius, at):
    masses = {z: q ** abs(z) for z in range(-radius, radius + 1)}
    below = sum((mass for z, mass in masses.items() if z <= at), Fraction(0))
    assert truncated_laplace_cdf(q, radius=radius, at=at) == below / sum(masses.values())


@given(ratios, radii)
def test_delta_grows_with_distance_from_nothing_to_everything(q, radius):
    deltas = [truncated_laplace_delta(q, radius=radius, d_in=k) for k in range(2 * radius + 3)]
    assert deltas[0] == 0
    assert deltas == sorted(deltas)
    assert deltas[2 * radius + 1 :] == [1, 1]


@given(ratios, radii, st.integers(1, 10))
def test_delta_shrinks_with_radius(q, radius, k):
    assert truncated_laplace_delta(q, radius=radius + 1, d_in=k) <= truncated_laplace_delta(q, radius=radius, d_in=k)


@given(ratios, radii, st.integers(1, 10))
def test_profile_ends_in_delta(q, radius, k):
    end = truncated_laplace_profile(q, radius=radius, d_in=k, log_ratio=Fraction(k), ratio=1 / q**k)
    assert end == truncated_laplace_delta(q, radius=radius, d_in=k)
    assert end == truncated_laplace_profile(q, radius=radius, d_in=k, log_ratio=Fraction(k + 1), ratio=1 / q ** (k + 1))
