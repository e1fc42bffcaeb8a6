import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.paper.forest import LevelOrder
from tests.shapes import SHAPES, ancestors, random_tree

TREES = [*SHAPES.values(), Tree.from_parents([-1]), *(random_tree(25, seed) for seed in range(8))]


def by_tree(order, forest):
    """The forest as a set of sets of node ids."""
    return {frozenset(order.nodes[forest.members[forest.trees == tree]].tolist()) for tree in range(forest.tree_count)}


def subtree(tree, root):
    return frozenset(node for node in range(tree.node_count) if root in ancestors(tree, node))


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_places_are_sorted_by_level_and_know_their_parents(tree):
    order = LevelOrder.of(tree)
    assert sorted(order.nodes.tolist()) == list(range(tree.node_count))
    assert (np.diff(order.levels) >= 0).all()
    assert order.parents[0] == -1
    assert (order.nodes[order.parents[1:]] == tree.parents[order.nodes[1:]]).all()
    assert (order.last - order.first)[0] == tree.leaf_count


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_forests_are_the_subtrees_of_their_roots(tree):
    order = LevelOrder.of(tree)
    assert by_tree(order, order.whole()) == {frozenset(range(tree.node_count))}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        roots = []
        for node in rng.permutation(tree.node_count).tolist():
            if all(root not in ancestors(tree, node) and node not in ancestors(tree, root) for root in roots):
                roots.append(node)
            if len(roots) == 3:
                break
        forest = order.rooted_at(roots)
        assert by_tree(order, forest) == {subtree(tree, root) for root in roots}
        assert (np.diff(forest.members) > 0).all()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_what_is_left_below_is_again_a_forest_of_whole_subtrees(tree):
    order = LevelOrder.of(tree)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        forest = order.whole()
        above = set()
        for _ in range(3):
            found = set()
            for place in rng.permutation(forest.members)[:2]:
                found |= set(ancestors(tree, int(order.nodes[place])))
            above |= found
            forest = order.remove(forest, np.isin(order.nodes[forest.members], list(found)))
            left = set(range(tree.node_count)) - above
            roots = {node for node in left if tree.parents[node] not in left}
            assert by_tree(order, forest) == {subtree(tree, root) for root in roots}
            assert (np.diff(forest.members) > 0).all()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_runs_ancestors_and_lowest_places(tree):
    order = LevelOrder.of(tree)
    forest = order.whole()
    starts = order.runs(forest.members, forest.trees)
    assert starts.size == tree.depth
    for place in range(1, tree.node_count):
        higher = np.flatnonzero(order.levels < order.levels[place])
        held = order.are_above(higher, np.array([place]))
        expected = ancestors(tree, int(order.nodes[place]))[1:]
        assert sorted(order.nodes[higher[held]].tolist()) == sorted(expected)
    assert sorted(order.nodes[order.lowest(forest.members)].tolist()) == tree.leaves.tolist()


@pytest.mark.parametrize(
    ("roots", "error", "message"),
    [
        ([], TypeError, "roots must be a non-empty, one-dimensional collection of node ids"),
        ([0.5], TypeError, "roots must be a non-empty"),
        ([[1]], TypeError, "roots must be a non-empty"),
        ([7], ValueError, "roots must be node ids from 0 to 6"),
        ([-1], ValueError, "roots must be node ids from 0 to 6"),
        ([1, 1], ValueError, "roots must be distinct, and none may be below another"),
        ([0, 3], ValueError, "roots must be distinct, and none may be below another"),
        ([4, 1, 2], ValueError, "roots must be distinct, and none may be below another"),
    ],
)
def test_wrong_roots_are_named(roots, error, message):
    with pytest.raises(error, match=message):
        LevelOrder.of(Tree.balanced(branching=2, depth=3)).rooted_at(roots)


def test_a_chain_has_no_two_disjoint_roots():
    with pytest.raises(ValueError, match="none may be below another"):
        LevelOrder.of(SHAPES["chain"]).rooted_at([11, 3])
