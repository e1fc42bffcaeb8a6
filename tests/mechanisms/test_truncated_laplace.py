import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException

from opendp_tree import Tree, make_truncated_laplace
from opendp_tree.mechanisms import make_truncated_laplace_profile, truncated_laplace_radius
from opendp_tree.saturate import LIMIT
from opendp_tree.trees import node_domain
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

VECTOR = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
SCALAR = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")

scales = st.floats(0.05, 1e6)


def decimal_tail(scale, radius, k):
    """The noise's mass above radius - k, from 40-digit exponentials summed one by one."""
    import decimal

    with decimal.localcontext() as context:
        context.prec = 40
        step = 1 / decimal.Decimal(scale)
        weights = [(-step * z).exp() for z in range(radius + 1)]
        total = weights[0] + 2 * sum(weights[1:])
        upper = sum(weights[abs(z)] for z in range(max(radius - k + 1, -radius), radius + 1))
        return upper / total


@given(st.floats(0.05, 50), st.integers(1, 60), st.integers(1, 130))
def test_map_is_never_below_the_exact_value_and_at_most_one_float_above(scale, radius, k):
    epsilon, delta = make_truncated_laplace(*VECTOR, scale, radius=radius).map(k)
    exact = Fraction(decimal_tail(scale, radius, k))
    assert Fraction(epsilon) >= k / Fraction(scale) > Fraction(math.nextafter(epsilon, 0))
    slack = 1 + Fraction(1, 10**30)  # the reference is rounded at 40 digits
    assert Fraction(delta) * slack >= exact
    assert Fraction(math.nextafter(delta, 0)) <= exact * slack


@given(st.floats(0.05, 1000), st.floats(1e-12, 0.4), st.integers(1, 5))
def test_the_radius_for_a_delta_is_the_smallest(scale, delta, d_in):
    radius = truncated_laplace_radius(scale, delta=delta, d_in=d_in)
    named = make_truncated_laplace(*VECTOR, scale, delta=delta, d_in=d_in)
    assert named.map(d_in)[1] == delta
    assert make_truncated_laplace(*VECTOR, scale, radius=radius).map(d_in)[1] <= delta
    if radius > 1:
        assert make_truncated_laplace(*VECTOR, scale, radius=radius - 1).map(d_in)[1] > delta
    assert named.map(d_in + 1)[1] >= delta


def test_float_distances_between_integers_mean_the_integer_below():
    noisy = make_truncated_laplace(VECTOR[0], dp.l1_distance(T="f64"), 2.0, radius=20)
    whole = make_truncated_laplace(*VECTOR, 2.0, radius=20)
    assert noisy.map(1.5) == (0.75, whole.map(1)[1])
    assert noisy.map(0.5) == (0.25, 0.0)


def test_releases_follow_the_law_in_every_carrier():
    support = np.arange(-9, 10)
    masses = laplace_masses(3.0, support)
    wide = Tree.from_parents(np.concatenate(([-1], np.zeros(99_999, dtype=int))))
    for noisy, data in [
        (make_truncated_laplace(*VECTOR, 3.0, radius=9), [50] * 100_000),
        (make_truncated_laplace(node_domain(wide), VECTOR[1], 3.0, radius=9), np.full(100_000, 50)),
    ]:
        assert p_value(np.array(noisy(data)) - 50, support, masses) > FALSE_ALARM
    one = make_truncated_laplace(*SCALAR, 3.0, radius=9)
    assert all(abs(one(50) - 50) <= 9 for _ in range(100))


def test_the_largest_counts_saturate():
    released = make_truncated_laplace(*VECTOR, 5.0, radius=50)([2**63 - 1, -(2**63)])
    assert LIMIT - 50 <= released[0] <= LIMIT
    assert -LIMIT <= released[1] <= 50 - LIMIT


def test_the_profile_meets_the_map_and_falls():
    dp.enable_features("honest-but-curious")
    curve = make_truncated_laplace_profile(*VECTOR, 2.0, radius=12)
    pair = make_truncated_laplace(*VECTOR, 2.0, radius=12)
    for k in (1, 2, 5):
        epsilon, delta = pair.map(k)
        assert curve.map(k).delta(epsilon) == delta
        assert curve.map(k).delta(100.0) == delta
        deltas = [curve.map(k).delta(k / 2.0 * step / 20) for step in range(21)]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[0] > deltas[-1]
    assert curve.map(0).delta(0.0) == 0.0
    fixed = dp.c.make_fix_delta(curve, 0.05)
    assert fixed.map(1)[0] < pair.map(1)[0]
    assert make_truncated_laplace_profile(*VECTOR, 0.0, radius=12).map(1).delta(5.0) == 1.0


def test_the_profile_is_exact_where_exponentials_are_huge_and_deltas_tiny():
    dp.enable_features("honest-but-curious")
    steep = make_truncated_laplace_profile(*VECTOR, 1e-20, radius=5).map(1)
    assert steep.delta(1e19) == 1.0
    assert steep.delta(math.inf) == math.ulp(0.0)
    tiny = make_truncated_laplace(*VECTOR, 0.0610673, radius=53).map(19)
    assert make_truncated_laplace_profile(*VECTOR, 0.0610673, radius=53).map(19).delta(tiny[0]) == tiny[1] < 1e-200


def test_the_profile_asks_for_the_feature_that_opendp_asks_for():
    with pytest.raises(OpenDPException, match="honest-but-curious"):
        make_truncated_laplace_profile(*VECTOR, 2.0, radius=12)
