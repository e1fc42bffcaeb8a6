"""Nothing that is private is below the lower bounds; and the search finds nearly the best that the theorem gives."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.factorization import factorization_bound
from opendp_tree import Tree, plan
from opendp_tree.bounds import complete_depth, error_lower_bound, packing_bound, unbiased_error_lower_bound
from opendp_tree.mechanisms import truncated_laplace_radius
from opendp_tree.paper import multiplicative_threshold
from opendp_tree.theorems.packing import balanced_gamma_squared, packing_rmse, unbiased_rmse
from opendp_tree.trees.least_squares import LeastSquares
from tests.shapes import SHAPES, caterpillar, random_tree
from tests.thoroughness import examples, slow

EPSILONS = [1e-6, 0.01, 0.3, 1.0, 3.0, 10.0, 40.0]
ALPHAS = [0.0, 0.1, 0.5, 0.999]
PAIR = Tree.balanced(branching=2, depth=2)


def laplace_rmse(epsilon):
    """Of integer Laplace noise of scale 1/epsilon."""
    return 1 / (math.sqrt(2) * math.sinh(epsilon / 2)) if epsilon < 1000 else 0.0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("depth", [1, 3, 9, 200, *slow([2, 5, 33, 10_000])])
def test_laplace_noise_is_above(depth, epsilon):
    """Noise of scale depth/epsilon on every node; at an empty node alpha forgives nothing."""
    for alpha in ALPHAS:
        for branching in (2, 50):
            bound = error_lower_bound(depth, epsilon=epsilon, alpha=alpha, branching=branching)
            assert 0 < bound <= laplace_rmse(epsilon / depth)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("depth", [1, 3, 9, 200, *slow([2, 5, 33, 10_000])])
def test_telling_the_data_with_chance_delta_is_above(depth, epsilon):
    """Else Laplace noise: (epsilon, delta)-DP, with an error that falls to nothing as delta grows to 1."""
    for delta in (1e-12, 1e-6, 0.01, 0.5, 0.99, 1 - 1e-9):
        for branching in (2, 50):
            bound = error_lower_bound(depth, epsilon=epsilon, delta=delta, branching=branching)
            assert bound <= math.sqrt(1 - delta) * laplace_rmse(epsilon / depth)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.1])
def test_truncated_noise_on_one_count_is_above(epsilon, delta):
    radius = truncated_laplace_radius(1 / epsilon, delta=delta)
    z = np.arange(-radius, radius + 1)
    masses = np.exp(-np.abs(z) * epsilon)
    error = math.sqrt((masses * z**2).sum() / masses.sum())
    bound = error_lower_bound(1, epsilon=epsilon, delta=delta)
    assert bound <= error
    assert bound > 0.3 * error


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 11])
def test_noise_with_least_squares_is_above(depth):
    tree = Tree.balanced(branching=2, depth=depth)
    variances = LeastSquares.of(tree, np.ones(tree.node_count)).variances
    for epsilon in (0.01, 1.0, 5.0):
        error = laplace_rmse(epsilon / depth) * math.sqrt(variances.max())
        assert error_lower_bound(tree, epsilon=epsilon) == error_lower_bound(depth, epsilon=epsilon) <= error
    for rho in (1e-4, 0.02, 0.5):
        deviation = math.sqrt(depth / (2 * rho))
        z = np.arange(-int(10 * deviation) - 5, int(10 * deviation) + 6)
        masses = np.exp(-((z / deviation) ** 2) / 2)
        error = math.sqrt((masses * z**2).sum() / masses.sum() * variances.max())
        assert 0.1 * error < error_lower_bound(tree, rho=rho) <= error


@pytest.mark.parametrize("depth", [1, 9, pytest.param(129, marks=pytest.mark.slow)])
@pytest.mark.parametrize("alpha", [0.1, 0.9])
def test_partitions_are_above(depth, alpha):
    for epsilon, delta in ((0.1, 1e-2), (1.0, 1e-6), (4.0, 1e-9)):
        found = plan(depth, epsilon=epsilon, delta=delta, alpha=alpha, nodes="public")
        error = found.candidate("tree_estimator").error
        assert error_lower_bound(depth, epsilon=epsilon, delta=delta, alpha=alpha, branching=50) <= error


@pytest.mark.parametrize("depth", [1, 5, 33, 10**6])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_the_multiplicative_estimator_is_above(depth, alpha):
    for epsilon, delta, eta in itertools.product((0.1, 1.0), (1e-9, 1e-3), (0.01, 0.4)):
        tau = multiplicative_threshold(depth=depth, alpha=alpha, epsilon=epsilon, delta=delta, eta=eta)
        assert packing_bound(depth, alpha=alpha, eta=eta, epsilon=epsilon, delta=delta) <= tau


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("depth", [1, 3, 17, 300])
def test_laplace_noise_is_accurate_above_the_packing_bound(depth, epsilon):
    """Its quantile is alpha * tau; integer noise of scale s exceeds x with chance at most e**(-x/s)."""
    for eta, alpha in itertools.product((0.01, 0.2, 0.45), (0.05, 0.5, 0.95)):
        tau = depth / epsilon * math.log(1 / eta) / alpha
        bound = packing_bound(depth, alpha=alpha, eta=eta, epsilon=epsilon)
        assert bound <= tau
        if eta == 0.01 and alpha == 0.05 and epsilon < 3:
            assert bound > tau / 30


def test_larger_constants_would_exceed_what_noise_achieves():
    """So the bounds are not vacuous: 2.2 times the pure one, 2.4 times that of zCDP are mutants that noise refutes."""
    assert 2.2 * error_lower_bound(1, epsilon=0.01) > laplace_rmse(0.01)
    assert 2.4 * error_lower_bound(1, rho=1e-4) > math.sqrt(1 / 2e-4)


@examples(60)
@given(
    st.integers(1, 2000),
    st.floats(-4, 1.5).map(lambda x: 10.0**x),
    st.sampled_from([0.0, 1e-12, 1e-6, 0.01, 0.5]),
    st.sampled_from([2, 8]),
)
def test_the_search_comes_near_the_best_number_of_steps(depth, epsilon, delta, branching):
    found = error_lower_bound(depth, epsilon=epsilon, delta=delta, branching=branching)
    top = (depth * math.log(branching) + 5) / epsilon
    for steps in np.unique(np.geomspace(1, max(top, 2), 12).astype(np.int64)).tolist():
        for arity in (2, branching):
            there = packing_rmse(
                steps, levels=depth - 1, branching=arity, epsilon=Fraction(epsilon), delta=Fraction(delta)
            )
            assert there <= found * 1.02


@pytest.mark.parametrize(
    ("name", "values", "falls"),
    [
        ("tree", [1, 2, 3, 5, 9, 33, 200, 10_000], False),
        ("branching", [1, 2, 4, 12, 1000], False),
        ("epsilon", [1e-12, 1e-6, 0.01, 1.0, 30.0], True),
        ("rho", [1e-12, 1e-6, 0.01, 1.0, 30.0], True),
        ("delta", [0.0, 1e-12, 1e-6, 1e-2, 0.9], True),
        ("alpha", [0.0, 0.1, 0.9, 1 - 2**-53], True),
    ],
)
def test_bounds_rise_and_fall_with_each_argument(name, values, falls):
    others = {"tree": 20} if name == "rho" else {"tree": 20, "epsilon": 1.0}
    found = [error_lower_bound(**{**others, name: value}) for value in values]
    assert found == sorted(found, reverse=falls)


def test_bounds_are_in_proportion_to_the_people_and_need_branching():
    assert error_lower_bound(20, epsilon=1.0, branching=1) == error_lower_bound(1, epsilon=1.0)
    assert error_lower_bound(20, epsilon=1.0, d_in=5) == pytest.approx(5 * error_lower_bound(20, epsilon=1.0))
    assert packing_bound(20, epsilon=1.0, alpha=0.1, eta=0.1, d_in=5) == pytest.approx(
        5 * packing_bound(20, epsilon=1.0, alpha=0.1, eta=0.1)
    )


@pytest.mark.parametrize("branching", [2, 3, 5])
def test_complete_depth_is_what_recursion_finds(branching):
    def recursive(tree, node):
        below = sorted((recursive(tree, child) for child in np.flatnonzero(tree.parents == node)), reverse=True)
        if not below:
            return 1
        return max(below[0], below[branching - 1] + 1 if len(below) >= branching else 0)

    trees = [*SHAPES.values(), *(random_tree(80, seed) for seed in range(5)), Tree.balanced(branching=5, depth=3)]
    for tree in trees:
        assert complete_depth(tree, branching=branching) == recursive(tree, tree.root)


def test_a_tree_is_as_hard_as_the_complete_trees_in_it():
    chain, spine = Tree.from_parents(np.arange(50) - 1), caterpillar(40)
    assert error_lower_bound(chain, rho=0.1) == error_lower_bound(1, rho=0.1)
    assert error_lower_bound(spine, rho=0.1) == error_lower_bound(2, rho=0.1)
    wide = Tree.balanced(branching=8, depth=5)
    assert error_lower_bound(wide, rho=0.1) == error_lower_bound(5, rho=0.1, branching=8)
    assert packing_bound(wide, rho=0.1, alpha=0.1, eta=0.1) == packing_bound(5, rho=0.1, alpha=0.1, eta=0.1)


def test_extremes_are_numbers():
    for value in (5e-324, 1e-300, 1e300):
        for name in ("epsilon", "rho"):
            for depth in (1, 2**40):
                assert 0 <= error_lower_bound(depth, **{name: value}) < 2**62
                assert packing_bound(depth, alpha=0.5, eta=0.25, **{name: value}) >= 0
    assert error_lower_bound(5, epsilon=1e-300, delta=5e-324) > 1e9
    assert error_lower_bound(5, epsilon=5000.0, delta=1e-6) == 0
    assert unbiased_error_lower_bound(PAIR, epsilon=1e300) == unbiased_error_lower_bound(PAIR, rho=1e300) == 0
    assert unbiased_error_lower_bound(PAIR, epsilon=1e-50) > unbiased_error_lower_bound(PAIR, epsilon=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: error_lower_bound(5), ValueError, "either epsilon or rho must be given"),
        (lambda: error_lower_bound(5, epsilon=1.0, rho=1.0), ValueError, "either epsilon or rho must be given"),
        (lambda: error_lower_bound(5, rho=1.0, delta=0.1), ValueError, r"delta \(0.1\) goes with epsilon"),
        (lambda: error_lower_bound(5, epsilon=0.0), ValueError, r"epsilon \(0.0\) must be positive"),
        (lambda: error_lower_bound(5, epsilon=1.0, delta=1.0), ValueError, r"delta \(1.0\) must be above 0"),
        (lambda: error_lower_bound(5, epsilon=1.0, alpha=1.0), ValueError, r"alpha \(1.0\) must be below 1"),
        (lambda: error_lower_bound(5, epsilon=1.0, d_in=0), ValueError, r"d_in \(0\) must be an integer from 1"),
        (lambda: error_lower_bound(5, epsilon=1.0, branching=0), ValueError, r"branching \(0\) must be an integer"),
        (lambda: error_lower_bound(0, epsilon=1.0), ValueError, r"tree \(0\), as a depth, must be from 1"),
        (lambda: error_lower_bound("5", epsilon=1.0), TypeError, r"tree \(str\) must be a Tree or a depth"),
        (lambda: packing_bound(5, epsilon=1.0, alpha=0.1, eta=0.5), ValueError, r"eta \(0.5\) must be below 1/2"),
        (lambda: packing_bound(5, epsilon=1.0, alpha=0.0, eta=0.1), ValueError, r"alpha \(0.0\) must be above 0"),
        (lambda: unbiased_error_lower_bound(5, rho=1.0), TypeError, r"tree \(int\) must be a Tree"),
        (lambda: unbiased_error_lower_bound(PAIR), ValueError, "either epsilon or rho must be given"),
        (lambda: unbiased_error_lower_bound(PAIR, epsilon=1.0, rho=1.0), ValueError, "either epsilon or rho must be"),
        (lambda: unbiased_error_lower_bound(PAIR, rho=-1.0), ValueError, r"rho \(-1.0\) must be"),
        (lambda: unbiased_error_lower_bound(PAIR, rho=1.0, d_in=0), ValueError, "d_in"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_unbiased_bounds_are_below_our_unbiased_mechanisms():
    tree = Tree.balanced(branching=2, depth=8)
    for epsilon in (0.01, 0.3, 1.0, 5.0):
        variance = 1 / (2 * math.sinh(epsilon / 2 / tree.depth) ** 2)
        error = math.sqrt(LeastSquares.of(tree, np.full(tree.node_count, variance)).variances.max())
        assert unbiased_error_lower_bound(tree, epsilon=epsilon) <= error
    for rho in (0.0001, 0.01, 0.5):
        error = math.sqrt(LeastSquares.of(tree, np.full(tree.node_count, tree.depth / (2 * rho))).variances.max())
        bound = unbiased_error_lower_bound(tree, rho=rho)
        assert bound <= error
        if rho < 0.001:
            assert error < 1.25 * bound
    assert unbiased_error_lower_bound(tree, rho=0.5, d_in=3) == pytest.approx(
        3 * unbiased_error_lower_bound(tree, rho=0.5)
    )


@pytest.mark.parametrize(("branching", "depth"), [(1, 4), (2, 5), (3, 4), (5, 3), (10, 3)])
def test_the_unbiased_bound_of_a_complete_tree_is_its_own(branching, depth):
    tree = Tree.balanced(branching=branching, depth=depth)
    square = balanced_gamma_squared(branching=branching, depth=depth)
    assert unbiased_error_lower_bound(tree, rho=0.5) == unbiased_rmse(square, rho=Fraction(1, 2))


@pytest.mark.parametrize("name", SHAPES)
def test_the_unbiased_bound_of_any_tree_is_at_most_what_is_certified(name):
    upper = factorization_bound(SHAPES[name]).upper * unbiased_rmse(Fraction(1), rho=Fraction(1, 2))
    assert unbiased_error_lower_bound(SHAPES[name], rho=0.5) <= upper * (1 + 1e-12)
