from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.truncation import Limits, truncate

BOUND = st.none() | st.integers(1, 6)


def one_by_one(units, leaves, rows, draws, limits):
    """The same, a person and a leaf at a time."""
    people = defaultdict(list)
    for place, unit in enumerate(units):
        people[unit].append((draws[place], leaves[place], place))
    kept = [0] * len(units)
    for own in people.values():
        left = sum(rows) if limits.rows is None else limits.rows
        for number, (_, _, place) in enumerate(sorted(own)):
            if limits.leaves is not None and number >= limits.leaves:
                break
            most = rows[place] if limits.leaves is None else min(rows[place], limits.rows_per_leaf)
            kept[place] = min(most, left)
            left -= kept[place]
    return kept


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), unique=True, max_size=20),
    BOUND,
    BOUND,
    st.integers(1, 4),
    st.data(),
)
def test_agrees_with_one_by_one(pairs, rows, leaves, rows_per_leaf, data):
    def numbers(values):
        return data.draw(st.lists(values, min_size=len(pairs), max_size=len(pairs)))

    units, places = [unit for unit, _ in pairs], [leaf for _, leaf in pairs]
    sizes, draws = numbers(st.integers(1, 9)), numbers(st.integers(0, 3))  # few values: equal draws are settled too
    limits = Limits(rows, leaves, rows_per_leaf)
    ints = (np.array(values, dtype=np.int64) for values in (units, places, sizes))
    found = truncate(*ints, np.array(draws, dtype=np.uint64), limits)
    assert found.tolist() == one_by_one(units, places, sizes, draws, limits)
