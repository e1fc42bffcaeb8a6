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


def test_a_name_alone_says_what_to_write():
    assert Unit.of(None) is None
    assert Unit.of(Unit("user", rows=5)) == Unit("user", rows=5)
    with pytest.raises(ValueError, match=r"must say how much of one person .*Hint: Unit\('user', rows=5\), or"):
        Unit.of("user")
    with pytest.raises(TypeError, match=r"unit \(int\) must be a Unit"):
        Unit.of(5)


def test_metrics_of_people_have_an_identifier():
    assert identifier_of(dp.symmetric_distance()) is None
    assert identifier_of(dp.frame_distance(dp.symmetric_distance())) is None
    assert identifier_of(dp.symmetric_id_distance("user")) == "user"
    assert identifier_of(dp.frame_distance(dp.symmetric_id_distance("user"))) == "user"
    assert identifier_of(dp.change_one_id_distance("user")) == "user"
    with pytest.raises(ValueError, match="must be a column"):
        identifier_of(dp.symmetric_id_distance(pl.col("user") + 1))


def test_words_say_who_and_how_much():
    assert unit_words(None) == unit_words(None, rows=1) == "one row"
    assert unit_words("user") == unit_words("user", rows=3) == "one value of 'user'"
    assert unit_words("user", people=None) == "values of 'user'"
    people = dp.symmetric_id_distance("user")
    assert protected_unit(dp.symmetric_distance(), 2) == "2 rows"
    assert protected_unit(people, 2) == "2 values of 'user'"
    bounds = [dp.polars.Bound(per_group=1)]
    assert protected_unit(dp.frame_distance(people), bounds) == "one value of 'user'"


def test_words_say_what_is_kept_of_each():
    assert Unit("user", rows=1).counted() == "rows after keeping at most 1 of each user, and none without a user"
    assert "1 in each of at most 1 leaf of each user" in Unit("user", leaves=1).counted()
    assert "3 in each of at most 2 leaves and 5 in all" in Unit("user", rows=5, leaves=2, rows_per_leaf=3).counted()
    assert "of each 'a\\nb'" in Unit("a\nb", rows=1).counted()


def test_words_say_what_people_weigh():
    by_level = Unit("user", rows=[200, 50])
    assert by_level.counted(weighed=True) == (
        "rows, those of each user limited to a weight of 200, 50 in all (by level), and none without a user"
    )
    people = Unit("user", count="people", nodes=(6, 12))
    assert people.counted(weighed=True) == (
        "people (each user once per node, limited to a weight of 6, 12 by level below the root), "
        "and none without a user"
    )
    assert "of 6 per level)" in Unit("user", count="people", nodes=6).counted(weighed=True)
    assert "rows of the query" in people.counted(weighed=True, of="rows of the query")


def test_bounds_are_by_level_from_the_root_down():
    assert Unit("user", rows=5).bounds(3) == (5, 5, 5)
    assert Unit("user", rows=(9, 5, 2)).bounds(3) == (9, 5, 2)
    assert Unit("user", count="people", nodes=(5, 2)).bounds(3) == (1, 5, 2)
    assert Unit("user", count="people", nodes=5).bounds(1) == (1,)
    assert Unit("user", count="shares").bounds(2) == (1, 1)
    with pytest.raises(ValueError, match=r"rows \(\(9, 5\)\) must be one number, or 3: one per shown level from"):
        Unit("user", rows=(9, 5)).bounds(3)
    with pytest.raises(ValueError, match=r"rows \(None\) must be one number"):
        Unit("user", leaves=3).bounds(3)
    with pytest.raises(ValueError, match=r"nodes \(\(9, 5, 3\)\) must be one number, or 2: one per shown level below"):
        Unit("user", count="people", nodes=(9, 5, 3)).bounds(3)


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


def test_shares_are_in_proportion_and_never_more_than_all():
    for weights in ((1.0,), (1.0, 1.0, 1.0), (0.3, 7.0, 1.1, 0.02)):
        values = tuple(Value(str(place), bounds=(0, 1), weight=weight) for place, weight in enumerate(weights))
        shares = value_shares(values)
        assert sum(shares) <= 1
        for share, weight in zip(shares, weights, strict=True):
            assert abs(share - Fraction(weight) / sum(map(Fraction, weights))) < Fraction(1, 2**20)
    with pytest.raises(ValueError, match="a thousandth"):
        value_shares((AMOUNT, Value("b", bounds=(0, 1), weight=1e-4)))


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
