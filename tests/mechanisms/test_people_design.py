import math
from fractions import Fraction
from itertools import pairwise

import pytest

from opendp_tree.budget import Budget, zcdp_epsilon
from opendp_tree.mechanisms.people import (
    MEASURING,
    PeopleDesign,
    best_order,
    choose_design,
    predicted_error,
    rho_within,
    squared_bounds,
)
from opendp_tree.theorems.people_layers import zcdp_epsilon_at
from tests.thoroughness import thinned

COUNTS = [("people", (1, 6, 12, 20)), ("rows", (5,) * 4), ("rows", (200, 200, 200, 50)), ("shares", (1,) * 4)]


def spending(epsilon=1.0, delta=1e-6, rho=None, people=1):
    return Budget(epsilon, delta, rho, people)


@pytest.mark.parametrize("people", [1, 3])
@pytest.mark.parametrize("epsilon", thinned([0.01, 0.3, 1.0, 8.0], 2))
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
    assert 0.99 < zcdp_epsilon(fixed.loss(1)[0], 1e-6) <= 1 + 1e-9


@pytest.mark.parametrize(("count", "most"), COUNTS)
def test_losses_grow_with_people(count, most):
    design = choose_design(count, most, spending(), finds=True)
    losses = [design.loss(people) for people in range(5)]
    assert losses == sorted(losses)
    assert all(a[1] <= b[1] for a, b in pairwise(losses))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.001, 0.1), (0.001, 0.9), (0.05, 0.5)])
@pytest.mark.parametrize(("count", "most"), COUNTS[:2])
def test_losses_are_never_below_0_and_grow_where_delta_is_large(count, most, epsilon, delta):
    given = spending(epsilon, delta)
    design = choose_design(count, most, given, finds=True, noise="gaussian")
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
    design = PeopleDesign("people", (1, 4), "gaussian", (3000.0, 1000.0), None, units=1000)
    assert design.deviations() == (3.0, 1.0)
    laplace = PeopleDesign("rows", (2, 2), "laplace", (3000.0, 1000.0), None, units=1000)
    assert laplace.deviations() == pytest.approx((3 * math.sqrt(2), math.sqrt(2)), rel=1e-5)
    assert squared_bounds(design) == (1, 4)
    assert squared_bounds(laplace) == (4, 4)


def test_what_adds_up():
    assert choose_design("rows", (5, 5), spending(), finds=True).adds_up
    assert choose_design("shares", (1, 1), spending(), finds=True).adds_up
    assert not choose_design("rows", (5, 4), spending(), finds=True).adds_up
    assert not choose_design("people", (1, 1), spending(), finds=True).adds_up


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (spending(delta=0.0), {"finds": True}, "cannot be found without"),
        (spending(None, 0.0, 1.0), {"finds": True}, "cannot be found without"),
        (spending(delta=0.0), {"finds": False, "noise": "gaussian"}, "delta must be above 0 for Gaussian noise"),
        (spending(1e-8), {"finds": False, "noise": "laplace"}, "noise of such a scale cannot be drawn"),
        (spending(5e-324), {"finds": False, "noise": "gaussian"}, "epsilon and delta must be larger for Gaussian"),
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
    order = best_order(float(rho), delta)
    assert float(zcdp_epsilon_at(rho, Fraction(delta), order=order).hi) <= epsilon
    assert zcdp_epsilon(float(rho), delta) == pytest.approx(epsilon, rel=1e-6)
