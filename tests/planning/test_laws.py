import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.mechanisms.find import find_in_fringe, make_fringe, mean
from opendp_tree.planning.laws import one_test, shown_from, worst_alpha_rmse, worst_caterpillar
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.nodes import Occupied

COPIES = 100_000


def fringe_for(levels, epsilon, delta):
    """A fringe of so many levels for this budget."""
    each = Fraction(epsilon)
    return make_fringe(levels, each, each, each, Fraction(delta), 1)


def uniform(levels, scale, threshold, radius, margin, *, token_scale):
    """The same numbers at every level."""
    numbers = (threshold,) * levels, (radius,) * levels, (margin,) * levels
    return Fringe(*numbers, Fraction(scale), Fraction(token_scale), None)


@pytest.mark.parametrize("people", [10, 16, 20, 30])
@pytest.mark.parametrize("depth", [3, 33])
def test_one_test_has_the_law_that_is_predicted(people, depth):
    """The share shown within 6 standard errors, and the mean square within 8 of its own: below 1e-8 by chance."""
    fringe = fringe_for(depth, 0.8, 1e-6)
    alone = np.zeros(COPIES - 1, dtype=np.int64)
    occupied = Occupied(np.full(COPIES, depth - 1), alone, np.full(COPIES, people), np.arange(COPIES))
    places, levels, gaps = find_in_fringe(occupied, tuple(range(depth)), fringe)
    found = levels == depth - 1
    values = np.zeros(COPIES)
    values[places[found]] = gaps[found] + mean(float(fringe.token_scale)) - mean(float(fringe.test_scale))
    squares = np.maximum(np.abs(values - people) - 0.1 * people, 0) ** 2
    expected = one_test(fringe, people, alpha=0.1)
    deviation = math.sqrt(expected.shown * (1 - expected.shown) / COPIES)
    assert found.sum() / COPIES == pytest.approx(expected.shown, abs=6 * deviation + 1e-9)
    assert squares.mean() == pytest.approx(expected.mean_square, abs=8 * squares.std() / math.sqrt(COPIES) + 1e-9)


def hidden(fringe, arrivals, copies):
    """How many of so many paths that these people join, the deepest first, have no cell at or below their top."""
    length = len(arrivals)
    assert length <= len(fringe.levels)
    levels = np.tile(np.arange(length, 0, -1), copies)  # people at the nodes of the path themselves
    meets = np.tile(np.append(np.arange(length - 1, 0, -1), 0), copies)[:-1]  # the paths' tops at the root
    occupied = Occupied(levels, meets, np.tile(arrivals, copies), np.arange(levels.size))
    places = find_in_fringe(occupied, tuple(range(1, len(fringe.levels) + 1)), fringe)[0]
    return copies - np.unique(places // length).size


@pytest.mark.parametrize(
    "fringe",
    [
        uniform(32, 1.25, 23, 22, 8, token_scale=1.4),
        uniform(128, 1.25, 25, 24, 10, token_scale=1.4),
        uniform(6, 2.0, 14, 13, 5, token_scale=2.2),
    ],
)
def test_caterpillars_stay_hidden_as_often_as_predicted(fringe):
    """Of 20,000 within 6 standard errors: below 1e-8 by chance. The root, which all share, is above them."""
    square, arrivals = worst_caterpillar(fringe, 0.1)
    chance = square / (0.9 * sum(arrivals)) ** 2
    copies = 20_000
    share = hidden(fringe, arrivals, copies) / copies
    assert share == pytest.approx(chance, abs=6 * math.sqrt(chance * (1 - chance) / copies))


def every_caterpillar(fringe, alpha):
    """The largest error of all paths, by the law of each node as the mechanism is written, in plain loops."""
    threshold, radius, margin = fringe.levels[0]
    level, depth = threshold - margin, len(fringe.levels)
    q, t = math.exp(-1 / fringe.test_scale), math.exp(-1 / fringe.token_scale)
    total = 1 - q ** (radius + 1)

    def node(held, joined):
        law = {}
        for before, mass in held.items():
            count = before + joined
            least = max(level - 1, before) if count >= level else count
            for taken in range(count - least + 1):
                chance = t**taken * ((1 - t) if taken < count - least else 1.0)
                left = count - taken
                if left < threshold:
                    stays = (1 - q ** min(threshold - left, radius + 1)) / total
                    law[left] = law.get(left, 0.0) + mass * chance * stays
        return law

    best = 0.0
    stack = [({0: 1.0}, 0, 0)]
    while stack:
        held, people, used = stack.pop()
        best = max(best, sum(held.values()) * ((1 - alpha) * people) ** 2)
        most = people + (depth - used) * (threshold + 2)
        if used < depth and sum(held.values()) * ((1 - alpha) * most) ** 2 > best:
            stack += [(node(held, joined), people + joined, used + 1) for joined in range(1, threshold + 3)]
    return best


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize(
    ("levels", "numbers"),
    [(1, (1.0, 7, 6, 1)), (2, (1.5, 8, 7, 4)), (3, (1.0, 7, 6, 3)), (4, (1.0, 7, 6, 3)), (4, (0.5, 7, 6, 2))],
)
def test_the_worst_caterpillar_is_the_worst_of_all(levels, numbers, alpha):
    fringe = uniform(levels, *numbers, token_scale=1.1 * numbers[0])
    assert worst_caterpillar(fringe, alpha)[0] == pytest.approx(every_caterpillar(fringe, alpha))


def test_uneven_arrivals_are_found():
    """One person per level would say less, and so would one test."""
    fringe = uniform(5, 2.0, 14, 13, 7, token_scale=2.1)
    found, (square, arrivals) = worst_alpha_rmse(fringe, 0.0), worst_caterpillar(fringe, 0.0)
    assert len(set(arrivals)) > 1
    assert found >= math.sqrt(square)
    assert found > max(math.sqrt(one_test(fringe, people).mean_square) for people in range(1, 30)) * 1.05


def test_the_weight_from_which_nodes_are_shown_is_the_least():
    assert shown_from(lambda weight: weight >= 30) == 30
    assert shown_from(lambda weight: 0.0) == math.inf
