import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Auto, OpenTree, PrunedDescent, Tree, TreeEstimator, TreeNoise, leaf_domain, plan
from opendp_tree.planning import make_tree_counts, then_tree_counts
from opendp_tree.planning.methods import METHODS

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=3, depth=4)


@pytest.mark.parametrize("tree", [TREE, OpenTree.columns(3), OpenTree.bits(16, stride=4)])
def test_auto_takes_the_best(tree):
    made = make_tree_counts(leaf_domain(tree), L1, epsilon=1.0, delta=1e-6, alpha=0.1)
    best = plan(tree, epsilon=1.0, delta=1e-6, alpha=0.1).best
    assert made.map(1) == best.make(leaf_domain(tree), L1).map(1)
    assert made.map(1) <= (1.0, 1e-6)


def test_every_method_can_be_asked_for():
    for method in METHODS:
        made = (leaf_domain(TREE), L1) >> then_tree_counts(epsilon=1.0, delta=1e-6, method=method)
        assert made.output_measure == dp.approximate(dp.max_divergence())
        release = made(np.full(TREE.leaf_count, 100))
        assert method == "chosen_quantiles" or release.estimates.size == TREE.node_count
        assert release.statement.loss["epsilon"] <= 1.0


def test_what_is_not_possible_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="delta"):
        make_tree_counts(leaf_domain(OpenTree.columns(2)), L1, epsilon=1.0, method="tree_estimator")
    with pytest.raises(ValueError, match=r"delta must be above 0 where nodes are unknown"):
        make_tree_counts(leaf_domain(OpenTree.columns(2)), L1, epsilon=1.0)
    with pytest.raises(ValueError, match="method"):
        make_tree_counts(leaf_domain(TREE), L1, epsilon=1.0, method="magic")


def test_vectors_carry_no_tree_so_it_is_given():
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=TREE.leaf_count), L1
    release = make_tree_counts(*space, epsilon=1.0, tree=TREE)([3] * TREE.leaf_count)
    assert release.tree == TREE
    with pytest.raises(ValueError, match="tree"):
        make_tree_counts(*space, epsilon=1.0)


def test_it_composes_with_everything_else():
    made = make_tree_counts(leaf_domain(TREE), L1, epsilon=0.5, delta=1e-7)
    both = dp.c.make_composition([made, made])
    assert both.map(1)[0] == pytest.approx(1.0)
    assert len(both(np.zeros(TREE.leaf_count, dtype=np.int64))) == 2


def test_whole_and_non_negative_if_asked():
    made = make_tree_counts(leaf_domain(TREE), L1, epsilon=0.05, method=Auto(nonnegative=True, integers=True))
    estimates = made(np.zeros(TREE.leaf_count, dtype=np.int64)).estimates
    assert (estimates >= 0).all()
    assert (estimates == np.rint(estimates)).all()


@pytest.mark.parametrize("method", ["tree_estimator", "pruned_laplace", "pruned_gaussian"])
@pytest.mark.parametrize("tree", [OpenTree.columns(2), OpenTree.bits(8), OpenTree.paths("/", depth=3)])
def test_nobody_is_released_as_a_frame_of_the_root_at_most(tree, method):
    """The root is known to the estimator, which always shows it."""
    made = make_tree_counts(leaf_domain(tree), L1, epsilon=0.1, delta=1e-9, method=method)
    shown = 1 if method == "tree_estimator" else 0
    for keys in ([], [("a",)], [3], ["a/b"]):
        release = made(tree.count(keys))
        assert release.to_frame(other=False).height == shown
        assert f"{shown} node" in release.describe()


def test_levels_that_count_change_what_is_released():
    space = leaf_domain(TREE), L1
    made = make_tree_counts(*space, epsilon=1.0, method=Auto(levels=[3]))
    scales = made(np.zeros(TREE.leaf_count, dtype=np.int64)).statement.parameters["level_scales"].split(", ")
    assert float(scales[0]) > 10 * float(scales[3])
    with pytest.raises(ValueError, match="levels"):
        make_tree_counts(*space, epsilon=1.0, method=Auto(levels=[4]))
    tree = OpenTree.columns(2)
    found = make_tree_counts(leaf_domain(tree), L1, epsilon=1.0, delta=1e-6, method=Auto(levels=[2]))
    assert set(found(tree.count([("a", "b")] * 300)).to_frame()["level"]) == {0, 2}


@pytest.mark.parametrize(
    "method",
    [TreeNoise("gaussian", weights=(0, 1, 1, 1)), PrunedDescent(weights=(1, 1, 1, 2)), TreeEstimator(measuring=0.3)],
)
def test_a_method_with_options_stays_within_the_budget(method):
    made = make_tree_counts(leaf_domain(TREE), L1, epsilon=1.0, delta=1e-6, method=method)
    assert made.map(1)[0] <= 1.0
    assert made.map(1)[1] <= 1e-6
    assert made(np.full(TREE.leaf_count, 100)).statement.mechanism == method.name


def test_options_of_a_method_are_no_arguments():
    with pytest.raises(TypeError, match="nonnegative"):
        make_tree_counts(leaf_domain(TREE), L1, epsilon=1.0, nonnegative=True)
