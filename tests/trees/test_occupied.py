from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.trees.occupied import Places, meets_between

paths = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(tuple), min_size=1, max_size=10)


def places_of(rows):
    return sorted(set(rows)), OpenTree.columns(3).count(rows).occupied


@given(paths, st.integers(0, 3))
def test_nodes_of_a_level_are_the_prefixes_of_that_length(rows, level):
    distinct, places = places_of(rows)
    starts, ends = places.nodes_at(level)
    prefixes = sorted({row[:level] for row in distinct if len(row) >= level})
    assert [distinct[start][:level] for start in starts] == prefixes
    for prefix, start, end in zip(prefixes, starts, ends, strict=True):
        assert [row for row in distinct if row[:level] == prefix] == distinct[start:end]


@given(paths, st.data())
def test_first_places_are_those_of_the_prefix(rows, data):
    distinct, places = places_of(rows)
    asked = data.draw(st.lists(st.integers(0, len(distinct) - 1), max_size=6))
    levels = [data.draw(st.integers(0, len(distinct[place]))) for place in asked]
    firsts = places.first_places(np.array(asked, dtype=np.int64), np.array(levels, dtype=np.int64))
    expected = [
        next(at for at, row in enumerate(distinct) if row[:level] == distinct[place][:level] and len(row) >= level)
        for place, level in zip(asked, levels, strict=True)
    ]
    assert firsts.tolist() == expected


@given(paths, st.data())
def test_ranges_hold_the_places_of_the_prefix_and_no_other(rows, data):
    distinct, places = places_of(rows)
    asked = data.draw(st.lists(st.integers(0, len(distinct) - 1), max_size=6))
    levels = [data.draw(st.integers(0, len(distinct[place]))) for place in asked]
    ranges = places.ranges_of(np.array(asked, dtype=np.int64), np.array(levels, dtype=np.int64))
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


def test_no_place_has_no_node():
    empty = np.zeros(0, dtype=np.int64)
    starts, ends = Places(empty, empty).nodes_at(0)
    assert starts.size == ends.size == 0
