import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.trees.arrays import check_parents, node_levels, subtree_ranges
from tests.shapes import SHAPES, ancestors


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
