import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, leaf_domain
from opendp_tree.mechanisms.find import choose_parameters as partition_parameters
from opendp_tree.mechanisms.partition.layers import CellNoise
from opendp_tree.mechanisms.partition.parameters import choose_parameters
from opendp_tree.mechanisms.partition.prediction import one_test, worst_alpha_rmse, worst_caterpillar
from opendp_tree.mechanisms.partition.walk import find_cells
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.planning.laws import predict_levels
from opendp_tree.trees.occupied import Occupied

COPIES = 100_000


@pytest.mark.parametrize("people", [10, 16, 20, 30])
@pytest.mark.parametrize("depth", [3, 33])
def test_one_test_has_the_law_that_is_predicted(people, depth):
    """The share shown within 6 standard errors, and the mean square within 8 of its own: below 1e-8 by chance."""
    parameters = choose_parameters(depth, 0.8, 1e-6)
    alone = np.zeros(COPIES - 1, dtype=np.int64)
    occupied = Occupied(np.full(COPIES, depth - 1), alone, np.full(COPIES, people), np.arange(COPIES))
    cells = find_cells(occupied, parameters)
    found = cells.levels == depth - 1
    values = np.zeros(COPIES)
    values[cells.places[found]] = cells.gaps[found] + CellNoise.of(parameters).shift(np.array([True]))[0]
    squares = np.maximum(np.abs(values - people) - 0.1 * people, 0) ** 2
    expected = one_test(parameters, people, alpha=0.1)
    deviation = math.sqrt(expected.shown * (1 - expected.shown) / COPIES)
    assert found.sum() / COPIES == pytest.approx(expected.shown, abs=6 * deviation + 1e-9)
    assert squares.mean() == pytest.approx(expected.mean_square, abs=8 * squares.std() / math.sqrt(COPIES) + 1e-9)


