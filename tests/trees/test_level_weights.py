import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain, make_tree_gaussian, make_tree_laplace
from opendp_tree.trees import choose_level_weights
from opendp_tree.trees.least_squares import LeastSquares
from tests.trees.test_least_squares import random_tree

TREES = {
    "binary": Tree.balanced(branching=2, depth=8),
    "three levels": Tree.from_paths([(a, b) for a in range(20) for b in range(a + 1)]),
    "ragged": random_tree(np.random.default_rng(8), 300),
    "chain": Tree.from_parents(np.arange(5) - 1),
    "one node": Tree.from_parents([-1]),
}
POWERS = {"gaussian": 1.0, "laplace": 2.0}
AIMS = ("worst", "mean")


def error(tree, weights, noise, aim):
    """The mean variance, or the largest of a node below the root."""
    weights = np.asarray(weights) * tree.depth / np.sum(weights)
    variances = LeastSquares.of(tree, (weights ** -POWERS[noise])[tree.node_levels]).variances
    return variances.mean() if aim == "mean" else variances[(tree.node_levels > 0) | (tree.depth == 1)].max()


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("noise", POWERS)
@pytest.mark.parametrize("aim", AIMS)
def test_never_worse_than_equal_weights_at_the_same_cost(name, noise, aim):
    tree = TREES[name]
    weights = choose_level_weights(tree, noise=noise, aim=aim)
    assert len(weights) == tree.depth
    assert sum(weights) == pytest.approx(tree.depth)
    assert min(weights) > 0
    assert error(tree, weights, noise, aim) <= error(tree, np.ones(tree.depth), noise, aim) * (1 + 1e-12)


@pytest.mark.parametrize("name", ["binary", "three levels"])
@pytest.mark.parametrize("aim", AIMS)
def test_no_random_weights_are_much_better(name, aim):
    """Gaussian noise, where the problem is convex: a thousand random weightings, none better by 3 percent."""
    tree, rng = TREES[name], np.random.default_rng(1)
    found = choose_level_weights(tree, aim=aim)
    reached = error(tree, found, "gaussian", aim)
    near = [
        np.array(found) * np.exp(rng.normal(size=tree.depth) * spread) for spread in (0.1, 0.3, 1.0) for _ in range(300)
    ]
    assert min(error(tree, weights, "gaussian", aim) for weights in near) > 0.97 * reached


@pytest.mark.parametrize(("make", "noise"), [(make_tree_laplace, "laplace"), (make_tree_gaussian, "gaussian")])
def test_releases_take_them_at_the_price_of_equal_weights(make, noise):
    tree = TREES["three levels"]
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    weights = choose_level_weights(tree, noise=noise, aim="mean")
    weighted, equal = make(*space, 5.0, weights=weights), make(*space, 5.0)
    assert weighted.map(1) == pytest.approx(equal.map(1), rel=1e-9)
    counts = np.full(tree.leaf_count, 100)
    promised = [release(counts).fit.estimator.variances.mean() for release in (weighted, equal)]
    assert promised[0] < promised[1]


@pytest.mark.parametrize(
    ("options", "error_type", "message"),
    [
        ({"noise": "normal"}, ValueError, r"noise \('normal'\) must be one of 'gaussian', 'laplace'"),
        ({"aim": "best"}, ValueError, r"aim \('best'\) must be one of 'worst', 'mean'"),
        ({"tree": [1, 2]}, TypeError, r"tree \(list\) must be a Tree"),
    ],
)
def test_wrong_arguments_are_named(options, error_type, message):
    with pytest.raises(error_type, match=message):
        choose_level_weights(**{"tree": TREES["chain"], **options})
