"""Intervals enclose, roundings are safe, and the bisection finds where a condition begins to hold."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import (
    Interval,
    between,
    bisect,
    digits,
    exp,
    geometric_sum,
    halfway,
    least_whole,
    round_down,
    round_up,
    sqrt_down,
    sqrt_up,
)

rationals = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=10**12)
positive = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12)


def encloses(interval, value):
    return Fraction(interval.lo) <= value <= Fraction(interval.hi)


@given(rationals, rationals)
def test_arithmetic_encloses_the_exact_result(a, b):
    x, y = Interval.of(a), Interval.of(b)
    assert encloses(x + y, a + b)
    assert encloses(x - y, a - b)
    assert encloses(x * y, a * b)
    assert encloses(3 + x, 3 + a)
    assert encloses(3 - x, 3 - a)
    if b:
        assert encloses(x / y, a / b)
        assert encloses(2 / y, 2 / b)


@given(rationals, st.integers(0, 40))
def test_powers_enclose_the_exact_result(a, n):
    assert encloses(Interval.of(a) ** n, a**n)
    if a:
        assert encloses(Interval.of(a) ** -n, a**-n)


@given(st.floats(-700, 700))
def test_exp_is_enclosed_more_narrowly_than_floats_can_tell(x):
    interval = exp(x)
    assert interval.lo < interval.hi
    assert Fraction(interval.lo) <= Fraction(math.nextafter(math.exp(x), math.inf)) * (1 + Fraction(1, 10**14))
    assert Fraction(interval.hi) >= Fraction(math.nextafter(math.exp(x), 0)) * (1 - Fraction(1, 10**14))
    assert encloses(interval * exp(-x), 1)


@given(positive)
def test_ln_inverts_exp(x):
    assert encloses(Interval.of(x).ln().exp(), x)


def test_exp_of_what_no_float_holds():
    tiny = exp(-(Fraction(10) ** 330))
    assert tiny.lo == 0 < tiny.hi
    assert round_up(tiny) == math.ulp(0.0)


def test_more_digits_are_narrower():
    with digits(200):
        fine = exp(1)
    assert fine.hi - fine.lo < Decimal("1e-190") < exp(1).hi - exp(1).lo


def test_division_by_an_interval_around_zero_is_an_error():
    with pytest.raises(ZeroDivisionError, match="contains 0"):
        Interval.of(1) / Interval(Decimal(-1), Decimal(1))


@given(st.fractions(min_value=0, max_value=3, max_denominator=50), st.integers(0, 30))
def test_geometric_sum_is_the_sum(ratio, terms):
    assert geometric_sum(ratio, terms) == sum(ratio**i for i in range(terms))


def test_geometric_sum_of_fewer_than_no_terms_is_an_error():
    with pytest.raises(ValueError, match=r"terms \(-3\) must not be negative"):
        geometric_sum(Fraction(1, 2), -3)


def test_geometric_sum_loses_nothing_near_one():
    terms = 2**61
    total = geometric_sum(exp(Fraction(-1, 10**300)), terms)
    assert Fraction(total.lo) <= terms * (1 + Fraction(1, 10**30))
    assert Fraction(total.hi) >= terms * (1 - Fraction(1, 10**30))


@given(st.fractions())
def test_a_rounded_number_is_the_nearest_float_on_its_side(x):
    up, down = round_up(x), round_down(x)
    assert Fraction(up) >= x > Fraction(math.nextafter(up, -math.inf))
    assert Fraction(down) <= x < Fraction(math.nextafter(down, math.inf))


@given(st.fractions(min_value=0, max_value=10**30))
def test_a_rounded_root_is_the_nearest_float_on_its_side(x):
    up, down = sqrt_up(x), sqrt_down(x)
    assert Fraction(up) ** 2 >= x
    assert up == 0 or Fraction(math.nextafter(up, 0)) ** 2 < x
    assert Fraction(down) ** 2 <= x < Fraction(math.nextafter(down, math.inf)) ** 2


def test_numbers_beyond_the_floats_are_rounded_outward():
    large, small = Fraction(10) ** 400, Fraction(1, 10**400)
    assert [round_up(x) for x in (large, -large, small)] == [math.inf, -math.nextafter(math.inf, 0), math.ulp(0.0)]
    assert [round_down(x) for x in (large, small)] == [math.nextafter(math.inf, 0), 0]
    assert Fraction(round_down(exp(1))) <= Fraction(exp(1).lo)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_least_is_found_or_one_beyond_the_most(least, most):
    assert least_whole(lambda number: number >= least) == least
    assert least_whole(lambda number: number >= least, most=most) == min(least, most + 1)


@given(st.integers(-50, 50), st.integers(1, 10**9), st.integers(0, 10**9))
def test_the_step_between_two_ends_is_found(low, width, place):
    step = low + 1 + place % width
    assert bisect(lambda number: number >= step, low, low + width, middle=halfway) == step


@given(st.floats(1e-290, 1e290), st.floats(1.0, 1e6))
def test_what_is_found_holds_and_is_near(step, times):
    found = bisect(lambda number: number >= step, 0.0, step * times, middle=between)
    assert step <= found <= step * (1 + 1e-11)


@pytest.mark.parametrize("most", [1, 2, 7, 2**62])
def test_nothing_beyond_the_most_is_asked(most):
    asked = []
    assert least_whole(lambda number: asked.append(number) or False, most=most) == most + 1
    assert max(asked) <= most
    assert len(asked) <= 2 * math.log2(most) + 2
