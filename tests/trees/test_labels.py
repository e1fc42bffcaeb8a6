"""Names of levels, paths of labels, and labels as Polars columns."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from opendp_tree import OpenTree, Tree, TreeRelease
from opendp_tree.trees.labels import (
    RESERVED,
    check_names,
    label_series,
    labels_at,
    split_paths,
)


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
        *(([name], ValueError, f"names: '{name}' must not be one of") for name in RESERVED),
    ],
)
def test_wrong_names_are_named(names, error, message):
    with pytest.raises(error, match=message):
        check_names(names)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([0, -(2**63)], pl.Int64),
        ([None, 1, 2**63], pl.UInt64),
        ([-1, 2**63, None], pl.Int128),
        ([0, 2**128 - 1], pl.UInt128),
        ([-1, 2**127], pl.String),
        ([0, 2**200], pl.String),
    ],
)
def test_public_integers_of_any_size_are_labels_of_a_frame(labels, dtype):
    column = label_series(labels)
    assert column.dtype == dtype
    assert [None if label is None else int(label) for label in column] == labels


def test_from_paths_keeps_the_order_of_leaves_at_any_depth():
    paths = [("b", "y"), ("a",), ("b", "x", "deep"), ("c",)]
    tree = Tree.from_paths(paths)
    assert tree.paths() == paths
    assert tree.depth == 4
    assert Tree.from_paths([()]).node_count == 1


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


ODD = [None, 2.5, True, "z", b"z", [1], {}, (1, [2]), ((), []), ([],), (float("nan"),), Decimal("sNaN"), object()]


@pytest.mark.parametrize("odd", ODD)
def test_count_raises_nothing_for_an_odd_key_among_others(odd):
    assert Tree.balanced(branching=2, depth=2).count([1, odd, 2]).tolist() == [1, 1]
    for tree in (OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)):
        assert tree.count([odd, odd]).occupied.counts.sum() in (0, 2)


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


def test_labels_are_taken_out_one_by_one():
    for labels in (["x", "y", None], pl.Series(["x", "y", None])):
        assert labels_at(labels, np.array([1, 2, 0])).to_list() == ["y", None, "x"]
        assert labels_at(labels, np.array([], dtype=int)).dtype == pl.String


def test_taking_out_keeps_times_to_the_nanosecond():
    times = pl.Series([1, 1_000_000_001], dtype=pl.Int64)
    for dtype in (pl.Datetime("ns"), pl.Datetime("ns", "Europe/Berlin"), pl.Duration("ns")):
        taken = labels_at(times.cast(dtype), np.array([1, 0]))
        assert taken.dtype == dtype
        assert taken.to_physical().to_list() == [1_000_000_001, 1]


def test_a_level_without_labels_is_one_of_texts():
    assert label_series([]).dtype == label_series([None]).dtype == pl.String
    assert label_series([1, None]).dtype == pl.Int64
    assert label_series([1, "x"]).to_list() == ["1", "x"]


def test_a_null_text_is_one_label():
    columns, lengths = split_paths(pl.Series([None, "a/b/c", ""]), "/", 2)
    assert [column.to_list() for column in columns] == [[None, "a", ""], [None, "b", None]]
    assert lengths.tolist() == [1, 2, 1]


def test_counting_leaves_a_frame_as_it_was():
    frame = pl.DataFrame({"b": ["x"], "a": ["y"]})
    keys = OpenTree.columns(["a", "b"]).count(frame).keys
    assert [column.to_list() for column in keys.columns] == [["y"], ["x"]]
    assert frame.columns == ["b", "a"]


@pytest.mark.parametrize("name", ["people", "length", "0", "1"])
def test_any_name_of_a_column_will_do(name):
    frame = pl.DataFrame({name: ["x", "x"], "other column": ["y", "z"]})
    assert OpenTree.columns(2).count(frame).occupied.meets.tolist() == [1]


def test_a_key_that_ends_and_a_label_that_is_null_stay_apart():
    counts = OpenTree.columns(2).count([("a",), ("a", None), ("a", None), ("a", "x")])
    assert counts.occupied.counts.tolist() == [1, 2, 1]
    assert counts.occupied.levels.tolist() == [1, 2, 2]
