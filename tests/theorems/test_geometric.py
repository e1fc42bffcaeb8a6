from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from opendp_tree.theorems.geometric import BASE, geometric_digits
from opendp_tree.theorems.interval import geometric_sum

scales = st.fractions(min_value=Fraction(1, 1000), max_value=2**50)


@given(scales, st.none() | st.integers(1, 2**62 - 1))
def test_digits_reach_every_number_and_few_beyond_the_radius(scale, radius):
    *lower, top = geometric_digits(scale, radius)
    assert [digit.unit for digit in (*lower, top)] == [BASE**i for i in range(len(lower) + 1)]
    assert all(digit.size == BASE for digit in lower)
    if radius is None:
        assert top.size is None
    else:
        assert (top.size - 1) * top.unit <= radius < top.size * top.unit


@given(scales, st.integers(1, 2**62 - 1) | st.integers(1, 10_000))
@example(Fraction(10**6), 16)
@example(Fraction(10**6), 4096)
@example(Fraction(1000), 100)
@example(Fraction(2) ** 1000, 2**62 - 1)
def test_rejection_keeps_at_least_half(scale, radius):
    top = geometric_digits(scale, radius)[-1]
    reached = top.size * top.unit
    # The kept numbers are the lower ones of a decreasing law: their share is at least their count's.
    assert 2 * (radius + 1) >= reached
    assert reached < 2**63


@given(scales, st.none() | st.integers(1, 2**62 - 1))
def test_tables_stay_short(scale, radius):
    top = geometric_digits(scale, radius)[-1]
    entries = 45 / top.rate  # where exp(-rate * j) has passed 2**-64
    assert min(entries, top.size or entries) <= 45 * 16


def test_product_of_digit_laws_is_the_geometric_law():
    """In exact arithmetic, with any rational ratio in the place of exp(-1/scale)."""
    q = Fraction(9, 10)
    digits = geometric_digits(Fraction(1000), None)
    for z in (0, 1, 255, 256, 257, 700):
        product = Fraction(1)
        rest = z
        for digit in digits:
            ratio = q**digit.unit
            j = rest if digit.size is None else rest % BASE
            rest //= BASE
            product *= ratio**j * (1 - ratio if digit.size is None else 1 / geometric_sum(ratio, digit.size))
        assert product == (1 - q) * q**z
