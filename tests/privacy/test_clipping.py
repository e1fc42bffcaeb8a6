"""Exact: truncated noise on every node of a small tree, enumerated in rational numbers."""

from fractions import Fraction

import pytest

from opendp_tree import Tree
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.paper import clipping_delta
from opendp_tree.theorems.tails import truncated_laplace_delta
from tests.privacy.divergence import worst
from tests.privacy.test_tree_sum import all_trees, changes
from tests.privacy.test_truncated_laplace import release_law

Q = Fraction(1, 2)


def worst_of(tree, radius, k):
    """The largest divergence over all changes of the leaf counts by k, at the claimed epsilon."""
    epsilon = laplace_epsilon(k, scales=[Fraction(1)] * tree.depth)
    assert epsilon.denominator == 1
    moved = [tuple(tree.sum(change).tolist()) for change in changes(tree.leaf_count, k)]
    pairs = [((0,) * tree.node_count, counts) for counts in moved]
    return worst(lambda counts: release_law(Q, radius, counts), pairs, 1 / Q ** int(epsilon))


@pytest.mark.parametrize("radius", [1, 2])
@pytest.mark.parametrize("k", [1, 2])
def test_no_tree_is_worse_than_the_claim_and_every_tree_reaches_it(radius, k):
    for nodes in (1, 2, 3, 4):
        for tree in all_trees(nodes):
            assert worst_of(tree, radius, k) == clipping_delta(Q, radius=radius, d_in=k, depth=tree.depth)


def test_mutant_one_level_is_rejected():
    """The delta of one count, as if the levels were disjoint."""
    chain = Tree.from_parents([-1, 0])
    assert worst_of(chain, 2, 1) > truncated_laplace_delta(Q, radius=2, d_in=1)
