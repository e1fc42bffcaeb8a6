import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, leaf_domain
from opendp_tree.measurements.partition.estimator import make_partition_estimator
from opendp_tree.measurements.partition.layers import CellNoise
from opendp_tree.measurements.partition.parameters import choose_parameters
from opendp_tree.measurements.partition.prediction import one_test, predict_levels, worst_alpha_rmse, worst_caterpillar
from opendp_tree.measurements.partition.walk import find_cells
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


@pytest.mark.parametrize("depth", [33, 60])
def test_caterpillars_stay_hidden_as_often_as_predicted(depth):
    """Of 4,000 the mean square of the worst node within a tenth, which is above 6 standard errors."""
    parameters = choose_parameters(depth, 0.8, 1e-6)
    start = max(range(1, parameters.shape.thresholds[0]), key=lambda n: worst_caterpillar(parameters, n, 0.1))
    expected, people = worst_caterpillar(parameters, start, 0.1)
    copies, length = 4000, depth - 1
    counts = np.tile(np.append(start, np.ones(length - 1, dtype=np.int64)), copies)
    meets = np.tile(np.arange(depth - 2, -1, -1), copies)[:-1]
    cells = find_cells(Occupied(np.full(counts.size, depth - 1), meets, counts, np.arange(counts.size)), parameters)
    level = depth - 1 - (people - start)
    assert level >= 1  # not the root, which all share
    deepest = np.full(copies, -1)
    inside = cells.levels > 0
    np.maximum.at(deepest, cells.places[inside] // length, cells.levels[inside])
    assert np.mean(deepest < level) * (0.9 * people) ** 2 == pytest.approx(expected, rel=0.1)


def test_worst_errors_are_those_of_the_design():
    predicted = [worst_alpha_rmse(choose_parameters(depth, 0.8, 1e-6), 0.1) for depth in (3, 6)]
    assert predicted == pytest.approx([14.2, 15.1], abs=0.1)


def test_predicted_levels_are_measured():
    """Leaves within 5 %; states and counties, whose variance is that of a mean level, within a quarter."""
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
    release = make_partition_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    truth = [leaves.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(4)]
    squares, shown = np.zeros(4), np.zeros(4)
    for _ in range(12):
        found = release(counts)
        codes = np.zeros(found.levels.size, dtype=np.int64)
        for level in range(1, 4):
            here = np.flatnonzero(found.levels == level)
            own = np.array([int(label) for label in found.nodes.labels[level - 1]])
            codes[here] = codes[found.parents[here]] * sizes[level - 1] + own
            values = np.zeros(truth[level].size)
            values[codes[here]] = found.estimates[here]
            squares[level] += np.mean((values - truth[level])[truth[level] > 0] ** 2) / 12
            shown[level] += here.size / 12
    measuring = float(found.statement.parameters["measuring_epsilon"])
    expected = predict_levels(choose_parameters(4, 1 - measuring, 1e-6), measuring, leaves, sizes)
    assert np.sqrt(squares[3]) == pytest.approx(expected.rmse[3], rel=0.05)
    assert shown[3] == pytest.approx(expected.shown[3], rel=0.03)
    assert np.sqrt(squares[1:3]) == pytest.approx(expected.rmse[1:3], rel=0.25)
