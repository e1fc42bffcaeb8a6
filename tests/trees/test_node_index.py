import numpy as np
import pytest

from opendp_tree import Tree

LABELLED = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",), (1, True), (True, 1), ("1", None)])


@pytest.mark.parametrize("tree", [LABELLED, Tree.balanced(branching=3, depth=4), Tree.from_parents([2, 0, -1, 0])])
def test_every_node_is_found_by_its_path(tree):
    assert [tree.node(tree.path(node)) for node in range(tree.node_count)] == list(range(tree.node_count))


def test_numpy_labels_are_labels():
    assert LABELLED.node((np.int64(1),)) == LABELLED.node((1,)) != LABELLED.node((True,))


@pytest.mark.parametrize("path", [("fr",), ("be", "lux"), ("lu", "x"), ([],), "be", None, (1.0,), ("lu", None)])
def test_what_leads_nowhere_is_refused(path):
    with pytest.raises(ValueError, match="must lead to a node of the tree"):
        LABELLED.node(path)
