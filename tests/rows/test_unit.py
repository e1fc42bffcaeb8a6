"""Units and values: what they say, what they refuse, and the words for them."""

from fractions import Fraction

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Unit, Value
from opendp_tree.rows.unit import identifier_of, protected_unit, read_values, unit_words, value_shares, values_counted


@pytest.mark.parametrize(
    ("bounds", "most"),
    [
        ({"rows": 5}, 5),
        ({"leaves": 3}, 3),
        ({"leaves": 3, "rows_per_leaf": 2}, 6),
        ({"rows": 5, "leaves": 3, "rows_per_leaf": 2}, 5),
        ({"rows": 9, "leaves": 3}, 3),
    ],
)
def test_the_tightest_bound_counts(bounds, most):
    assert Unit("user", **bounds).most_rows == most


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, r"unit: rows must be given for count='rows'. Hint: Unit\('user', rows=5\), or Unit"),
        ({"rows_per_leaf": 2}, ValueError, "unit: rows must be given"),
        ({"rows": 1, "rows_per_leaf": 2}, ValueError, "unit: rows_per_leaf needs leaves. Hint"),
        ({"rows": 0}, ValueError, r"unit: rows \(0\) must be an integer from 1"),
        ({"leaves": 1.5}, TypeError, r"unit: leaves \(1.5\) must be an integer"),
        ({"leaves": 1, "rows_per_leaf": None}, TypeError, r"unit: rows_per_leaf \(None\) must be an integer"),
        ({"column": 3, "rows": 1}, TypeError, r"unit: column \(int\) must be a str. Hint: a column's name"),
        (
            {"count": "visits", "rows": 1},
            ValueError,
            r"unit: count \('visits'\) must be one of 'rows', 'people', 'shares'",
        ),
        ({"count": "people"}, ValueError, "unit: nodes must be given for count='people'. Hint: Unit"),
        ({"count": "people", "rows": 3}, ValueError, "unit: rows must not be given for count='people'. Hint"),
        ({"count": "shares", "nodes": 3}, ValueError, "unit: nodes must not be given for count='shares'. Hint"),
        ({"nodes": 3, "rows": 3}, ValueError, "unit: nodes must not be given for count='rows'. Hint"),
        ({"rows": ()}, ValueError, "unit: rows must be a number, or one per level"),
        ({"rows": (3, 0)}, ValueError, r"unit: rows \(0\) must be an integer from 1"),
        ({"rows": 2**21}, ValueError, r"unit: rows \(2097152\) must be at most 1048576. Hint"),
        ({"rows": (3, 3), "leaves": 2}, ValueError, "unit: rows must be one number where leaves are bounded. Hint"),
    ],
)
def test_wrong_bounds_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Unit(**{"column": "user", **arguments})


@pytest.mark.parametrize("name", ["^u.*$", "^$", "*"])
def test_names_that_polars_takes_for_patterns_are_refused(name):
    for make in (lambda: Unit(name, rows=5), lambda: Value(name, bounds=(0, 1))):
        with pytest.raises(ValueError, match="which Polars takes for a pattern"):
            make()
    assert Value("^a", bounds=(0, 1)).column == "^a"


def test_a_unit_is_one_already_or_none():
    """What a name alone lacks is said where releases and leaf counts are refused."""
    assert Unit.of(None) is None
    assert Unit.of(Unit("user", rows=5)) == Unit("user", rows=5)


def test_metrics_of_people_have_an_identifier_by_which_the_unit_is_called():
    rows, people = dp.symmetric_distance(), dp.symmetric_id_distance("user")
    assert identifier_of(rows) is identifier_of(dp.frame_distance(rows)) is None
    for metric in (people, dp.frame_distance(people), dp.change_one_id_distance("user")):
        assert identifier_of(metric) == "user"
    with pytest.raises(ValueError, match="must be a column"):
        identifier_of(dp.symmetric_id_distance(pl.col("user") + 1))
    assert unit_words(None) == unit_words(None, rows=1) == "one row"
    assert unit_words("user") == unit_words("user", rows=3) == "one value of 'user'"
    assert unit_words("user", people=None) == "values of 'user'"
    assert (protected_unit(rows, 2), protected_unit(people, 2)) == ("2 rows", "2 values of 'user'")
    assert protected_unit(dp.frame_distance(people), [dp.polars.Bound(per_group=1)]) == "one value of 'user'"


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (
            Unit("user", rows=1),
            "rows. At most 1 row of each user counts in total (others are dropped); rows without a user are not",
        ),
        (
            Unit("user", leaves=1),
            "rows. At most 1 row of each user counts in each of at most one leaf (others are dropped); rows without",
        ),
        (
            Unit("user", rows=5, leaves=2, rows_per_leaf=3),
            "rows of each user count in each of at most 2 leaves, and at most 5 in total (others are dropped)",
        ),
        (Unit("a\nb", rows=1), "of each 'a\\nb'"),
        (
            Unit("user", rows=[200, 50]),
            "rows. At most 200, 50 rows of each user count in total, by level from the root (more are scaled down)",
        ),
        (
            Unit("user", count="people", nodes=6),
            "people. Each user counts once per node, and at most 6 per level (more are scaled down); rows without",
        ),
        (
            Unit("user", count="people", nodes=(6, 12)),
            "and at most 6, 12 by level below the root (more are scaled down)",
        ),
    ],
)
def test_words_say_what_is_kept_of_each_or_what_people_weigh(unit, words):
    weighed = unit.count == "people" or isinstance(unit.rows, tuple)
    assert words in unit.counted(weighed=weighed)
    assert "rows of the query" in unit.counted(weighed=weighed, of="rows of the query")


