"""People at a path: against counting the keys one by one."""

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.saturate import LIMIT
from opendp_tree.trees.prefix_counts import check_path, people_at
from opendp_tree.trees.sparse_counts import SparseCounts

LABELS = ["a", "b", 1, True, None, date(2020, 1, 1)]
KEYS = st.lists(st.lists(st.sampled_from(["a", "b", 1, True]), min_size=1, max_size=2).map(tuple), max_size=20)


def begins(key, path):
    return [(type(a), a) for a in key[: len(path)]] == [(type(b), b) for b in path]


@given(KEYS, st.lists(st.sampled_from(LABELS), max_size=2).map(tuple))
def test_labels_of_several_types(keys, path):
    assert people_at(OpenTree.columns(2).count(keys), path) == sum(begins(key, path) for key in keys)


@pytest.mark.parametrize("column", [["x", "y", None], [1, 2, None], [True, False, None], [date(2020, 1, 1), None]])
def test_columns_of_a_frame(column):
    tree = OpenTree.columns(1)
    counts = tree.count(pl.DataFrame({"c": column}))
    for label in [*LABELS, "x", 2, False]:
        assert people_at(counts, (label,)) == sum(begins((each,), (label,)) for each in column)


@given(st.lists(st.integers(0, 2**12 - 1), max_size=30), st.integers(0, 3), st.integers(0, 2**12 - 1))
def test_prefixes_of_bits(keys, level, integer):
    tree = OpenTree.bits(12, stride=4)
    bits = 4 * level
    prefix = integer >> (12 - bits) << (12 - bits)
    assert people_at(tree.count(keys), check_path(tree, (prefix, bits))) == sum(
        key >> (12 - bits) == prefix >> (12 - bits) for key in keys
    )


@given(st.lists(st.integers(-3, 70), max_size=30))
def test_what_is_no_key_is_outside_and_below_the_root_alone(keys):
    tree = OpenTree.bits(6, stride=2, outside=True)
    counts = tree.count(keys)
    assert people_at(counts, check_path(tree, ("(outside)",))) == sum(not 0 <= key < 64 for key in keys)
    assert people_at(counts, check_path(tree, (0, 0))) == len(keys)
    assert people_at(counts, check_path(tree, (0, 2))) == sum(0 <= key < 16 for key in keys)
    with pytest.raises(ValueError, match="two integers"):
        check_path(OpenTree.bits(6, stride=2), ("(outside)",))


def test_sums_saturate():
    tree = OpenTree.bits(8)
    words = np.array([3, 4], dtype=np.uint64)
    counts = SparseCounts.of_words(tree, np.zeros_like(words), words, np.array([LIMIT, LIMIT]))
    assert people_at(counts, (0, 0)) == LIMIT


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "y"]), pl.String])
def test_categories_are_texts(dtype):
    counts = OpenTree.columns(1).count(pl.DataFrame({"c": pl.Series(["x", "x", "y"], dtype=dtype)}))
    assert [people_at(counts, (label,)) for label in ("x", "y", "z", 1, None)] == [2, 1, 0, 0, 0]


@pytest.mark.parametrize("label", [2**100, -1, 300, True, "7", date(1, 1, 1), None])
def test_labels_that_a_column_cannot_hold_are_nowhere(label):
    counts = OpenTree.columns(1).count(pl.DataFrame({"c": pl.Series([7, 7], dtype=pl.UInt8)}))
    assert people_at(counts, (label,)) == 0
    assert people_at(counts, (7,)) == 2
