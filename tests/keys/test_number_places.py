from bisect import bisect_right
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from math import isnan

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.keys.number import NOWHERE, find_ranges
from opendp_tree.trees.number_range import NumberRange

SPANS = st.tuples(st.integers(-(2**80), 2**80), st.integers(1, 2**80), st.integers(1, 30)).map(
    lambda span: NumberRange(span[0], span[0] + span[1], span[2])
) | st.sampled_from([NumberRange(0, 1, 10), NumberRange(-3, 7, 4), NumberRange(-(2**63), 2**63, 5)])
INTEGERS = [pl.Int8, pl.Int64, pl.UInt64, pl.Int128, pl.UInt128]


def true_place(value, ranges):
    numerators, under = ranges.exact_edges
    edges = [Fraction(number, under) for number in numerators]
    return ranges.bins - 1 if value == edges[-1] else bisect_right(edges, value) - 1


@pytest.mark.parametrize("dtype", INTEGERS)
@given(ranges=SPANS, data=st.data())
def test_integers_are_where_exact_fractions_put_them(dtype, ranges, data):
    low, high = (int(end) for end in pl.select(low=dtype.min(), high=dtype.max()).row(0))
    numerators, under = ranges.exact_edges
    near = [min(max(number // under + step, low), high) for number in numerators for step in (-1, 0, 1)]
    values = data.draw(st.lists(st.integers(low, high) | st.sampled_from(near) | st.none(), max_size=20))
    found = find_ranges(pl.Series(values, dtype=dtype), ranges).to_list()
    assert found == [NOWHERE if value is None else true_place(value, ranges) for value in values]


@given(SPANS, st.integers(0, 37), st.data())
def test_decimals_of_any_scale_are_where_exact_fractions_put_them(ranges, scale, data):
    whole = st.integers(-(10**38) + 1, 10**38 - 1)
    numbers = data.draw(st.lists(whole | st.integers(-99, 99) | st.none(), max_size=20))
    exactly = Context(prec=50)  # by default, Python rounds decimals to 28 digits
    values = [None if n is None else Decimal(n).scaleb(-scale, exactly) for n in numbers]
    column = pl.Series(values, dtype=pl.Decimal(38, scale))
    exact = [None if n is None else Fraction(n, 10**scale) for n in numbers]
    expected = [NOWHERE if value is None else true_place(value, ranges) for value in exact]
    assert find_ranges(column, ranges).to_list() == expected


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.integers(-3, 13).map(lambda n: n / 10) | st.none()))
def test_floats_are_at_the_edge_that_they_are_written_as(values):
    ranges = NumberRange(0, 1, 10)
    places = find_ranges(pl.Series(values, dtype=pl.Float64), ranges).to_list()
    for value, place in zip(values, places, strict=True):
        if value is None or isnan(value):
            assert place == NOWHERE
        elif 0 <= value <= 1:
            assert ranges.edges[place] <= value
            assert value < ranges.edges[place + 1] or value == 1
        else:
            assert place == (-1 if value < 0 else 10)


def test_ranges_that_python_takes_for_equal_have_their_own_edges():
    written, exact = NumberRange(0, 0.3, 3), NumberRange(0, Decimal.from_float(0.3), 3)
    assert written == exact
    tenth = pl.Series(["0.1"]).cast(pl.Decimal(38, 37))
    assert find_ranges(tenth, written).to_list() == [1]
    assert find_ranges(tenth, exact).to_list() == [true_place(Fraction(1, 10), exact)]


@pytest.mark.parametrize("dtype", [pl.Float16, pl.Float32, pl.Float64])
def test_floats_of_every_width_are_ordered(dtype):
    values = pl.Series([-float("inf"), -1.0, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0, float("inf")]).cast(dtype)
    assert find_ranges(values, NumberRange(0, 1, 4)).to_list() == [-1, -1, 0, 0, 1, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("dtype", [pl.Float16, pl.Float32, pl.Float64])
def test_floats_of_every_width_are_at_the_edges_nearest_to_them(dtype):
    tenths = pl.Series([tenth / 10 for tenth in range(11)]).cast(dtype)
    assert find_ranges(tenths, NumberRange(0, 1, 10)).to_list() == [*range(10), 9]


@pytest.mark.parametrize("ends", [(-4, 4), (1, 3), (2, 4), (-4, -2), (-3, -1)])
def test_ranges_beyond_the_floats_of_a_width_hold_no_infinite_value(ends):
    largest = 65504
    ranges = NumberRange(ends[0] * largest, ends[1] * largest, ends[1] - ends[0])
    values = pl.Series([-largest, -1.0, 0.0, 1.0, largest], dtype=pl.Float16)
    assert find_ranges(values, ranges).to_list() == [true_place(Fraction(each), ranges) for each in values]
    infinite = pl.Series([-float("inf"), float("inf")], dtype=pl.Float16)
    assert find_ranges(infinite, ranges).to_list() == [-1, ranges.bins]


@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)) | st.none()), st.sampled_from(["ms", "us"]))
def test_times_are_where_plain_python_puts_them(values, unit):
    ranges = NumberRange(datetime(1950, 1, 1), datetime(2050, 1, 1, 1, 1), 13)
    kept = pl.Series(values, dtype=pl.Datetime("us")).cast(pl.Datetime(unit))
    exact = [
        None if each is None else Fraction((each - datetime(1970, 1, 1)) // timedelta(microseconds=1)) for each in kept
    ]
    expected = [NOWHERE if each is None else true_place(each / (86_400 * 10**6), ranges) for each in exact]
    assert find_ranges(kept, ranges).to_list() == expected


@given(st.lists(st.dates() | st.none()))
def test_days_are_where_plain_python_puts_them(values):
    ranges = NumberRange(date(1600, 2, 29), date(2400, 2, 29), 800)
    epoch = date(1970, 1, 1).toordinal()
    expected = [NOWHERE if each is None else true_place(each.toordinal() - epoch, ranges) for each in values]
    assert find_ranges(pl.Series(values, dtype=pl.Date), ranges).to_list() == expected
