"""Which group a key belongs to."""

from datetime import UTC, date, datetime

import numpy as np
import polars as pl
import pytest

from opendp_tree import OpenTree, Tree
from opendp_tree.releases.group_labels import leaf_groups, owners_of, place_labels, places_among, typed_texts

GROUPS = leaf_groups(Tree.from_paths([("a", "x"), ("b", "y")]))


def typed(*columns):
    return [typed_texts(column) for column in columns]


def test_owners_are_the_groups_with_all_labels_alike():
    columns = typed(["a", "b", "b", None], ["x", "x", "y", "y"])
    assert owners_of(columns, np.full(4, 2), GROUPS).tolist() == [0, -1, 1, -1]
    assert owners_of(columns, np.array([2, 2, 1, 2]), GROUPS).tolist() == [0, -1, -1, -1]


def test_labels_of_another_kind_are_other_labels():
    groups = leaf_groups(Tree.from_paths([(1,), (None,), (0,)]))
    labels = [1, "1", True, date(1970, 1, 2), None, 0, False]
    assert owners_of(typed(labels), np.full(7, 1), groups).tolist() == [0, -1, -1, -1, 1, 2, -1]
    for kind in (pl.String, pl.Boolean, pl.Date, pl.Datetime("us"), pl.Time):
        column = pl.Series([1, None]).cast(kind)
        assert owners_of(typed(column), np.full(2, 1), groups).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("kind", "far"), [(pl.UInt64, 2**64 - 1), (pl.Int128, 2**100), (pl.Int128, -(2**63) - 1), (pl.Int8, -1)]
)
def test_integers_of_all_widths_are_alike_and_none_is_null(kind, far):
    groups = leaf_groups(Tree.from_paths([(1,), (None,)]))
    column = pl.Series([1, None, far], dtype=kind)
    assert owners_of(typed(column), np.full(3, 1), groups).tolist() == [0, 1, -1]


def test_lists_and_series_of_one_type_are_alike():
    for labels in (["a", None], [1, -5], [True, False], [date(2024, 1, 31), date(1, 1, 1)]):
        assert typed_texts(labels).to_list() == typed_texts(pl.Series(labels)).to_list()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, UTC])
def test_times_of_all_units_are_alike(unit, zone):
    groups = leaf_groups(Tree.from_paths([(datetime(2024, 5, 1, 12, tzinfo=zone),)]))
    column = pl.Series([datetime(2024, 5, 1, 12, tzinfo=zone), datetime(2024, 5, 1, 13, tzinfo=zone), None])
    column = column.cast(pl.Datetime(unit, None if zone is None else "UTC"))
    assert owners_of(typed(column), np.full(3, 1), groups).tolist() == [0, -1, -1]
    if unit == "ns":  # not cut to microseconds
        assert owners_of(typed((column.to_physical() + 1).cast(column.dtype)), np.full(3, 1), groups)[0] == -1


def test_places_have_their_labels_in_order():
    counts = OpenTree.columns(2).count(pl.DataFrame({"label_1": ["b", "a"], "label_2": ["y", "x"]}))
    assert [column.to_list() for column in place_labels(counts)] == [["ta", "tb"], ["tx", "ty"]]


def test_places_among_names():
    assert places_among(typed_texts(["b", None, "x", 1, True]), ["a", "b", "1", "true"]).tolist() == [1, -1, -1, -1, -1]
