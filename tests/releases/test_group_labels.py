"""Which group a key belongs to."""

import numpy as np
import polars as pl

from opendp_tree import OpenTree, Tree
from opendp_tree.releases.group_labels import leaf_groups, owners_of, place_labels, places_among

GROUPS = leaf_groups(Tree.from_paths([("a", "x"), ("b", "y")]))


def test_owners_are_the_groups_with_all_labels_alike():
    columns = [pl.Series(["a", "b", "b", None]), pl.Series(["x", "x", "y", "y"])]
    assert owners_of(columns, np.full(4, 2), GROUPS).tolist() == [0, -1, 1, -1]
    assert owners_of(columns, np.array([2, 2, 1, 2]), GROUPS).tolist() == [0, -1, -1, -1]


def test_labels_of_another_kind_are_other_labels():
    columns = [pl.Series([1, 2]), pl.Series(["x", "y"])]
    assert owners_of(columns, np.full(2, 2), GROUPS).tolist() == [-1, -1]


def test_places_have_their_labels_in_order():
    counts = OpenTree.columns(2).count(pl.DataFrame({"label_1": ["b", "a"], "label_2": ["y", "x"]}))
    assert [column.to_list() for column in place_labels(counts)] == [["a", "b"], ["x", "y"]]


def test_places_among_names():
    assert places_among(pl.Series(["b", None, "x"]), ["a", "b"]).tolist() == [1, -1, -1]
