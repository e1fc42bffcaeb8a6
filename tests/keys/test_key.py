"""Keys: arguments, trees, levels, labels, and the leaves of a public tree."""

from dataclasses import replace
from datetime import date, datetime

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, frame_domain, make_leaf_counts, release_tree
from opendp_tree.keys.lookup import Lookup

dp.enable_features("contrib")


def test_open_trees_of_keys():
    assert Key.of("a") == Key.of(Key.columns("a"))
    assert Key.of(("a", "b")).open_tree() == OpenTree.columns(["a", "b"])
    assert Key.path("a", separator=".", depth=3).open_tree() == OpenTree.paths(".", depth=3)
    assert Key.bits("a", width=40, stride=7).open_tree() == OpenTree.bits(40, 7, outside=True)
    assert Key.bits("a", width=40, stride=7, outside="drop").open_tree() == OpenTree.bits(40, 7)
    assert Key.ip("a").open_tree() == OpenTree.bits(32, 8, shown_as="ipv4", outside=True)
    assert Key.ip("a", version=6).open_tree() == OpenTree.bits(128, 16, shown_as="ipv6", outside=True)
    assert Key.ip("a", version="both").open_tree().depth == 10
    assert Key.url("a").open_tree() == OpenTree.paths(" / ", depth=6)
    assert Key.calendar("a", levels="month").open_tree() == OpenTree.columns(["month"])


TREE = Tree.from_paths([("ghent",), ("liege",)])
DROPPED = Key.number("b", low=0, high=1, bins=2, outside="drop")


def test_what_is_counted_is_all_rows_unless_some_are_to_be_dropped():
    for key in (Key.columns("a"), Key.columns("a", tree=TREE), Key.columns("a", tree=TREE, outside=("liege",))):
        assert key.counted() == "rows"
    assert Key.columns("a", tree=TREE, outside="drop").counted() == "rows inside the tree"
    assert Key.bits("a", width=8, outside="drop").counted("keys") == "keys inside the tree"
    assert Key.columns("a", nulls="drop").counted() == "rows whose key has no null"


def test_where_rows_belong_is_one_value_with_a_leaf_outside_unless_rows_are_to_be_dropped():
    other = Key.columns("city", tree=TREE, outside=("liege",), nulls="drop")
    assert other == Key.columns(
        "city", tree=Tree.from_paths([("ghent",), ("liege",)]), outside=("liege",), nulls="drop"
    )
    assert hash(other) == hash(replace(other))
    assert (other.hierarchy, other.outside_leaf) == (TREE, 1)
    leaf, drop = Key.columns("city", tree=TREE), Key.columns("city", tree=TREE, outside="drop")
    assert other != leaf
    assert leaf.hierarchy == replace(leaf, outside="leaf").hierarchy == replace(leaf, show=[1]).hierarchy
    assert leaf.hierarchy.paths() == [("ghent",), ("liege",), ("(outside)",)]
    assert (leaf.outside_leaf, drop.outside_leaf, drop.hierarchy) == (2, -1, TREE)
    spare = Tree.from_paths([("ghent",), ("(outside)",)])
    for outside, place in ((None, 1), ("leaf", 1), ("drop", -1)):
        key = Key.columns("city", tree=spare, outside=outside)
        assert (key.hierarchy, key.outside_leaf) == (spare, place)
    assert Key.columns("city").hierarchy == OpenTree.columns(["city"])


@pytest.mark.parametrize("outside", ["leaf", "drop"])
def test_levels_of_a_public_tree_are_called_by_the_key_unless_it_names_them(outside):
    assert Key.columns("city", tree=TREE, outside=outside).hierarchy.names == ("city",)
    assert Key.path("url", depth=4, tree=TREE, outside=outside).hierarchy.names == ("url_1",)
    named = Tree.from_paths([("ghent",)], names=["town"])
    assert Key.columns("city", tree=named, outside=outside).hierarchy.names == ("town",)
    assert TREE.names == ("label_1",)
    key = Key.columns("city", tree=TREE, outside=outside, show=["city"])
    assert key.shown_levels == (0, 1)
    release = release_tree(pl.DataFrame({"city": ["ghent"]}), by=key, epsilon=1.0)
    assert "city" in release.to_frame().columns


