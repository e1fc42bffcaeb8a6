"""The tree partition as a measurement."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException

from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.mechanisms.tree_partition import _chosen_fringe, make_tree_partition, then_tree_partition
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.partition import Fringe, find_epsilon_delta

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=2, depth=4)
NUMBERS = {"threshold": 17, "radius": 16, "margin": 4}
ARGUMENTS = {"scale": 1.0, "token_scale": 1.1, **NUMBERS}
PURE = {**ARGUMENTS, "threshold": 8, "radius": None, "margin": 3}


def test_the_map_is_the_theorem_rounded_up():
    cells = make_tree_partition(leaf_domain(TREE), L1, **{**ARGUMENTS, "margin": 0})
    fringe = Fringe((17,) * 4, (16,) * 4, (0,) * 4, Fraction(1), Fraction(1.1), None)
    assert find_epsilon_delta([fringe], k=1)[0].lo > 1
    assert cells.map(0) == (0.0, 0.0)
    for people in (1, 3, 40):
        epsilon, delta = find_epsilon_delta([fringe], k=people)
        assert cells.map(people) == (round_up(epsilon), min(1.0, round_up(delta)))


def test_noise_without_end_is_pure():
    cells = make_tree_partition(leaf_domain(TREE), L1, **PURE)
    assert cells.output_measure == dp.max_divergence()
    fringe = Fringe((8,) * 4, (None,) * 4, (3,) * 4, Fraction(1), Fraction(1.1), None)
    assert cells.map(2) == round_up(find_epsilon_delta([fringe], k=2)[0])
    assert cells.map(0) == 0.0
    one_level_ends = make_tree_partition(leaf_domain(TREE), L1, **{**PURE, "radius": [None, None, None, 7]})
    assert one_level_ends.output_measure == dp.approximate(dp.max_divergence())
    assert 0 < one_level_ends.map(1)[1] < make_tree_partition(leaf_domain(TREE), L1, **{**PURE, "radius": 7}).map(1)[1]


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-9, 2.0**50])
@pytest.mark.parametrize("arguments", [ARGUMENTS, PURE])
def test_extreme_scales_and_distances_have_maps(scale, arguments):
    for name in ("scale", "token_scale"):
        cells = make_tree_partition(leaf_domain(TREE), L1, **{**arguments, name: scale})
        for people in (1, 2**62):
            loss = cells.map(people)
            epsilon, delta = loss if arguments is ARGUMENTS else (loss, 0.0)
            assert epsilon > 0
            assert 0 <= delta <= 1
        if scale == 0:
            assert epsilon == math.inf


def test_float_distances_mean_the_integer_below():
    cells = make_tree_partition(leaf_domain(TREE), dp.l1_distance(T="f64"), **ARGUMENTS)
    assert cells.map(1.9) == cells.map(1.0)
    assert cells.map(0.9) == (0.0, 0.0)


def test_levels_that_are_not_tested_cost_nothing_and_show_nothing():
    some = make_tree_partition(leaf_domain(TREE), L1, **ARGUMENTS, levels=[1, 3])
    shallow = make_tree_partition(leaf_domain(Tree.balanced(branching=2, depth=2)), L1, **ARGUMENTS)
    assert some.map(1) == shallow.map(1)
    for _ in range(20):
        found = some(np.array([900, 900, 11, 11, 11, 11, 0, 0]))
        assert set(TREE.node_levels[found.nodes].tolist()) <= {1, 3}
    only_top = make_tree_partition(leaf_domain(TREE), L1, **ARGUMENTS, levels=[1])
    found = only_top(np.array([900, 900, 11, 11, 11, 11, 0, 0]))
    assert found.nodes.tolist()[0] == 1
    assert abs(found.gaps[0] - 1822) < 60


def test_numbers_by_level_reach_their_levels():
    """A level with a threshold out of reach has no cells."""
    cells = make_tree_partition(
        leaf_domain(TREE), L1, 0.5, token_scale=1.0, threshold=[900, 900, 40, 40], radius=9, margin=[3, 3, 3, 5]
    )
    assert cells(np.array([50, 50, 0, 0, 70, 0, 0, 0])).nodes.tolist() == [7, 8, 11]
    levels = make_tree_partition(
        leaf_domain(TREE),
        L1,
        0.5,
        token_scale=1.0,
        threshold=[40, 40, 900],
        radius=9,
        margin=[3, 3, 870],
        levels=[0, 1, 3],
    )
    assert levels(np.array([50, 50, 0, 0, 70, 0, 0, 0])).nodes.tolist() == [1, 2]


def test_all_carriers_of_leaf_counts():
    counts = [0, 900, 0, 0, 500, 2, 0, 0]
    vector = dp.vector_domain(dp.atom_domain(T="i64"), size=8)
    assert make_tree_partition(vector, L1, **ARGUMENTS, tree=TREE)(counts).nodes.tolist() == [8, 11]
    tree = OpenTree.bits(3)
    keys = np.repeat(np.arange(8, dtype=np.uint64), counts)
    frame = ((leaf_domain(tree), L1) >> then_tree_partition(**ARGUMENTS))(tree.count(keys))
    assert frame.columns == ["level", "prefix", "bits", "gap"]
    assert frame.select("level", "prefix", "bits").rows() == [(3, 1, 3), (3, 4, 3)]
    assert str(frame.schema["gap"]) == "Int64"
    assert np.abs(frame["gap"].to_numpy() - [900, 500]).max() < 60
    named = OpenTree.columns(["state", "city"])
    rows = [("x", "a")] * 70 + [("b", "c")] * 500
    frame = make_tree_partition(leaf_domain(named), L1, **ARGUMENTS)(named.count(rows))
    assert frame.columns == ["level", "state", "city", "gap"]
    assert frame.select("state", "city").rows() == [("b", "c"), ("x", "a")]
    assert frame["gap"][0] > 400 > frame["gap"][1]


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 2.0**50])
@pytest.mark.parametrize("radius", [100, None])
def test_no_count_makes_it_raise(scale, radius):
    """Whatever the counts are, near the threshold and far: chances below 2**-64 among them."""
    cells = make_tree_partition(leaf_domain(TREE), L1, scale, token_scale=scale, threshold=110, radius=radius, margin=5)
    for count in [*range(0, 130, 7), 10**6]:
        cells(np.full(8, count))


def test_data_of_another_tree_is_an_error():
    cells = make_tree_partition(leaf_domain(OpenTree.bits(3)), L1, **ARGUMENTS)
    with pytest.raises(OpenDPException, match="the data must be sparse counts of the tree of input_domain"):
        cells(OpenTree.bits(4).count([1]))


@given(st.integers(1, 140), st.floats(1e-3, 50), st.sampled_from([1e-12, 1e-6, 1e-3, 0.3]))
def test_chosen_parameters_keep_the_budget_and_use_it(depth, epsilon, delta):
    """Scales have three digits, so that up to a hundredth of epsilon is left."""
    cells = make_tree_partition(leaf_domain(OpenTree.columns(depth)), L1, 1 / epsilon, delta=delta)
    spent = cells.map(1)
    assert epsilon * 0.989 <= spent[0] <= epsilon * (1 + 1e-15)
    assert spent[1] == delta
    tested = depth + 1
    assert _chosen_fringe(tested, Fraction(1 / epsilon), Fraction(delta)).rest_scales is None
    lost = find_epsilon_delta([_chosen_fringe(tested, Fraction(1 / epsilon), Fraction(delta))], k=1)[1]
    assert lost.hi <= Fraction(delta)


@pytest.mark.parametrize("depth", [2**14 + 1, 2**15, 40_000])
def test_what_one_person_elsewhere_adds_hides_nothing_and_raises_nothing_in_the_deepest_trees(depth):
    """3,000 people at the end of a long chain, or beside its top, are shown for sure: noise is at most 50."""
    tree = Tree.from_parents(np.concatenate(([-1], np.arange(depth - 1), [0])))
    cells = make_tree_partition(leaf_domain(tree), L1, 1.0, token_scale=2.0, threshold=60, radius=50, margin=5)
    for deep, top in ((3000, 0), (3000, 1), (0, 3000), (1, 3000)):
        found = cells(np.array([top, deep] if tree.leaves[0] == depth else [deep, top]))
        assert found.nodes.tolist() == [depth - 1 if deep > top else depth]
