"""Designs keep to their budgets, and weights are those of the theorem, one person after the other."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.budget import Budget
from opendp_tree.mechanisms.people import (
    MEASURING,
    UNITS,
    PeopleDesign,
    choose_design,
    leaf_units,
    people_units,
    predicted_error,
    rho_within,
    zcdp_epsilon_within,
)
from opendp_tree.rows.people import PeoplePart
from opendp_tree.theorems.sums import layer_l1, layer_l2_squared, node_units, node_units_squared
from tests.privacy.people_law import row_units
from tests.thoroughness import examples, slow

COUNTS = [("people", (1, 6, 12, 20)), ("rows", (5,) * 4), ("rows", (200, 200, 200, 50)), ("shares", (1,) * 4)]


def spending(epsilon=1.0, delta=1e-6, rho=None, people=1):
    return Budget(epsilon, delta, rho, people)


@pytest.mark.parametrize("people", [1, 3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, *slow([0.3, 8.0])])
@pytest.mark.parametrize(("count", "most"), COUNTS)
def test_an_open_design_costs_no_more_than_it_may_and_nearly_all_of_it(count, most, epsilon, people):
    for noise in ("laplace", "gaussian"):
        design = choose_design(count, most, spending(epsilon, people=people), finds=True, noise=noise)
        loss = design.loss(people)
        assert 0.99 * epsilon < loss[0] <= epsilon
        assert loss[1] <= 1e-6
        assert design.loss(0) == (0.0, 0.0)


@pytest.mark.parametrize(("count", "most"), COUNTS)
def test_a_public_design_is_pure_or_has_a_rho(count, most):
    pure = choose_design(count, most, spending(delta=0.0), finds=False)
    assert (pure.noise, pure.parameters) == ("laplace", None)
    assert 0.99 < pure.loss(1)[0] <= 1
    concentrated = choose_design(count, most, spending(None, 0.0, 0.5), finds=False, noise="gaussian")
    assert 0.499 < concentrated.loss(1)[0] <= 0.5
    assert concentrated.loss(2)[0] == pytest.approx(4 * concentrated.loss(1)[0])
    as_pure = choose_design(count, most, spending(None, 0.0, 0.5), finds=False, noise="laplace")
    assert 0.99 < as_pure.loss(1)[0] <= 1  # a pure loss of 1 is a rho of a half
    fixed = choose_design(count, most, spending(), finds=False, noise="gaussian")
    assert 0.99 < zcdp_epsilon_within(Fraction(fixed.loss(1)[0]), Fraction(1e-6)).hi <= 1 + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.001, 0.1), (0.001, 0.9), (0.05, 0.5)])
@pytest.mark.parametrize(("count", "most"), COUNTS)
def test_losses_are_never_below_0_and_grow_with_people(count, most, epsilon, delta):
    noise = None if delta < 0.1 else "gaussian"
    design = choose_design(count, most, spending(epsilon, delta), finds=True, noise=noise)
    losses = [design.loss(people) for people in range(9)]
    assert losses[0] == (0.0, 0.0)
    assert 0 < losses[1][0] <= epsilon
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(losses))


def test_the_noise_and_the_share_of_least_predicted_error_are_taken():
    for count, most in COUNTS[:3]:
        chosen = choose_design(count, most, spending(), finds=True)
        errors = [
            predicted_error(choose_design(count, most, spending(), finds=True, noise=noise, measuring=share))
            for noise in ("laplace", "gaussian")
            for share in MEASURING
        ]
        assert predicted_error(chosen) == min(errors)
    assert choose_design("people", (1, 6, 12, 20), spending(), finds=True).noise == "gaussian"
    assert choose_design("rows", (5,) * 4, spending(), finds=True).noise == "laplace"


def test_predicted_noise_is_that_of_the_scales():
    scales = 3.0 * UNITS, 1.0 * UNITS
    design, laplace = (
        PeopleDesign("people", (1, 4), "gaussian", scales),
        PeopleDesign("rows", (2, 2), "laplace", scales),
    )
    assert design.deviations() == (3.0, 1.0)
    assert laplace.deviations() == pytest.approx((3 * math.sqrt(2), math.sqrt(2)), rel=1e-5)
    assert design.distances(2) == [4 * UNITS**2, 16 * UNITS**2]
    assert laplace.distances(2) == [4 * UNITS, 4 * UNITS]
    assert replace(laplace, noise="gaussian").distances(1) == [4 * UNITS**2] * 2


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (spending(delta=0.0), {"finds": True}, "where nodes are unknown"),
        (spending(None, 0.0, 1.0), {"finds": True}, "where nodes must be found"),
        (spending(delta=0.0), {"finds": False, "noise": "gaussian"}, "delta must be above 0 for Gaussian noise"),
        (spending(1e-8), {"finds": False, "noise": "laplace"}, "noise of such a scale cannot be drawn"),
        (spending(5e-324), {"finds": False, "noise": "gaussian"}, "noise of such a scale cannot be drawn"),
        (spending(5e-324), {"finds": False}, "epsilon"),
        (spending(1e-320, 0.1), {"finds": False, "noise": "gaussian"}, "epsilon"),
        (spending(None, 0.0, 5e-324), {"finds": False, "noise": "gaussian"}, "noise of such a scale cannot be drawn"),
    ],
)
def test_what_cannot_be_is_said(given, options, message):
    with pytest.raises(ValueError, match=message):
        choose_design("people", (1, 6, 12, 2**20), given, **options)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.05, 1e-9), (5.0, 1e-3)])
def test_rho_is_the_largest_that_the_conversion_allows(epsilon, delta):
    rho = rho_within(Fraction(epsilon), Fraction(delta))
    assert epsilon * (1 - 1e-6) < float(zcdp_epsilon_within(rho, Fraction(delta)).hi) <= epsilon


LEAVES = 4
PERSON = st.lists(st.integers(0, 5), min_size=LEAVES, max_size=LEAVES).filter(any)
CROWD = st.lists(PERSON, max_size=6)
MOST = st.integers(1, 4)


def records_of(persons):
    pairs = [(leaf, rows) for person in persons for leaf, rows in enumerate(person) if rows]
    starts = np.cumsum([0, *(sum(rows > 0 for rows in person) for person in persons)])[:-1].astype(np.int64)
    leaves, rows = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in (0, 1))
    return PeoplePart(LEAVES, starts, leaves, rows)


@given(CROWD, MOST)
def test_leaves_hold_what_rows_weigh_there(persons, most):
    expected = [
        sum(row_units(person[leaf], sum(person), most=most, units=UNITS) for person in persons if person[leaf])
        for leaf in range(LEAVES)
    ]
    assert leaf_units(records_of(persons), most).tolist() == expected


@pytest.mark.parametrize("owner", [[0, 0, 1, 1], [1, 0, 1, 0], [0, -1, -1, 1], [0, 1, 2, 3], [-1] * 4])
@pytest.mark.parametrize("squared", [False, True])
@given(persons=CROWD, most=MOST)
@examples(30)
def test_nodes_hold_what_people_weigh_there(owner, squared, persons, most):
    size, weigh = max(owner) + 1, node_units_squared if squared else node_units
    expected = [0] * size
    for person in persons:
        held = {owner[leaf] for leaf in range(LEAVES) if person[leaf] and owner[leaf] >= 0}
        for node in held:
            expected[node] += weigh(len(held), most=most, units=UNITS)
    found = people_units(records_of(persons), np.array(owner), size, most, squared=squared)
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
