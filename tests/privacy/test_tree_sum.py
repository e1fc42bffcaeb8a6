"""Exact: all trees of up to five nodes and all small changes of their leaf counts."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.theorems.noise import tree_sum_l1, tree_sum_l2_squared, tree_sum_linf


def all_trees(nodes):
    """Every tree whose parents come before their children; every shape is among them."""
    for parents in product(*(range(node) for node in range(1, nodes))):
        yield Tree.from_parents([-1, *parents])


TREES = [tree for nodes in range(1, 6) for tree in all_trees(nodes)]


def changes(leaves, k):
    for change in product(range(-k, k + 1), repeat=leaves):
        if sum(map(abs, change)) == k:
            yield np.array(change, dtype=np.int64)


def worst(tree, k, norm):
    """The largest movement of the node counts when the leaf counts move by k."""
    return max(norm([Fraction(int(x)) for x in tree.sum(change)]) for change in changes(tree.leaf_count, k))


NORMS = {
    "l1": (lambda moved: sum(map(abs, moved)), lambda k, depth: tree_sum_l1(k, depth=depth)),
    "l2": (lambda moved: sum(x * x for x in moved), lambda k, depth: tree_sum_l2_squared(k, depth=depth)),
    "linf": (lambda moved: max(map(abs, moved)), lambda k, depth: tree_sum_linf(k)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_stability_is_tight_on_every_small_tree(name, k):
    norm, theorem = NORMS[name]
    for tree in TREES:
        assert worst(tree, k, norm) == theorem(k, tree.depth)


def test_one_person_moves_all_counts_one_way():
    """The monotonic L-infinity distance requires this; for two people it does not hold."""
    for tree in TREES:
        for change in changes(tree.leaf_count, 1):
            moved = tree.sum(change)
            assert (moved >= 0).all() or (moved <= 0).all()
    pulled = Tree.balanced(branching=2, depth=2).sum(np.array([1, -1]))
    assert pulled.min() < 0 < pulled.max()


def test_mutant_depth_minus_one_is_rejected():
    """Depth counted in edges instead of nodes."""
    for name in ("l1", "l2"):
        norm, theorem = NORMS[name]
        assert any(worst(tree, 1, norm) > theorem(1, tree.depth - 1) for tree in TREES)


def test_mutant_l2_with_the_root_of_the_distance_is_rejected():
    """The square root of the group size is taken as well."""
    norm, _ = NORMS["l2"]
    assert any(worst(tree, 2, norm) > 2 * tree.depth for tree in TREES)
