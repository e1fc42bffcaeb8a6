"""Sparse counts, and people at a path."""

from __future__ import annotations

from collections import Counter
from datetime import date
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.saturate import LIMIT
from opendp_tree.trees.sparse_counts import SparseCounts, check_path, people_at


def common_bits(a, b, width):
    return width - (a ^ b).bit_length()


labels = st.sampled_from(["", "a", "b", "é", "ab"])
paths = st.lists(labels, max_size=4).map(tuple)


def expected_places(rows):
    """Distinct rows in lexicographic order (a short row before those it begins), where neighbours meet, and counts."""
    order = sorted(set(rows))
    meets = []
    for a, b in pairwise(order):
        same = 0
        while same < min(len(a), len(b)) and a[same] == b[same]:
            same += 1
        meets.append(same)
    return [len(row) for row in order], meets, [Counter(rows)[row] for row in order]


@given(st.data(), st.sampled_from([(1, 1), (7, 1), (7, 3), (32, 8), (64, 1), (64, 5), (65, 1), (100, 7), (128, 4)]))
def test_bits_are_counted_as_sorted_integers(data, size):
    width, stride = size
    tree = OpenTree.bits(width, stride)
    assert tree.depth == -(-width // stride) + 1
    near = data.draw(st.integers(0, 2**width - 1))
    key = st.integers(0, 2**width - 1) | st.integers(0, 9).map(lambda d: (near ^ d) % 2**width)
    keys = data.draw(st.lists(key, max_size=30))
    distinct = sorted(set(keys))
    expected = [common_bits(a, b, width) // stride for a, b in pairwise(distinct)]
    as_words = np.array([(k >> 64, k & (2**64 - 1)) for k in keys], dtype=np.uint64).reshape(-1, 2)
    for given_keys in [keys, as_words, *([np.array(keys, dtype=np.uint64)] if width <= 64 else [])]:
        counts = tree.count(given_keys)
        assert counts.occupied.counts.tolist() == [Counter(keys)[k] for k in distinct]
        assert counts.occupied.meets.tolist() == expected
        assert (counts.occupied.levels == tree.depth - 1).all()


@given(st.lists(paths, max_size=20))
def test_columns_are_counted_as_sorted_rows(rows):
    occupied = OpenTree.columns(3).count(rows).occupied
    levels, meets, counts = expected_places([row[:3] for row in rows])
    assert occupied.levels.tolist() == levels
    assert occupied.meets.tolist() == meets
    assert occupied.counts.tolist() == counts


@given(st.lists(st.tuples(labels, st.integers(0, 3)), max_size=20))
def test_frames_are_counted_like_rows(rows):
    frame = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.Int64}, orient="row")
    occupied = OpenTree.columns(2).count(frame).occupied
    levels, meets, counts = expected_places(rows)
    assert occupied.meets.tolist() == meets
    assert occupied.counts.tolist() == counts
    assert occupied.levels.tolist() == levels


@given(st.lists(st.lists(st.sampled_from(["a", "b", "é"]), min_size=1, max_size=5), max_size=20))
def test_paths_are_counted_like_rows(rows):
    tree = OpenTree.paths("/", depth=4)
    levels, meets, counts = expected_places([tuple(row[:3]) for row in rows])
    for keys in (["/".join(row) for row in rows], ["/" + "/".join(row) + "/" for row in rows]):
        occupied = tree.count(keys).occupied
        assert occupied.levels.tolist() == levels
        assert occupied.meets.tolist() == meets
        assert occupied.counts.tolist() == counts


def test_many_wide_columns_do_not_fit_one_integer():
    rows = [tuple(f"{(i * (c + 3)) % 97}" for c in range(12)) for i in range(500)]
    occupied = OpenTree.columns(12).count(rows).occupied
    levels, meets, counts = expected_places(rows)
    assert occupied.levels.tolist() == levels
    assert occupied.counts.tolist() == counts
    assert sorted(occupied.meets.tolist()) == sorted(meets)


@given(
    st.sampled_from([(8, 3), (64, 16), (100, 7), (128, 1)]), st.lists(st.integers(0, 255), max_size=20), st.booleans()
)
def test_words_with_people_count_as_keys_that_repeat(shape, keys, ordered):
    tree = OpenTree.bits(*shape)
    large = [key << (shape[0] - 8) for key in (sorted(keys) if ordered else keys)]
    words = np.array([(key >> 64, key % 2**64) for key in large], dtype=np.uint64).reshape(-1, 2)
    people = np.arange(1, len(keys) + 1)
    found = SparseCounts.of_words(tree, words[:, 0], words[:, 1], people)
    expected = tree.count([key for key, times in zip(large, people.tolist(), strict=True) for _ in range(times)])
    for name in ("levels", "meets", "counts"):
        assert getattr(found.occupied, name).tolist() == getattr(expected.occupied, name).tolist()
    assert found.keys.high.tolist() == expected.keys.high.tolist()
    assert found.keys.low.tolist() == expected.keys.low.tolist()


@given(st.lists(st.tuples(labels, st.none() | labels), max_size=12), st.data())
def test_rows_of_labels_with_people_count_as_rows_that_repeat(rows, data):
    people = data.draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    tree = OpenTree.columns(2)
    columns = [pl.Series([row[level] for row in rows], dtype=pl.String) for level in range(2)]
    counts = SparseCounts.of_labels(tree, columns, np.full(len(rows), 2), np.array(people, dtype=np.int64))
    repeated = tree.count([row for row, times in zip(rows, people, strict=True) for _ in range(times)])
    for name in ("levels", "meets", "counts"):
        assert getattr(counts.occupied, name).tolist() == getattr(repeated.occupied, name).tolist()
    keys = [tuple(column[int(row)] for column in counts.keys.columns) for row in counts.keys.rows]
    assert keys == sorted(set(rows), key=lambda row: [(label is not None, label or "") for label in row])


@given(st.lists(st.tuples(st.tuples(labels, labels), st.integers(0, 2)), max_size=12))
def test_keys_without_people_are_as_if_they_had_not_been_there(rows):
    tree, counts = OpenTree.columns(2), Counter()
    for key, people in rows:
        counts[key] += people
    every = tree.count(list(counts))
    found = every.recounted(np.array([counts[key] for key in sorted(counts)], dtype=np.int64))
    expected = tree.count([key for key in sorted(counts) for _ in range(counts[key])])
    for name in ("levels", "meets", "counts"):
        assert getattr(found.occupied, name).tolist() == getattr(expected.occupied, name).tolist()
    keys = [tuple(column[int(row)] for column in found.keys.columns) for row in found.keys.rows]
    assert keys == [key for key in sorted(counts) if counts[key]]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=8), st.integers(0, 2))
def test_bits_without_people_are_as_if_they_had_not_been_there(keys, outside):
    tree = OpenTree.bits(3, outside=True)
    words = np.array([key for key, _ in keys], dtype=np.uint64)
    counts = Counter()
    for key, people in keys:
        counts[key] += people
    every = SparseCounts.of_words(tree, words, words, outside=1)
    found = every.recounted(np.array([*(counts[key] for key in sorted(counts)), outside], dtype=np.int64))
    left = np.array([key for key in sorted(counts) if counts[key]], dtype=np.uint64)
    people = np.array([counts[int(key)] for key in left], dtype=np.int64)
    expected = SparseCounts.of_words(tree, left, left, people, outside=outside)
    assert found.outside == expected.outside
    for name in ("levels", "meets", "counts"):
        assert getattr(found.occupied, name).tolist() == getattr(expected.occupied, name).tolist()
    assert found.keys.high.tolist() == expected.keys.high.tolist()


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
