from datetime import date, datetime

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Tree, frame_domain, make_leaf_counts
from opendp_tree.keys.lookup import label_kind

FRAME = pl.DataFrame(
    {
        "ip": ["10.0.0.1", "::1", "fe80::2", "no address", None, "10.0.0.2"],
        "number": [5, -1, 300, 0, None, -(2**63)],
        "city": ["ghent", "liege", "nowhere", "", None, "ghent"],
        "amount": [0.5, -1.0, float("nan"), float("inf"), None, 9.0],
    }
)
CITIES = Tree.from_paths([("ghent",), ("liege",)])


def total(counts):
    return int(counts.sum()) if hasattr(counts, "sum") else int(counts.occupied.counts.sum())


@pytest.mark.parametrize(
    "key",
    [
        Key.ip("ip"),
        Key.ip("ip", version=6),
        Key.ip("ip", version="both"),
        Key.bits("number", width=8),
        Key.bits("number", width=128, stride=40),
        Key.columns("city"),
        Key.columns("city", tree=CITIES, outside="leaf"),
        Key.columns("city", tree=Tree.from_paths([("ghent",), ("(outside)",)])),
        Key.columns("city", tree=CITIES, outside=("liege",)),
        Key.bits("number", width=8, stride=8, tree=Tree.from_paths([(5,)]), outside="leaf"),
        Key.ip("ip", tree=Tree.from_paths([(10, 0)]), outside="leaf"),
        Key.url("city"),
        Key.number("amount", low=0, high=1, bins=3),
        Key.number("amount", low=0, high=1, bins=3, outside="ends"),
        Key.number("number", low=0, high=8, width=4),
        Key.nested(Key.columns("city"), Key.ip("ip")),
        Key.nested(Key.number("amount", low=0, high=1, bins=3), Key.bits("number", width=8, stride=4)),
    ],
    ids=lambda key: key.kind,
)
def test_the_total_of_exact_leaf_counts_is_the_number_of_rows(key):
    count = make_leaf_counts(frame_domain(FRAME), dp.symmetric_distance(), by=key)
    assert total(count(FRAME)) == FRAME.height
    for row in range(FRAME.height):
        assert total(count(FRAME[row : row + 1])) == 1


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            Key.columns("number", tree=Tree.from_paths([("1",), ("2",)])),
            r"level 1 \(text\) can never be those of 'number' \(integer\).* reach them. Hint: labels 1, not '1'",
        ),
        (
            Key.columns("city", tree=Tree.from_paths([(1,)])),
            r"level 1 \(integer\).* 'city' \(text\).* Hint: labels '1'",
        ),
        (
            Key.columns("city", "number", tree=Tree.from_paths([("ghent", "x"), ("liege", None)])),
            r"level 2 \(text\) can never be those of 'number'",
        ),
        (Key.path("city", depth=3, tree=Tree.from_paths([("a", 1)])), r"level 2 \(integer\) can never be"),
        (Key.ip("ip", tree=Tree.from_paths([("10",)])), r"level 1 \(text\) can never be those of 'ip_8' \(integer\)"),
        (Key.columns("city", tree=Tree.from_paths([(datetime(2024, 1, 1),)])), "Python's datetime"),
        (
            Key.number("city", low=0, high=1, bins=2),
            r"column 'city' \(text\) must hold one of: integer, float, decimal",
        ),
        (
            Key.number("number", low=date(2024, 1, 1), high=date(2025, 1, 1), bins=2),
            r"column 'number' \(integer\) must hold one of: date, datetime",
        ),
        (Key.ip("number", version="both"), r"column 'number' \(integer\) must hold one of: text"),
        (Key.nested(Key.columns("city"), Key.ip("amount")), r"column 'amount' \(float\) must hold one of"),
        (Key.nested(Key.columns("city"), Key.ip("absent")), "there is no column 'absent'"),
    ],
)
def test_what_the_schema_shows_is_an_error_before_a_row_is_read(key, message):
    with pytest.raises(ValueError, match=message):
        make_leaf_counts(frame_domain(FRAME), dp.symmetric_distance(), by=key)


def test_labels_of_several_types_are_allowed_where_one_can_match():
    tree = Tree.from_paths([(1,), ("1",), (None,)])
    for column in ("number", "city"):
        Key.columns(column, tree=tree).check_kinds({"number": "integer", "city": "text"})


def test_levels_are_called_by_their_columns():
    assert Key.path("a", depth=3).names == ("a_1", "a_2")
    assert Key.ip("a", stride=24).names == ("a_24", "a_32")
    assert Key.ip("a", version="both", stride=64).names == ("a_version", "a_1", "a_2")
    both = Key.nested(Key.calendar("a", levels="year"), Key.calendar("b", levels="year"))
    assert both.names == ("a_year", "b_year")
    assert Key.nested(Key.columns("a"), Key.calendar("b"), show=["month"]).shown_levels == (0, 3)


def test_calendars_and_ranges_keep_their_order():
    for key in (
        Key.calendar("a"),
        Key.number("a", low=0, high=1, bins=2),
        Key.nested(Key.columns("b"), Key.calendar("a")),
    ):
        assert key.hierarchy.ordered
    assert not Key.columns("a").hierarchy.ordered
    months = Tree.from_paths([(2,), (1,)])
    assert Key.calendar("a", levels="month", tree=months, outside="leaf").hierarchy.ordered
    assert Key.calendar("a", levels="month", tree=months, outside="drop").hierarchy == months


def test_labels_have_the_kinds_of_columns():
    kinds = [label_kind(label) for label in ("a", 1, True, date(2024, 1, 1), datetime(2024, 1, 1))]
    assert kinds == ["text", "integer", "truth", "date", "Python's datetime"]
