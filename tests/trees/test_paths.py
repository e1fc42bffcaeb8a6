import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.trees.paths import read_paths, tagged_label


def test_from_paths_keeps_the_order_of_leaves_at_any_depth():
    paths = [("b", "y"), ("a",), ("b", "x", "deep"), ("c",)]
    tree = Tree.from_paths(paths)
    assert tree.paths() == paths
    assert tree.depth == 4
    assert Tree.from_paths([()]).node_count == 1


def test_labels_of_different_types_stay_apart():
    assert Tree.from_paths([(1,), (True,), ("1",)]).leaf_count == 3


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ([], ValueError, "paths must hold at least one path"),
        ([("a",), ("b",), ("a",)], ValueError, r"paths: \('a',\) occurs twice"),
        ([("a",), ("a", "b")], ValueError, r"paths: \('a',\) is both a leaf and an inner node"),
        ([("a", "b", "c"), ("a", "b")], ValueError, r"paths: \('a', 'b'\) is both a leaf and an inner node"),
        ([(), ("a",)], ValueError, r"paths: \(\) is both a leaf and an inner node"),
        (["ab"], TypeError, "paths must hold tuples of labels, found 'ab'. Hint"),
        ([("a", 1.5)], TypeError, "label 1.5 must be a str, int, bool, date or None"),
    ],
)
def test_paths_that_make_no_tree_are_named(paths, error, message):
    with pytest.raises(error, match=message):
        Tree.from_paths(paths)


def test_the_implied_root_is_first_and_has_no_label():
    assert read_paths([("a", "x"), ("b",)]) == ([-1, 0, 1, 0], [None, "a", "x", "b"])


def test_tags_keep_types_apart_and_see_through_numpy():
    assert len({tagged_label(label) for label in (1, True, "1", None)}) == 4
    assert tagged_label(np.int64(1)) == tagged_label(1)
