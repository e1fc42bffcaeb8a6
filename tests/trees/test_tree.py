"""Public trees: what they say of their nodes, and how they are drawn."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Tree
from opendp_tree.trees.tree import subtree_ranges
from tests.shapes import SHAPES, ancestors, random_tree


@st.composite
def parents(draw, max_nodes=24):
    """Any tree, its nodes numbered in any order."""
    nodes = draw(st.integers(1, max_nodes))
    up = [-1] + [draw(st.integers(0, node - 1)) for node in range(1, nodes)]
    names = draw(st.permutations(range(nodes)))
    shuffled = [0] * nodes
    for node, parent in enumerate(up):
        shuffled[names[node]] = -1 if parent < 0 else names[parent]
    return shuffled


@given(parents())
def test_structure_is_what_the_parents_say(up):
    tree = Tree.from_parents(up)
    assert tree.parents.tolist() == up
    assert tree.node_count == len(up)
    assert tree.leaves.tolist() == [node for node in range(len(up)) if node not in up]
    assert tree.leaf_count == tree.leaves.size
    assert up[tree.root] == -1
    levels = [len(ancestors(tree, node)) - 1 for node in range(len(up))]
    assert tree.node_levels.tolist() == levels
    assert tree.depth == max(levels) + 1
    assert [level.tolist() for level in tree.levels] == [
        [node for node in range(len(up)) if levels[node] == level] for level in range(tree.depth)
    ]


@given(parents(), st.data())
def test_sum_adds_each_leaf_to_all_its_ancestors(up, data):
    tree = Tree.from_parents(up)
    counts = data.draw(st.lists(st.integers(-9, 9), min_size=tree.leaf_count, max_size=tree.leaf_count))
    expected = [0] * len(up)
    for leaf, count in zip(tree.leaves.tolist(), counts, strict=True):
        for node in ancestors(tree, leaf):
            expected[node] += count
    assert tree.sum(np.array(counts, dtype=np.int64)).tolist() == expected


@given(parents())
def test_digest_identifies_the_tree(up):
    tree = Tree.from_parents(up)
    assert tree == Tree.from_parents(np.array(up, dtype=np.int32))
    assert hash(tree) == hash(Tree.from_parents(up))
    assert tree != Tree.from_parents([*up, tree.root])
    assert tree != up


def test_digest_tells_labels_apart():
    trees = [Tree.from_paths([path]) for path in [("1",), (1,), (True,), ("a",), (None,), (date(2026, 1, 1),)]]
    assert len({tree.digest for tree in trees}) == len(trees)
    assert Tree.from_paths([("a", "b")]).digest != Tree.from_paths([("ab", "")]).digest


def test_balanced_is_complete():
    for branching in (1, 2, 5):
        for depth in (1, 2, 4):
            tree = Tree.balanced(branching=branching, depth=depth)
            assert tree.depth == depth
            assert [level.size for level in tree.levels] == [branching**level for level in range(depth)]


def test_long_chains_and_wide_stars_are_ordinary_trees():
    chain = Tree.from_parents(np.arange(100_000) - 1)
    assert (chain.depth, chain.leaf_count) == (100_000, 1)
    assert (chain.sum(np.array([7])) == 7).all()
    assert chain.draw(max_nodes=3).splitlines()[-1] == "… 99997 more nodes"
    star = Tree.from_parents(np.concatenate(([-1], np.zeros(100_000, dtype=int))))
    assert star.depth == 2
    assert star.sum(np.arange(100_000))[0] == 100_000 * 99_999 // 2


def test_balanced_names_the_wrong_argument():
    for bad in (0, -1, 2.0, True, "2"):
        with pytest.raises((TypeError, ValueError), match=r"branching \(.*\) must be an integer"):
            Tree.balanced(branching=bad, depth=2)
        with pytest.raises((TypeError, ValueError), match=r"depth \(.*\) must be an integer"):
            Tree.balanced(branching=2, depth=bad)
    with pytest.raises(ValueError, match=r"at most 2\*\*28 nodes. Hint: an OpenTree"):
        Tree.balanced(branching=10, depth=100)


def test_a_tree_cannot_be_changed():
    tree = Tree.balanced(branching=2, depth=2)
    with pytest.raises(AttributeError, match="cannot assign to field 'depth'"):
        tree.depth = 5
    with pytest.raises(AttributeError, match="cannot delete field 'parents'"):
        del tree.parents
    for array in (tree.parents, tree.leaves, tree.node_levels, tree.levels[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    mine = np.array([-1, 0])
    tree = Tree.from_parents(mine)
    mine[1] = -1
    assert tree.parents.tolist() == [-1, 0]


def test_sum_checks_the_length():
    with pytest.raises(ValueError, match="leaf_counts must be one-dimensional with 2 entries"):
        Tree.balanced(branching=2, depth=2).sum(np.array([1, 2, 99]))


@pytest.mark.parametrize("bad", [-1, 3, 1.0, True])
def test_path_names_a_wrong_node(bad):
    with pytest.raises(ValueError, match="must be a node id from 0 to 2"):
        Tree.balanced(branching=2, depth=2).path(bad)


def test_names_are_for_show():
    paths = [("a", "x"), ("b",)]
    tree = Tree.from_paths(paths, names=["region", "city"])
    assert tree.names == ("region", "city")
    assert tree == Tree.from_paths(paths)
    assert tree.digest == Tree.from_paths(paths).digest
    assert Tree.from_paths(paths).names == ("label_1", "label_2")
    assert Tree.from_parents([-1, 0]).names == ()
    with pytest.raises(ValueError, match=r"names \(region\) must be 2, one for each level below the root"):
        Tree.from_paths(paths, names=["region"])
    with pytest.raises(ValueError, match="names: 'path' must not be one of"):
        Tree.from_paths(paths, names=["region", "path"])


def test_drawing_shows_values_and_stops():
    tree = Tree.balanced(branching=3, depth=3)
    assert tree.draw(max_nodes=4).splitlines() == ["0", "├── 1", "│   ├── 4", "│   ├── 5", "… 9 more nodes"]
    with pytest.raises(ValueError, match="values must have one entry for each of the 13 nodes"):
        tree.draw([1])


def test_siblings_are_drawn_by_id_under_their_parent():
    tree = Tree.from_paths([("b", "y"), ("a",), ("b", "x")])
    assert tree.draw().splitlines() == ["(root)", "├── b", "│   ├── y", "│   └── x", "└── a"]


@pytest.mark.parametrize(
    ("given_parents", "error", "message"),
    [
        ([], ValueError, r"parents \(of shape \(0,\)\) must be one-dimensional, with 1 to"),
        ([[-1, 0]], ValueError, r"parents \(of shape \(1, 2\)\) must be one-dimensional"),
        ([-1.0, 0.0], TypeError, "parents must be integers, found float64"),
        ([True, False], TypeError, "parents must be integers, found bool"),
        (["-1"], TypeError, "parents must be integers"),
        ([-1, 2], ValueError, r"parents\[1\] \(2\) must be -1 or a node id from 0 to 1"),
        ([-1, -2], ValueError, r"parents\[1\] \(-2\) must be -1 or a node id"),
        ([0], ValueError, "parents must have one root, found 0. Hint: the root's parent is -1"),
        ([-1, 0, -1], ValueError, "parents must have one root, found 2"),
        ([-1, 2, 3, 1], ValueError, "parents has a cycle through node [123]"),
        ([-1, 0, 2], ValueError, "parents has a cycle through node 2"),
        ([-1, 0, 4, 2, 3, 2], ValueError, "parents has a cycle through node [234]"),
    ],
)
def test_parents_that_make_no_tree_are_named(given_parents, error, message):
    with pytest.raises(error, match=message):
        Tree.from_parents(given_parents)


@pytest.mark.parametrize("tree", SHAPES.values(), ids=SHAPES)
def test_subtrees_take_the_places_of_a_depth_first_walk(tree):
    walk, waiting = [], [tree.root]
    while waiting:
        walk.append(waiting.pop())
        waiting += np.flatnonzero(tree.parents == walk[-1])[::-1].tolist()
    first, last = subtree_ranges(tree.parents, np.ones(tree.node_count, dtype=np.int64))
    for node in range(tree.node_count):
        below = {other for other in range(tree.node_count) if node in ancestors(tree, other)}
        assert set(walk[first[node] : last[node]]) == below


TREES = [*SHAPES.values(), Tree.from_parents([-1]), *(random_tree(40, seed) for seed in range(6))]


def level_by_level(tree):
    """The children of one level's nodes, in turn, are the next level."""
    order, here = [], [tree.root]
    while here:
        order += here
        here = [child for node in here for child in np.flatnonzero(tree.parents == node).tolist()]
    return order


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_places_are_those_of_a_walk_level_by_level(tree):
    order = tree.level_order
    assert order.nodes.tolist() == level_by_level(tree)
    assert order.by_id == (order.nodes.tolist() == list(range(tree.node_count)))
    assert np.where(order.parents < 0, -1, order.nodes[order.parents]).tolist() == tree.parents[order.nodes].tolist()
    assert order.levels.tolist() == tree.node_levels[order.nodes].tolist()
    first, last = order.leaf_ranges
    assert (last - first).tolist() == tree.sum(np.ones(tree.leaf_count, dtype=np.int64))[order.nodes].tolist()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_inner_levels_hold_every_family_once(tree):
    order = tree.level_order
    assert len(order.inner_levels) == tree.depth - 1
    values = np.arange(1.0, tree.node_count + 1)
    for level in order.inner_levels:
        inner, children = order.nodes[level.inner], order.nodes[level.children]
        assert level.spread(inner).tolist() == tree.parents[children].tolist()
        expected = [values[order.parents == place].sum() for place in np.arange(tree.node_count)[level.inner]]
        assert level.sums(values).tolist() == expected
