"""Known names of every kind of key: paths, trees, earlier releases, and promises that no others exist."""

from dataclasses import replace
from datetime import date, datetime

import numpy as np
import pytest

from opendp_tree import Key, OpenTree, Tree, TreeRelease
from opendp_tree.trees.nodes import KnownNodes, ShownCells

SIX = ("IPv6", "2001::/16")
NAMES = {
    "columns": (Key.columns("a", "b", known=["x", ("y", 1), (None,)]), [(), (None,), ("x",), ("y",), ("y", 1)]),
    "path": (Key.path("f", depth=4, known=["/a/b/c/d", ("u",)]), [(), ("a",), ("u",), ("a", "b"), ("a", "b", "c")]),
    "url": (
        Key.url("f", depth=5, known=["https://www.EXAMPLE.com/a/b"]),
        [(), ("com",), ("com", "example"), ("com", "example", "www"), ("com", "example", "www", "/a")],
    ),
    "bits": (Key.bits("f", width=16, stride=8, known=[(256, 8), "512/8"]), [(0, 0), (256, 8), (512, 8)]),
    "ip": (Key.ip("f", known=["10.0.0.0/8", ("(outside)",)]), [(0, 0), (10 << 24, 8), ("(outside)",)]),
    "ipv6": (Key.ip("f", version=6, known=["2001::/16"]), [(0, 0), (0x2001 << 112, 16)]),
    "addresses": (
        Key.ip("f", version="both", known=["2001:db8::/32", "10.0.0.0/8"]),
        [(), ("IPv4",), ("IPv6",), ("IPv4", "10.0.0.0/8"), SIX, (*SIX, "2001:db8::/32")],
    ),
    "calendar": (Key.calendar("f", known=[(2024, 1), 2025]), [(), (2024,), (2025,), (2024, 1)]),
    "nested": (
        Key.nested(Key.columns("c"), Key.ip("f"), known=[("be", "10.0.0.0/8")]),
        [(), ("be",), ("be", "10.0.0.0/8")],
    ),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_become_nodes_of_the_open_tree_with_all_nodes_above_them(kind):
    key, paths = NAMES[kind]
    assert key.known.tree == key.open_tree()
    assert list(key.known.paths) == paths


@pytest.mark.parametrize("kind", NAMES)
def test_a_key_may_be_copied_and_names_added(kind):
    key, paths = NAMES[kind]
    assert replace(key) == key
    assert replace(key, known=[key.known, key.known]) == key
    assert hash(replace(key)) == hash(key)
    assert list(replace(key, known=[key.known, paths[-1]]).known.paths) == paths


def test_a_public_tree_gives_its_nodes_without_the_leaf_outside():
    tree = Tree.from_paths([("be", "ghent"), ("lu",), ("(outside)",)])
    assert Key.columns("a", "b", known=tree).known.paths == ((), ("be",), ("lu",), ("be", "ghent"))
    bits = Tree.from_paths([(1, 2), (3,)])
    key = Key.bits("f", width=16, stride=8, known=[bits, "512/8"])
    assert key.known.paths == ((0, 0), (256, 8), (512, 8), (768, 8), (258, 16))


def release_of(counts, shown=None):
    """A release that shows all keys that occur, and all nodes above them."""
    places = np.arange(counts.occupied.levels.size)
    nodes = ShownCells.of(counts, places, np.asarray(counts.occupied.levels)).nodes
    zeros = np.zeros(nodes.size)
    return TreeRelease(counts.tree, zeros, zeros, zeros, 0.95, None, nodes=nodes, shown=shown)


def test_an_earlier_release_gives_the_nodes_that_it_shows():
    key = Key.columns("a", "b")
    counts = key.open_tree().count([("be", "ghent"), ("lu", None), ("lu",)])
    known = replace(key, known=release_of(counts)).known
    assert known.paths == ((), ("be",), ("lu",), ("be", "ghent"), ("lu", None))
    # A release whose deepest level alone is shown says where its nodes are.
    hidden = release_of(counts, shown=np.array([True, False, False, True, False]))
    assert replace(key, known=hidden).known.paths == ((), ("be",), ("be", "ghent"))
    again = TreeRelease.from_json(release_of(counts).to_json())
    both = replace(key, known=[again, "nl"]).known
    assert both.paths == ((), ("be",), ("lu",), ("nl",), ("be", "ghent"), ("lu", None))


def test_an_earlier_release_of_bits_gives_prefixes_and_the_leaf_outside():
    key = Key.ip("f", stride=16)
    earlier = release_of(key.open_tree().count([(10 << 24) + 1, -1]))
    above, deepest = [(0, 0), (10 << 24, 16)], ((10 << 24) + 1, 32)
    assert replace(key, known=earlier).known.paths == (*above, ("(outside)",), deepest)
    assert replace(key, nulls="drop", known=earlier).known.paths == (*above, deepest)


def test_a_release_by_the_first_columns_is_known_below_which_names_are_found():
    earlier = release_of(OpenTree.columns(["a"]).count([("x",)]))
    assert Key.columns("a", "b", known=earlier).known.paths == ((), ("x",))
    for other in (OpenTree.columns(["z"]), OpenTree.columns(["a", "b", "c"])):
        with pytest.raises(ValueError, match="Hint: a release by the same key"):
            Key.columns("a", "b", known=release_of(other.count([("x",)])))
    with pytest.raises(ValueError, match="Hint: a release by the same key"):
        Key.bits("f", width=16, stride=8, known=release_of(OpenTree.bits(16, 4).count([3])))


def test_levels_nodes_or_everything_are_closed():
    names = [("be", "ghent"), ("lu",)]

    def closed(given):
        known = Key.columns("a", "b", known=names, closed=given).known
        return {path for path, is_closed in zip(known.paths, known.closed, strict=True) if is_closed}

    leaf = ("be", "ghent")  # below which nothing is
    assert closed(None) == closed(False) == {leaf}
    assert closed(["a"]) == closed([1]) == {(), leaf}
    assert closed(["b"]) == closed(True) == {(), ("be",), ("lu",), leaf}
    assert closed([("be",)]) == {("be",), leaf}
    shut = Key.columns("a", "b", known=names, closed=True)
    assert replace(shut, known=[shut.known, "nl"]).known.closed == (True, True, True, False, True)


def test_no_names_are_no_options():
    assert Key.columns("a", known=[]) == Key.columns("a")
    assert Key.columns("a", known=[()]).known is None
    assert Key.columns("a", known=[], closed=True).known == KnownNodes.of(OpenTree.columns(["a"]), (), closed=[()])


WRONG = {
    "a text": lambda: Key.columns("a", known="x"),
    "a tuple": lambda: Key.columns("a", known=("x",)),
    "too deep": lambda: Key.columns("a", known=[("x", "y")]),
    "a float": lambda: Key.columns("a", known=[1.5]),
    "a huge integer": lambda: Key.columns("a", known=[10**5000]),
    "no UTF-8": lambda: Key.columns("a", known=["\ud800"]),
    "bytes": lambda: Key.columns("a", known=[b"x"]),
    "an instant": lambda: Key.columns("a", known=[datetime(2024, 1, 1)]),
    "a list": lambda: Key.columns("a", known=[["x"]]),
    "no month": lambda: Key.calendar("a", known=[(2024, 13)]),
    "a year as text": lambda: Key.calendar("a", known=["2024"]),
    "a weekday in full": lambda: Key.calendar("a", levels=["weekday"], known=["Monday"]),
    "bits after the prefix": lambda: Key.ip("a", known=["10.0.0.1/8"]),
    "no level": lambda: Key.ip("a", known=["10.0.0.0/9"]),
    "no address": lambda: Key.ip("a", known=["x"]),
    "no level of either version": lambda: Key.ip("a", version="both", known=["10.0.0.0/9"]),
    "no version": lambda: Key.ip("a", version="both", known=[("IPv5",)]),
    "no prefix below": lambda: Key.nested(Key.columns("c"), Key.ip("f"), known=[("x", "10.0.0.0/16")]),
    "no bits below": lambda: Key.nested(Key.columns("c"), Key.bits("f", width=16, stride=8), known=[("x", "1/8")]),
    "a separator": lambda: Key.path("a", depth=3, known=[("a/b",)]),
    "no text": lambda: Key.path("a", depth=3, known=[("a", 1)]),
    "labels of bits": lambda: Key.bits("f", width=16, stride=8, known=Tree.from_paths([("a",)])),
    "a deep tree": lambda: Key.columns("a", known=Tree.from_paths([("a", "b")])),
    "a tree without labels": lambda: Key.columns("a", known=Tree.from_parents([-1, 0])),
    "nodes of another tree": lambda: Key.columns("a", known=KnownNodes.of(OpenTree.columns(2), ())),
    "a public tree": lambda: Key.columns("a", tree=Tree.from_paths([("x",)]), known=["x"]),
    "a closed public tree": lambda: Key.columns("a", tree=Tree.from_paths([("x",)]), closed=True),
    "a number": lambda: replace(Key.number("a", low=0, high=1, bins=2), known=["x"]),
    "closed alone": lambda: Key.columns("a", closed=True),
    "no level closed": lambda: Key.columns("a", known=["x"], closed=["q"]),
    "no node closed": lambda: Key.columns("a", known=["x"], closed=[("q",)]),
    "closed as a text": lambda: Key.columns("a", known=["x"], closed="a"),
    "the root's level": lambda: Key.columns("a", known=["x"], closed=[0]),
    "an inner key's": lambda: Key.nested(Key.columns("c", known=["x"]), Key.ip("f")),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_row_can_have_is_refused_when_the_key_is_made(what):
    with pytest.raises((TypeError, ValueError), match=r"known|closed|options of its own"):
        WRONG[what]()


def test_labels_must_be_of_the_kinds_of_the_columns():
    Key.columns("a", "b", known=[("x", date(2024, 1, 1)), (None,)]).check_kinds({"a": "text", "b": "date"})
    for label, kind in (("1", "integer"), (1, "text"), (True, "integer"), (1, "boolean"), ("x", "datetime")):
        with pytest.raises(ValueError, match=r"no row would reach it\. Hint"):
            Key.columns("a", known=[label]).check_kinds({"a": kind})