def test_a_key_knows_its_shown_levels():
    assert Key.columns("a", "b").shown_levels == (0, 1, 2)
    assert Key.columns("a", "b", show=["b"]).shown_levels == (0, 2)
    assert Key.columns("a", "b", show=["b", 0, 2]).shown_levels == (0, 2)
    assert Key.calendar("a", show=["month"]).shown_levels == (0, 2)
    assert Key.path("a", depth=4, show=[3, 1]).shown_levels == (0, 1, 3)
    assert Key.ip("a", show=[2, 4]).shown_levels == (0, 2, 4)
    assert Key.columns("a", tree=TREE, show=[1]).shown_levels == (0, 1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (Key.columns, ValueError, "names must hold at least one column"),
        (lambda: Key.columns("a", "a"), ValueError, r"names \('a', 'a'\) must differ"),
        (lambda: Key.columns("a", 1), TypeError, r"a column's name \(1\) must be a text"),
        (lambda: Key.columns("^.*$"), ValueError, r"must not look like '\^\.\.\.\$' or '\*', which Polars takes"),
        (lambda: Key.columns("a", "*"), ValueError, "which Polars takes for a pattern"),
        (lambda: Key.path("a", separator="", depth=3), ValueError, r"separator \(''\) must be a non-empty text"),
        (lambda: Key.path("a", depth=1), ValueError, r"depth \(1\) must be an integer from 2"),
        (lambda: Key.bits("a", width=129), ValueError, r"width \(129\) must be at most 128"),
        (lambda: Key.ip("a", version=5), ValueError, r"version \(5\) must be 4, 6 or 'both'"),
        (lambda: Key.calendar("a", levels=("decade",)), ValueError, r"levels \('decade',\) must be some of \('year', "),
        (lambda: Key.calendar("a", levels=("day", "month")), ValueError, "levels .* must be some of .*, in this order"),
        (lambda: Key.calendar("a", levels=()), ValueError, r"levels \(\) must be some of"),
        (lambda: Key.columns("a", nulls="other"), ValueError, r"nulls \('other'\) must be one of 'label', 'drop'"),
        (lambda: Key.bits("a", width=8, nulls="label", outside="drop"), ValueError, r"nulls .* must be 'drop'"),
        (lambda: Key.columns("a", outside=("x",)), ValueError, r"outside .* needs a public tree. Hint"),
        (lambda: Key.columns("a", tree=TREE, outside=("x",)), ValueError, "outside .* must be .* path of a leaf"),
        (lambda: Key.columns("a", tree=TREE, outside="ghent"), ValueError, "outside .* must be .* path of a leaf"),
        (lambda: Key.path("a", depth=3, tree="x"), TypeError, r"tree \(str\) must be a Tree. Hint: Tree.from_paths"),
        (lambda: Key.calendar("a", tree=Tree.from_parents([-1, 0])), ValueError, "tree must have labels. Hint"),
        (lambda: Key.bits("a", width=128, stride=64, tree=TREE), ValueError, r"stride \(64\) must be at most 63"),
        (lambda: Key.columns("a", "b", show=["c"]), ValueError, r"show \('c'\) must be one of the levels 0, .*, 'b'"),
        (lambda: Key.columns("a", show=[2]), ValueError, r"show \(2\) must be one of the levels"),
        (lambda: Key.columns("a", show="a"), TypeError, r"show \('a'\) must be a list of levels. Hint: \['a'\]"),
        (lambda: Key.ip("a", show=[]), TypeError, r"show \(\[\]\) must be a list of levels"),
        (lambda: Key.columns("a", outside="leaf"), ValueError, "each row has a node in this open tree"),
        (lambda: Key.bits("a", width=8, outside=("a",)), ValueError, "needs a public tree. Hint: 'leaf' or 'drop'"),
        (lambda: Key.columns("a", tree=Tree.from_paths([("a", "b")])), ValueError, r"tree \(of 2 .* key \(1\)"),
        (lambda: Key.calendar("a", levels=("month", "week")), ValueError, "must not have weeks .* quarters or months"),
        (lambda: Key.number("a", low=0, high=1), ValueError, "bins or width must be given"),
        (lambda: Key.number("a", low=0, high=1, bins=1, width=1), ValueError, "bins or width must be given"),
        (lambda: Key.number("a", low=1, high=1, bins=1), ValueError, r"low \(1\) must be below high \(1\)"),
        (lambda: Key.number("a", low=0, high=date(1, 1, 1), bins=1), TypeError, "low and high must be two numbers, or"),
        (lambda: Key.number("a", low=0, high=1, bins=2, outside=("x",)), ValueError, "outside .* must be one of"),
        (lambda: Key.number("a", low=0, high=1, bins=2, branching=1), ValueError, r"branching \(1\)"),
        (lambda: Key.number("a", low=0, high=1, bins=2, outside="drop", nulls="label"), ValueError, "null is outside"),
        (lambda: Key.nested(Key.columns("a")), TypeError, "keys must be two keys or more. Hint"),
        (lambda: Key.nested(Key.url("a"), Key.columns("b")), ValueError, "key 1 must be last"),
        (lambda: Key.nested(Key.columns("a", nulls="drop"), Key.columns("b")), ValueError, "no options of its own"),
        (lambda: Key.nested(Key.columns("a"), DROPPED), ValueError, "key 2 must have outside='leaf' or 'ends'"),
        (lambda: Key.of(7), TypeError, r"by \(int\) must be a Key, a column's name, or a list of names"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


SCHEMA = {"ip": pl.String, "number": pl.Int64, "city": pl.String, "amount": pl.Float64}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key.columns("number", tree=Tree.from_paths([("1",)])), r"'number' \(integer\).* Hint: labels 1, not"),
        (Key.columns("city", tree=Tree.from_paths([(1,)])), r"\(integer\).* 'city' \(text\).* Hint: labels '1'"),
        (Key.columns("city", "number", tree=Tree.from_paths([("ghent", "x"), ("liege", None)])), r"level 2 \(text\)"),
        (Key.path("city", depth=3, tree=Tree.from_paths([("a", 1)])), r"level 2 \(integer\) can never be"),
        (Key.ip("ip", tree=Tree.from_paths([("10",)])), r"level 1 \(text\) can never be those of 'ip_8' \(integer\)"),
        (Key.columns("city", tree=Tree.from_paths([(datetime(2024, 1, 1),)])), "Python's datetime"),
        (Key.number("city", low=0, high=1, bins=2), r"'city' \(text\) must hold one of: integer, float, decimal"),
        (Key.number("number", low=date(2024, 1, 1), high=date(2025, 1, 1), bins=2), r"must hold one of: date,"),
        (Key.ip("number", version="both"), r"column 'number' \(integer\) must hold one of: text"),
        (Key.nested(Key.columns("city"), Key.ip("amount")), r"column 'amount' \(float\) must hold one of"),
        (Key.nested(Key.columns("city"), Key.ip("absent")), "there is no column 'absent'"),
    ],
)
def test_what_the_schema_shows_is_an_error_before_a_row_is_read(key, message):
    with pytest.raises(ValueError, match=message):
        make_leaf_counts(frame_domain(SCHEMA), dp.symmetric_distance(), by=key)


