from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.rows.people import truncate
from opendp_tree.rows.unit import Unit

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
    kept = [
        truncate(
            np.array([1, 1, 1]),
            np.array([0]),
            Unit("user", leaves=1),
            lambda places, order=order: np.array(order)[places],
        )
        for order in permutations(np.array([1, 2, 3], dtype=np.uint64) << np.uint64(60))
    ]
    assert sum(kept).tolist() == [2, 2, 2]
