import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.worst_case import battery, measured_error
from opendp_tree import leaf_domain, noise
from opendp_tree.mechanisms import make_pruned_descent, tree_noise
from opendp_tree.mechanisms.level_noise import (
    WIDEST_SUM,
    gaussian_above,
    laplace_above,
    laplace_excess,
    normal_excess,
    normal_tail,
)
from opendp_tree.mechanisms.pruned_descent import pruned_rmse, shown_chance, worst_pruned_rmse
from opendp_tree.theorems.gaussian import gaussian_rho
from opendp_tree.theorems.laplace import laplace_epsilon

WEIGHTS = st.lists(st.integers(1, 100).map(float), min_size=1, max_size=6)


@given(WEIGHTS)
def test_a_level_pays_as_many_parts_of_the_loss_as_it_weighs(weights):
    for law, price, power in (("laplace", laplace_epsilon, 1), ("gaussian", gaussian_rho, 2)):
        scales = tree_noise.level_scales(law, 8.0, weights)
        paid = [float(price(1, scales=[Fraction(scale)])) for scale in scales]
        one = float(price(1, scales=[Fraction(8)]))
        assert paid == pytest.approx([weight * one for weight in weights], rel=1e-12), power


def test_a_level_without_weight_gets_no_noise_because_it_is_not_measured():
    assert tree_noise.level_scales("laplace", 2.0, [0.0, 1.0]) == (math.inf, 2.0)
    assert tree_noise.check_weights(None, 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("weights", [[1.0], "12", [0, 0], [1, -1], [1, math.nan]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        tree_noise.check_weights(weights, 2)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_the_variance_of_integer_laplace_noise_is_its_sum(scale):
    q = math.exp(-1 / scale)
    summed = 2 * (1 - q) / (1 + q) * math.fsum(k * k * q**k for k in range(1, 2000))
    assert tree_noise.laplace_variance(scale) == pytest.approx(summed, rel=1e-9)
    assert tree_noise.laplace_variance(1e-310) == 0


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1e6])
def test_one_laplace_noise_stays_within_its_bound_and_one_less_would_not_do(scale, confidence):
    q = math.exp(-1 / scale)

    def beyond(bound):
        return 2 * q ** (bound + 1) / (1 + q)

    bound = tree_noise.single_bound("laplace", scale, confidence)
    assert beyond(bound) <= (1 - confidence) * (1 + 1e-6)
    assert bound == 0 or beyond(bound - 2) > 1 - confidence


def test_equal_numbers_are_written_once():
    assert tree_noise.one_or_all([3, 3]) == "3"
    assert tree_noise.one_or_all([3, 4]) == "3, 4"


WHOLE = np.arange(-3000.0, 3001.0)


def law(weights):
    return weights / weights.sum()


def excess(values, chances, edge):
    return float((chances * np.maximum(values - edge, 0) ** 2).sum())


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("edge", [-7.25, -1.0, 0.0, 0.5, 3.0, 19.9])
def test_laplace_parts_are_sums_over_the_law(scale, edge):
    chances = law(np.exp(-np.abs(WHOLE) / scale))
    assert laplace_excess(np.array(edge), scale) == pytest.approx(excess(WHOLE, chances, edge), rel=1e-9, abs=1e-15)
    start = math.ceil(max(edge, 0))
    beyond = (chances * (WHOLE - edge) ** 2)[start <= WHOLE].sum()
    assert laplace_above(np.array(float(start)), np.array(edge), scale) == pytest.approx(beyond, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("scale", [0.4, 3.0, 100.0])
def test_gaussian_parts_are_sums_over_the_law(scale):
    chances = law(np.exp(-((WHOLE / scale) ** 2) / 2))
    for start, edge in ((0, 0.0), (2, 1.5), (50, 12.0)):
        beyond = (chances * (WHOLE - edge) ** 2)[start <= WHOLE].sum()
        found = gaussian_above(np.array(float(start)), np.array(edge), scale)
        assert found == pytest.approx(beyond, rel=1e-9, abs=1e-15)


def test_wide_gaussian_laws_are_normal_ones():
    starts = np.array([0.0, 1e3, 1e4])
    edges = np.array([0.0, 900.0, 5e3])
    below, above = (gaussian_above(starts, edges, WIDEST_SUM * step) for step in (1.0, 1 + 1e-9))
    np.testing.assert_allclose(below, above, rtol=1e-5)


def test_normal_tail():
    at = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(normal_tail(at), [0.5 * math.erfc(x / math.sqrt(2)) for x in at], atol=2e-7)


@pytest.mark.parametrize("cells", [2, 5, 30])
def test_sums_of_laplace_noise_are_nearly_normal(cells):
    """Within 9 % of the true moment where that matters, to one and a half deviations; plain normal noise is not."""
    one = law(np.exp(-np.abs(np.arange(-200.0, 201.0)) / 5))
    summed = one
    for _ in range(cells - 1):
        summed = np.convolve(summed, one)
    values = np.arange(summed.size) - summed.size // 2
    deviation = math.sqrt(float((summed * values**2).sum()))
    for edge in np.array([-1.0, 0.0, 0.7, 1.5]) * deviation:
        exact = excess(values, summed, edge)
        assert normal_excess(edge, deviation, 3 / cells) == pytest.approx(exact, rel=0.09)
    if cells == 2:
        assert normal_excess(1.5 * deviation, deviation) < 0.7 * excess(values, summed, 1.5 * deviation)


def test_excess_is_what_simulation_finds():
    """Six standard errors of the mean over a million draws: a false alarm in 5e8 runs."""
    found = np.maximum(noise.laplace(10.0, 1_000_000) - 4.5, 0) ** 2
    assert abs(found.mean() - laplace_excess(np.array(4.5), 10.0)) < 6 * found.std() / 1000


DRAWS = {"laplace": noise.laplace, "gaussian": noise.gaussian}


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.4, 3.0, 25.0])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_errors_are_sums_over_the_laws(law, scale, alpha):
    """Against the definition, summed over all noise that matters; below 1e-5 that sum is rounding."""
    values = np.arange(-2000.0, 2001.0)
    chances = np.exp(-np.abs(values) / scale) if law == "laplace" else np.exp(-((values / scale) ** 2) / 2)
    chances /= chances.sum()
    threshold, levels = int(9 * scale) + 3, 4
    for weight in (1, threshold // 2, threshold, threshold + int(2 * scale), 3 * threshold):
        reached = values + weight >= threshold
        chance = chances[reached].sum()
        error = np.maximum(np.abs(np.where(reached, values, -weight)) - alpha * weight, 0) ** 2
        hidden = max(weight - alpha * weight, 0) ** 2
        above = chance ** (levels - 1)
        exact = above * (chances * error).sum() + (1 - above) * hidden
        found = pruned_rmse([weight], noise=law, scales=[scale] * levels, thresholds=[threshold] * levels, alpha=alpha)
        assert found[0] == pytest.approx(exact**0.5, rel=1e-6, abs=1e-5)
        assert shown_chance(np.array([threshold - weight]), law, scale)[0] == pytest.approx(chance, rel=1e-9)


def test_levels_may_differ():
    """A level that shows everything changes nothing; one that shows nothing leaves the weight."""
    one = pruned_rmse([20, 40], noise="laplace", scales=[3.0], thresholds=[30], alpha=0.1)
    free = pruned_rmse([20, 40], noise="laplace", scales=[1.0, 3.0], thresholds=[-500, 30], alpha=0.1)
    np.testing.assert_allclose(one, free)
    shut = pruned_rmse([20, 40], noise="laplace", scales=[1.0, 3.0], thresholds=[500, 30], alpha=0.1)
    np.testing.assert_allclose(shut, [18, 36])


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [0.5, 6.0, 300.0, 1e5])
def test_the_worst_weight_is_found(law, scale):
    parameters = {"noise": law, "scales": [scale] * 9, "thresholds": [int(14 * scale) + 2] * 9, "alpha": 0.1}
    weights = np.unique(np.rint(np.linspace(1, 40 * scale + 10, 20_000)))
    worst = worst_pruned_rmse(**parameters)
    assert worst >= pruned_rmse(weights, **parameters).max() * (1 - 1e-9)
    assert worst <= pruned_rmse(weights, **parameters).max() * (1 + 1e-3)


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize(("depth", "alpha"), [(2, 0.5), (8, 0.1)])
def test_pruned_descent_errs_as_predicted(law, depth, alpha):
    """Within 3 %, which the grid of weights may miss, and five standard errors; on a tree with a root above."""
    parameters = {"noise": law, "scales": [4.0] * depth, "thresholds": [40] * depth, "alpha": alpha}
    chains = battery(depth + 1, alpha=alpha, open=True, threshold=40, spread=4.0, copies=2000)
    descent = make_pruned_descent(leaf_domain(chains.tree), dp.l1_distance(T="i64"), 4.0, threshold=40, noise=law)
    found = measured_error(descent, chains, alpha=alpha)
    assert abs(worst_pruned_rmse(**parameters) - found.error) < 0.03 * found.error + 5 * found.deviation
