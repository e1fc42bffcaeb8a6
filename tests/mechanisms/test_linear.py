import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from opendp_tree import Tree, TreeRelease, leaf_domain, make_consistent, make_tree_laplace
from opendp_tree.mechanisms import linear_counts, range_counts
from tests.goodness_of_fit import FALSE_ALARM
from tests.shapes import random_tree
from tests.trees.test_least_squares import matrix

TREE = Tree.from_paths([(a, b) for a in range(6) for b in range(1 + a % 4)])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_variances_are_those_of_a_dense_solve(seed, missing):
    rng = np.random.default_rng([seed, int(100 * missing)])
    tree = random_tree(40, seed)
    variances = np.exp(rng.normal(size=40))
    hidden = (rng.random(40) < missing) & (np.bincount(tree.parents[tree.parents >= 0], minlength=40) > 0)
    variances[hidden] = np.inf
    release = make_consistent(tree, variances=variances, noise="normal")(rng.normal(size=40) * 50)
    under = matrix(tree)
    weighted = under[~hidden] / np.sqrt(variances[~hidden])[:, None]
    covariance = under @ np.linalg.inv(weighted.T @ weighted) @ under.T
    rows = rng.normal(size=(10, 40)) * (rng.random((10, 40)) < 0.3)
    found = linear_counts(release, rows)
    np.testing.assert_allclose(found.variances, np.einsum("ij,jk,ik->i", rows, covariance, rows), rtol=1e-8)
    np.testing.assert_allclose(found.estimates, rows @ release.estimates)


def test_a_child_that_was_not_measured_is_a_limit():
    tree = Tree.from_parents([-1, 0, 0, 0])
    release = make_consistent(tree, variances=np.array([1.0, np.inf, 2.0, 3.0]))([9, 0, 2, 3])
    rows = [[0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, -1, -1, -1], [0, 0, 0, 0]]
    np.testing.assert_allclose(linear_counts(release, rows).variances, [6, 4, 5, 1, 0, 0], atol=1e-12)


def test_nodes_and_ranges_are_linear_queries():
    release = make_tree_laplace(leaf_domain(TREE), dp.l1_distance(T="i64"), 4.0)(np.arange(TREE.leaf_count))
    found = linear_counts(release, np.eye(TREE.node_count))
    for name in ("estimates", "lower", "upper"):
        np.testing.assert_allclose(getattr(found, name), getattr(release, name), atol=1e-9)
    rows = np.zeros((1, TREE.node_count))
    rows[0, TREE.leaves[2:9]] = 1
    joined, ranged = linear_counts(release, rows), range_counts(release, 2, 9)
    np.testing.assert_allclose([joined.lower, joined.upper], [ranged.lower, ranged.upper], atol=1e-9)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_intervals_cover(nonnegative):
    """One binomial test a query, each failing a right interval with probability 1e-9."""
    leaves = np.arange(TREE.leaf_count) % 4 * 5
    measurement = make_tree_laplace(
        leaf_domain(TREE), dp.l1_distance(T="i64"), 3.0, confidence=0.9, nonnegative=nonnegative
    )
    rng = np.random.default_rng(3)
    rows = np.concatenate((rng.normal(size=(3, TREE.node_count)), rng.random((3, TREE.node_count))))
    truth = rows @ TREE.sum(leaves)
    rounds, hits = 500, np.zeros(6)
    for _ in range(rounds):
        found = linear_counts(measurement(leaves), rows)
        hits += (found.lower <= truth) & (truth <= found.upper)
        assert ((found.lower <= found.estimates) & (found.estimates <= found.upper)).all()
    assert (stats.binom.cdf(hits, rounds, 0.9) > FALSE_ALARM).all()


def test_without_least_squares_intervals_are_joined():
    tree = Tree.from_parents([-1, 0, 0])
    middle = np.array([9.0, 6.0, 3.0])
    release = TreeRelease(tree, middle, middle - np.array([1, 2, np.inf]), middle + np.array([1, 3, np.inf]), 0.9, None)
    found = linear_counts(release, [[1, -1, 0], [0, 0, 0], [0, 2, 1]])
    assert found.variances is None
    assert found.estimates.tolist() == [3, 0, 15]
    assert found.lower.tolist() == [-1, 0, -np.inf]
    assert found.upper.tolist() == [6, 0, np.inf]
    np.testing.assert_allclose(found.confidence, [0.8, 1, 0.8])


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        (["a"] * 3, TypeError, "weights must be numbers"),
        ([1, 2], ValueError, "one number for each of the 3 nodes"),
        ([[[1, 2, 3]]], ValueError, "one number for each"),
        ([1, np.nan, 2], ValueError, "finite"),
        ([1, [2], 3], TypeError, "weights must be numbers"),
    ],
)
def test_weights_are_checked(weights, error, words):
    release = TreeRelease(Tree.from_parents([-1, 0, 0]), *np.ones((3, 3)), confidence=0.9, statement=None)
    with pytest.raises(error, match=words):
        linear_counts(release, weights)
