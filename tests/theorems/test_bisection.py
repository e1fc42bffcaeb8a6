import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import between, bisect, halfway, least_whole


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
