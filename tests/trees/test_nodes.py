"""Places with people, counts of keys, people at a path, and the nodes that a release shows."""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.releases.frame import cell_frame
from opendp_tree.saturate import LIMIT
from opendp_tree.trees.nodes import ShownCells, SparseCounts, check_path, meets_between, nested_parents
from opendp_tree.trees.tree import subtree_ranges
from tests.shapes import SHAPES

ROWS = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(tuple), min_size=1, max_size=10)


def places_of(rows):
    return sorted(set(rows)), OpenTree.columns(3).count(rows).occupied


@given(ROWS, st.integers(0, 3))
def test_nodes_of_a_level_are_the_prefixes_of_that_length(rows, level):
    distinct, places = places_of(rows)
    starts, ends = places.nodes_at(level)
    prefixes = sorted({row[:level] for row in distinct if len(row) >= level})
    assert [distinct[start][:level] for start in starts] == prefixes
    for prefix, start, end in zip(prefixes, starts, ends, strict=True):
        assert [row for row in distinct if row[:level] == prefix] == distinct[start:end]


@given(ROWS, st.data())
def test_ranges_hold_the_places_of_the_prefix_and_no_other(rows, data):
    distinct, places = places_of(rows)
    asked = data.draw(st.lists(st.integers(0, len(distinct) - 1), max_size=6))
    levels = [data.draw(st.integers(0, len(distinct[place]))) for place in asked]
    nodes = np.array(asked, dtype=np.int64), np.array(levels, dtype=np.int64)
    ranges = places.ranges_of(*nodes)
    assert places.first_places(*nodes).tolist() == ranges[0].tolist()
    for place, level, first, end in zip(asked, levels, *(part.tolist() for part in ranges), strict=True):
        below = [at for at, row in enumerate(distinct) if row[:level] == distinct[place][:level] and len(row) >= level]
        assert below == list(range(first, end))


@given(st.lists(st.integers(0, 5), max_size=12), st.data())
def test_meets_of_some_places_are_the_least_between_them(meets, data):
    some = sorted(data.draw(st.lists(st.integers(0, len(meets)), max_size=6)))
    between = meets_between(np.array(meets, dtype=np.int64), np.array(some, dtype=np.int64))
    for at, (left, right) in enumerate(pairwise(some)):
        assert between[at] == (min(meets[left:right]) if left < right else np.iinfo(np.int64).max)
    assert between.size == max(len(some) - 1, 0)


def places(counts):
    occupied = counts.occupied
    return occupied.levels.tolist(), occupied.meets.tolist(), occupied.counts.tolist()


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
    expected = [(width - (a ^ b).bit_length()) // stride for a, b in pairwise(distinct)]
    as_words = np.array([(k >> 64, k & (2**64 - 1)) for k in keys], dtype=np.uint64).reshape(-1, 2)
    for given_keys in [keys, as_words, *([np.array(keys, dtype=np.uint64)] if width <= 64 else [])]:
        counts = tree.count(given_keys)
        assert places(counts) == ([tree.depth - 1] * len(distinct), expected, [Counter(keys)[k] for k in distinct])


@given(st.lists(paths, max_size=20))
def test_columns_are_counted_as_sorted_rows(rows):
    assert places(OpenTree.columns(3).count(rows)) == expected_places([row[:3] for row in rows])


@given(st.lists(st.tuples(labels, st.integers(0, 3)), max_size=20))
def test_frames_are_counted_like_rows(rows):
    frame = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.Int64}, orient="row")
    assert places(OpenTree.columns(2).count(frame)) == expected_places(rows)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "é"]), min_size=1, max_size=5), max_size=20))
def test_paths_are_counted_like_rows(rows):
    tree = OpenTree.paths("/", depth=4)
    expected = expected_places([tuple(row[:3]) for row in rows])
    for keys in (["/".join(row) for row in rows], ["/" + "/".join(row) + "/" for row in rows]):
        assert places(tree.count(keys)) == expected


