"""What noise exceeds: exact laws against the reaches, and the promise of intervals at every count."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.mechanisms.find import choose_parameters
from opendp_tree.mechanisms.layers import ShownTree
from opendp_tree.mechanisms.tails import SAFE, _chernoff, _reach, hidden_bound, leaf_reach, sum_reach, sure_people


def geometric(scale, end):
    q = math.exp(-1 / scale)
    return (1 - q) * q ** np.arange(end)


def sum_law(terms, right, left):
    """The law of a sum of differences of geometric numbers, by plain convolution, and its first value."""
    end = int(60 * max(right, left)) + 2
    one = np.convolve(geometric(right, end), geometric(left, end)[::-1])
    law = np.ones(1)
    for _ in range(terms):
        law = np.convolve(law, one)
    return law, -(end - 1) * terms


@pytest.mark.parametrize("terms", [1, 2, 7])
@pytest.mark.parametrize(("right", "left"), [(2.0, 2.0), (2.43, 3.5), (0.3, 4.0), (6.0, 0.5)])
@pytest.mark.parametrize("chance", [0.3, 0.025, 1e-4])
def test_the_reach_of_a_sum_is_the_least(terms, right, left, chance):
    law, first = sum_law(terms, right, left)
    above = np.cumsum(law[::-1])[::-1]  # P(sum >= first + place)
    reach = _reach(((terms, right, left, 1),), chance)
    assert above[reach + 1 - first] <= chance * (1 + 1e-6)
    assert above[reach - first] > chance * (1 - 4e-3)
    assert _chernoff(((terms, right, left, 1),), chance) >= reach


@pytest.mark.parametrize("chance", [0.025, 1e-4])
def test_the_reach_of_a_weighted_sum_is_the_least(chance):
    """4 X + 3 (Y + Y') for skewed X, Y and Y' of different scales."""
    laws = [sum_law(1, 2.43, 3.5), sum_law(2, 1.5, 0.9)]
    spread = []
    for (law, first), weight in zip(laws, (4, 3), strict=True):
        wide = np.zeros((law.size - 1) * weight + 1)
        wide[::weight] = law
        spread.append((wide, first * weight))
    law, first = np.convolve(spread[0][0], spread[1][0]), spread[0][1] + spread[1][1]
    above = np.cumsum(law[::-1])[::-1]
    parts = ((1, 2.43, 3.5, 4), (2, 1.5, 0.9, 3))
    reach = _reach(parts, chance)
    assert above[reach + 1 - first] <= chance * (1 + 1e-6)
    assert above[reach - first] > chance * (1 - 4e-3)
    assert _chernoff(parts, chance) >= reach


def test_wide_noise_is_bounded_by_stretched_noise():
    """At most a hundredth more than the quantile of continuous noise."""
    wide = sum_reach(np.array([1]), 1e6, 1e6, 0.025)[0]
    exact = 1e6 * math.log(1 / (2 * 0.025))
    assert exact <= wide <= 1.02 * exact


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("depth", [2, 4, 33])
def test_a_leaf_is_shown_and_missed_no_more_often_than_promised(epsilon, depth):
    miss = 0.05
    fringe = choose_parameters(depth, Fraction(epsilon), Fraction(1e-6)).fringes[0]
    below, beyond = leaf_reach(fringe, miss)
    (threshold, radius, margin), token = fringe.levels[-1], float(fringe.token_scale)
    noise = np.exp(-np.arange(radius + 1) / float(fringe.test_scale))
    noise /= noise.sum()
    for people in range(1, 3 * threshold):
        room = max(people - (threshold - margin) + 1, 0)
        tokens = geometric(token, room + 1)
        tokens[room] = math.exp(-room / token)
        gap = people - np.arange(room + 1)[:, None] + np.arange(radius + 1)
        missed = (gap >= threshold) & ((people < gap - below) | (people > gap + beyond))
        assert (tokens[:, None] * noise)[missed].sum() <= miss


def test_a_known_leaf_is_missed_no_more_often_than_promised():
    fringe = choose_parameters(4, Fraction(1), Fraction(1e-6)).fringes[-1]
    below, beyond = leaf_reach(fringe, 0.05)
    law, first = sum_law(1, *map(float, fringe.rest_scales))
    values = first + np.arange(law.size)
    assert law[(values > below) | (values < -beyond)].sum() <= 0.05 * SAFE * (1 + 1e-9)


@pytest.mark.parametrize("depth", [2, 4, 7, 33])
def test_hidden_nodes_hold_less_than_a_few_thresholds(depth):
    fringe = choose_parameters(depth, Fraction(1), Fraction(1e-6)).fringes[0]
    assert max(fringe.thresholds) <= hidden_bound(fringe, 0.05) < 4 * max(fringe.thresholds)


def test_what_is_sure_is_the_sum_over_cells_of_gaps_less_radii():
    """A chain with an inner cell and a leaf, and a leaf below a known node of level 1, whose fringe is another."""
    given = choose_parameters(4, Fraction(1), Fraction(1e-6))
    first, second = given.fringes[0].radii, given.fringes[1].radii
    levels, parents = np.array([0, 1, 1, 2, 2, 3, 3]), np.array([-1, 0, 0, 1, 2, 3, 4])
    cells, known = np.array([False, False, False, True, False, True, True]), np.array([True, False, True] + [False] * 4)
    shown = ShownTree(levels, parents, 4, cells, known, np.array([5, 0, 9, 400, 0, 300, 200]))
    inner, leaf, other = 400 - first[1], 300 - first[2], 200 - second[1]
    sure = sure_people(shown, given, np.array([0, 0, 1, 0, 1, 0, 1]))
    assert sure.tolist() == [inner + leaf + other, inner + leaf, other, inner + leaf, other, leaf, other]
