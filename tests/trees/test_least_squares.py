"""Against dense linear algebra on random ragged trees, and against OpenDP on complete ones."""

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree
from opendp_tree.trees.least_squares import LeastSquares, check_variances


def random_tree(rng, nodes):
    """A ragged tree whose node ids are in no order."""
    parents = np.array([-1] + [int(rng.integers(0, node)) for node in range(1, nodes)])
    names = rng.permutation(nodes)
    shuffled = np.empty(nodes, dtype=np.int64)
    shuffled[names] = np.where(parents < 0, -1, names[parents])
    return Tree.from_parents(shuffled)


def matrix(tree):
    """The matrix that takes leaf counts to node counts."""
    return np.array([tree.sum(row) for row in np.eye(tree.leaf_count, dtype=np.int64)], dtype=float).T


def dense(tree, variances, measurements):
    """Estimates and variances by numpy.linalg.lstsq with weights; None where the counts are undetermined."""
    known = np.isfinite(variances)
    all_nodes = matrix(tree)
    weighted = all_nodes[known] / np.sqrt(variances[known])[:, None]
    if not known.any() or np.linalg.matrix_rank(weighted) < tree.leaf_count:
        return None
    leaves = np.linalg.lstsq(weighted, measurements[known] / np.sqrt(variances[known]), rcond=None)[0]
    spread = all_nodes @ np.linalg.pinv(weighted)
    return all_nodes @ leaves, (spread**2).sum(axis=1)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_equals_a_dense_solve_on_random_trees(seed, missing):
    rng = np.random.default_rng([seed, int(10 * missing)])
    tree = random_tree(rng, int(rng.integers(1, 60)))
    variances = np.exp(rng.normal(size=tree.node_count))
    variances[rng.random(tree.node_count) < missing] = np.inf
    measurements = matrix(tree) @ rng.integers(0, 50, tree.leaf_count) + rng.normal(size=tree.node_count) * 5
    expected = dense(tree, variances, measurements)
    if expected is None:
        with pytest.raises(ValueError, match=r"variances leave node \d+ undetermined"):
            LeastSquares.of(tree, variances)
        return
    fit = LeastSquares.of(tree, variances)
    solved = fit.solve(np.where(np.isfinite(variances), measurements, np.nan))
    np.testing.assert_allclose(solved, expected[0], rtol=1e-9, atol=1e-9 * np.abs(expected[0]).max())
    np.testing.assert_allclose(fit.variances, expected[1], rtol=1e-9)


@pytest.mark.parametrize(("branching", "depth"), [(2, 2), (2, 5), (3, 4), (10, 3)])
def test_equals_opendps_on_complete_trees(branching, depth):
    tree = Tree.balanced(branching=branching, depth=depth)
    noisy = np.random.default_rng(1).integers(-50, 1000, tree.node_count)
    theirs = dp.t.make_consistent_b_ary_tree(branching, TIA="i64", TOA="f64")(noisy)
    ours = LeastSquares.of(tree, np.full(tree.node_count, 7.0)).solve(noisy)
    np.testing.assert_allclose(ours[tree.leaves], theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def test_variances_survive_sizes_that_cancel():
    """One leaf is measured so badly that the sum of its parent's children is all its own in floats."""
    tree = Tree.from_parents([-1, 0, 0])
    fit = LeastSquares.of(tree, np.array([1.0, 1e40, 1.0]))
    np.testing.assert_allclose(fit.variances, [1.0, 2.0, 1.0], rtol=1e-12)
    fit = LeastSquares.of(tree, np.array([1.0, np.inf, 1.0]))
    np.testing.assert_allclose(fit.variances, [1.0, 2.0, 1.0], rtol=1e-12)
    assert fit.solve(np.array([10.0, np.nan, 3.0])).tolist() == [10.0, 7.0, 3.0]


@pytest.mark.parametrize(
    ("variances", "error", "message"),
    [
        ([1.0, -1.0, 1.0], ValueError, r"variances\[1\] \(-1.0\) must be from 1e-100 to 1e\+100, or inf"),
        ([1.0, np.nan, 1.0], ValueError, r"variances\[1\] \(nan\) must be from"),
        ([1.0, 1e101, 1.0], ValueError, r"variances\[1\] \(1e\+101\) must be from"),
        ([1.0] * 4, ValueError, r"variances \(of shape \(4,\)\) must hold one number for each of the 2 levels"),
        (1.0, ValueError, r"variances \(of shape \(\)\) must hold"),
        (["a", 1.0], TypeError, "variances must be numbers"),
        ([[1.0], [1.0, 2.0]], TypeError, "variances must be numbers"),
    ],
)
def test_wrong_variances_are_named(variances, error, message):
    with pytest.raises(error, match=message):
        check_variances(Tree.balanced(branching=2, depth=2), variances)


def test_levels_and_nodes_are_told_apart_by_length():
    tree = Tree.balanced(branching=2, depth=2)
    assert check_variances(tree, [1.0, 2.0]).tolist() == [1.0, 2.0, 2.0]
    assert check_variances(tree, [1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("variances", [[np.inf, np.inf, np.inf], [1.0, np.inf, np.inf]])
def test_undetermined_counts_are_refused(variances):
    with pytest.raises(ValueError, match=r"variances leave node [01] undetermined. Hint: measure it"):
        LeastSquares.of(Tree.balanced(branching=2, depth=2), np.array(variances))
