"""The side-by-side benchmark says what it does, without running any peer."""

import math

import pytest

from benchmarks.peers.measure import astray, kept, rmse


def test_errors_are_over_all_places_that_have_rows():
    truth = {("a",): 10, ("b",): 4}
    one, two = {("a",): 13.0, ("c",): 99.0}, {("a",): 10.0, ("b",): 4.0}
    half = math.sqrt((9 + 16) / 2) / 2  # the mean of two, and the standard error of that mean
    assert rmse([one, two], truth) == pytest.approx((half, half))
    assert math.isnan(rmse([one], truth)[1])
    assert kept([{("a",): 13.0, ("c",): 99.0}, {}], truth) == 0.5


def test_counts_that_do_not_add_up_are_told():
    above, below = {("a",): 5.0, ("b",): 2.0}, {("a", "x"): 3.0, ("a", "y"): 2.0, ("b", "x"): 2.0}
    assert astray([above, below], public=True) == astray([above, below], public=False) == 0
    assert astray([{**above, ("c",): 1.0}, below], public=True) == 1 / 3  # nothing below it
    assert astray([{**above, ("(outside)",): 1.0}, below], public=True) == 0
    fewer = {("a", "x"): 3.0, ("b", "x"): 2.0}
    assert astray([above, fewer], public=True) == 0.5
    assert astray([above, fewer], public=False) == 0
    more = {**below, ("b", "y"): 0.5}
    assert astray([above, more], public=False) == 0.5
    assert astray([{("a",): 5.0}, below], public=False) == 0.5  # a child without its parent
    rest = {**fewer, ("a", "(other)"): above["a",] - 3.0}
    assert astray([above, rest], public=False) == 0
    assert astray([above, {**rest, ("a", "(other)"): 0.0}], public=False) == 0.5  # rows "(other)" must add up
