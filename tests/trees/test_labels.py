"""Names of levels, and paths of labels."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from opendp_tree import Tree, TreeRelease
from opendp_tree.trees.labels import RESERVED, NodeIndex, check_names, read_paths, tagged_label


def test_names_are_numbered_by_default():
    assert check_names(None, count=2) == ("label_1", "label_2")
    assert check_names(None) == ()


@pytest.mark.parametrize("name", RESERVED)
def test_columns_of_a_frame_are_no_names(name):
    with pytest.raises(ValueError, match=f"names: '{name}' must not be one of"):
        check_names([name])


def test_every_column_of_a_frame_is_reserved():
    ones = [1.0, 1.0]
    tree = Tree.from_parents([-1, 0])
    release = TreeRelease(tree, *(np.array(ones) for _ in range(3)), confidence=0.9, statement=None)
    assert set(release.to_frame().columns) <= set(RESERVED)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("city", TypeError, r"names \('city'\) must be a collection of texts. Hint: wrap"),
        (["a", 1], TypeError, "names: 1 must be a text"),
        ([""], ValueError, "names: '' must be a text of at least one letter"),
        (["a", "a"], ValueError, r"names \(a, a\) must be distinct"),
    ],
)
def test_wrong_names_are_named(names, error, message):
    with pytest.raises(error, match=message):
        check_names(names)


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
    assert NodeIndex(tree).leaf_ids([7, ("a", "x"), "b", ("a",), 2**70]).tolist() == [7, 2, 3, -1, -1]


LABELLED = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",), (1, True), (True, 1), ("1", None)])


@pytest.mark.parametrize("tree", [LABELLED, Tree.balanced(branching=3, depth=4), Tree.from_parents([2, 0, -1, 0])])
def test_every_node_is_found_by_its_path(tree):
    assert [tree.node(tree.path(node)) for node in range(tree.node_count)] == list(range(tree.node_count))


def test_numpy_labels_are_labels():
    assert LABELLED.node((np.int64(1),)) == LABELLED.node((1,)) != LABELLED.node((True,))


@pytest.mark.parametrize("path", [("fr",), ("be", "lux"), ("lu", "x"), ([],), "be", None, (1.0,), ("x", None)])
def test_what_leads_nowhere_is_refused(path):
    with pytest.raises(ValueError, match="must lead to a node of the tree"):
        LABELLED.node(path)
