from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon

scales = st.fractions(min_value=Fraction(1, 100), max_value=100)


@given(scales, scales, st.integers(1, 9), st.booleans(), st.booleans())
def test_more_noise_costs_less(scale, query_scale, cutoff, monotonic, refreshed):
    rest = {"cutoff": cutoff, "monotonic": monotonic, "refreshed": refreshed}
    one = sparse_vector_epsilon(1, scale=scale, query_scale=query_scale, **rest)
    assert sparse_vector_epsilon(1, scale=2 * scale, query_scale=2 * query_scale, **rest) == one / 2
    assert sparse_vector_epsilon(3, scale=scale, query_scale=query_scale, **rest) == 3 * one


@given(scales, scales, st.integers(1, 9), st.booleans())
def test_the_tighter_calibrations_are_tighter(scale, query_scale, cutoff, refreshed):
    def epsilon(monotonic, refreshed):
        return sparse_vector_epsilon(
            1, scale=scale, query_scale=query_scale, cutoff=cutoff, monotonic=monotonic, refreshed=refreshed
        )

    assert epsilon(True, refreshed) < epsilon(False, refreshed)
    assert epsilon(False, False) <= epsilon(False, True)


def test_dwork_and_roths_calibration_spends_what_they_say():
    """Algorithm 2 of Dwork and Roth at delta = 0: threshold noise 2c/eps, query noise 4c/eps."""
    for cutoff in range(1, 6):
        epsilon = Fraction(3, 7)
        scale = 2 * cutoff / epsilon
        spent = sparse_vector_epsilon(
            1, scale=scale, query_scale=2 * scale, cutoff=cutoff, monotonic=False, refreshed=True
        )
        assert spent == epsilon
