import pytest

from opendp_tree import Key, OpenTree


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
        (lambda: Key.of(7), TypeError, r"by \(int\) must be a Key, a column's name, or a list of names"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
