from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.trees.sparse_counts import SparseCounts


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


@given(st.sampled_from([(8, 3), (8, 1)]), st.lists(st.integers(-2, 260), max_size=20), st.lists(st.integers(0, 255)))
def test_counts_of_ranges_join_to_those_of_all(shape, keys, edges):
    tree = OpenTree.bits(*shape, outside=True)
    ends = [-3, *sorted(edges), 300]
    ranges = [[key for key in keys if lower <= key < upper] for lower, upper in pairwise(ends)]
    found, expected = SparseCounts.joined(tree, map(tree.count, ranges)), tree.count(keys)
    for name in ("levels", "meets", "counts"):
        assert getattr(found.occupied, name).tolist() == getattr(expected.occupied, name).tolist()
    assert found.keys.high.tolist() == expected.keys.high.tolist()
    assert found.outside == expected.outside


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
