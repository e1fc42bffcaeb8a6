from decimal import Decimal

import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.trees.leaf_index import LeafIndex


def test_count_by_ids_counts_leaves_and_nothing_else():
    tree = Tree.balanced(branching=2, depth=2)
    assert tree.count([1, 2, 2, 0, -1, 99, 2**80]).tolist() == [1, 2]
    assert tree.count(np.array([1, 2, 2, 0, 200], dtype=np.uint8)).tolist() == [1, 2]
    assert tree.count(np.array([1, 2**64 - 1], dtype=np.uint64)).tolist() == [1, 0]
    assert tree.count([]).tolist() == [0, 0]


def test_count_by_labels_and_paths():
    tree = Tree.from_paths([("be", "x"), ("lu", "x"), ("lu", "y")])
    assert tree.count([("be", "x"), ("lu", "y"), ("lu", "y"), ("lu",), ("be", "x", "z")]).tolist() == [1, 0, 2]
    # "y" names one leaf; "x" names two, so alone it counts nowhere.
    assert tree.count(["x", "y", None, ["unhashable"]]).tolist() == [0, 0, 1]
    assert tree.count(np.array(["y", "y"])).tolist() == [0, 0, 2]


def test_count_errors_speak_of_types_only():
    tree = Tree.balanced(branching=2, depth=2)
    with pytest.raises(TypeError, match=r"keys must be a collection of keys, found one string. Hint: pass \[key\]"):
        tree.count("secret")
    with pytest.raises(ValueError, match="keys must be one-dimensional, found 2 dimensions"):
        tree.count(np.zeros((2, 2), dtype=int))
    with pytest.raises(TypeError, match=r"keys \(<U6\) must be node ids"):
        tree.count(np.array(["secret"]))
    with pytest.raises(TypeError, match=r"keys \(float64\) must be node ids or labels"):
        Tree.from_paths([("a",)]).count(np.array([1.0]))


@pytest.mark.parametrize(
    "tree", [Tree.balanced(branching=2, depth=2), Tree.from_paths([("a",), ("b",)])], ids=["ids", "labels"]
)
@pytest.mark.parametrize("odd", [None, 2.5, True, "z", b"z", [1], {}, (1, [2]), ((), []), Decimal("sNaN"), object()])
def test_count_raises_nothing_for_an_odd_key_among_others(tree, odd):
    assert tree.count([1, odd, 2]).tolist() == [1, 1]


def test_ids_pass_through_and_what_is_no_leaf_is_minus_one():
    tree = Tree.from_paths([("a", "x"), ("b",)])
    assert LeafIndex(tree).ids([7, ("a", "x"), "b", ("a",), 2**70]).tolist() == [7, 2, 3, -1, -1]
