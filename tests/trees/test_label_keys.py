"""Labels as Polars columns, and prefixes as texts."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.trees.bits import BitKeys, words_of
from opendp_tree.trees.label_keys import (
    count_labels,
    label_series,
    labels_at,
    prefix_integers,
    prefix_texts,
    sort_labels,
    split_paths,
)


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


def test_rows_are_sorted_with_ends_first_and_share_a_count_of_labels():
    columns = [pl.Series(["b", "a", "a", "a"]), pl.Series(["x", "y", None, "x"])]
    order, meets = sort_labels(columns)
    assert order.tolist() == [2, 3, 1, 0]
    assert meets.tolist() == [1, 1, 0]


@given(st.lists(st.tuples(*[st.none() | st.sampled_from("abcé") for _ in range(40)]), max_size=12))
def test_rows_too_wide_for_one_integer_are_sorted_alike(rows):
    columns = [pl.Series([row[level] for row in rows], dtype=pl.String) for level in range(40)]
    order, _ = sort_labels(columns)
    ordered = [[(label is not None, label or "") for label in rows[row]] for row in order]
    assert ordered == sorted(ordered)


def test_a_null_text_is_one_label():
    columns, lengths = split_paths(pl.Series([None, "a/b/c", ""]), "/", 2)
    assert [column.to_list() for column in columns] == [[None, "a", ""], [None, "b", None]]
    assert lengths.tolist() == [1, 2, 1]


def test_counting_leaves_a_frame_as_it_was():
    frame = pl.DataFrame({"b": ["x"], "a": ["y"]})
    keys = count_labels(OpenTree.columns(["a", "b"]), frame).keys
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


def keys(numbers, width):
    return BitKeys.of_integers(*words_of(numbers), width)


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_ipv4_is_written_as_python_writes_it(numbers):
    tree = OpenTree.bits(32, shown_as="ipv4")
    found = prefix_texts(keys(numbers, 32), np.full(len(numbers), 24), tree)
    assert found.to_list() == [f"{IPv4Address(number)}/24" for number in numbers]


@given(st.lists(st.integers(0, 2**128 - 1) | st.integers(0, 2**16).map(lambda low: low << 96 | 0xFFFF)))
def test_ipv6_is_written_as_python_writes_it(numbers):
    numbers = [number for number in numbers if number >> 32 != 0xFFFF]  # Pythons differ on mapped addresses
    tree = OpenTree.bits(128, shown_as="ipv6")
    found = prefix_texts(keys(numbers, 128), np.full(len(numbers), 128), tree)
    assert found.to_list() == [f"{IPv6Address(number)}/128" for number in numbers]


@given(st.sampled_from([1, 40, 64, 65, 128]), st.data())
def test_integers_are_themselves(width, data):
    numbers = data.draw(st.lists(st.integers(0, 2**width - 1)))
    tree = OpenTree.bits(width)
    assert prefix_integers(keys(numbers, width), tree).to_list() == numbers
    bits = np.full(len(numbers), width)
    assert prefix_texts(keys(numbers, width), bits, tree).to_list() == [f"{number}/{width}" for number in numbers]
