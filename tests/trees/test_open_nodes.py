import numpy as np
import pytest

from opendp_tree.trees.open_nodes import nested_parents
from tests.shapes import SHAPES


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_parents_follow_from_levels_and_first_places(tree):
    """Any tree, its nodes level by level, each known by its place in depth-first order or by its first leaf's."""
    for first in (tree._node_ranges[0], tree.leaf_ranges[0]):
        order = np.lexsort((first, tree.node_levels))
        found = nested_parents(tree.node_levels[order], first[order])
        assert np.where(found < 0, -1, order[found]).tolist() == tree.parents[order].tolist()


def test_no_node_and_a_root_alone():
    empty = np.zeros(0, dtype=np.int64)
    assert nested_parents(empty, empty).tolist() == []
    assert nested_parents(np.array([0]), np.array([0])).tolist() == [-1]
