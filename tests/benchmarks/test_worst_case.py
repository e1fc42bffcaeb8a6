import math

import numpy as np
import opendp.prelude as dp
import pytest

from benchmarks.planner_grid import measure_partition
from benchmarks.worst_case import Shape, Situation, battery, level_battery, measured_error
from opendp_tree import Tree, leaf_domain, noise, plan
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.mechanisms.tree_noise import laplace_variance

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


def test_the_largest_of_many_equal_groups_is_not_too_large():
    """Hundreds of groups of the same law: their plain maximum would be some 20 % too large. The numbers are fixed."""
    tree = Tree.balanced(branching=300, depth=3)
    equal = level_battery(tree, np.zeros(tree.leaf_count, dtype=np.int64))
    below = np.flatnonzero(tree.node_levels == 2)
    many = type(equal)(tree, equal.counts, below, tree.parents[below] - 1, tuple(f"node {i}" for i in range(300)))
    generator = np.random.default_rng(7)
    errors = generator.laplace(0, 7.0, tree.node_count)
    found = measured_error(lambda counts: tree.sum(counts) + errors, many, alpha=0.0)
    assert found.samples == 300
    assert abs(found.error / math.sqrt(2 * 7.0**2) - 1) < 0.15
    assert np.sqrt((errors[below].reshape(300, 300) ** 2).mean(axis=1)).max() > 1.15 * math.sqrt(2 * 7.0**2)


@pytest.mark.parametrize("open", [True, False])
def test_a_battery_holds_what_it_names(open):
    found = battery(6, alpha=0.1, open=open, threshold=20, spread=2.0, joining=(12, 1, 3, 2), copies=300)
    assert found.tree.depth == 6
    truth = found.truth
    for group, name in enumerate(found.names):
        here = found.groups == group
        assert np.unique(truth[here]).size == 1, name
        assert here.sum() >= 75
        if "caterpillar" not in name:
            assert f"with {truth[here][0]}," in name
    assert (truth == 0).any() == (not open)


def test_a_caterpillar_weighs_its_start_and_its_arrivals():
    situation = Situation(Shape(4, caterpillar=True), 25, (1, 2, 3))
    assert situation.leaves() == [25, 3, 2, 1]  # those above it from the top down
    assert situation.shape.parents == [-1, 0, 1, 2, 0, 1, 2]
    assert Shape(3).parents == [-1, 0, 1]


def test_hidden_nodes_count_as_nobody():
    """No node reaches the threshold, so that the error is the heaviest node itself."""
    found = battery(3, alpha=0.25, open=True, threshold=40, spread=1.0, copies=300)
    never = make_pruned_descent(leaf_domain(found.tree), METRIC, 1.0, threshold=10**9)
    assert measured_error(never, found, alpha=0.25).error == pytest.approx(0.75 * found.truth.max())


@pytest.mark.parametrize(("depth", "alpha"), [(3, 0.5), (6, 0.1)])
def test_the_estimator_errs_as_its_plan_says(depth, alpha):
    """Within 10 %, and four standard errors."""
    candidate = plan(depth, epsilon=1.0, delta=1e-6, alpha=alpha, nodes="open").candidate("tree_estimator")
    found = measure_partition(candidate, depth, 1.0, 1e-6, alpha, copies=2000)
    assert candidate.error < 1.1 * found.error + 4 * found.deviation
    assert found.error < 1.1 * candidate.error + 4 * found.deviation
