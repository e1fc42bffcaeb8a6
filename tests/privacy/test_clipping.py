"""Exact: truncated noise on every node of a small tree, enumerated in rational numbers."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.paper import clipping_delta
from opendp_tree.theorems.tails import truncated_laplace_delta
from tests.privacy.divergence import hockey_stick
from tests.privacy.test_tree_sum import all_trees
from tests.privacy.test_truncated_laplace import release_law

Q = Fraction(1, 2)


def worst(tree, radius, k):
    """The largest divergence over all changes of the leaf counts by k, at the claimed epsilon."""
    epsilon = laplace_epsilon(k, scales=[Fraction(1)] * tree.depth)
    assert epsilon.denominator == 1
    here = release_law(Q, radius, [0] * tree.node_count)
    found = Fraction(0)
    for change in product(range(-k, k + 1), repeat=tree.leaf_count):
        if sum(map(abs, change)) == k:
            moved = tree.sum(np.array(change, dtype=np.int64)).tolist()
            there = release_law(Q, radius, moved)
            ratio = 1 / Q ** int(epsilon)
            found = max(found, hockey_stick(here, there, ratio), hockey_stick(there, here, ratio))
    return found


@pytest.mark.parametrize("radius", [1, 2])
@pytest.mark.parametrize("k", [1, 2])
def test_no_tree_is_worse_than_the_claim_and_every_tree_reaches_it(radius, k):
    for nodes in (1, 2, 3, 4):
        for tree in all_trees(nodes):
            assert worst(tree, radius, k) == clipping_delta(Q, radius=radius, d_in=k, depth=tree.depth)


def test_mutant_one_level_is_rejected():
    """The delta of one count, as if the levels were disjoint."""
    chain = Tree.from_parents([-1, 0])
    assert worst(chain, 2, 1) > truncated_laplace_delta(Q, radius=2, d_in=1)
