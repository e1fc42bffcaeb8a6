"""One order of nodes by level, against plain walks over trees of all shapes."""

import numpy as np
import pytest

from opendp_tree import Tree
from tests.shapes import SHAPES, random_tree

TREES = [*SHAPES.values(), Tree.from_parents([-1]), *(random_tree(40, seed) for seed in range(6))]


def level_by_level(tree):
    """The children of one level's nodes, in turn, are the next level."""
    order, here = [], [tree.root]
    while here:
        order += here
        here = [child for node in here for child in np.flatnonzero(tree.parents == node).tolist()]
    return order


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_places_are_those_of_a_walk_level_by_level(tree):
    order = tree.level_order
    assert order.nodes.tolist() == level_by_level(tree)
    assert order.by_id == (order.nodes.tolist() == list(range(tree.node_count)))
    assert np.where(order.parents < 0, -1, order.nodes[order.parents]).tolist() == tree.parents[order.nodes].tolist()
    assert order.levels.tolist() == tree.node_levels[order.nodes].tolist()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_values_come_back_to_their_nodes(tree):
    values = np.arange(tree.node_count)
    order = tree.level_order
    assert order.place(values).tolist() == order.nodes.tolist()
    assert order.by_node(order.place(values)).tolist() == values.tolist()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_inner_levels_hold_every_family_once(tree):
    order = tree.level_order
    assert len(order.inner_levels) == tree.depth - 1
    values = np.arange(1.0, tree.node_count + 1)
    for level in order.inner_levels:
        inner, children = order.nodes[level.inner], order.nodes[level.children]
        assert level.spread(inner).tolist() == tree.parents[children].tolist()
        expected = [values[order.parents == place].sum() for place in np.arange(tree.node_count)[level.inner]]
        assert level.sums(values).tolist() == expected


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_leaves_under_a_place_are_a_range(tree):
    first, last = tree.level_order.leaf_ranges
    sizes = tree.sum(np.ones(tree.leaf_count, dtype=np.int64))
    assert (last - first).tolist() == sizes[tree.level_order.nodes].tolist()