def test_many_wide_columns_do_not_fit_one_integer():
    rows = [tuple(f"{(i * (c + 3)) % 97}" for c in range(12)) for i in range(500)]
    assert places(OpenTree.columns(12).count(rows)) == expected_places(rows)


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
    assert places(found) == places(expected)
    assert found.keys.high.tolist() == expected.keys.high.tolist()
    assert found.keys.low.tolist() == expected.keys.low.tolist()


@given(st.lists(st.tuples(labels, st.none() | labels), max_size=12), st.data())
def test_rows_of_labels_with_people_count_as_rows_that_repeat(rows, data):
    people = data.draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    tree = OpenTree.columns(2)
    columns = [pl.Series([row[level] for row in rows], dtype=pl.String) for level in range(2)]
    counts = SparseCounts.of_labels(tree, columns, np.full(len(rows), 2), np.array(people, dtype=np.int64))
    repeated = tree.count([row for row, times in zip(rows, people, strict=True) for _ in range(times)])
    assert places(counts) == places(repeated)
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
    assert places(found) == places(expected)
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
    expected = SparseCounts.of_words(tree, left, left, people, outside=outside or None)
    assert found.outside == expected.outside
    assert places(found) == places(expected)
    assert found.keys.high.tolist() == expected.keys.high.tolist()


LABELS = ["a", "b", 1, True, None, date(2020, 1, 1)]
KEYS = st.lists(st.lists(st.sampled_from(["a", "b", 1, True]), min_size=1, max_size=2).map(tuple), max_size=20)


def begins(key, path):
    return [(type(a), a) for a in key[: len(path)]] == [(type(b), b) for b in path]


@given(KEYS, st.lists(st.sampled_from(LABELS), max_size=2).map(tuple))
def test_labels_of_several_types(keys, path):
    assert OpenTree.columns(2).count(keys).people_at(path) == sum(begins(key, path) for key in keys)


@pytest.mark.parametrize("column", [["x", "y", None], [1, 2, None], [True, False, None], [date(2020, 1, 1), None]])
def test_columns_of_a_frame(column):
    tree = OpenTree.columns(1)
    counts = tree.count(pl.DataFrame({"c": column}))
    for label in [*LABELS, "x", 2, False]:
        assert counts.people_at((label,)) == sum(begins((each,), (label,)) for each in column)


@given(st.lists(st.integers(0, 2**12 - 1), max_size=30), st.integers(0, 3), st.integers(0, 2**12 - 1))
def test_prefixes_of_bits(keys, level, integer):
    tree = OpenTree.bits(12, stride=4)
    bits = 4 * level
    prefix = integer >> (12 - bits) << (12 - bits)
    assert tree.count(keys).people_at(check_path(tree, (prefix, bits))) == sum(
        key >> (12 - bits) == prefix >> (12 - bits) for key in keys
    )


@given(st.lists(st.integers(-3, 70), max_size=30))
def test_what_is_no_key_is_outside_and_below_the_root_alone(keys):
    tree = OpenTree.bits(6, stride=2, outside=True)
    counts = tree.count(keys)
    assert counts.people_at(check_path(tree, ("(outside)",))) == sum(not 0 <= key < 64 for key in keys)
    assert counts.people_at(check_path(tree, (0, 0))) == len(keys)
    assert counts.people_at(check_path(tree, (0, 2))) == sum(0 <= key < 16 for key in keys)
    with pytest.raises(ValueError, match="two integers"):
        check_path(OpenTree.bits(6, stride=2), ("(outside)",))


def test_sums_saturate():
    tree = OpenTree.bits(8)
    words = np.array([3, 4], dtype=np.uint64)
    counts = SparseCounts.of_words(tree, np.zeros_like(words), words, np.array([LIMIT, LIMIT]))
    assert counts.people_at((0, 0)) == LIMIT


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "y"]), pl.String])
def test_categories_are_texts(dtype):
    counts = OpenTree.columns(1).count(pl.DataFrame({"c": pl.Series(["x", "x", "y"], dtype=dtype)}))
    assert [counts.people_at((label,)) for label in ("x", "y", "z", 1, None)] == [2, 1, 0, 0, 0]


