from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.trees.number_range import NumberRange

BOUNDS = st.integers(-(2**100), 2**100) | st.floats(-1e30, 1e30) | st.decimals(-(10**20), 10**20, places=4)


@given(BOUNDS, BOUNDS, st.integers(1, 40))
def test_edges_divide_the_span_exactly(low, high, bins):
    exact = [Fraction(str(end)) for end in (low, high)]
    if not exact[0] < exact[1]:
        return
    ranges = NumberRange(low, high, bins)
    numerators, under = ranges.exact_edges
    edges = [Fraction(number, under) for number in numerators]
    assert edges == [exact[0] + (exact[1] - exact[0]) * place / bins for place in range(bins + 1)]
    assert [Fraction(float(edge)) for edge in ranges.edges] == [Fraction(float(edge)) for edge in edges]


def test_floats_are_the_decimals_that_people_write():
    assert NumberRange(0, 1, 10).edges == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert NumberRange.of_width(0.0, 0.3, 0.1) == NumberRange(0, 0.3, 3)
    assert NumberRange.of_width(Decimal("0.5"), 2, Fraction(1, 4)).bins == 6
    assert NumberRange(np.int64(0), np.float64(0.3), 3) == NumberRange(0, 0.3, 3)


@given(st.integers(1, 70), st.integers(2, 9), st.booleans())
def test_the_tree_is_the_ranges_in_order_and_what_holds_them(bins, branching, outside):
    ranges = NumberRange(-3, 2 * bins - 3, bins)
    tree = ranges.tree(branching=branching, outside=outside)
    assert tree.ranges == ranges
    assert tree.ordered
    assert tree.leaf_count == bins + outside
    labels = [tree.labels[leaf] for leaf in tree.leaves.tolist()]
    assert labels[:bins] == [ranges.label(place, place + 1) for place in range(bins)]
    assert labels[bins:] == ["(outside)"] * outside
    assert len({int(tree.node_levels[leaf]) for leaf in tree.leaves[:bins]}) == 1
    first, last = tree.leaf_ranges  # of every node, what its label says
    for node in range(1, tree.node_count - outside):
        assert tree.labels[node] == ranges.label(int(first[node]), int(last[node]))
    children = np.bincount(tree.parents[1:], minlength=tree.node_count)
    children[0] -= outside
    assert children.max() <= max(branching, 1)
    assert tree.depth - 2 < np.emath.logn(branching, max(bins, 2)) + 1


@given(st.integers(1, 5000))
def test_by_default_levels_are_as_few_as_of_sixteen_and_children_as_few_as_these_allow(bins):
    ranges = NumberRange(0, bins, bins)
    tree = ranges.tree(branching=None, outside=False)
    assert tree.depth == ranges.tree(branching=16, outside=False).depth
    widest = int(np.bincount(tree.parents[1:]).max())
    if widest > 2:
        assert ranges.tree(branching=widest - 1, outside=False).depth > tree.depth


def test_labels_are_read_by_people():
    tree = NumberRange(-1, 1, 4).tree(branching=2, outside=False)
    assert [path[-1] for path in tree.paths()] == ["[-1, -0.5)", "[-0.5, 0)", "[0, 0.5)", "[0.5, 1]"]
    assert NumberRange(0, 1, 3).label(0, 1) == "[0.0, 0.3333333333333333)"
    assert NumberRange(0, 2**100, 2).label(1, 2) == f"[{2**99}, {2**100}]"
    days = NumberRange.of_width(date(2024, 2, 28), date(2024, 3, 1), timedelta(days=1))
    assert [days.label(place, place + 1) for place in range(2)] == [
        "[2024-02-28, 2024-02-29)",
        "[2024-02-29, 2024-03-01]",
    ]
    noon = NumberRange(date(2024, 1, 1), datetime(2024, 1, 2), 2)
    assert noon.edges == (datetime(2024, 1, 1), datetime(2024, 1, 1, 12), datetime(2024, 1, 2))
    assert noon.label(0, 1) == "[2024-01-01 00:00:00, 2024-01-01 12:00:00)"


def test_levels_may_be_called_by_the_column():
    assert NumberRange(0, 4, 4).tree(branching=2, outside=False, name="age").names == ("age_1", "age_2")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: NumberRange(0, 1, 0), ValueError, r"bins \(0\) must be an integer from 1"),
        (lambda: NumberRange(0, 1, 2**20 + 1), ValueError, r"must be at most 2\*\*20. Hint"),
        (lambda: NumberRange(True, 2, 1), TypeError, r"low \(bool\) must be a number, a date or a time"),
        (lambda: NumberRange("0", 2, 1), TypeError, r"low \(str\) must be a number"),
        (lambda: NumberRange(0, float("nan"), 1), ValueError, r"high \(nan\) must be a number from -2\*\*127"),
        (lambda: NumberRange(0, float("inf"), 1), ValueError, r"high \(inf\) must be"),
        (lambda: NumberRange(0, Decimal("NaN"), 1), ValueError, "high .* must be a number"),
        (lambda: NumberRange(0, Decimal("1e-999999"), 1), ValueError, "high .* must be a number"),
        (lambda: NumberRange(0, 10**5000, 1), ValueError, "an integer of 16610 bits"),
        (lambda: NumberRange(np.datetime64("2024-01-01"), 2, 1), TypeError, "low .* must be a number, a date"),
        (lambda: NumberRange(date(2024, 1, 1), 20000, 1), TypeError, "low and high must be two numbers, or two dates"),
        (lambda: NumberRange(datetime(2024, 1, 1, tzinfo=timezone.utc), 2, 1), ValueError, "must have no time zone"),
        (lambda: NumberRange.of_width(0, 1, 0), ValueError, r"width \(0\) must be positive"),
        (lambda: NumberRange.of_width(0, 1, timedelta(1)), TypeError, "width must be a number between numbers"),
        (lambda: NumberRange.of_width(date.min, date.max, 3), TypeError, "a timedelta between dates"),
        (lambda: NumberRange.of_width(0, 10, 3), ValueError, "a whole number of times. Hint: bins=3"),
        (lambda: NumberRange(1, 1 + 2**-50, 7).tree(branching=2, outside=True), ValueError, "must be fewer"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
