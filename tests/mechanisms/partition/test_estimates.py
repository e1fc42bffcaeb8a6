import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from opendp_tree import OpenTree, noise
from opendp_tree.mechanisms.partition import estimates, release
from opendp_tree.mechanisms.partition.estimates import (
    FLOW_DEVIATION,
    FLOW_MEAN,
    SURPRISE,
    estimate_nodes,
    gap_variance,
)
from opendp_tree.mechanisms.partition.layers import CellNoise, Layer, Measured, ShownTree, choose_layers
from opendp_tree.mechanisms.partition.parameters import choose_parameters
from opendp_tree.mechanisms.partition.release import FindThenMeasure
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.trees.sparse_counts import SparseCounts
from tests.mechanisms.partition.shown_trees import shown_tree

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
    monkeypatch.setattr(estimates, "SURPRISE", math.inf)
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


@pytest.mark.parametrize("seed", range(20))
def test_the_root_stays_within_four_deviations_of_its_own_count_whatever_the_cells_say(seed, monkeypatch):
    monkeypatch.setattr(estimates, "CROWD", 0)
    rng = np.random.default_rng(seed)
    shown = shown_tree(rng, int(rng.integers(2, 6)), 3)
    root, scale = np.zeros(1, dtype=np.int64), float(rng.choice([0.5, 5.0, 200.0]))
    count = np.array([int(rng.choice([0, 100, 10**6]))])
    total = Measured(Layer(root, root[:0], scale), count, root[:0])
    found = estimate_nodes(shown, (total,), np.full(shown.levels.size, True), shown.child_counts == 0, MODEL)
    q = np.exp(-1 / scale)
    assert abs(found[0] - count[0]) <= SURPRISE * np.sqrt(2 * q) / (1 - q) + 1e-6


def test_a_count_as_expected_is_taken_in_as_least_squares_would(monkeypatch):
    rng = np.random.default_rng(3)
    shown = shown_tree(rng, 3, 3)
    root, is_leaf, everywhere = np.zeros(1, dtype=np.int64), shown.child_counts == 0, np.full(shown.levels.size, True)
    expected = estimate_nodes(shown, (), everywhere, is_leaf, MODEL)[0]
    total = Measured(Layer(root, root[:0], 30.0), np.array([round(expected) + 20]), root[:0])
    found = estimate_nodes(shown, (total,), everywhere, is_leaf, MODEL)
    monkeypatch.setattr(estimates, "SURPRISE", math.inf)
    assert (found == estimate_nodes(shown, (total,), everywhere, is_leaf, MODEL)).all()


def near_threshold(widths, people):
    """Alike leaves, all near the threshold."""
    tree, size = OpenTree.columns(len(widths)), math.prod(widths)
    columns = [pl.Series(np.char.zfill(code.astype(str), 5)) for code in np.unravel_index(np.arange(size), widths)]
    return SparseCounts.of_labels(tree, columns, np.full(size, len(widths)), people=np.full(size, people))


@pytest.mark.parametrize(("widths", "people"), [((10_000, 1), 22), ((10_000, 1), 26), ((5_000, 1, 1), 24)])
def test_many_siblings_near_the_threshold_do_not_add_up_their_errors(widths, people, monkeypatch):
    """Each that is shown is taken for larger by what it lacked. Layers have no noise here: the bound is sure."""
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))
    counts = near_threshold(widths, people)
    mechanism = FindThenMeasure(choose_parameters(counts.tree.depth, 0.6, 1e-6), Fraction(2, 5), None, 0.95)
    layers = []

    def choose(*args, **options):
        layers.append(choose_layers(*args, **options))
        return layers[-1]

    monkeypatch.setattr(release, "choose_layers", choose)

    def error():
        found = mechanism.open_release(counts, PrivacyStatement("", "", 1, {}, {}))
        return abs(found.estimates[0] - people * math.prod(widths)), math.sqrt(2) * layers[-1].layers[0].scale

    off, deviation = error()
    assert off <= SURPRISE * deviation
    monkeypatch.setattr(estimates, "SURPRISE", math.inf)
    off, deviation = error()
    assert off > 2 * SURPRISE * deviation
