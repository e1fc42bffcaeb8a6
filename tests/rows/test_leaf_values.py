from dataclasses import replace

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import OpenTree, Tree, Unit, Value, frame_domain, make_leaf_counts
from opendp_tree.mechanisms import LeafValues, leaf_values_domain, make_leaf_values
from opendp_tree.rows.leaf_values import read_space

dp.enable_features("contrib")
TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
AMOUNT = Value("amount", bounds=(0, 500))
FRAME = pl.DataFrame({"user": [1, 1, 2], "city": ["a", "a", "b"], "amount": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("metric", [dp.symmetric_distance, dp.insert_delete_distance, dp.change_one_distance])
def test_the_map_is_that_of_leaf_counts_in_rows(metric):
    space = frame_domain(FRAME), metric()
    values, counts = make_leaf_values(*space, values=AMOUNT, by="city"), make_leaf_counts(*space, by="city")
    assert [values.map(k) for k in range(4)] == [counts.map(k) for k in range(4)]
    assert values.output_metric == dp.symmetric_distance()


def test_the_map_of_people_counts_the_rows_of_each():
    space = frame_domain(FRAME), dp.symmetric_id_distance("user")
    made = make_leaf_values(*space, values=AMOUNT, by="city", unit=Unit("user", rows=7))
    assert [made.map(k) for k in range(3)] == [0, 7, 14]
    with pytest.raises(ValueError, match="bound on rows alone"):
        make_leaf_values(*space, values=AMOUNT, by="city", unit=Unit("user", leaves=2))


def test_a_member_has_the_tree_and_as_many_sums_as_values():
    domain = leaf_values_domain(TREE, AMOUNT)
    three = np.zeros(3, dtype=np.int64)
    assert domain.member(LeafValues(three, (three,)))
    wrong = [
        LeafValues(three, ()),
        LeafValues(three, (three, three)),
        LeafValues(three[:2], (three[:2],)),
        LeafValues(three, (three[:2],)),
        LeafValues(three.astype(float), (three,)),
        LeafValues(np.ma.masked_array(three), (three,)),
        three,
    ]
    for value in wrong:
        assert not domain.member(value)
        with pytest.raises(TypeError, match="must be LeafValues"):
            read_space(domain).read(value)
    sparse = OpenTree.columns(2).count([("a", "b")])
    assert not leaf_values_domain(OpenTree.columns(3), AMOUNT).member(LeafValues(sparse, (np.ones(1, dtype=np.int64),)))


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        ([2**42, 0, 0], [0, 0, 0]),
        ([2**41, 2**41, 0], [0, 0, 0]),
        ([2**62, 2**62, 2**62], [0, 0, 0]),
        ([-1, 1, 1], [0, 0, 0]),
        ([1, 1, 1], [-1, 0, 0]),
        ([1, 1, 0], [0, 0, 1]),
        ([1, 1, 1], [0, 2**20 + 1, 0]),
        ([1, 1, 1], [0, 2**63 - 1, 0]),
    ],
)
def test_what_the_map_does_not_cover_is_no_member(rows, steps):
    domain = leaf_values_domain(TREE, AMOUNT)
    value = LeafValues(np.array(rows), (np.array(steps),))
    assert not domain.member(value)
    with pytest.raises(TypeError, match="must be LeafValues"):
        read_space(domain).read(value)
    counts = OpenTree.columns(2).count([("a", "b"), ("a", "c"), ("d", "e")])
    sparse = replace(counts, occupied=replace(counts.occupied, counts=np.array(rows)))
    assert not leaf_values_domain(counts.tree, AMOUNT).member(LeafValues(sparse, value.sums))


def test_the_most_that_the_map_covers_is_a_member():
    rows = np.array([2**41, 2**41 - 1, 0])
    assert leaf_values_domain(TREE, AMOUNT).member(LeafValues(rows, (rows * 2**20,)))


def test_domains_of_other_bounds_or_trees_are_others():
    domains = [
        leaf_values_domain(TREE, AMOUNT),
        leaf_values_domain(TREE, Value("amount", bounds=(0, 501))),
        leaf_values_domain(OpenTree.columns(2), AMOUNT),
    ]
    assert domains[0] == leaf_values_domain(TREE, AMOUNT)
    assert len({str(domain) for domain in domains}) == 3
    assert read_space(domains[0]).values == (AMOUNT,)
    with pytest.raises(ValueError, match="must hold leaf values"):
        read_space(dp.atom_domain(T=float))


def test_levels_and_figures_have_names_of_their_own():
    clash = Tree.from_paths([("a",)], names=["mean"])
    with pytest.raises(ValueError, match="two columns 'mean'"):
        leaf_values_domain(clash, AMOUNT)
    leaf_values_domain(clash, [AMOUNT, Value("delay", bounds=(0, 1))])
