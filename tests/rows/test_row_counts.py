"""How much of each person is counted: bounds on rows and leaves, and which rows they keep."""

from collections import Counter
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, Tree, Unit
from opendp_tree.rows.counting import RowCounter
from opendp_tree.rows.domains import kinds_of
from opendp_tree.rows.people import truncate
from tests.frame_truth import as_paths

SCHEMA = {"user": pl.Int64, "a": pl.String, "b": pl.Int64}
ROWS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["x", "y", "x/y", None]), st.integers(0, 3)),
    max_size=20,
)
TREE = Tree.from_paths([("x",), ("y",), ("rest",)])
KEYS = {
    "columns": Key.columns("a", "b"),
    "no nulls": Key.columns("a", "b", nulls="drop"),
    "path": Key.path("a", depth=3),
    "bits": Key.bits("b", width=1),
    "bits, no others": Key.bits("b", width=1, outside="drop"),
    "url": Key.url("a", depth=3),
    "numbers": Key.number("b", low=1, high=2, bins=3, branching=2),
    "numbers, ends": Key.number("b", low=1, high=2, bins=3, outside="ends"),
    "numbers, no others": Key.number("b", low=1, high=2, bins=3, outside="drop"),
    "nested": Key.nested(Key.number("b", low=1, high=2, bins=3), Key.path("a", depth=3)),
    "outside": Key.columns("a", tree=TREE, outside="leaf"),
    "public": Key.columns("a", tree=TREE),
    "other": Key.columns("a", tree=TREE, outside=("rest",)),
}


def counter(key, unit=None, memory=None):
    return RowCounter.of(key, kinds_of(SCHEMA), unit, memory)


def by_leaf(counts):
    """The counts that are not 0, by leaf or by path."""
    if isinstance(counts, np.ndarray):
        return {leaf: count for leaf, count in enumerate(counts.tolist()) if count}
    return as_paths(counts)


def total(counts):
    return sum(by_leaf(counts).values())


def frame_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS)
def test_bounds_that_are_never_reached_change_nothing_for_rows_of_somebody(name, rows):
    known = [row for row in rows if row[0] is not None]
    plain = counter(KEYS[name]).count(frame_of(known))
    for unit in (Unit("user", rows=99), Unit("user", leaves=99, rows_per_leaf=99)):
        assert by_leaf(counter(KEYS[name], unit).count(frame_of(rows))) == by_leaf(plain)


@pytest.mark.parametrize("name", KEYS)
@given(rows=ROWS, most=st.integers(1, 3))
def test_of_each_person_as_much_is_kept_as_there_is_up_to_the_bound(name, rows, most):
    each = Counter()
    for row in rows:
        if row[0] is not None:
            each[row[0]] += total(counter(KEYS[name]).count(frame_of([row])))
    bounded = counter(KEYS[name], Unit("user", rows=most)).count(frame_of(rows))
    assert total(bounded) == sum(min(count, most) for count in each.values())


def test_leaves_of_which_nothing_is_kept_do_not_show():
    rows = [(1, label, number) for label in ("x", "y") for number in range(4)]
    counts = counter(Key.columns("a", "b"), Unit("user", leaves=1)).count(frame_of(rows))
    assert counts.occupied.counts.tolist() == [1]


BOUND = st.none() | st.integers(1, 6)
WORDS = st.integers(0, 2**64 - 1)
UNITS = st.builds(
    lambda rows, leaves, each: Unit("user", rows=rows, leaves=leaves, rows_per_leaf=1 if leaves is None else each),
    st.integers(1, 6),
    BOUND,
    st.integers(1, 4),
) | st.builds(
    lambda leaves, each: Unit("user", leaves=leaves, rows_per_leaf=each), st.integers(1, 6), st.integers(1, 4)
)
ONE_LEAF = Unit("user", leaves=1)


def one_by_one(people, unit):
    """The same, a leaf at a time; a person is a list of leaves, each with its rows and its draw."""
    result = []
    for leaves in people:
        kept, left = [0] * len(leaves), sum(rows for rows, _ in leaves) if unit.rows is None else unit.rows
        for number, place in enumerate(sorted(range(len(leaves)), key=lambda place: leaves[place][1])):
            if unit.leaves is None or number < unit.leaves:
                rows = leaves[place][0]
                kept[place] = min(rows if unit.leaves is None else min(rows, unit.rows_per_leaf), left)
                left -= kept[place]
        result += kept
    return result


def arrays(people):
    rows = np.array([rows for leaves in people for rows, _ in leaves], dtype=np.int64)
    words = np.array([word for leaves in people for _, word in leaves], dtype=np.uint64)
    starts = np.cumsum([0, *map(len, people)], dtype=np.int64)[:-1]
    return rows, words, starts


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 9), WORDS), min_size=1, max_size=6, unique_by=lambda leaf: leaf[1] >> 8)
    ),
    UNITS,
)
def test_agrees_with_one_by_one(people, unit):
    rows, words, starts = arrays(people)
    found = truncate(rows, starts, unit, lambda places: words[places])
    assert found.tolist() == one_by_one(people, unit)
    assert rows.tolist() == [size for leaves in people for size, _ in leaves]


def test_equal_words_are_drawn_again():
    """Else the order of the frame would settle which leaf is kept."""
    answers = [[7, 7, 7], [2**40, 2**40, 9], [2**41, 1, 2**40]]  # the third differ, if only in bits that share a word
    draws = iter(np.array(answer, dtype=np.uint64) for answer in answers)
    found = truncate(np.array([1, 1, 1]), np.array([0]), ONE_LEAF, lambda places: next(draws)[places])
    assert found.tolist() == [0, 1, 0]


def test_every_order_is_as_likely():
    """All orders of three words, each once: every leaf is kept as often as the others, wherever it stands."""
    rows, starts = np.array([1, 1, 1]), np.array([0])
    orders = map(np.array, permutations(np.array([1, 2, 3], dtype=np.uint64) << np.uint64(60)))
    assert sum(truncate(rows, starts, ONE_LEAF, order.__getitem__) for order in orders).tolist() == [2, 2, 2]
