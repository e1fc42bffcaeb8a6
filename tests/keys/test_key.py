from dataclasses import replace
from datetime import date

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, release_tree

dp.enable_features("contrib")


def test_open_trees_of_keys():
    assert Key.of("a") == Key.columns("a")
    assert Key.of(("a", "b")).open_tree() == OpenTree.columns(["a", "b"])
    assert Key.path("a", separator=".", depth=3).open_tree() == OpenTree.paths(".", depth=3)
    assert Key.bits("a", width=40, stride=7).open_tree() == OpenTree.bits(40, 7, outside=True)
    assert Key.bits("a", width=40, stride=7, outside="drop").open_tree() == OpenTree.bits(40, 7)
    assert Key.ip("a").open_tree() == OpenTree.bits(32, 8, shown_as="ipv4", outside=True)
    assert Key.ip("a", version=6).open_tree() == OpenTree.bits(128, 16, shown_as="ipv6", outside=True)
    assert Key.ip("a", version="both").open_tree().depth == 10
    assert Key.url("a").open_tree() == OpenTree.paths(" / ", depth=6)
    assert Key.calendar("a", levels="month").open_tree() == OpenTree.columns(["month"])
    for key in (
        Key.of(["a", "b"]),
        Key.path("a", depth=3),
        Key.bits("a", width=9, stride=4),
        Key.ip("a"),
        Key.calendar("a"),
    ):
        assert key.depth == key.open_tree().depth
        assert Key.of(key) is key


TREE = Tree.from_paths([("ghent",), ("liege",)])


def test_where_rows_belong_is_one_value():
    key = Key.columns("city", tree=TREE, outside=("liege",), nulls="drop")
    assert key == Key.columns("city", tree=Tree.from_paths([("ghent",), ("liege",)]), outside=("liege",), nulls="drop")
    assert hash(key) == hash(Key.columns("city", tree=TREE, outside=("liege",), nulls="drop"))
    assert key != Key.columns("city", tree=TREE)
    assert key.hierarchy == TREE
    assert key.outside_leaf == 1
    assert Key.columns("city", tree=TREE).outside_leaf == 2
    assert Key.columns("city").hierarchy == OpenTree.columns(["city"])


def test_rows_are_dropped_where_somebody_says_so():
    for key in (Key.columns("a"), Key.ip("a"), Key.bits("a", width=8), Key.calendar("a")):
        assert not key.drops_nulls
        assert replace(key, nulls="drop").drops_nulls
    assert Key.bits("a", width=8, outside="drop").drops_nulls
    assert not Key.bits("a", width=8, outside="drop").open_tree().outside
    assert not Key.columns("a", tree=TREE, outside="drop").drops_nulls


def test_what_is_counted_is_all_rows_unless_some_are_to_be_dropped():
    for key in (Key.columns("a"), Key.columns("a", tree=TREE), Key.columns("a", tree=TREE, outside=("liege",))):
        assert key.counted() == "rows"
    assert Key.columns("a", tree=TREE, outside="drop").counted() == "rows inside the tree"
    assert Key.bits("a", width=8, outside="drop").counted("keys") == "keys inside the tree"
    assert Key.columns("a", nulls="drop").counted() == "rows whose key has no null"


def test_a_public_tree_has_a_leaf_outside_unless_rows_are_to_be_dropped():
    assert Key.columns("a", tree=TREE, outside="drop").hierarchy == TREE
    assert Key.columns("a", tree=TREE).hierarchy == Key.columns("a", tree=TREE, outside="leaf").hierarchy
    asked = Key.columns("a", tree=TREE, outside="leaf")
    assert asked.hierarchy.paths() == [("ghent",), ("liege",), ("(outside)",)]
    assert asked.outside_leaf == 2
    spare = Tree.from_paths([("ghent",), ("(outside)",)])
    assert Key.columns("a", tree=spare).outside_leaf == 1
    assert Key.columns("a", tree=spare, outside="leaf").hierarchy == spare
    assert Key.columns("a", tree=spare, outside="drop").outside_leaf == -1
    assert replace(asked, show=[1]).hierarchy == asked.hierarchy


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


def test_what_was_computed_of_a_tree_serves_all_its_keys():
    tree = Tree.from_paths([("ghent", 1), ("liege", 2)])
    keys = [Key.columns("a", "b", tree=tree) for _ in range(2)]
    assert keys[0].tree is keys[1].tree
    lookups = [key.lookup({"a": "text", "b": "integer"}) for key in keys]
    assert all(one is other for one, other in zip(lookups[0].levels, lookups[1].levels, strict=True))


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
        (
            lambda: Key.calendar("a", levels=("decade",)),
            ValueError,
            r"levels \('decade'\) must be one of 'year', 'quarter'",
        ),
        (
            lambda: Key.calendar("a", levels=("day", "month")),
            ValueError,
            "levels .* must be some of .*, in this order",
        ),
        (lambda: Key.calendar("a", levels=()), ValueError, r"levels \(\) must be some of"),
        (lambda: Key.columns("a", nulls="other"), ValueError, r"nulls \('other'\) must be one of 'label', 'drop'"),
        (
            lambda: Key.bits("a", width=8, nulls="label", outside="drop"),
            ValueError,
            r"nulls \('label'\) must be 'drop'",
        ),
        (lambda: Key.columns("a", outside=("x",)), ValueError, r"outside .* needs a public tree. Hint"),
        (
            lambda: Key.columns("a", tree=TREE, outside=("x",)),
            ValueError,
            "outside .* must be .* path of a leaf",
        ),
        (
            lambda: Key.columns("a", tree=TREE, outside="ghent"),
            ValueError,
            "outside .* must be .* path of a leaf",
        ),
        (lambda: Key.path("a", depth=3, tree="x"), TypeError, r"tree \(str\) must be a Tree. Hint: Tree.from_paths"),
        (lambda: Key.calendar("a", tree=Tree.from_parents([-1, 0])), ValueError, "tree must have labels. Hint"),
        (lambda: Key.bits("a", width=128, stride=64, tree=TREE), ValueError, r"stride \(64\) must be at most 63"),
        (
            lambda: Key.columns("a", "b", show=["c"]),
            ValueError,
            r"show \('c'\) must be one of the levels 0, 1, 2, 'a', 'b'",
        ),
        (lambda: Key.columns("a", show=[2]), ValueError, r"show \(2\) must be one of the levels"),
        (lambda: Key.columns("a", show="a"), TypeError, r"show \('a'\) must be a list of levels. Hint: \['a'\]"),
        (lambda: Key.ip("a", show=[]), TypeError, r"show \(\[\]\) must be a list of levels"),
        (lambda: Key.columns("a", outside="leaf"), ValueError, "each row has a place in this open tree"),
        (lambda: Key.bits("a", width=8, outside=("a",)), ValueError, "needs a public tree. Hint: 'leaf' or 'drop'"),
        (
            lambda: Key.columns("a", tree=Tree.from_paths([("a", "b")])),
            ValueError,
            r"tree \(of 2 levels below its root\) must not be deeper than the key \(1\).* Hint: name a column",
        ),
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
        (
            lambda: Key.nested(Key.columns("a"), Key.number("b", low=0, high=1, bins=2, outside="drop")),
            ValueError,
            "key 2 must have outside='leaf' or 'ends'",
        ),
        (lambda: Key.of(7), TypeError, r"by \(int\) must be a Key, a column's name, or a list of names"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