def hidden(parameters, arrivals, copies):
    """How many of so many paths that these people join, the deepest first, have no cell at or below their top."""
    depth, length = parameters.shape.depth, len(arrivals)
    levels = np.tile(np.arange(length, 0, -1), copies)  # people at the nodes of the path themselves
    meets = np.tile(np.append(np.arange(length - 1, 0, -1), 0), copies)[:-1]  # the paths' tops at the root
    assert length < depth
    occupied = Occupied(levels, meets, np.tile(arrivals, copies), np.arange(levels.size))
    cells = find_cells(occupied, parameters)
    return copies - np.unique(cells.places[cells.levels > 0] // length).size


@pytest.mark.parametrize(("depth", "epsilon", "delta"), [(33, 0.8, 1e-6), (129, 0.8, 1e-6), (7, 0.5, 1e-2)])
def test_caterpillars_stay_hidden_as_often_as_predicted(depth, epsilon, delta):
    """Of 20,000 within 6 standard errors: below 1e-8 by chance. The root, which all share, is above them."""
    parameters = choose_parameters(depth, epsilon, delta)
    below = replace(
        parameters,
        shape=replace(
            parameters.shape,
            **{name: getattr(parameters.shape, name)[1:] for name in ("levels", "thresholds", "radii", "margins")},
        ),
    )
    found = worst_caterpillar(below, 0.1)
    chance = found.mean_square / (0.9 * sum(found.arrivals)) ** 2
    copies = 20_000
    share = hidden(parameters, found.arrivals, copies) / copies
    assert share == pytest.approx(chance, abs=6 * math.sqrt(chance * (1 - chance) / copies))


def every_caterpillar(parameters, alpha):
    """The largest error of all paths, by the law of each node as the mechanism is written, in plain loops."""
    shape = parameters.shape
    threshold, level = shape.thresholds[0], shape.thresholds[0] - shape.margins[0]
    q, t = math.exp(-1 / parameters.scale), math.exp(-1 / parameters.token_scale)
    total = 1 - q ** (shape.radii[0] + 1)

    def node(held, joined):
        law = {}
        for before, mass in held.items():
            count = before + joined
            least = max(level - 1, before) if count >= level else count
            for taken in range(count - least + 1):
                chance = t**taken * ((1 - t) if taken < count - least else 1.0)
                left = count - taken
                if left < threshold:
                    stays = (1 - q ** min(threshold - left, shape.radii[0] + 1)) / total
                    law[left] = law.get(left, 0.0) + mass * chance * stays
        return law

    best = 0.0
    stack = [({0: 1.0}, 0, 0)]
    while stack:
        held, people, used = stack.pop()
        best = max(best, sum(held.values()) * ((1 - alpha) * people) ** 2)
        most = people + (shape.depth - used) * (threshold + 2)
        if used < shape.depth and sum(held.values()) * ((1 - alpha) * most) ** 2 > best:
            stack += [(node(held, joined), people + joined, used + 1) for joined in range(1, threshold + 3)]
    return best


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize(
    ("depth", "epsilon", "delta"), [(1, 1.0, 1e-2), (2, 0.7, 1e-2), (3, 1.0, 1e-2), (4, 1.0, 1e-2), (4, 2.0, 1e-4)]
)
def test_the_worst_caterpillar_is_the_worst_of_all(depth, epsilon, delta, alpha):
    parameters = choose_parameters(depth, epsilon, delta)
    assert worst_caterpillar(parameters, alpha).mean_square == pytest.approx(every_caterpillar(parameters, alpha))


def test_uneven_arrivals_are_found():
    """One person a level would say 6.7, one test 9.2."""
    found = worst_alpha_rmse(choose_parameters(5, 0.5, 1e-2, exact_share=0.05), 0.0)
    assert found == pytest.approx(10.71, abs=0.01)


def test_worst_errors_are_those_of_the_design():
    aims = {3: 14.5, 6: 15.5, 33: 17.5, 129: 20.5}
    for depth, aim in aims.items():
        assert 0.97 * aim < round(worst_alpha_rmse(choose_parameters(depth, 0.8, 1e-6), 0.1), 1) <= aim


def test_predicted_levels_are_measured():
    """Leaves within 3 %, counties within 12 %, the few states within 30 %: each more than five standard errors."""
    dp.enable_features("contrib")
    sizes = (20, 10, 10)
    rng = np.random.default_rng(20)
    logs = sum(rng.normal(0, 1.1, (*sizes[:depth], *(1,) * (3 - depth))) for depth in (1, 2, 3))
    weights = np.exp(logs).ravel()
    leaves = rng.multinomial(300_000, weights / weights.sum())
    tree = OpenTree.columns(3)
    codes = np.indices(sizes).reshape(3, -1).T
    rows = np.repeat(codes, leaves, axis=0)
    counts = tree.count([tuple(f"{part:02d}" for part in row) for row in rows.tolist()])
    release = make_tree_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    truth = [leaves.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(4)]
    squares, shown = np.zeros(4), np.zeros(4)
    for _ in range(30):
        found = release(counts)
        codes = np.zeros(found.levels.size, dtype=np.int64)
        for level in range(1, 4):
            here = np.flatnonzero(found.levels == level)
            own = np.array([int(label) for label in found.nodes.labels[level - 1]])
            codes[here] = codes[found.parents[here]] * sizes[level - 1] + own
            values = np.zeros(truth[level].size)
            values[codes[here]] = found.estimates[here]
            squares[level] += np.mean((values - truth[level])[truth[level] > 0] ** 2) / 30
            shown[level] += here.size / 30
    rmse, expected = predict_levels(partition_parameters(4, Fraction(1), Fraction(1e-6)), leaves, sizes)
    assert np.sqrt(squares[3]) == pytest.approx(rmse[3], rel=0.03)
    assert shown[3] == pytest.approx(expected[3], rel=0.03)
    assert np.sqrt(squares[2]) == pytest.approx(rmse[2], rel=0.12)
    assert np.sqrt(squares[1]) == pytest.approx(rmse[1], rel=0.3)
    assert shown[1:3] == pytest.approx(expected[1:3], rel=0.03)
