"""Levels, ranges and the order of nodes by level."""

from __future__ import annotations

import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.trees.arrays import check_parents, node_levels, subtree_ranges
from tests.shapes import SHAPES, ancestors, random_tree


@pytest.mark.parametrize(
    ("given_parents", "error", "message"),
    [
        ([], ValueError, "parents must hold at least one node"),
        ([[-1, 0]], ValueError, "parents must be one-dimensional, found 2 dimensions"),
        ([-1.0, 0.0], TypeError, "parents must be integers, found float64"),
        ([True, False], TypeError, "parents must be integers, found bool"),
        (["-1"], TypeError, "parents must be integers"),
        ([-1, 2], ValueError, r"parents\[1\] \(2\) must be -1 or a node id from 0 to 1"),
        ([-1, -2], ValueError, r"parents\[1\] \(-2\) must be -1 or a node id"),
        ([0], ValueError, "parents has no root. Hint: the root's parent is -1"),
        ([-1, 0, -1], ValueError, "parents has 2 roots, the first two at 0 and 2"),
        ([-1, 2, 3, 1], ValueError, "parents has a cycle through node [123]"),
        ([-1, 0, 2], ValueError, "parents has a cycle through node 2"),
        ([-1, 0, 4, 2, 3, 2], ValueError, "parents has a cycle through node [234]"),
    ],
)
def test_parents_that_make_no_tree_are_named(given_parents, error, message):
    with pytest.raises(error, match=message):
        Tree.from_parents(given_parents)


def test_parents_are_copied():
    mine = np.array([-1, 0])
    checked = check_parents(mine)
    mine[1] = -1
    assert checked.tolist() == [-1, 0]


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_levels_are_steps_to_the_root(tree):
    assert node_levels(tree.parents).tolist() == [len(ancestors(tree, node)) - 1 for node in range(tree.node_count)]


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_subtrees_take_the_places_of_a_depth_first_walk(tree):
    walk, waiting = [], [tree.root]
    while waiting:
        walk.append(waiting.pop())
        waiting += np.flatnonzero(tree.parents == walk[-1])[::-1].tolist()
    first, last = subtree_ranges(tree.parents, np.ones(tree.node_count, dtype=np.int64))
    for node in range(tree.node_count):
        below = {other for other in range(tree.node_count) if node in ancestors(tree, other)}
        assert set(walk[first[node] : last[node]]) == below


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
