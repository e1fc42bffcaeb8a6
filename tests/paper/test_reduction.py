"""The reduction against its claims, and the intervals of its rungs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain
from opendp_tree.paper import AccuracyWarning, Ladder, Round, make_ladder_estimator
from opendp_tree.paper.classification import forest_below
from opendp_tree.paper.estimation import reduce_to_rungs, rungs
from opendp_tree.theorems.paper import Classifier, classifier
from tests.shapes import SHAPES, random_tree, spread_counts

TREE = Tree.balanced(branching=2, depth=3)


def exact(mass, threshold):
    numbers = (mass, Fraction(1, 20), Fraction(1, 4), threshold, Fraction(1, 2), Fraction(1, 10**7))
    return Round(*map(Fraction, numbers))


EXACT_LOW, EXACT_HIGH = exact(2900, 2000), exact(3400, 2300)


def rungs_of(base, *rounds, accurate=True):
    return rungs(Ladder(Fraction(base), rounds), [classifier(step, depth=3) for step in rounds], accurate=accurate)


def test_a_rungs_counts_lie_between_what_its_round_finds_and_what_the_one_above_leaves():
    estimates, lower, upper = rungs_of(2500, EXACT_LOW, EXACT_HIGH)
    assert estimates.tolist() == upper.tolist() == [2500, 2900, 3400]
    assert lower.tolist() == [0, math.ceil(0.75 * 2000), math.ceil(0.75 * 2300)]


@pytest.mark.parametrize(
    "unsure",
    [
        rungs_of(2000, EXACT_LOW, EXACT_HIGH),
        rungs_of(2500, EXACT_LOW, EXACT_HIGH, accurate=False),
        rungs_of(2500, exact(3000, 4)),
    ],
)
def test_without_a_guarantee_no_interval_says_anything(unsure):
    """A ladder that is not connected, one that does not reach high enough, and one whose noise is too loud."""
    _, lower, upper = unsure
    assert (lower == 0).all()
    assert np.isinf(upper).all()


def test_bounds_beyond_floats_integers_are_rounded_outward():
    mass, threshold = 2**60 + 1, 2**59 + 3
    _, lower, upper = rungs_of((1 + Fraction(1, 4)) * threshold, exact(mass, threshold))
    assert Fraction(upper[1]) >= mass
    assert Fraction(lower[1]) <= Fraction(3, 4) * threshold


L1 = dp.l1_distance(T="i64")
LEAVES = leaf_domain(TREE), L1
LOW = Round(mass=2900, eta=0.05, alpha=0.25, threshold=2000, epsilon=0.5, delta=1e-7)
HIGH = Round(mass=3400, eta=0.05, alpha=0.25, threshold=2300, epsilon=0.5, delta=1e-7)


def silent(threshold, cutoff):
    """A classifier without noise."""
    return Classifier(threshold, cutoff, scale=0.0, count_scale=0.0, radius=0, margin=0)


@pytest.mark.parametrize("tree", [*SHAPES.values(), *(random_tree(50, seed) for seed in range(8))], ids=str)
def test_without_noise_every_node_gets_the_rung_above_it(tree):
    """Cutoffs are never reached here, so each node belongs to the highest threshold that it reaches."""
    thresholds, order = [10, 40, 160, 640, 2560, 10240], tree.level_order
    classifiers = [silent(threshold, 10**9) for threshold in thresholds]
    for seed in range(5):
        weights = tree.sum(spread_counts(tree, 5000, seed))
        found = reduce_to_rungs(order, forest_below(order), weights[order.nodes], classifiers)
        assert found.tolist() == np.searchsorted(thresholds, weights, side="right").tolist()


def test_the_map_is_the_sum_over_the_rounds():
    alone = [make_ladder_estimator(*LEAVES, ladder=Ladder(3000, (step,))).map(1) for step in (LOW, HIGH)]
    both = make_ladder_estimator(*LEAVES, ladder=Ladder(2500, (LOW, HIGH)))
    assert both.map(1) == pytest.approx(tuple(map(sum, zip(*alone, strict=True))), rel=1e-12)
    assert both.map(1)[0] <= 1.0
    assert both.map(1)[1] <= 2e-7
    assert both.map(0) == (0.0, 0.0)
    assert 0.89 < both(np.zeros(4, dtype=np.int64)).confidence <= 0.9
    assert both.map(3)[1] == pytest.approx(both.map(1)[1] * (1 + math.e + math.e**2), rel=1e-9)


def test_no_rounds_no_cost():
    nothing = make_ladder_estimator(*LEAVES, ladder=Ladder(7.9, ()))
    assert nothing.map(5) == (0.0, 0.0)
    assert nothing(np.array([100, 0, 0, 0])).estimates.tolist() == [7] * 7


def test_ladders_that_leave_a_gap_warn():
    with pytest.warns(AccuracyWarning, match="some round leaves more to the one below than its mass"):
        make_ladder_estimator(*LEAVES, ladder=Ladder(2000, (LOW, HIGH)))
    loud = Round(mass=2900, eta=0.05, alpha=0.01, threshold=2000, epsilon=0.5, delta=1e-7)
    with pytest.warns(AccuracyWarning, match=r"round 1 of 1: accuracy is not guaranteed \(privacy is\)"):
        make_ladder_estimator(*LEAVES, ladder=Ladder(2900, (loud,)))
