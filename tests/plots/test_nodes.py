import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, TreeRelease, leaf_domain, then_tree_estimator
from opendp_tree.plots.nodes import MAX_CHILDREN, areas, own_area, read_nodes
from tests.pictures import release


def read(release, max_nodes=10**6):
    return read_nodes(release, release.to_frame(), max_nodes=max_nodes)


def children_sum(parents, size):
    return np.bincount(parents[parents >= 0], weights=size[parents >= 0], minlength=size.size)


@given(st.integers(1, 60), st.data())
def test_areas_fit_into_their_parents(count, data):
    parents = np.array([-1] + [data.draw(st.integers(0, node - 1)) for node in range(1, count)])
    levels = np.zeros(count, dtype=int)
    for node in range(1, count):
        levels[node] = levels[parents[node]] + 1
    figures = st.floats(-1e6, 1e9) | st.just(float("nan")) | st.just(0.0)
    estimates = np.array(data.draw(st.lists(figures, min_size=count, max_size=count)))
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    size = areas(parents, levels, estimates, hidden)
    assert np.isfinite(size).all()
    assert (size >= 0).all()
    assert (children_sum(parents, size) <= size * (1 + 1e-9)).all()
    assert (own_area(parents, size) >= 0).all()
    assert np.isclose(own_area(parents, size).sum(), size[0])
    assert (size[1:][~hidden[1:] & ~(estimates[1:] > 0)] == 0).all()


def test_children_that_fit_are_drawn_to_scale_and_others_in_proportion():
    parents, levels = np.array([-1, 0, 0, 1, 1]), np.array([0, 1, 1, 2, 2])
    estimates = np.array([100.0, 60.0, 30.0, 90.0, 30.0])
    assert areas(parents, levels, estimates, np.zeros(5, dtype=bool)).tolist() == [100, 60, 30, 45, 15]


def test_hidden_nodes_and_empty_roots_are_as_large_as_what_is_below():
    parents, levels = np.array([-1, 0, 1, 1]), np.array([0, 1, 2, 2])
    estimates = np.array([-3.0, np.nan, 4.0, 2.0])
    assert areas(parents, levels, estimates, np.array([False, True, False, False])).tolist() == [6, 6, 4, 2]


def parent_path(path):
    return " / ".join(path.split(" / ")[:-1])


@pytest.mark.parametrize("hide", [False, True])
def test_rows_find_their_parents_in_public_trees(hide):
    given = release((4, 3, 5), hide=hide, total=4000.0)
    nodes = read(given)
    for row in range(1, len(nodes)):
        assert nodes.paths[nodes.parents[row]] == parent_path(nodes.paths[row])
        assert nodes.labels[row] == nodes.paths[row].split(" / ")[-1]
        assert nodes.levels[row] == nodes.levels[nodes.parents[row]] + 1
    assert nodes.labels[0] == "All"
    assert ("other" in nodes.kind) == hide
    drawn = given.to_frame().filter("shown").filter(given.to_frame().filter("shown")["estimate"] > 0)
    assert sorted(nodes.paths) == sorted(drawn["path"])


def test_rows_find_their_parents_when_ids_are_shuffled_and_labels_hold_the_separator():
    labelled = Tree.from_paths([("a / b", "c"), ("a", "b / c"), ("a", "d"), ("e",)])
    shuffled = Tree.from_parents([2, 0, -1, 2, 3, 0])
    for tree, labels in ((labelled, True), (shuffled, False)):
        counts = 10.0 ** (4 - tree.node_levels) + np.arange(tree.node_count)
        nodes = read(TreeRelease(tree, counts, counts, counts, 1.0, None))
        by_count = {count: node for node, count in enumerate(counts.tolist())}
        for row in range(1, len(nodes)):
            above = nodes.estimate[nodes.parents[row]]
            assert by_count[above] == tree.parents[by_count[nodes.estimate[row]]]
        assert ("b / c" in nodes.labels) == labels


def test_rows_find_their_parents_in_open_trees():
    tree = OpenTree.bits(8, stride=2)
    measurement = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_estimator(epsilon=9.0, delta=1e-3)
    nodes = read(measurement(tree.count(np.repeat(np.arange(256, dtype=np.uint64), 1000))))
    assert len(nodes) > 80
    for row in range(1, len(nodes)):
        if nodes.kind[row] == "node":
            (start, bits), parent = map(int, nodes.paths[row].split("/")), int(nodes.parents[row])
            above, above_bits = map(int, (nodes.paths[parent] or "0/0").split("/"))
            assert above_bits == bits - 2
            assert start >> (8 - above_bits) == above >> (8 - above_bits)


def test_nothing_shown_still_has_a_root():
    tree = Tree.from_paths([("a",), ("b",)])
    zeros = np.zeros(3)
    nodes = read(TreeRelease(tree, zeros, zeros, zeros, 1.0, None, shown=np.zeros(3, dtype=bool)))
    assert (nodes.labels, nodes.kind, nodes.without_area) == (["All"], ["hidden"], 0)


def test_small_nodes_are_drawn_together():
    given = release((40, 30), hide=False, noise=0.0)
    everything, some = read(given), read(given, max_nodes=200)
    assert len(everything) == 1 + 40 + 1200
    assert len(some) < 300
    assert some.kind.count("smaller") > 10
    for column in ("size", "estimate"):
        nodes, total = some, getattr(everything, column)[0]
        leaves = np.setdiff1d(np.arange(len(nodes)), nodes.parents)
        assert np.isclose(getattr(nodes, column)[leaves].sum(), total, rtol=1e-2)
    smallest = some.size[[kind == "node" for kind in some.kind]].min()
    assert np.count_nonzero(everything.size >= smallest) <= 201


def test_siblings_have_a_limit_of_their_own():
    count = 5 * MAX_CHILDREN
    tree = Tree.from_paths([(number,) for number in range(count)])
    counts = np.concatenate(([float(count)], np.ones(count)))
    nodes = read(TreeRelease(tree, counts, counts, counts, 1.0, None))
    assert len(nodes) == MAX_CHILDREN + 2
    assert nodes.labels[-1] == f"({4 * MAX_CHILDREN:,} smaller)"
    assert nodes.estimate[-1] == 4 * MAX_CHILDREN


def test_a_parent_of_small_nodes_alone_says_so():
    tree = Tree.from_paths([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
    counts = np.array([20.0, 10.0, 5.0, 5.0, 10.0, 5.0, 5.0])
    nodes = read(TreeRelease(tree, counts, counts, counts, 1.0, None), max_nodes=3)
    assert (nodes.labels, nodes.undrawn.tolist()) == (["All", "a", "b"], [0, 2, 2])


def test_the_first_view_has_as_many_levels_as_fit():
    nodes = read(release((4, 3, 5), hide=False, noise=0.0))
    assert [nodes.depth_within(count) for count in (0, 16, 17, 76, 77)] == [2, 2, 3, 3, 4]