def test_levels_are_called_by_their_columns():
    """And may have labels of several types, one of which can match."""
    tree = Tree.from_paths([(1,), ("1",), (None,)])
    for column in ("number", "city"):
        Key.columns(column, tree=tree).check_kinds({"number": "integer", "city": "text"})
    assert Key.path("a", depth=3).names == ("a_1", "a_2")
    assert Key.ip("a", stride=24).names == ("a_24", "a_32")
    assert Key.ip("a", version="both", stride=64).names == ("a_version", "a_1", "a_2")
    both = Key.nested(Key.calendar("a", levels="year"), Key.calendar("b", levels="year"))
    assert both.names == ("a_year", "b_year")
    assert Key.nested(Key.columns("a"), Key.calendar("b"), show=["month"]).shown_levels == (0, 3)


def test_calendars_and_ranges_keep_their_order():
    for key in (Key.calendar("a"), DROPPED, Key.nested(Key.columns("b"), Key.calendar("a"))):
        assert key.hierarchy.ordered
    assert not Key.columns("a").hierarchy.ordered
    months = Tree.from_paths([(2,), (1,)])
    assert Key.calendar("a", levels="month", tree=months, outside="leaf").hierarchy.ordered
    assert Key.calendar("a", levels="month", tree=months, outside="drop").hierarchy == months


def test_days_outside_the_calendar_have_one_label_null():
    days = pl.Series("key_0", [0, 2**31 - 1, None], dtype=pl.Int32).cast(pl.Date)
    labels = Key.calendar("k").labels(days.to_frame())
    assert labels.lengths.tolist() == [3, 1, 1]
    assert [column.to_list() for column in labels.columns] == [[1970, None, None], [1, None, None], [1, None, None]]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("text", ["1", "x", None], [3, -1, 5]),
        ("integer", [1, 2**70, None], [0, 1, 5]),
        ("boolean", [True, False, None], [2, -1, 5]),
        ("date", [date(2024, 1, 1), date(1, 1, 1), None], [4, -1, 5]),
        ("time", [None], [5]),
    ],
)
def test_labels_of_another_kind_lead_nowhere(kind, values, expected):
    """1, True, "1" and a day are four labels; integers beyond 64 bits are labels, too."""
    tree = Tree.from_paths([(1,), (2**70,), (True,), ("1",), (date(2024, 1, 1),), (None,)])
    column = pl.Series(values, dtype=pl.Int128) if kind == "integer" else pl.Series(values)
    lengths = np.ones(len(values), dtype=np.int64)
    assert Lookup(tree, (kind,)).leaves([column], lengths).tolist() == expected


def test_a_tree_of_a_root_alone_takes_all():
    tree = Tree.from_paths([()])
    assert Lookup(tree, ("text",)).leaves([pl.Series(["a", None])], np.array([1, 0])).tolist() == [0, 0]
