"""Coverage, computed from the law of the noise; and wrong intervals, which must fail."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from opendp_tree.mechanisms.pruned_intervals import PrunedIntervals
from opendp_tree.theorems.interval import Interval
from opendp_tree.theorems.pruned_descent import noise_bound, noise_tail, pruned_chances
from tests.thoroughness import thinned


def chance_of_a_miss(weights, *, noise, scales, thresholds, intervals):
    """That the last node of a path is outside its interval: independent noises, thresholds, nothing else."""
    alive, missed, truth = Interval.of(1), Interval.of(0), weights[-1]
    for level, (weight, scale, threshold) in enumerate(zip(weights, scales, thresholds, strict=True)):
        passes = noise_tail(noise, Fraction(scale), threshold - weight)
        if truth > intervals.hidden[level]:
            missed = missed + alive * (1 - passes)
        if level < len(weights) - 1:
            alive = alive * passes
        else:  # shown, and its noise beyond either end of the interval that is written around it
            reach = int(intervals.reach[level])
            above = noise_tail(noise, Fraction(scale), max(reach + 1, threshold - weight))
            below = noise_tail(noise, Fraction(scale), threshold - weight) - noise_tail(
                noise, Fraction(scale), max(-reach, threshold - weight)
            )
            missed = missed + alive * (above + below)
    return missed


def paths(intervals, thresholds):
    """Weights along a path: alike, falling, and near every edge that an interval has."""
    edges = sorted({int(edge) + step for edge in (*intervals.hidden, *thresholds) for step in (-1, 0, 1)} | {1})
    for last in edges:
        yield [last] * len(thresholds)
        yield [last + 5 * level for level in reversed(range(len(thresholds)))]
        yield [10**6] * (len(thresholds) - 1) + [last]


SETTINGS = list(product(["laplace", "gaussian"], [0.3, 3.0, 12.0], [1, 4, 20], [0.5, 0.95]))


def bounds_of(noise, scale, depth, confidence):
    scales = [scale * (1 + level % 2) for level in range(depth)]
    thresholds = [7 + 3 * (level % 3) for level in range(depth)]
    law = {"noise": noise, "scales": scales, "thresholds": thresholds}
    return law, PrunedIntervals.of(**law, confidence=Fraction(confidence))


@pytest.mark.parametrize(("noise", "scale", "depth", "confidence"), thinned(SETTINGS, 3))
def test_a_count_is_missed_no_more_often_than_promised(noise, scale, depth, confidence):
    law, intervals = bounds_of(noise, scale, depth, confidence)
    for weights in paths(intervals, law["thresholds"]):
        assert chance_of_a_miss(weights, **law, intervals=intervals).hi <= 1 - Fraction(confidence)


def shifted(intervals, *, reach=0, hidden=0):
    return replace(intervals, reach=intervals.reach + reach, hidden=intervals.hidden + hidden)


def test_wrong_intervals_are_rejected():
    """Two too narrow around shown nodes; and hidden nodes bounded without the union over the path."""
    for noise in ("laplace", "gaussian"):
        law, right = bounds_of(noise, 3.0, 20, 0.95)
        own, _ = pruned_chances(Fraction(1, 20), 20)
        without_union = [
            t - 1 + noise_bound(noise, Fraction(s), own) for s, t in zip(law["scales"], law["thresholds"], strict=True)
        ]
        mutants = [shifted(right, reach=-2), replace(right, hidden=np.array(without_union, dtype=float))]
        for mutant in mutants:
            worst = max(
                chance_of_a_miss(weights, **law, intervals=mutant).lo for weights in paths(mutant, law["thresholds"])
            )
            assert worst > Fraction(1, 20)


def test_shown_nodes_hold_somebody_and_floats_are_moved_outward():
    _, intervals = bounds_of("laplace", 12.0, 4, 0.95)
    lower, upper = intervals.around(np.array([1, 1000, 2**62 - 1]), np.zeros(3, dtype=np.int64))
    assert lower[0] == 1.0
    reach = intervals.reach[0]
    assert (lower[1], upper[1]) == (1000 - reach, 1000 + reach)
    assert Fraction(lower[2]) <= 2**62 - 1 - Fraction(reach)
    assert Fraction(upper[2]) >= 2**62 - 1 + Fraction(reach)


def test_extreme_scales_have_bounds():
    for noise in ("laplace", "gaussian"):
        silent = PrunedIntervals.of(noise=noise, scales=[0.0], thresholds=[5], confidence=Fraction(9, 10))
        assert (silent.reach.tolist(), silent.hidden.tolist()) == ([0.0], [4.0])
        loud = PrunedIntervals.of(noise=noise, scales=[1.7e308], thresholds=[5], confidence=Fraction(9, 10))
        assert loud.reach[0] > 1e308
        tiny = PrunedIntervals.of(noise=noise, scales=[5e-324], thresholds=[5], confidence=Fraction(9, 10))
        assert tiny.reach.tolist() == [0.0]
