import pytest

from opendp_tree import Key, OpenTree, Tree


def test_open_trees_of_keys():
    assert Key.of("a") == Key.columns("a")
    assert Key.of(("a", "b")).open_tree() == OpenTree.columns(["a", "b"])
    assert Key.path("a", separator=".", depth=3).open_tree() == OpenTree.paths(".", depth=3)
    assert Key.bits("a", width=40, stride=7).open_tree() == OpenTree.bits(40, 7)
    assert Key.ip("a").open_tree() == OpenTree.bits(32, 8, shown_as="ipv4")
    assert Key.ip("a", version=6, stride=16).open_tree() == OpenTree.bits(128, 16, shown_as="ipv6")
    assert Key.date("a", parts="month").open_tree() == OpenTree.columns(["month"])
    for key in (
        Key.of(["a", "b"]),
        Key.path("a", depth=3),
        Key.bits("a", width=9, stride=4),
        Key.ip("a"),
        Key.date("a"),
    ):
        assert key.depth == key.open_tree().depth
        assert Key.of(key) is key


TREE = Tree.from_paths([("ghent",), ("liege",)])


def test_where_rows_belong_is_one_value():
    key = Key.columns("city", tree=TREE, other=("liege",), nulls="drop")
    assert key == Key.columns("city", tree=Tree.from_paths([("ghent",), ("liege",)]), other=("liege",), nulls="drop")
    assert hash(key) == hash(Key.columns("city", tree=TREE, other=("liege",), nulls="drop"))
    assert key != Key.columns("city", tree=TREE)
    assert key.hierarchy == TREE
    assert key.other_leaf == 1
    assert Key.columns("city", tree=TREE).other_leaf == -1
    assert Key.columns("city").hierarchy == OpenTree.columns(["city"])


def test_null_is_a_label_where_there_is_room_for_it():
    assert not Key.columns("a").drops_nulls
    assert Key.columns("a", nulls="drop").drops_nulls
    for key in (Key.ip("a"), Key.bits("a", width=8)):
        assert key.drops_nulls
    assert not Key.bits("a", width=8, tree=TREE).drops_nulls


def test_a_key_knows_its_shown_levels():
    assert Key.columns("a", "b").shown_levels == (0, 1, 2)
    assert Key.columns("a", "b", show=["b"]).shown_levels == (0, 2)
    assert Key.columns("a", "b", show=["b", 0, 2]).shown_levels == (0, 2)
    assert Key.date("a", show=["month"]).shown_levels == (0, 2)
    assert Key.path("a", depth=4, show=[3, 1]).shown_levels == (0, 1, 3)
    assert Key.ip("a", show=[2, 4]).shown_levels == (0, 2, 4)
    assert Key.columns("a", tree=TREE, show=[1]).shown_levels == (0, 1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (Key.columns, ValueError, "names must hold at least one column"),
        (lambda: Key.columns("a", "a"), ValueError, r"names \('a', 'a'\) must differ"),
        (lambda: Key.columns("a", 1), TypeError, r"a column's name \(1\) must be a text"),
        (lambda: Key.columns("^.*$"), ValueError, r"must not look like '\^\.\.\.\$', which Polars takes for a pattern"),
        (lambda: Key.path("a", separator="", depth=3), ValueError, r"separator \(''\) must be a non-empty text"),
        (lambda: Key.path("a", depth=1), ValueError, r"depth \(1\) must be an integer from 2"),
        (lambda: Key.bits("a", width=129), ValueError, r"width \(129\) must be at most 128"),
        (lambda: Key.ip("a", version=5), ValueError, r"version \(5\) must be 4 or 6"),
        (lambda: Key.date("a", parts=("week",)), ValueError, r"parts \('week'\) must be one of 'year', 'month'"),
        (lambda: Key.date("a", parts=("day", "month")), ValueError, r"parts .* must be some of .*, in this order"),
        (lambda: Key.date("a", parts=()), ValueError, r"parts \(\) must be some of"),
        (lambda: Key.columns("a", nulls="other"), ValueError, r"nulls \('other'\) must be one of 'label', 'drop'"),
        (lambda: Key.bits("a", width=8, nulls="label"), ValueError, r"nulls \('label'\) must be 'drop'"),
        (lambda: Key.columns("a", other=("x",)), ValueError, "other needs a public tree. Hint"),
        (lambda: Key.columns("a", tree=TREE, other=("x",)), ValueError, r"other .* must be the path of a leaf of tree"),
        (
            lambda: Key.columns("a", tree=TREE, other="ghent"),
            ValueError,
            r"other .* must be the path of a leaf of tree",
        ),
        (lambda: Key.path("a", depth=3, tree="x"), TypeError, r"tree \(str\) must be a Tree. Hint: Tree.from_paths"),
        (lambda: Key.date("a", tree=Tree.from_parents([-1, 0])), ValueError, "tree must have labels. Hint"),
        (lambda: Key.bits("a", width=128, stride=64, tree=TREE), ValueError, r"stride \(64\) must be at most 63"),
        (
            lambda: Key.columns("a", "b", show=["c"]),
            ValueError,
            r"show \('c'\) must be one of the levels 0, 1, 2, 'a', 'b'",
        ),
        (lambda: Key.columns("a", show=[2]), ValueError, r"show \(2\) must be one of the levels"),
        (lambda: Key.columns("a", show="a"), TypeError, r"show \('a'\) must be a list of levels. Hint: \['a'\]"),
        (lambda: Key.ip("a", show=[]), TypeError, r"show \(\[\]\) must be a list of levels"),
        (lambda: Key("tree", ("a",), 2), ValueError, r"kind \('tree'\) must be one of"),
        (lambda: Key("columns", ["a"], 2), TypeError, "columns_used must be a tuple of names. Hint"),
        (lambda: Key.of(7), TypeError, r"by \(int\) must be a Key, a column's name, or a list of names"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
