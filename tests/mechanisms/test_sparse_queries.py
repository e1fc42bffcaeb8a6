import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.mechanisms.sparse_queries import node_counter

L1 = dp.l1_distance(T="i64")
PATHS = [("a", "x"), ("a", "y"), ("b",)]


def test_nodes_of_public_trees_are_counted_by_id_and_by_path():
    tree = Tree.from_paths(PATHS)
    count = node_counter(leaf_domain(tree), L1, None).begin(np.array([3, 4, 5]))
    assert [int(count(query)) for query in (0, tree.node(("a",)), ("a", "y"), ("b",))] == [12, 7, 4, 5]


def test_nodes_of_open_trees_are_counted_by_path_and_unknown_ones_are_empty():
    tree = OpenTree.columns(2)
    counter = node_counter(leaf_domain(tree), L1, None)
    count = counter.begin(tree.count([("a", "x")] * 3 + [("a", "y")] * 4))
    assert [int(count(path)) for path in ((), ("a",), ("a", "y"), ("q",))] == [7, 7, 4, 0]
    with pytest.raises((TypeError, ValueError)):
        counter.check(3)


def test_what_has_no_tree_has_no_nodes():
    assert node_counter(dp.vector_domain(dp.atom_domain(T="i64")), L1, None) is None
