import math

import numpy as np
import pytest

from benchmarks import factorization
from benchmarks.factorization import certified_nuclear_norm, factorization_bound
from opendp_tree import Tree
from opendp_tree.trees import choose_level_weights
from opendp_tree.trees.least_squares import LeastSquares
from tests.shapes import SHAPES

RAGGED = {name: tree for name, tree in SHAPES.items() if name in ("caterpillar", "random")}


@pytest.mark.parametrize("name", SHAPES)
def test_bounds_are_in_order_and_close(name):
    bound = factorization_bound(SHAPES[name])
    assert bound.lower <= bound.upper <= 1.01 * bound.lower
    assert bound.upper <= bound.equal_weights * (1 + 1e-12)
    assert bound.ratio == bound.equal_weights / bound.lower


@pytest.mark.parametrize("name", SHAPES)
def test_no_gaussian_mechanism_here_is_below(name):
    """Level weights and random weights of nodes, each with least squares; the noise of one count has deviation 1."""
    tree, rng = SHAPES[name], np.random.default_rng(8)
    lower = factorization_bound(tree).lower
    weights = [np.array(choose_level_weights(tree))[tree.node_levels]] + [
        np.exp(rng.normal(0, 1, tree.node_count)) for _ in range(20)
    ]
    for precision in weights:
        loss = max(sum(precision[node] for node in way(tree, leaf)) for leaf in tree.leaves.tolist())
        error = math.sqrt(loss * LeastSquares.of(tree, 1 / precision).variances.max())
        assert error >= lower * (1 - 1e-12)  # the error is a float; on chains it is the bound


def way(tree, node):
    while node >= 0:
        yield node
        node = int(tree.parents[node])


@pytest.mark.parametrize(("branching", "depth"), [(2, 5), (3, 4), (6, 3)])
def test_the_search_finds_what_is_known_exactly(branching, depth):
    tree = Tree.balanced(branching=branching, depth=depth)
    exact = factorization_bound(tree)
    lower, upper = factorization._search(factorization._incidence(tree))
    assert lower <= exact.upper
    assert upper >= exact.lower * (1 - 1e-9)
    assert upper <= 1.003 * lower


def test_complete_trees_are_recognised_whatever_their_numbers():
    tree = Tree.from_parents([3, 3, 3, -1, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    assert factorization_bound(tree).lower == factorization_bound(Tree.balanced(branching=3, depth=3)).lower
    lopsided = Tree.from_parents([-1, 0, 0, 1, 1, 1, 2])  # 1, 2, 4 nodes, but not two children each
    assert factorization._branching(lopsided) is None


@pytest.mark.parametrize("sabotage", ["scaled", "noisy", "zero", "random"])
def test_the_certificate_holds_whatever_the_decomposition_did(monkeypatch, sabotage):
    rng = np.random.default_rng(6)
    matrix = rng.normal(size=(12, 7))
    truth = np.linalg.svd(matrix, compute_uv=False).sum()
    assert truth * (1 - 1e-9) < certified_nuclear_norm(matrix) <= truth
    right = np.linalg.svd

    def wrong(given, full_matrices):
        left, values, across = right(given, full_matrices=full_matrices)
        if sabotage == "scaled":
            return 3 * left, values, across
        if sabotage == "noisy":
            return left + 0.1 * rng.normal(size=left.shape), values, across
        if sabotage == "zero":
            return 0 * left, values, across
        return rng.normal(size=left.shape), values, across

    monkeypatch.setattr(np.linalg, "svd", wrong)
    assert 0 <= certified_nuclear_norm(matrix) <= truth
    if sabotage == "scaled":  # the mutant that does not divide by Y's norm
        left, _, across = wrong(matrix, False)
        assert float((matrix * (left @ across)).sum()) > truth


@pytest.mark.parametrize("name", RAGGED)
def test_a_search_that_goes_nowhere_still_gives_a_true_bound(monkeypatch, name):
    good = factorization_bound(RAGGED[name])
    monkeypatch.setattr(factorization, "_step", lambda weights, gain: weights)
    poor = factorization_bound(RAGGED[name])
    assert poor.lower < good.lower <= good.upper <= poor.upper
