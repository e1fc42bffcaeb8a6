import numpy as np
import pytest

from opendp_tree.measurements.partition import estimates
from opendp_tree.measurements.partition.estimates import FLOW_DEVIATION, FLOW_MEAN, estimate_nodes, gap_variance
from opendp_tree.measurements.partition.layers import CellNoise, Layer, Measured, ShownTree
from tests.measurements.partition.shown_trees import shown_tree

MODEL = CellNoise(1.2, 3.0, 1.4, 3.5, 20.0)
SPREAD = 300.0


def measurements(rng, shown):
    """Counts of random nodes and rests, whether or not they could be a layer's."""
    found = []
    for scale in (2.0, 5.0):
        nodes, rests = (np.flatnonzero(rng.random(shown.levels.size) < 0.4) for _ in range(2))
        rests = rests[shown.child_counts[rests] > 0]
        values = (rng.integers(0, 300, places.size) for places in (nodes, rests))
        found.append(Measured(Layer(nodes, rests, scale), *values))
    return tuple(found)


def dense(shown, measured, is_leaf):
    """The same by solving for all rests at once: each a number with a prior, gaps and counts linear in them."""
    size = shown.levels.size
    people, flow = np.eye(size), np.eye(size)
    for level in reversed(range(shown.depth - 1)):
        for place in range(shown.at(level + 1).start, shown.at(level + 1).stop):
            people[shown.parents[place]] += people[place]
            if not shown.is_cell[place]:
                flow[shown.parents[place]] += flow[place]
    rows, values, weights = [], [], []

    def see(row, value, variance):
        rows.append(row)
        values.append(value)
        weights.append(1 / np.sqrt(variance))

    for place in range(size):
        see(np.eye(size)[place], 0.0, 1e12 if shown.child_counts[place] == 0 else SPREAD)
        if shown.is_cell[place]:
            leaf = is_leaf[place : place + 1]
            see(flow[place], shown.gaps[place] + MODEL.shift(leaf)[0], gap_variance(shown, is_leaf, MODEL)[place])
        else:
            see(flow[place], FLOW_MEAN * MODEL.threshold, (FLOW_DEVIATION * MODEL.threshold) ** 2)
    for part in measured:
        q = np.exp(-1 / part.layer.scale)
        for place, value in zip(part.layer.nodes, part.whole, strict=True):
            see(people[place], value, 2 * q / (1 - q) ** 2)
        for place, value in zip(part.layer.rests, part.rest, strict=True):
            see(np.eye(size)[place], value, 2 * q / (1 - q) ** 2)
    weights = np.array(weights)
    rests = np.linalg.lstsq(np.array(rows) * weights[:, None], np.array(values) * weights, rcond=None)[0]
    return people @ rests


@pytest.mark.parametrize("seed", range(12))
def test_two_passes_are_the_least_squares_of_the_whole_model(seed, monkeypatch):
    monkeypatch.setattr(estimates, "_rest_spread", lambda cell, lacking, threshold: np.full(cell.size, SPREAD))
    monkeypatch.setattr(estimates, "_shift", lambda shown, measured, is_leaf, model: model.shift(is_leaf))
    rng = np.random.default_rng(seed)
    shown = shown_tree(rng, int(rng.integers(1, 6)), 3)
    measured, is_leaf = measurements(rng, shown), shown.child_counts == 0
    everywhere = np.ones(shown.levels.size, dtype=bool)
    found = estimate_nodes(shown, measured, everywhere, is_leaf, MODEL)
    np.testing.assert_allclose(found, dense(shown, measured, is_leaf), rtol=1e-4, atol=1e-3)


def test_one_correction_makes_all_cells_hold_what_the_layers_count():
    rng = np.random.default_rng(5)
    shown = shown_tree(rng, 4, 20, chance=1.0)
    is_leaf = shown.levels == 3
    truth = float((shown.gaps + MODEL.shift(is_leaf)).sum() + 5 * (~is_leaf).sum())
    exact = Measured(Layer(np.zeros(1, dtype=int), np.zeros(0, dtype=int), 0.5), np.array([round(truth)]), np.zeros(0))
    shift = estimates._shift(shown, (exact,), is_leaf, MODEL)
    assert 4 < (shift - MODEL.shift(is_leaf))[~is_leaf].mean() < 5
    assert (shift == MODEL.shift(is_leaf))[is_leaf].all()


def test_no_nodes_have_no_estimates():
    shown = shown_tree(np.random.default_rng(0), 3, 3)
    none = type(shown)(*(part[:0] for part in (shown.levels, shown.parents, shown.gaps, shown.is_cell)), 3)
    assert estimate_nodes(none, (), none.is_cell, none.is_cell, MODEL).size == 0


def test_tokens_lost_by_many_hidden_nodes_do_not_pull_at_shown_ones():
    """Hidden siblings near the threshold lost 1,000 of 16,000 on the way to the root: one shown leaf stays what it is.

    Taken for noise of the root's gap, that would move the leaf by about 80.
    """
    nothing, root = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    shown = ShownTree(np.arange(3), np.arange(3) - 1, np.array([15_000, 0, 25]), np.array([True, False, True]), 3)
    total = Measured(Layer(root, nothing, 100.0), np.array([16_022]), nothing)
    parts = Measured(Layer(root + 1, root, 2.5), np.array([22]), np.array([16_000]))
    found = estimate_nodes(shown, (total, parts), np.full(3, True), np.arange(3) == 2, MODEL)
    assert abs(found[2] - 25) < 10
    assert abs(found[1] - 22) < 15
