from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import noise, saturate
from opendp_tree.mechanisms.partition.layers import CellNoise, choose_layers, default_measuring, level_shares, measure
from opendp_tree.mechanisms.partition.parameters import choose_parameters
from tests.mechanisms.partition.shown_trees import shown_tree

SHAPES = [(1, 3), (2, 4), (3, 5), (4, 4), (9, 2), (10, 2), (14, 2), (40, 1)]


def layers_of(shown, epsilon=Fraction(1, 3), **options):
    model = CellNoise.of(choose_parameters(shown.depth, 0.6, 1e-6))
    return choose_layers(shown, model, epsilon, **options)


def no_noise(monkeypatch):
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))


@pytest.mark.parametrize(("depth", "width"), SHAPES)
def test_every_person_is_in_exactly_one_set_of_each_layer(depth, width, monkeypatch):
    """One person at each shown node in turn: at that very node, or below it where nothing is shown."""
    no_noise(monkeypatch)
    for seed in range(8):
        shown = shown_tree(np.random.default_rng(seed), depth, width)
        layers = layers_of(shown)
        assert layers.layers[0].nodes.tolist() == [0]  # the root is always measured
        for place in range(min(shown.levels.size, 60)):
            alone = np.zeros(shown.levels.size)
            alone[place] = 1
            people = shown.totals(alone).astype(np.int64)
            for part in measure(layers, *saturate.split(people)):
                sets = np.concatenate((part.whole, part.rest))
                assert sets.sum() == 1
                assert np.count_nonzero(sets) == 1


@pytest.mark.parametrize(("depth", "width"), SHAPES)
def test_layers_are_antichains_and_every_marked_node_above_one_is_a_union_of_its_sets(depth, width, monkeypatch):
    no_noise(monkeypatch)
    rng = np.random.default_rng(7)
    shown = shown_tree(rng, depth, width)
    layers = layers_of(shown)
    people = shown.totals(rng.integers(0, 1000, shown.levels.size).astype(float)).astype(np.int64)
    for part in measure(layers, *saturate.split(people)):
        in_layer = np.zeros(shown.levels.size)
        in_layer[part.layer.nodes] = 1
        assert (shown.totals(in_layer)[part.layer.nodes] == 1).all()  # no node of a layer lies above another
        values = np.zeros(shown.levels.size)
        values[part.layer.nodes], values[part.layer.rests] = part.whole, part.rest
        covered = np.concatenate((part.layer.nodes, part.layer.rests))
        assert (shown.totals(values)[covered] == people[covered]).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1, 10**9), Fraction(50), Fraction(0.1)])
@pytest.mark.parametrize(("depth", "width"), SHAPES)
def test_layers_never_cost_more_than_was_set_aside(depth, width, epsilon):
    for seed in range(5):
        spent = layers_of(shown_tree(np.random.default_rng(seed), depth, width), epsilon).spent()
        assert 0.98 * epsilon < spent <= epsilon


def test_sets_of_huge_counts_are_clamped_one_by_one(monkeypatch):
    """A parent's sum beyond int64 must not take its rest along: neighbours would differ in two sets."""
    no_noise(monkeypatch)
    shown = shown_tree(np.random.default_rng(1), 3, 5)
    layers = layers_of(shown)
    own = np.full(shown.levels.size, saturate.LIMIT // 3)
    own[0] = 7
    halves = [shown.totals(half.astype(float)).astype(np.int64) for half in saturate.split(own)]
    for part in measure(layers, *halves):
        if part.layer.rests.size:
            assert part.rest[0] == 7


def test_a_level_of_more_weight_gets_a_larger_share():
    shown = shown_tree(np.random.default_rng(3), 4, 12)
    model = CellNoise.of(choose_parameters(4, 0.6, 1e-6))
    parts = [level_shares(shown, model, 0.4, weights) for weights in (None, (None, 3.0, None), (0.01, 0.1, 1.0))]
    even, first, second = (part / part.sum() for part in parts)
    assert first[1] > 1.1 * even[1]
    assert second[2] > 1.1 * even[2]


def test_default_shares_of_epsilon_leave_most_to_finding_on_deep_trees():
    assert all(0.3 < default_measuring(depth) < 0.6 for depth in range(1, 200))


@pytest.mark.parametrize("depth", [2, 3, 6, 12, 33])
def test_the_dial_leaves_most_to_neither_side(depth):
    assert 0.2 < default_measuring(depth) < 0.7


def test_noise_of_inner_cells_is_no_less_than_that_of_leaves():
    model = CellNoise.of(choose_parameters(3, 1.0, 1e-6))
    leaf, inner = model.variance(np.array([True, False])).tolist()
    assert 0 < leaf < inner
