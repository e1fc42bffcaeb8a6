"""Sums of units against the theorem's functions, one person after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.mechanisms.people import UNITS, leaf_units, people_units
from opendp_tree.rows.people import PeoplePart
from opendp_tree.theorems.people_layers import (
    layer_l1,
    layer_l2_squared,
    node_units,
    node_units_squared,
    row_units,
)
from tests.thoroughness import examples

LEAVES = 4
PERSON = st.lists(st.integers(0, 5), min_size=LEAVES, max_size=LEAVES).filter(any)
CROWD = st.lists(PERSON, max_size=6)
MOST, SIZES = st.integers(1, 4), st.sampled_from([1, 2, 7, 1024, UNITS])


def records_of(persons):
    pairs = [(leaf, rows) for person in persons for leaf, rows in enumerate(person) if rows]
    starts = np.cumsum([0, *(sum(rows > 0 for rows in person) for person in persons)])[:-1].astype(np.int64)
    leaves, rows = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    return PeoplePart(LEAVES, starts, leaves, rows)


@given(CROWD, MOST, SIZES)
def test_leaves_hold_what_rows_weigh_there(persons, most, units):
    expected = [
        sum(row_units(person[leaf], sum(person), most=most, units=units) for person in persons if person[leaf])
        for leaf in range(LEAVES)
    ]
    assert leaf_units(records_of(persons), most, units=units).tolist() == expected


@pytest.mark.parametrize("owner", [[0, 0, 1, 1], [1, 0, 1, 0], [0, -1, -1, 1], [0, 1, 2, 3], [-1] * 4])
@pytest.mark.parametrize("squared", [False, True])
@given(persons=CROWD, most=MOST, units=SIZES)
@examples(30)
def test_nodes_hold_what_people_weigh_there(owner, squared, persons, most, units):
    size, weigh = max(owner) + 1, node_units_squared if squared else node_units
    expected = [0] * size
    for person in persons:
        held = {owner[leaf] for leaf in range(LEAVES) if person[leaf] and owner[leaf] >= 0}
        for node in held:
            expected[node] += weigh(len(held), most=most, units=units)
    found = people_units(records_of(persons), np.array(owner), size, most, squared=squared, units=units)
    assert found.tolist() == expected


@given(CROWD, CROWD, MOST)
@examples(50)
def test_people_move_sums_no_further_than_the_theorem_says(persons, more, most):
    owner = np.array([0, 1, 1, 2])
    fewer, all_of_them = records_of(persons), records_of([*persons, *more])
    for bound in (most, 1):
        moved = np.abs(leaf_units(all_of_them, bound) - leaf_units(fewer, bound)).sum()
        assert moved <= layer_l1(len(more), most=bound, units=UNITS)
    one, two = (people_units(each, owner, 3, most, squared=False) for each in (fewer, all_of_them))
    assert np.abs(two - one).sum() <= layer_l1(len(more), most=most, units=UNITS)
    one, two = (people_units(each, owner, 3, most, squared=True) for each in (fewer, all_of_them))
    assert int(((two - one).astype(object) ** 2).sum()) <= layer_l2_squared(len(more), most=most, units=UNITS)


@pytest.mark.parametrize("most", [1, 3, 2**20])
def test_numbers_as_large_as_frames_can_be_are_exact(most):
    rows = [2**31 - 7, 2**31 - 1, 1]
    records = PeoplePart(LEAVES, np.array([0]), np.arange(3), np.array(rows, dtype=np.int64))
    expected = [row_units(each, sum(rows), most=most, units=UNITS) for each in rows]
    assert leaf_units(records, most).tolist() == [*expected, 0]
