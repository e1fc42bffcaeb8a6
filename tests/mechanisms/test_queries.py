"""Weighted sums, ranges and prefixes: variances of dense solves, coverage, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from opendp_tree import Tree, TreeRelease, leaf_domain, make_consistent, make_tree_laplace
from opendp_tree.mechanisms import linear_counts, prefix_counts, range_counts
from opendp_tree.mechanisms.queries import range_edges, range_variance
from tests.goodness_of_fit import FALSE_ALARM
from tests.trees.test_least_squares import matrix

TREE = Tree.from_paths([(a, b) for a in range(6) for b in range(1 + a % 4)])


def ordered_tree(rng, nodes):
    """A ragged tree numbered depth-first."""
    parents, path = [-1], [0]
    for node in range(1, nodes):
        path = path[: int(rng.integers(1, len(path) + 1))]
        parents.append(path[-1])
        path.append(node)
    return Tree.from_parents(parents)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_variances_are_those_of_a_dense_solve(seed, missing):
    rng = np.random.default_rng([seed, int(100 * missing)])
    tree = ordered_tree(rng, 40)
    variances = np.exp(rng.normal(size=40))
    hidden = (rng.random(40) < missing) & (np.bincount(tree.parents[1:], minlength=40) > 0)
    variances[hidden] = np.inf
    release = make_consistent(tree, variances=variances, noise="normal")(rng.normal(size=40) * 50)
    under = matrix(tree)
    weighted = under[~hidden] / np.sqrt(variances[~hidden])[:, None]
    covariance = np.linalg.inv(weighted.T @ weighted)
    rows = rng.normal(size=(10, 40)) * (rng.random((10, 40)) < 0.3)
    found = linear_counts(release, rows)
    on_leaves = rows @ under
    expected = np.einsum("ij,jk,ik->i", on_leaves, covariance, on_leaves)
    np.testing.assert_allclose(found.variances, expected, rtol=1e-8)
    np.testing.assert_allclose(found.estimates, rows @ release.estimates)
    edges = range_edges(tree.level_order)
    for _ in range(20):
        a, b = sorted(rng.integers(0, tree.leaf_count + 1, 2).tolist())
        inside = (np.arange(tree.leaf_count) >= a) & (np.arange(tree.leaf_count) < b)
        variance = range_variance(release.fit.estimator, edges(a, b))
        assert variance == pytest.approx(inside @ covariance @ inside, rel=1e-9)
        leaves = release.estimates[tree.leaves][a:b]
        assert range_counts(release, a, b).estimates[0] == pytest.approx(leaves.sum(), abs=1e-9)


def test_a_child_that_was_not_measured_is_a_limit():
    tree = Tree.from_parents([-1, 0, 0, 0])
    release = make_consistent(tree, variances=np.array([1.0, np.inf, 2.0, 3.0]))([9, 0, 2, 3])
    rows = [[0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, -1, -1, -1], [0, 0, 0, 0]]
    np.testing.assert_allclose(linear_counts(release, rows).variances, [6, 4, 5, 1, 0, 0], atol=1e-12)
    edges = range_edges(tree.level_order)
    ranges = [range_variance(release.fit.estimator, edges(*each)) for each in ((0, 1), (0, 2), (1, 3), (0, 3), (2, 2))]
    assert ranges == pytest.approx([6.0, 4.0, 5.0, 1.0, 0.0])


@pytest.mark.parametrize("nonnegative", [False, True])
def test_intervals_cover(nonnegative):
    """One binomial test a query, each failing a right interval with probability 1e-9."""
    leaves = np.arange(TREE.leaf_count) % 4 * 5
    measurement = make_tree_laplace(
        leaf_domain(TREE), dp.l1_distance(T="i64"), 3.0, confidence=0.9, nonnegative=nonnegative
    )
    rng = np.random.default_rng(3)
    rows = np.concatenate((rng.normal(size=(3, TREE.node_count)), rng.random((3, TREE.node_count))))
    first, last = np.array([0, 1, 3, 2, 5]), np.array([5, 4, 12, 3, 13])
    truth = np.append(rows @ TREE.sum(leaves), [leaves[a:b].sum() for a, b in zip(first, last, strict=True)])
    rounds, hits = 600, np.zeros(11)
    for _ in range(rounds):
        release = measurement(leaves)
        sums, ranges = linear_counts(release, rows), range_counts(release, first, last)
        pairs = ((sums.lower, ranges.lower), (sums.estimates, ranges.estimates), (sums.upper, ranges.upper))
        lower, estimates, upper = map(np.concatenate, pairs)
        hits += (lower <= truth) & (truth <= upper)
        assert ((lower <= estimates) & (estimates <= upper)).all()
        assert not nonnegative or ranges.lower.min() >= 0
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


def test_other_releases_join_the_intervals_of_the_fewest_nodes():
    counts = TREE.sum(np.ones(TREE.leaf_count, dtype=np.int64)).astype(float)
    for confidence, expected in ((0.99, [0.99, 0.98, 1.0]), (1.0, [1.0, 1.0, 1.0])):
        release = TreeRelease(TREE, counts, counts - 2, counts + 3, confidence, None)
        found = range_counts(release, [0, 0, 4], [TREE.leaf_count, 3, 4])
        assert found.estimates.tolist() == [TREE.leaf_count, 3.0, 0.0]
        assert found.lower.tolist() == [TREE.leaf_count - 2, -1.0, 0.0]
        assert found.upper.tolist() == [TREE.leaf_count + 3, 9.0, 0.0]
        assert found.confidence.tolist() == pytest.approx(expected)


def test_prefixes_are_running_totals_and_deep_trees_work():
    release = make_consistent(TREE, variances=[1.0] * 3)(TREE.sum(np.arange(TREE.leaf_count)))
    found = prefix_counts(release, np.arange(TREE.leaf_count + 1))
    np.testing.assert_allclose(found.estimates, np.concatenate(([0], np.cumsum(np.arange(TREE.leaf_count)))), atol=1e-9)
    depth = 3000  # a caterpillar: each inner node has a leaf and the next inner node
    parents = np.arange(-1, 2 * depth) // 2 * 2
    parents[0] = -1
    parents[1::2] = np.arange(0, 2 * depth, 2)
    parents[2::2] = np.arange(0, 2 * depth, 2)
    tree = Tree.from_parents(parents)
    found = prefix_counts(make_consistent(tree, variances=np.ones(tree.node_count))(np.zeros(tree.node_count)), depth)
    assert math.isfinite(found.upper[0])


RELEASE = TreeRelease(Tree.from_parents([-1, 0, 0]), *np.ones((3, 3)), confidence=0.9, statement=None)
CROSSED = TreeRelease(Tree.from_parents([-1, 0, 0, 1, 2, 1]), *np.ones((3, 6)), confidence=0.9, statement=None)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: linear_counts(RELEASE, ["a"] * 3), TypeError, "weights must be numbers"),
        (lambda: linear_counts(RELEASE, [1, [2], 3]), TypeError, "weights must be numbers"),
        (lambda: linear_counts(RELEASE, [1, 2]), ValueError, "one number for each of the 3 nodes"),
        (lambda: linear_counts(RELEASE, [[[1, 2, 3]]]), ValueError, "one number for each"),
        (lambda: linear_counts(RELEASE, [1, np.nan, 2]), ValueError, "finite"),
        (lambda: range_counts(RELEASE, -1, 2), ValueError, "first must be from 0 to 2, the number of leaves"),
        (lambda: range_counts(RELEASE, 0, 99), ValueError, "last must be from 0 to 2, the number of leaves"),
        (lambda: range_counts(RELEASE, 2, 1), ValueError, "first must not be above last"),
        (
            lambda: range_counts(RELEASE, [0, 1], [2]),
            ValueError,
            r"first \(2\) and last \(1\) must have the same length",
        ),
        (lambda: range_counts(RELEASE, 0.5, 2), TypeError, "first must be an integer or a one-dimensional array"),
        (lambda: range_counts(RELEASE, "a", 2), TypeError, "first must be an integer"),
        (lambda: range_counts(CROSSED, 0, 1), ValueError, r"whose leaves are numbered depth-first\. Hint"),
    ],
)
def test_wrong_weights_and_ranges_are_named(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_counts_that_do_not_add_up_have_no_ranges():
    tree = Tree.balanced(branching=2, depth=2)
    release = TreeRelease(tree, *np.ones((3, 3)), confidence=0.9, statement=None, adds_up=False)
    with pytest.raises(ValueError, match="release must add up: one person may be counted at several leaves"):
        range_counts(release, 0, 1)
