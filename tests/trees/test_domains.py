from itertools import product, zip_longest

import numpy as np
import opendp.prelude as dp
import pytest
from opendp._internal import _make_transformation

import opendp_tree as ot
from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.trees import node_domain
from opendp_tree.trees.domains import INTEGER_TYPES, CountSpace

TREE = Tree.balanced(branching=2, depth=3)
L1 = dp.l1_distance(T="i64")


def test_domains_are_told_apart_by_tree_and_kind():
    assert leaf_domain(TREE) == leaf_domain(Tree.balanced(branching=2, depth=3))
    assert leaf_domain(TREE) != node_domain(TREE)
    same_leaves = Tree.balanced(branching=4, depth=2)
    assert same_leaves.leaf_count == TREE.leaf_count
    assert leaf_domain(TREE) != leaf_domain(same_leaves)
    assert TREE.digest in repr(leaf_domain(TREE))


def test_membership():
    domain = leaf_domain(TREE)
    assert domain.member(np.zeros(4, dtype=np.int64))
    for other in (
        np.zeros(3, dtype=np.int64),
        np.zeros(4, dtype=np.int32),
        np.zeros(4),
        np.zeros((4, 1), dtype=np.int64),
        np.ma.array([0] * 4, mask=[False, True, False, False]),
        [0] * 4,
    ):
        assert not domain.member(other)


@pytest.mark.parametrize("make", [leaf_domain, node_domain])
def test_a_tree_must_be_a_tree(make):
    with pytest.raises(TypeError, match=r"tree \(list\) must be a Tree. Hint: Tree.from_parents or Tree.from_paths"):
        make([-1, 0])


@pytest.mark.parametrize(
    "domain",
    [
        dp.atom_domain(T="f64"),
        dp.vector_domain(dp.atom_domain(T="f64")),
        dp.vector_domain(dp.atom_domain(T="String")),
        dp.option_domain(dp.atom_domain(T="i64")),
        dp.numpy.arrayd_domain(shape=(4,), T="i64"),
    ],
)
def test_domains_without_integers_are_refused(domain):
    with pytest.raises(ValueError, match=r"input_domain \(.*\) must hold integers"):
        CountSpace.of(domain)


def test_written_values_fit_their_type():
    values = np.array([-(2**40), -1, 2**40], dtype=np.int64)
    expected = {
        "i32": [-(2**31), -1, 2**31 - 1],
        "u32": [0, 0, 2**32 - 1],
        "u64": [0, 0, 2**40],
        "i64": values.tolist(),
    }
    for kind, written in expected.items():
        space = CountSpace.of(dp.vector_domain(dp.atom_domain(T=kind)))
        assert space.write(values).tolist() == written


def test_wrong_data_is_an_error_that_does_not_show_it():
    with pytest.raises(ValueError, match="the data must have exactly 2 counts, as input_domain says"):
        CountSpace.of(dp.vector_domain(dp.atom_domain(T="i64"), size=2)).read([271828, 1, 1])
    with pytest.raises(TypeError, match=r"the data must be a plain int64 array of shape \(4,\)") as error:
        CountSpace.of(leaf_domain(TREE)).read(np.array([271828] * 3))
    assert "271828" not in str(error.value)


def test_chains_fit_whatever_the_columns_are_called():
    """Names say nothing of the data; the release shows nodes as its measurement's domain says."""
    for named, plain, keys in (
        (OpenTree.columns(["region"]), OpenTree.columns(1), [("a",)] * 900),
        (OpenTree.bits(32, 32, shown_as="ipv4"), OpenTree.bits(32, 32), [10 << 24] * 900),
    ):
        for first, second in ((named, plain), (plain, named)):
            assert leaf_domain(first) == leaf_domain(second)
            space = leaf_domain(first), dp.l1_distance(T="i64")
            chain = dp.c.make_chain_mt(
                ot.mechanisms.make_pruned_descent(leaf_domain(second), space[1], 2.0, delta=1e-6),
                _make_transformation(*space, *space, lambda counts: counts, lambda d_in: d_in),
            )
            release = chain(first.count(keys))
            assert release.tree.names == second.names
            assert release.tree.shown_as == second.shown_as
    assert leaf_domain(OpenTree.columns(2)) != leaf_domain(OpenTree.columns(["region"]))


def test_a_tree_equal_to_that_of_the_domain_may_be_given():
    space, options = (leaf_domain(OpenTree.columns(["a", "b"])), L1), {"epsilon": 1.0, "delta": 1e-6}
    equal = ot.make_tree_estimator(*space, **options, tree=OpenTree.columns(2))
    assert equal.map(1) == ot.make_tree_estimator(*space, **options).map(1)


@pytest.mark.parametrize("kind", INTEGER_TYPES)
@pytest.mark.parametrize("length", [0, 1, 4, 7])
def test_vectors_of_undeclared_length_are_cut_or_filled_up(kind, length):
    tree = Tree.balanced(branching=2, depth=3)
    space, found = CountSpace.of_leaves(dp.vector_domain(dp.atom_domain(T=kind)), L1, tree)
    assert found is tree
    given = list(range(1, length + 1))
    assert space.read(given).tolist() == [*given, 0, 0, 0, 0][:4]


def test_cutting_and_filling_up_moves_no_two_vectors_further_apart():
    """All pairs of vectors of up to three numbers, for a tree of two leaves; shorter ones go on in zeros."""
    tree = Tree.balanced(branching=2, depth=2)
    space, _ = CountSpace.of_leaves(dp.vector_domain(dp.atom_domain(T="i64")), L1, tree)
    vectors = [each for length in range(4) for each in product((0, 1, 5), repeat=length)]
    for left, right in product(vectors, repeat=2):
        apart = sum(abs(a - b) for a, b in zip_longest(left, right, fillvalue=0))
        assert np.abs(space.read(left) - space.read(right)).sum() <= apart


def test_a_declared_length_must_fit_the_tree_and_be_kept():
    tree = Tree.balanced(branching=2, depth=3)
    with pytest.raises(ValueError, match="one count for each leaf"):
        CountSpace.of_leaves(dp.vector_domain(dp.atom_domain(T="i64"), size=5), L1, tree)
    space, _ = CountSpace.of_leaves(dp.vector_domain(dp.atom_domain(T="i64"), size=4), L1, tree)
    with pytest.raises(ValueError, match="exactly 4 counts, as input_domain says"):
        space.read([1, 2, 3])
