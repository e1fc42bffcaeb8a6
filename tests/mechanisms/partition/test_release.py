import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.mechanisms.partition.intervals import Bounds
from opendp_tree.mechanisms.partition.release import fill_levels, has_below, spread_rests

PAIRS = Tree.balanced(branching=2, depth=4)
FREE = np.full(PAIRS.node_count, np.inf)


def test_rests_are_shared_out_evenly_over_the_leaves_left():
    """The root has 80, of which one child has 48 and one leaf below the other 8."""
    leaf = int(PAIRS.levels[3][7])
    shown = np.array([PAIRS.root, int(PAIRS.levels[1][0]), leaf])
    values = spread_rests(PAIRS, shown, np.array([80.0, 48.0, 8.0]), FREE)
    assert values[PAIRS.levels[3]].tolist() == pytest.approx([12] * 4 + [8] * 4)
    assert values[PAIRS.levels[2]].tolist() == pytest.approx([24, 24, 16, 16])
    assert values[shown].tolist() == [80, 48, 8]


def test_hidden_nodes_hold_no_more_than_is_said_and_add_up():
    values = spread_rests(PAIRS, np.array([PAIRS.root]), np.array([800.0]), np.full(PAIRS.node_count, 20.0))
    assert values[PAIRS.levels[1]].tolist() == [20, 20]
    sums = np.bincount(PAIRS.parents[1:], values[1:], minlength=PAIRS.node_count)
    inner = np.concatenate(PAIRS.levels[1:3])
    np.testing.assert_allclose(sums[inner], values[inner])


def test_a_node_has_wanted_ones_below_it_or_none():
    wanted = np.isin(PAIRS.node_levels, [0, 2])
    below = has_below(PAIRS, wanted)
    assert [bool(below[level].all()) for level in PAIRS.levels] == [True, True, False, False]
    assert not below[np.concatenate(PAIRS.levels[2:])].any()


def test_levels_that_are_not_shown_are_filled_from_below_and_above():
    levels, parents = np.array([0, 1, 1, 2, 2, 2]), np.array([-1, 0, 0, 1, 1, 2])
    wanted = levels != 1
    bounds = Bounds(np.array([90.0, 30, 20, 9]), np.array([100.0, 50, 60, 11]))
    values, found = fill_levels(levels, parents, wanted, np.array([95.0, 70, 40, 10]), bounds)
    assert values.tolist() == [95, 100, 10, 70, 40, 10]  # 110 is more than the root may hold
    assert found.lower.tolist() == [90, 0, 0, 30, 20, 9]
    assert found.upper.tolist() == [100, 100, 100, 50, 60, 11]
