import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException

from opendp_tree import OpenTree, Tree, leaf_domain, make_tree_partition
from opendp_tree.measurements.partition_plan import best_partition
from opendp_tree.theorems.tree_partition import PartitionShape, partition_delta, partition_epsilon
from opendp_tree.trees import node_domain
from tests.trees.test_tree import parents

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=2, depth=4)
SHAPE = {"threshold": 30, "radius": 21, "margin": 5}


def test_the_map_is_the_theorem_rounded_up():
    from fractions import Fraction

    from opendp_tree.theorems.interval import exp, geometric_sum, round_up

    cells = make_tree_partition(leaf_domain(TREE), L1, 1.1, **SHAPE)
    shape = PartitionShape(depth=4, **SHAPE)
    epsilon, delta = partition_epsilon(Fraction(1.1), shape), partition_delta(exp(-1 / Fraction(1.1)), shape)
    assert cells.map(0) == (0.0, 0.0)
    assert cells.map(1) == (round_up(epsilon), round_up(delta))
    assert cells.map(3) == (round_up(epsilon * 3), round_up(delta * geometric_sum(epsilon.exp(), 3)))


@given(st.floats(0.2, 20), st.integers(1, 30))
def test_the_map_is_monotone(scale, people):
    cells = make_tree_partition(leaf_domain(TREE), L1, scale, **SHAPE)
    here, further = cells.map(people), cells.map(people + 1)
    assert here[0] < further[0]
    assert here[1] <= further[1] <= 1


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-9, 2.0**50])
def test_extreme_scales_and_distances_have_maps(scale):
    cells = make_tree_partition(leaf_domain(TREE), L1, scale, **SHAPE)
    for people in (1, 2**62):
        epsilon, delta = cells.map(people)
        assert epsilon > 0
        assert 0 <= delta <= 1
    assert make_tree_partition(leaf_domain(TREE), L1, 0.0, **SHAPE).map(1) == (math.inf, 1.0)


def test_float_distances_mean_the_integer_below():
    cells = make_tree_partition(leaf_domain(TREE), dp.l1_distance(T="f64"), 1.1, **SHAPE)
    assert cells.map(1.9) == cells.map(1.0)
    assert cells.map(0.9) == (0.0, 0.0)


@given(parents(), st.data())
def test_cells_are_heavy_and_share_nobody(up, data):
    """No cell below threshold - radius, on any run; every person in the residual of at most one cell."""
    tree = Tree.from_parents(up)
    counts = data.draw(st.lists(st.integers(0, 40), min_size=tree.leaf_count, max_size=tree.leaf_count))
    cells = make_tree_partition(leaf_domain(tree), L1, 2.0, threshold=12, radius=8, margin=3)
    ids = cells(np.array(counts, dtype=np.int64))
    assert (np.diff(ids) > 0).all()
    left = np.array(counts)
    for cell in sorted(ids.tolist(), key=lambda node: -tree.node_levels[node]):
        inside = [cell in list(_upward(up, leaf)) for leaf in tree.leaves.tolist()]
        assert left[inside].sum() >= 12 - 8
        left[inside] = 0


def _upward(up, node):
    while node >= 0:
        yield node
        node = up[node]


def test_all_carriers_of_leaf_counts():
    counts = [0, 900, 0, 0, 500, 2, 0, 0]
    vector = dp.vector_domain(dp.atom_domain(T="i64"), size=8)
    assert make_tree_partition(vector, L1, 1.1, **SHAPE, tree=TREE)(counts).tolist() == [8, 11]
    tree = OpenTree.bits(3)
    keys = np.repeat(np.arange(8, dtype=np.uint64), counts)
    frame = make_tree_partition(leaf_domain(tree), L1, 1.1, **SHAPE)(tree.count(keys))
    assert frame.rows() == [(3, 1, 3), (3, 4, 3)]


def test_nobody_and_everybody():
    cells = make_tree_partition(leaf_domain(TREE), L1, 1.1, **SHAPE)
    assert cells(np.zeros(8, dtype=np.int64)).size == 0
    assert cells(np.full(8, 2**62)).tolist() == list(range(7, 15))
    assert cells(np.full(8, -5)).size == 0
    one = Tree.from_parents([-1])
    assert make_tree_partition(leaf_domain(one), L1, 1.1, **SHAPE)(np.array([900])).tolist() == [0]


def test_the_best_partition_fits():
    scale, shape = best_partition(depth=4, epsilon=1.0, delta=1e-6, d_in=2)
    cells = make_tree_partition(
        leaf_domain(TREE), L1, scale, threshold=shape.threshold, radius=shape.radius, margin=shape.margin
    )
    epsilon, delta = cells.map(2)
    assert epsilon <= 1.0
    assert delta <= 1e-6


@pytest.mark.parametrize(
    ("domain", "metric", "options", "message"),
    [
        (node_domain(TREE), L1, {}, r"input_domain \(.*\) must be leaf_domain"),
        (leaf_domain(TREE), dp.l2_distance(T="f64"), {}, r"input_metric \(.*\) must be l1_distance"),
        (leaf_domain(TREE), L1, {"threshold": 21}, r"threshold \(21\) must be at least 22"),
        (leaf_domain(TREE), L1, {"margin": 22}, r"margin \(22\) must be from 0 to radius \(21\)"),
        (leaf_domain(TREE), L1, {"radius": 0}, r"radius \(0\) must be an integer from 1"),
        (leaf_domain(TREE), L1, {"scale": -1.0}, r"scale \(-1.0\) must be finite and non-negative"),
        (leaf_domain(TREE), L1, {"scale": 2.0**51}, r"scale \(.*\) must be at most 2\*\*50 to draw tokens"),
        (leaf_domain(OpenTree.bits(3)), L1, {"tree": TREE}, r"tree \(.*\) must be the tree of input_domain"),
        (dp.vector_domain(dp.atom_domain(T="i64"), 8), L1, {}, "tree must be given"),
    ],
)
def test_wrong_arguments_are_named(domain, metric, options, message):
    with pytest.raises(ValueError, match=message):
        make_tree_partition(domain, metric, **{"scale": 1.1, **SHAPE, **options})


def test_data_of_another_tree_is_an_error():
    cells = make_tree_partition(leaf_domain(OpenTree.bits(3)), L1, 1.1, **SHAPE)
    with pytest.raises(OpenDPException, match="the data must be sparse counts of the tree of input_domain"):
        cells(OpenTree.bits(4).count([1]))


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 2.0**50])
def test_no_count_makes_it_raise(scale):
    """Whatever the counts are, near the threshold and far: chances below 2**-64 among them."""
    cells = make_tree_partition(leaf_domain(TREE), L1, scale, threshold=110, radius=100, margin=5)
    for count in [*range(0, 130, 7), 10**6]:
        cells(np.full(8, count))
