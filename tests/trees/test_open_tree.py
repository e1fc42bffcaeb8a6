from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree._arguments import RESERVED
from opendp_tree.trees.open_tree import SparseCounts


def common_bits(a, b, width):
    return width - (a ^ b).bit_length()


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


def test_bits_outside_the_width_count_nowhere():
    tree = OpenTree.bits(4)
    for keys in ([3, 16, -1, 2**200, None, 2.0, True, "3"], np.array([3, 16, -1]), np.array([3, 16], dtype=np.uint64)):
        assert tree.count(keys).occupied.counts.tolist() == [1]
    wide = np.array([[0, 3], [0, 16], [1, 3]], dtype=np.uint64)
    assert tree.count(wide).occupied.counts.tolist() == [1]
    assert OpenTree.bits(65).count(np.array([[1, 3], [2, 3]], dtype=np.uint64)).occupied.counts.tolist() == [1]


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


@pytest.mark.parametrize("odd", [None, 1, "ab", b"ab", [1], {}, ([],), Decimal("sNaN"), (float("nan"),), object()])
@pytest.mark.parametrize("tree", [OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_odd_keys_raise_nothing(tree, odd):
    counts = tree.count([odd, odd])
    assert counts.occupied.counts.sum() in (0, 2)


def test_labels_of_several_types_stay_apart():
    assert OpenTree.columns(1).count([(1,), ("1",), (True,), (None,)]).occupied.counts.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("tree", [OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_nobody(tree):
    occupied = tree.count([]).occupied
    assert occupied.counts.size == occupied.meets.size == occupied.levels.size == 0


def test_how_nodes_are_shown_is_no_part_of_a_tree():
    assert OpenTree.columns(["a", "b"]) == OpenTree.columns(2)
    assert hash(OpenTree.columns(["a", "b"])) == hash(OpenTree.columns(2))
    assert OpenTree.columns(["a", "b"]).names == ("a", "b")
    assert OpenTree.bits(32, shown_as="ipv4") == OpenTree.bits(32)
    assert OpenTree.bits(32).names == OpenTree.paths("/", depth=3).names == ()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: OpenTree("bits", 2, 32, 1), ValueError, r"depth \(2\) must fit width and stride"),
        (lambda: OpenTree("trees", 2), ValueError, r"kind \('trees'\) must be one of 'columns'"),
        (lambda: OpenTree.columns(0), ValueError, r"names \(0\) must be an integer from 1"),
        (lambda: OpenTree.columns([]), ValueError, "names must hold at least one name"),
        (lambda: OpenTree.columns("city"), TypeError, r"names \('city'\) must be a collection of texts. Hint: wrap"),
        (lambda: OpenTree.columns(2.0), TypeError, r"names \(2.0\) must be a collection of texts"),
        (lambda: OpenTree.columns(["a", 1]), TypeError, "names: 1 must be a text"),
        (lambda: OpenTree.columns(["a", ""]), ValueError, "names: '' must be a text of at least one letter"),
        (lambda: OpenTree.columns(["\ud800"]), ValueError, "that can be written as UTF-8"),
        (lambda: OpenTree.columns(["a", "b", "a"]), ValueError, r"names \(a, b, a\) must be distinct"),
        *[
            (lambda name=name: OpenTree.columns(["a", name]), ValueError, f"names: '{name}' must not be one of level")
            for name in RESERVED
        ],
        (lambda: OpenTree("columns", 3, names=("a",)), ValueError, r"names \(a\) must be 2, one for each level"),
        (lambda: OpenTree("bits", 9, 8, names=("a",)), ValueError, r"names \(a\) must be 0"),
        (lambda: OpenTree.bits(8, shown_as="ipv4"), ValueError, r"width \(8\) must be 32 to be shown as ipv4"),
        (lambda: OpenTree.bits(32, shown_as="ipv6"), ValueError, r"width \(32\) must be 128 to be shown as ipv6"),
        (lambda: OpenTree.bits(32, shown_as="hex"), ValueError, r"shown_as \('hex'\) must be one of"),
        (lambda: OpenTree.bits(129), ValueError, r"width \(129\) must be at most 128"),
        (lambda: OpenTree.bits(0), ValueError, r"width \(0\) must be an integer from 1"),
        (lambda: OpenTree.bits(8, stride=0), ValueError, r"stride \(0\) must be an integer from 1"),
        (lambda: OpenTree.paths("", depth=3), ValueError, r"separator \(''\) must be a non-empty text"),
        (lambda: OpenTree.paths("/", depth=1), ValueError, r"depth \(1\) must be an integer from 2"),
        (lambda: OpenTree.bits(8).count("secret"), TypeError, r"found one string. Hint: pass \[key\]"),
        (lambda: OpenTree.bits(8).count(np.array([1.0])), TypeError, r"keys \(float64\) must be integers"),
        (lambda: OpenTree.bits(8).count(np.zeros((2, 3), dtype=np.uint64)), TypeError, r"shape \(n, 2\)"),
        (lambda: OpenTree.columns(2).count(pl.DataFrame({"a": ["x"]})), ValueError, "must have 2 columns, found 1"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


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
