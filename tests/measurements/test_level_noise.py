import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.measurements import level_noise
from opendp_tree.theorems.tree_noise import tree_gaussian_rho, tree_laplace_epsilon

WEIGHTS = st.lists(st.integers(1, 100).map(float), min_size=1, max_size=6)


@given(WEIGHTS)
def test_a_level_pays_as_many_parts_of_the_loss_as_it_weighs(weights):
    for noise, price, power in (("laplace", tree_laplace_epsilon, 1), ("gaussian", tree_gaussian_rho, 2)):
        scales = level_noise.level_scales(noise, 8.0, weights)
        paid = [float(price(1, scales=[Fraction(scale)])) for scale in scales]
        one = float(price(1, scales=[Fraction(8)]))
        assert paid == pytest.approx([weight * one for weight in weights], rel=1e-12), power


def test_a_level_without_weight_gets_no_noise_because_it_is_not_measured():
    assert level_noise.level_scales("laplace", 2.0, [0.0, 1.0]) == (math.inf, 2.0)
    assert level_noise.check_weights(None, 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("weights", [[1.0], "12", [0, 0], [1, -1], [1, math.nan]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        level_noise.check_weights(weights, 2)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_the_variance_of_integer_laplace_noise_is_its_sum(scale):
    q = math.exp(-1 / scale)
    summed = 2 * (1 - q) / (1 + q) * math.fsum(k * k * q**k for k in range(1, 2000))
    assert level_noise.laplace_variance(scale) == pytest.approx(summed, rel=1e-9)
    assert level_noise.laplace_variance(1e-310) == 0


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1e6])
def test_one_laplace_noise_stays_within_its_bound_and_one_less_would_not_do(scale, confidence):
    q = math.exp(-1 / scale)

    def beyond(bound):
        return 2 * q ** (bound + 1) / (1 + q)

    bound = level_noise.single_bound("laplace", scale, confidence)
    assert beyond(bound) <= (1 - confidence) * (1 + 1e-6)
    assert bound == 0 or beyond(bound - 2) > 1 - confidence


def test_equal_numbers_are_written_once():
    assert level_noise.one_or_all([3, 3]) == "3"
    assert level_noise.one_or_all([3, 4]) == "3, 4"
