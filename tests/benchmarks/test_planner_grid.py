"""The planner's choice is the measured best, or within 5 % of it."""

import numpy as np
import pytest

from benchmarks.planner_grid import ALLOWED, Outcome, outcome, public_tree, settings
from benchmarks.worst_case import Measured


def test_the_grid_is_large_and_varied():
    grid = settings()
    assert len(grid) == len(set(grid)) >= 60
    awaited = {"tree_estimator", "tree_laplace"}
    for setting in grid:
        awaited.discard(setting.plan().best.name)
        if not awaited:
            return
    raise AssertionError(f"never the best: {awaited}")


@pytest.mark.slow
@pytest.mark.parametrize("setting", settings(), ids=str)
def test_the_choice_is_the_measured_best_or_near_it(setting):
    found = outcome(setting)
    assert found.ratio <= ALLOWED, found.measured
    # And it errs by what was predicted.
    measured = found.measured[found.chosen.name]
    assert 0.9 * measured.error - 4 * measured.deviation <= found.chosen.error
    if (found.chosen.name, setting.nodes) != ("tree_estimator", "public"):  # where hidden nodes are no worse
        assert found.chosen.error <= 1.1 * measured.error + 4 * measured.deviation


def test_a_wrong_choice_is_caught():
    chosen = settings()[0].plan().best
    measured = {chosen.name: Measured(10.0, 0.1, "", 1000), "another": Measured(8.0, 0.1, "", 1000)}
    found = Outcome(settings()[0], chosen, measured)
    assert (found.best, found.ratio) == ("another", 1.25)
    assert found.ratio > ALLOWED


@pytest.mark.parametrize("depth", [3, 6, 12, 33])
def test_public_trees_have_their_depth_and_many_nodes_alike(depth):
    tree = public_tree(depth)
    assert tree.depth == depth
    assert np.bincount(tree.node_levels)[1:].min() >= 40
