import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException

from opendp_tree import Tree, leaf_domain, make_tree_sum, then_tree_sum
from opendp_tree.mechanisms import then_above_threshold
from opendp_tree.saturate import LIMIT
from opendp_tree.trees import node_domain
from tests.trees.test_tree import parents

TREE = Tree.balanced(branching=2, depth=3)
L1 = dp.l1_distance(T="i64")


def vector(size, **bounds):
    return dp.vector_domain(dp.atom_domain(T="i64", **bounds), size=size)


@given(parents(), st.data())
def test_all_carriers_give_the_same_counts(up, data):
    tree = Tree.from_parents(up)
    counts = data.draw(st.lists(st.integers(0, 99), min_size=tree.leaf_count, max_size=tree.leaf_count))
    array = np.array(counts, dtype=np.int64)
    expected = tree.sum(array).tolist()
    assert make_tree_sum(vector(tree.leaf_count), L1, tree=tree)(counts) == expected
    assert make_tree_sum(leaf_domain(tree), L1, carrier="vector")(array) == expected
    assert make_tree_sum(leaf_domain(tree), L1)(array).tolist() == expected


def test_output_domains():
    assert make_tree_sum(leaf_domain(TREE), L1, carrier="vector").output_domain == vector(7)
    assert make_tree_sum(leaf_domain(TREE), L1).output_domain == node_domain(TREE)
    assert make_tree_sum(vector(4), L1, TREE).output_domain == vector(7)
    assert make_tree_sum(vector(4, bounds=(0, 9)), L1, TREE).output_domain == vector(7)


@given(st.integers(1, 300), st.integers(0, 2**31))
def test_maps_are_exact_or_rounded_up(depth, d_in):
    space = leaf_domain(Tree.from_parents(np.arange(depth) - 1)), L1
    assert (space >> then_tree_sum()).map(d_in) == depth * d_in
    l2 = (space >> then_tree_sum(output_metric=dp.l2_distance(T="f64"))).map(d_in)
    assert Fraction(l2) ** 2 >= depth * d_in**2 > Fraction(math.nextafter(l2, 0)) ** 2 or d_in == 0 == l2
    whole = (space >> then_tree_sum(output_metric=dp.l2_distance(T="u64"))).map(d_in)
    assert whole == math.ceil(l2)
    assert (space >> then_tree_sum(output_metric=dp.linf_distance(T="i64"))).map(d_in) == d_in


def test_float_distances_round_up():
    space = leaf_domain(TREE), dp.l1_distance(T="f64")
    assert Fraction((space >> then_tree_sum()).map(0.1)) >= 3 * Fraction(0.1)


def test_monotonic_distance_is_for_one_person():
    moves = make_tree_sum(leaf_domain(TREE), L1, output_metric=dp.linf_distance(T="i64", monotonic=True))
    assert (moves.map(0), moves.map(1)) == (0, 1)
    with pytest.raises(
        OpenDPException, match=r"d_in \(2\) must be at most 1: further apart, counts may move both ways"
    ):
        moves.map(2)
    above = moves >> then_above_threshold(2.0, threshold=50)
    assert above.map(1) == 1.0
    assert np.asarray(above(np.array([0, 0, 0, 900]))).tolist() == [True] + [False] * 6


def test_sums_saturate_and_keep_their_stability():
    counts = make_tree_sum(vector(4), L1, TREE)
    high = counts([2**63 - 1] * 4)
    assert high[0] == LIMIT
    assert counts([-(2**63)] * 4)[0] == -LIMIT
    near = counts([2**61, 2**61 - 1, 0, 0]), counts([2**61, 2**61, 0, 0])
    assert sum(abs(a - b) for a, b in zip(*near, strict=True)) <= counts.map(1)