def test_bounds_are_by_level_from_the_root_down():
    assert Unit("user", rows=5).bounds(3) == (5, 5, 5)
    assert Unit("user", rows=(9, 5, 2)).bounds(3) == (9, 5, 2)
    assert Unit("user", count="people", nodes=(5, 2)).bounds(3) == (1, 5, 2)
    assert Unit("user", count="people", nodes=5).bounds(1) == (1,)
    assert Unit("user", count="shares").bounds(2) == (1, 1)
    for unit, words in (
        (Unit("user", rows=(9, 5)), r"rows \(\(9, 5\)\) must be one number, or 3: one per shown level from"),
        (Unit("user", leaves=3), r"rows \(None\) must be one number"),
        (
            Unit("user", count="people", nodes=(9, 5, 3)),
            r"nodes .* must be one number, or 2: one per shown level",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            unit.bounds(3)


@pytest.mark.parametrize("unit", [Unit("user", count="shares"), Unit("user", rows=(5, 3))])
def test_what_is_weighed_is_not_kept(unit):
    with pytest.raises(ValueError, match=r"must be 'rows', with one bound, where rows are kept"):
        _ = unit.most_rows


AMOUNT = Value("amount", bounds=(0, 500))


NO_WIDTH = [(5, 5), (6, 5), (0, 5e-324), (1e16, 1e16 + 4)]
TOO_WIDE = [(0, float("inf")), (float("nan"), 1), (-1e308, 1e308), (0, 10**400), (0, 1e291), (-1e291, 0)]


@pytest.mark.parametrize("bounds", NO_WIDTH + TOO_WIDE)
def test_steps_of_no_width_or_of_infinite_width_are_refused(bounds):
    with pytest.raises(ValueError, match=r"value: bounds .* must be"):
        Value("amount", bounds=bounds)


@pytest.mark.parametrize("bounds", [5, (1,), (0, 1, 2), "01", (0, "5"), (False, True), None])
def test_bounds_are_two_numbers(bounds):
    with pytest.raises(TypeError, match=r"bounds must be two numbers.*Hint"):
        Value("amount", bounds=bounds)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Value(3, bounds=(0, 1)), TypeError, "column's name"),
        (lambda: Value("amount", bounds=(0, 1), weight=0), ValueError, "weight"),
        (lambda: read_values("amount"), TypeError, r"value \(str\) must be a Value"),
        (lambda: read_values([AMOUNT, AMOUNT]), ValueError, "none twice"),
        (lambda: read_values([]), ValueError, "at least one column"),
        (lambda: value_shares((AMOUNT, Value("b", bounds=(0, 1), weight=1e-4))), ValueError, "a thousandth"),
    ],
)
def test_other_nonsense_is_refused_in_the_callers_words(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_shares_are_in_proportion_and_never_more_than_all():
    for weights in ((1.0,), (1.0, 1.0, 1.0), (0.3, 7.0, 1.1, 0.02)):
        values = tuple(Value(str(place), bounds=(0, 1), weight=weight) for place, weight in enumerate(weights))
        shares = value_shares(values)
        assert sum(shares) <= 1
        for share, weight in zip(shares, weights, strict=True):
            assert abs(share - Fraction(weight) / sum(map(Fraction, weights))) < Fraction(1, 2**20)


def test_values_are_of_columns_of_numbers_and_say_which_rows_are_counted():
    for kind in ("integer", "float", "decimal"):
        AMOUNT.check_kinds({"amount": kind})
    kinds = [({"amount": kind}, "must hold numbers") for kind in ("text", "date", "boolean")]
    for wrong, words in (({"other": "integer"}, "must be a column"), *kinds):
        with pytest.raises(ValueError, match=words):
            AMOUNT.check_kinds(wrong)
    counted = values_counted(Unit("user", rows=5).counted(), [AMOUNT])
    assert counted.startswith("rows with a number in amount. At most 5 rows of each user count in total (others are")
    assert values_counted("rows of the query", [AMOUNT]) == "rows of the query with a number in amount"
