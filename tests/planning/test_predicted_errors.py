import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from opendp_tree import Tree, leaf_domain, make_tree_gaussian, make_tree_laplace
from opendp_tree.error_measures import l2_error, linf_error, mrmse_alpha
from opendp_tree.mechanisms.tree_noise import laplace_variance
from opendp_tree.planning import noise_errors
from opendp_tree.planning.laws import largest_error_bound
from tests.thoroughness import thinned

MAKERS = {"laplace": make_tree_laplace, "gaussian": make_tree_gaussian}
TREE = Tree.balanced(branching=3, depth=5)


@pytest.mark.parametrize("noise", MAKERS)
@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("weights", thinned([None, [1.0, 2.0, 1.0, 3.0, 1.0]], 2))
def test_predictions_are_what_is_measured(noise, consistent, weights):
    """l2 within 8 % of 400 runs of 121 correlated nodes, some ten standard errors; l-infinity not above its bound."""
    release = MAKERS[noise](leaf_domain(TREE), dp.l1_distance(T="i64"), 6.0, weights=weights, consistent=consistent)
    truth = TREE.sum(np.zeros(TREE.leaf_count, dtype=np.int64))
    runs = np.array([release(np.zeros(TREE.leaf_count, dtype=np.int64)).estimates for _ in range(400)])
    found = noise_errors(TREE, noise=noise, scale=6.0, weights=weights, consistent=consistent)
    assert l2_error(runs, truth) == pytest.approx(found.l2, rel=0.08)
    assert mrmse_alpha(runs, truth) == pytest.approx(found.worst, rel=0.25)
    assert linf_error(runs, truth) <= found.linf <= 2 * linf_error(runs, truth)


def exact_largest(tail, nodes):
    """The mean of the largest of independent absolute values, from P(value >= k)."""
    chances = np.array([tail(k) for k in range(1, 4000)])
    return float((-np.expm1(nodes * np.log1p(-chances))).sum())


@pytest.mark.parametrize("nodes", [1, 2, 30, 10**6])
def test_bounds_are_above_the_exact_mean_and_not_far(nodes):
    scale = 5.0
    q = math.exp(-1 / scale)
    laplace = exact_largest(lambda k: 2 * q**k / (1 + q), nodes)
    more = 2 * scale**2 / laplace_variance(scale)
    bound = largest_error_bound(np.full(min(nodes, 10**6), laplace_variance(scale) * more), noise="laplace")
    assert laplace <= bound <= 2 * laplace
    gaussian = exact_largest(lambda k: min(2 * stats.norm.sf((k - 0.5) / 20), 1 - 1e-12), nodes)
    bound = largest_error_bound(np.full(nodes, 20.0**2), noise="gaussian")
    assert gaussian <= bound <= 1.6 * gaussian


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_integer_laplace_noise_has_no_larger_exponential_moments(scale):
    """E exp(tz), summed, against 1/(1 - s^2 t^2)."""
    k = np.arange(1, 20_000)
    q = math.exp(-1 / scale)
    for share in (0.1, 0.5, 0.9, 0.99):
        t = share / scale
        moment = (1 - q) / (1 + q) * (1 + np.exp(-k * (1 / scale - t)).sum() + np.exp(-k * (1 / scale + t)).sum())
        assert moment <= 1 / (1 - share**2)


def test_levels_without_noise_of_their_own_have_an_error_by_least_squares_alone():
    weights = [0.0, 0.0, 0.0, 0.0, 1.0]
    found = noise_errors(TREE, noise="gaussian", scale=2.0, weights=weights)
    assert found.worst == pytest.approx(2.0 * 9)
    assert noise_errors(TREE, noise="laplace", scale=2.0, weights=weights, consistent=False).worst == math.inf
    assert largest_error_bound([0.0, 0.0], noise="laplace") == 0.0
    assert noise_errors(TREE, noise="laplace", scale=1e-3).l2 < 1e-40


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="must be a Tree"):
        noise_errors(3, noise="laplace", scale=1.0)
    with pytest.raises(ValueError, match="noise"):
        noise_errors(TREE, noise="cauchy", scale=1.0)
    with pytest.raises(ValueError, match="scale"):
        noise_errors(TREE, noise="laplace", scale=0.0)
