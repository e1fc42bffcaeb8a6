from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.measurements.partition.parameters import choose_parameters
from opendp_tree.measurements.partition.shares import CellNoise, choose_layers, default_measuring
from tests.measurements.partition.shown_trees import shown_tree


@pytest.mark.parametrize("depth", [2, 3, 6, 12, 33])
def test_the_dial_leaves_most_to_neither_side(depth):
    assert 0.2 < default_measuring(depth) < 0.7


def test_noise_of_inner_cells_is_no_less_than_that_of_leaves():
    model = CellNoise.of(choose_parameters(3, 1.0, 1e-6))
    leaf, inner = model.variance(np.array([True, False])).tolist()
    assert 0 < leaf < inner


@pytest.mark.parametrize("seed", range(5))
def test_layers_never_cost_more_than_was_set_aside(seed):
    shown = shown_tree(np.random.default_rng(seed), 4, 3)
    epsilon = Fraction(3, 10)
    layers = choose_layers(shown, CellNoise.of(choose_parameters(4, 1.0, 1e-6)), epsilon)
    assert 0 < layers.spent() <= epsilon
