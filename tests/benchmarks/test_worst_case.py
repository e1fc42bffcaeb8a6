import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from benchmarks.worst_case import Shape, Situation, battery, level_battery, measured_error, partition_battery
from opendp_tree import (
    OpenTree,
    Tree,
    leaf_domain,
    make_partition_estimator,
    make_pruned_descent,
    noise,
    plan_partition,
)
from opendp_tree.measurements.level_noise import laplace_variance

METRIC = dp.l1_distance(T="i64")


def plain(tree, scale):
    return lambda counts: tree.sum(counts) + noise.laplace(scale, tree.node_count)


def test_plain_laplace_noise_measures_to_its_exact_rmse():
    """Five standard errors, each group having thousands of samples: a false alarm in a million runs."""
    tree = Tree.from_parents([-1] + [0] * 20_000)
    empty = level_battery(tree, np.zeros(20_000, dtype=np.int64))
    found = measured_error(plain(tree, 7.0), empty, alpha=0.3)
    assert found.situation == "level 1"
    assert found.samples == 20_000
    assert abs(found.error - math.sqrt(laplace_variance(7.0))) < 5 * found.deviation
    assert found.deviation < 0.02 * found.error


def test_a_wrong_prediction_is_caught():
    tree = Tree.from_parents([-1] + [0] * 20_000)
    empty = level_battery(tree, np.zeros(20_000, dtype=np.int64))
    found = measured_error(plain(tree, 7.0 * 1.1), empty, alpha=0.0)
    assert abs(found.error - math.sqrt(laplace_variance(7.0))) > 5 * found.deviation


def test_the_largest_of_many_equal_groups_is_not_too_large():
    """Hundreds of groups of the same law: their plain maximum would be some 20 % too large."""
    tree = Tree.balanced(branching=300, depth=3)
    equal = level_battery(tree, np.zeros(tree.leaf_count, dtype=np.int64))
    below = np.flatnonzero(tree.node_levels == 2)
    many = type(equal)(tree, equal.counts, below, tree.parents[below] - 1, tuple(f"node {i}" for i in range(300)))
    found = measured_error(plain(tree, 7.0), many, alpha=0.0)
    assert found.samples == 300
    assert abs(found.error / math.sqrt(laplace_variance(7.0)) - 1) < 0.15


@pytest.mark.parametrize("open", [True, False])
def test_a_battery_holds_what_it_names(open):
    found = battery(6, alpha=0.1, open=open, threshold=20, spread=2.0, count_scale=5.0, copies=300)
    assert found.tree.depth == 6
    truth = found.truth
    for group, name in enumerate(found.names):
        here = found.groups == group
        assert np.unique(truth[here]).size == 1, name
        assert here.sum() >= 75
        if " each" not in name:
            assert f"with {truth[here][0]}," in name
    assert (truth == 0).any() == (not open)


def test_a_situation_weighs_its_cells_and_its_residual():
    assert sum(Situation(Shape(3, 4), 25, 11).leaves()) == 4 * 25 + 11
    assert Shape(2, 2).parents == [-1, 0, 1, 0, 3, *[0] * 8]
    assert Shape(3).parents == [-1, 0, 1]


def test_hidden_nodes_count_as_nobody():
    """No node reaches the threshold, so that the error is the heaviest node itself."""
    found = battery(3, alpha=0.25, open=True, threshold=40, spread=1.0, copies=300)
    never = make_pruned_descent(leaf_domain(found.tree), METRIC, 1.0, threshold=10**9)
    assert measured_error(never, found, alpha=0.25).error == pytest.approx(0.75 * found.truth.max())


def test_a_release_of_an_open_tree_has_the_law_of_the_public_one():
    """What lets batteries be public trees. Six standard errors of the difference: a false alarm in 5e8 runs."""
    plan = plan_partition(depth=3, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    plan = plan.fitted(epsilon=Fraction(1), delta=Fraction(1e-6))
    weight, copies = plan.shape.threshold - 1, 4000
    tree = OpenTree.columns(2)
    keys = [(f"{copy:05}", "leaf") for copy in range(copies) for _ in range(weight)]
    budget = {"epsilon": 1.0, "delta": 1e-6, "plan": plan}
    shown = make_partition_estimator(leaf_domain(tree), METRIC, **budget)(tree.count(keys)).to_frame()
    shown = shown.filter(shown["level"] == 1)
    found = np.full(copies, float(weight)) ** 2
    names = [int(name) for name in shown["label_1"].to_list() if name.isdigit()]
    found[names] = (shown["estimate"].to_numpy()[: len(names)] - weight) ** 2
    same = Tree.from_parents([-1, *[0] * copies, *range(1, copies + 1)])
    release = make_partition_estimator(leaf_domain(same), METRIC, **budget)(np.full(copies, weight))
    public = (release.estimates[1 : copies + 1] - weight) ** 2
    spread = math.sqrt((found.var() + public.var()) / copies)
    assert abs(found.mean() - public.mean()) < 6 * spread
    assert len(names) > 100


@pytest.mark.parametrize("open", [True, False])
@pytest.mark.parametrize(("depth", "alpha"), [(3, 0.5), (6, 0.1)])
def test_the_partition_errs_as_its_plan_says(open, depth, alpha):
    """Within 10 % and four standard errors, as it was in all settings of the benchmark."""
    plan = plan_partition(depth=depth, epsilon=1.0, delta=1e-6, alpha=alpha, public=not open)
    fitted = plan.fitted(epsilon=Fraction(1), delta=Fraction(1e-6))
    bad = partition_battery(fitted, alpha=alpha, open=open, copies=2000)
    estimator = make_partition_estimator(leaf_domain(bad.tree), METRIC, epsilon=1.0, delta=1e-6, plan=fitted)
    found = measured_error(estimator, bad, alpha=alpha)
    assert abs(plan.error - found.error) < 0.1 * found.error + 4 * found.deviation