@pytest.mark.parametrize("label", [2**100, -1, 300, True, "7", date(1, 1, 1), None])
def test_labels_that_a_column_cannot_hold_are_nowhere(label):
    counts = OpenTree.columns(1).count(pl.DataFrame({"c": pl.Series([7, 7], dtype=pl.UInt8)}))
    assert counts.people_at((label,)) == 0
    assert counts.people_at((7,)) == 2


def cells_of(tree, keys, cells):
    """The cells for (place, level) pairs."""
    places, levels = (np.array(part) for part in zip(*cells, strict=True))
    return ShownCells.of(tree.count(keys), places, levels)


def test_prefixes_of_bits_are_the_least_keys_they_begin():
    cells = cells_of(OpenTree.bits(8, stride=4), [0x12, 0x13, 0xF7], [(2, 2), (0, 1), (1, 2), (0, 0)])
    assert cell_frame(cells).rows() == [(0, 0, 0), (1, 0x10, 4), (2, 0x13, 8), (2, 0xF7, 8)]
    assert cells.order.tolist() == [3, 1, 2, 0]


def test_labels_and_paths():
    tree = OpenTree.columns(2)
    cells = cells_of(tree, [("a", "x"), ("a", "y"), ("b", "x")], [(1, 2), (0, 1), (2, 0)])
    assert cell_frame(cells).rows() == [(0, None, None), (1, "a", None), (2, "a", "y")]
    cells = cells_of(OpenTree.paths("/", depth=3), ["a/x", "a/y"], [(1, 2), (0, 1)])
    assert cell_frame(cells).rows() == [(1, "a"), (2, "a/y")]


def test_what_is_released_does_not_depend_on_other_labels():
    """A label of another type elsewhere in the data must not turn the labels of cells into texts."""
    tree = OpenTree.columns(1)
    alone = cell_frame(cells_of(tree, [(1,)] * 5, [(0, 1)]))
    beside = cell_frame(cells_of(tree, [(1,)] * 5 + [("x",)], [(0, 1)]))
    assert alone.equals(beside)
    assert alone.schema == beside.schema


def test_one_record_does_not_decide_how_a_label_is_shown():
    """Labels that are equal without being alike are no labels: floats, decimals and times with a zone among them."""
    tree = OpenTree.columns(1)
    for odd in (0.0, Decimal("1.0"), datetime(2026, 1, 1), 10**5000, "\ud800", b"x"):
        assert tree.count([(odd,)]).occupied.counts.size == 0
    with pytest.raises(
        TypeError, match=r"keys: column 'x' \(Float64\) must hold texts, integers, truth values or times"
    ):
        tree.count(pl.DataFrame({"x": [0.0]}))
    assert OpenTree.bits(8).count([np.int64(5), np.uint8(5)]).occupied.counts.tolist() == [2]
    assert OpenTree.paths("/", depth=3).count(["\ud800", "a"]).occupied.counts.tolist() == [1]


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_parents_follow_from_levels_and_first_places(tree):
    """Any tree, its nodes level by level, each known by its place in depth-first order or by its first leaf's."""
    for first in (subtree_ranges(tree.parents, np.ones_like(tree.parents))[0], tree.leaf_ranges[0]):
        order = np.lexsort((first, tree.node_levels))
        found = nested_parents(tree.node_levels[order], first[order])
        assert np.where(found < 0, -1, order[found]).tolist() == tree.parents[order].tolist()


@given(st.lists(st.integers(0, 63), min_size=1, max_size=12), st.data())
def test_any_place_of_a_cell_will_do(keys, data):
    tree = OpenTree.bits(6)
    counts = tree.count(keys)
    place = st.integers(0, counts.occupied.levels.size - 1)
    cells = data.draw(st.lists(st.tuples(place, st.integers(0, 6)), min_size=1, max_size=8))
    whole = counts.keys.to_the_right(6)[1].tolist()
    cells = list({whole[at] >> (6 - level) << (6 - level) | level << 8: (at, level) for at, level in cells}.values())
    shown = ShownCells.of(counts, *(np.array(part) for part in zip(*cells, strict=True)))
    expected = sorted((whole[at] >> (6 - level) << (6 - level), level) for at, level in cells)
    assert cell_frame(shown).select("prefix", "bits").rows() == expected
    assert [cells[at][1] for at in shown.order] == [level for _, level in expected]
