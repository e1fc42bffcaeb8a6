from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import Unit, Value
from opendp_tree.rows.value import read_values, value_shares, value_unit, values_counted

AMOUNT = Value("amount", bounds=(0, 500))


def test_a_value_is_frozen_and_equal_by_what_it_says():
    assert Value("amount", bounds=[0.0, np.float64(500)]) == AMOUNT
    assert hash(AMOUNT) == hash(Value("amount", bounds=(0, 500)))
    with pytest.raises(AttributeError):
        AMOUNT.column = "other"


@pytest.mark.parametrize(
    "bounds",
    [
        (5, 5),
        (6, 5),
        (0, float("inf")),
        (float("nan"), 1),
        (-1e308, 1e308),
        (0, 10**400),
        (0, 5e-324),
        (1e16, 1e16 + 4),
        (0, 1e291),
        (-1e291, 0),
    ],
)
def test_steps_of_no_width_or_of_infinite_width_are_refused(bounds):
    with pytest.raises(ValueError, match=r"value: bounds .* must be"):
        Value("amount", bounds=bounds)


@pytest.mark.parametrize("bounds", [5, (1,), (0, 1, 2), "01", (0, "5"), (False, True), None])
def test_bounds_are_two_numbers(bounds):
    with pytest.raises(TypeError, match=r"bounds must be two numbers.*Hint"):
        Value("amount", bounds=bounds)


def test_other_nonsense_is_refused_in_the_callers_words():
    with pytest.raises(TypeError, match="column's name"):
        Value(3, bounds=(0, 1))
    with pytest.raises(ValueError, match="weight"):
        Value("amount", bounds=(0, 1), weight=0)
    with pytest.raises(TypeError, match=r"value \(str\) must be a Value"):
        read_values("amount")
    with pytest.raises(ValueError, match="none twice"):
        read_values([AMOUNT, AMOUNT])
    with pytest.raises(ValueError, match="at least one column"):
        read_values([])


@pytest.mark.parametrize("name", ["^a.*$", "^$", "*"])
def test_names_that_polars_takes_for_patterns_are_refused(name):
    with pytest.raises(ValueError, match="which Polars takes for a pattern"):
        Value(name, bounds=(0, 1))
    assert Value("^a", bounds=(0, 1)).column == "^a"


def test_shares_are_in_proportion_and_never_more_than_all():
    for weights in ((1.0,), (1.0, 1.0, 1.0), (0.3, 7.0, 1.1, 0.02)):
        values = tuple(Value(str(place), bounds=(0, 1), weight=weight) for place, weight in enumerate(weights))
        shares = value_shares(values)
        assert sum(shares) <= 1
        for share, weight in zip(shares, weights, strict=True):
            assert abs(share - Fraction(weight) / sum(map(Fraction, weights))) < Fraction(1, 2**20)
    with pytest.raises(ValueError, match="a thousandth"):
        value_shares((AMOUNT, Value("b", bounds=(0, 1), weight=1e-4)))


def test_people_are_bounded_by_rows_alone():
    assert value_unit(Unit("user", rows=5)) == Unit("user", rows=5)
    assert value_unit(None) is None
    for unit in (Unit("user", leaves=3), Unit("user", rows=4, leaves=2)):
        with pytest.raises(ValueError, match=r"bound on rows alone.*Unit\('user', rows=5\)"):
            value_unit(unit)


def test_words_say_which_rows_are_counted():
    kept = Unit("user", rows=5).counted()
    assert values_counted(kept, [AMOUNT]) == (
        "rows with a number in amount after keeping at most 5 of each user, and none without a user"
    )
    assert values_counted("rows of the query", [AMOUNT]) == "rows of the query with a number in amount"


def test_a_column_must_be_there_and_hold_numbers():
    for kind in ("integer", "float", "decimal"):
        AMOUNT.check_kinds({"amount": kind})
    with pytest.raises(ValueError, match="must be a column"):
        AMOUNT.check_kinds({"other": "integer"})
    for kind in ("text", "date", "truth"):
        with pytest.raises(ValueError, match="must hold numbers"):
            AMOUNT.check_kinds({"amount": kind})
