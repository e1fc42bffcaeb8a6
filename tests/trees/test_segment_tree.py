"""Running totals, variances and tails of a balanced tree over segments, against their definitions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.trees.least_squares import SegmentTree, rising, tail_reach

HALF = Fraction(1, 2)
SIZES = [1, 2, 3, 5, 16, 17, 37, 120]


def tree_of(segments, branching=4):
    return SegmentTree.of(segments, scale=2.0, branching=branching, root_weight=HALF)


def design(tree):
    """The matrix from segments to nodes, level by level."""
    rows = []
    for starts in tree.starts:
        for first, last in itertools.pairwise(starts):
            rows.append([first <= place < last for place in range(tree.segments)])
    return np.array(rows, dtype=float)


def least_squares(tree):
    """The covariance of the estimates of segments, and their weights."""
    nodes = design(tree)
    weights = np.repeat([1 / (2 * scale**2) for scale in tree.scales], tree.sizes)
    covariance = np.linalg.inv(nodes.T @ (weights[:, None] * nodes))
    return covariance, covariance @ nodes.T * weights


@pytest.mark.parametrize("branching", [2, 3, 16])
def test_levels_are_as_few_as_branching_allows_and_cost_one_over_the_scale(branching):
    for segments in [*range(1, 70), 255, 256, 257, 4096, 4097]:
        tree = SegmentTree.of(segments, scale=3.0, branching=branching, root_weight=HALF)
        levels = len(tree.sizes) - 1
        assert tree.sizes[0] == 1
        assert tree.sizes[-1] == segments
        assert branching**levels >= segments
        assert levels == 1 or branching ** (levels - 1) < segments
        for parents in tree.parents:
            assert np.bincount(parents).max() <= branching
        cost = sum(1 / Fraction(scale) for scale in tree.scales)
        assert Fraction(1, 3) * (1 - Fraction(1, 2**50)) < cost <= Fraction(1, 3)


@pytest.mark.parametrize("segments", SIZES)
def test_running_totals_are_those_of_least_squares(segments):
    tree = tree_of(segments)
    noisy = np.random.default_rng(segments).integers(-50, 50, sum(tree.sizes))
    expected = np.concatenate(([0.0], np.cumsum(least_squares(tree)[1] @ noisy)))
    np.testing.assert_allclose(tree.running_totals(noisy), expected, atol=1e-9)


@pytest.mark.parametrize("segments", SIZES)
def test_variances_of_ranges_less_a_share_are_exact(segments):
    tree, rng = tree_of(segments), np.random.default_rng(segments)
    covariance, weights = least_squares(tree)
    ends = np.sort(rng.integers(0, segments + 1, (300, 2)), axis=1)
    shares = rng.random(300)
    found = tree.variances(ends[:, 0], ends[:, 1], shares)
    scales = np.repeat(tree.scales, tree.sizes)
    for (first, last), share, variance in zip(ends, shares, found, strict=True):
        taken = np.where((np.arange(segments) >= first) & (np.arange(segments) < last), 1.0, 0.0) - share
        assert variance == pytest.approx(taken @ covariance @ taken, abs=1e-9)
        assert (np.abs(taken @ weights) * scales).max() <= tree.largest_step


def test_a_step_smaller_by_a_tenth_would_be_exceeded():
    """The bound on single weights is nearly reached, so the test above can fail."""
    tree = tree_of(120)
    weights = least_squares(tree)[1]
    scales = np.repeat(tree.scales, tree.sizes)
    prefixes = np.tri(120) @ weights
    assert (np.abs(prefixes) * scales).max() > 0.9 * tree.largest_step


def exact_tail(weights, ratio, reach, far=60):
    """P(sum of weights * z >= reach) for integers z with masses proportional to ratio**|z|, in rational numbers."""
    law = {0: Fraction(1)}
    total = (1 + ratio) / (1 - ratio)
    single = {z: ratio ** abs(z) / total for z in range(-far, far + 1)}
    rest = 1 - sum(single.values())
    for weight in weights:
        following = {}
        for value, mass in law.items():
            for z, chance in single.items():
                at = min(value + weight * z, reach)
                following[at] = following.get(at, 0) + mass * chance
        law = following
    return law.get(reach, Fraction(0)) + len(weights) * rest


@pytest.mark.parametrize("weights", [[1], [1, 1], [3, 1], [2, 2, 1]])
@pytest.mark.parametrize("chance", [0.2, 0.025, 0.001])
def test_the_reach_is_exceeded_with_no_more_than_its_chance(weights, chance):
    """Noise of scale 1/ln 2, so that masses are powers of 1/2."""
    scale = 1 / np.log(2)
    variance = sum(2 * (weight * scale) ** 2 for weight in weights)
    reach = float(tail_reach(np.array(variance), largest_step=max(weights) * scale, chance=chance))
    assert exact_tail(weights, HALF, int(np.ceil(reach))) <= Fraction(chance)
    assert exact_tail(weights, HALF, max(1, int(reach / 4))) > Fraction(chance)  # a quarter would not do


def test_rising_numbers_are_the_nearest():
    """By the formula of smallest means of largest sets, on random numbers and on those that need no change."""
    rng = np.random.default_rng(3)
    for size in (1, 2, 5, 12, 40):
        values = rng.normal(size=size).cumsum() if size % 2 else rng.normal(size=size)
        expected = [
            max(min(values[low : high + 1].mean() for high in range(at, size)) for low in range(at + 1))
            for at in range(size)
        ]
        np.testing.assert_allclose(rising(values), expected, atol=1e-12)
    assert rising(np.arange(5.0)).tolist() == [0, 1, 2, 3, 4]
    assert rising(np.arange(5.0)[::-1]).tolist() == [2.0] * 5
