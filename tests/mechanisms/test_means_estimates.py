from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.mechanisms.layers import ShownTree, cut_by_level, make_layers
from opendp_tree.mechanisms.means import Centred, NodeSums, SumScales, estimate_centred, measure_centred, measure_pairs
from opendp_tree.theorems.tree_means import STEPS
from tests.mechanisms.test_means_layers import LEVELS, PARENTS, SHOWN

LAYERS = make_layers(SHOWN, *cut_by_level(SHOWN, [0, 1]), np.array([1.0, 2.0]), Fraction(1, 2), Fraction(1, 2))
SCALES = SumScales.of(LAYERS, (Fraction(1),), Fraction(1, 3))
RNG = np.random.default_rng(8)


def under(node):
    """Which rests lie at or below a node."""
    found = np.zeros(LEVELS.size)
    for place in range(LEVELS.size):
        at = place
        while at >= 0 and at != node:
            at = PARENTS[at]
        found[place] = at == node
    return found


def test_two_passes_are_the_least_squares_of_all_that_was_measured():
    rows = np.array([100, 60, 40, 30, 20, 25])
    sums = NodeSums(rows, RNG.integers(0, STEPS, 6) * 5)
    pairs, centred = measure_pairs(LAYERS, SCALES, (sums,))[0], measure_centred(SHOWN, SCALES, (sums,))[0]
    design, told, weight = [], [], []
    for part in pairs:
        numbers = (part.high - part.low) / STEPS
        trust = 1 / (2 * part.scale / STEPS)
        for node, number in zip(part.nodes, numbers[: part.nodes.size], strict=True):
            design.append(under(node)), told.append(number), weight.append(trust)
        for node, number in zip(part.rests, numbers[part.nodes.size :], strict=True):
            design.append(np.eye(6)[node]), told.append(number), weight.append(trust)
    for node, number in enumerate(centred.sums / STEPS):
        design.append(np.eye(6)[node]), told.append(number), weight.append(1 / (np.sqrt(2) * centred.scale / STEPS))
    weights = np.array(weight)
    rests = np.linalg.lstsq(np.array(design) * weights[:, None], np.array(told) * weights, rcond=None)[0]
    expected = [under(node) @ rests for node in range(6)]
    assert estimate_centred(SHOWN, pairs, centred) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_estimates_add_up_with_what_each_node_holds_alone_and_are_unbiased():
    rows = np.array([100, 60, 40, 30, 20, 25])
    sums = NodeSums(rows, rows * STEPS // 3)
    truth = (2 * sums.steps - STEPS * rows) / STEPS
    found = []
    for _ in range(3000):
        pairs, centred = measure_pairs(LAYERS, SCALES, (sums,))[0], measure_centred(SHOWN, SCALES, (sums,))[0]
        found.append(estimate_centred(SHOWN, pairs, centred) - truth)
    off = np.array(found)
    # 6 nodes within 6 standard errors: a chance below 1e-7 to fail by accident.
    assert (np.abs(off.mean(axis=0)) < 6 * off.std(axis=0) / np.sqrt(3000)).all()
    # Least squares is better than a node's own pair, and than the sum of all that lies below it.
    own = 2 * SCALES.pairs[1][0] / STEPS
    assert (off.std(axis=0)[1:3] < own).all()
    assert (off.std(axis=0)[3:] < np.sqrt(2) * SCALES.centred[0] / STEPS).all()


def test_a_tree_of_one_node_is_its_own_estimate():
    none = np.zeros(1, dtype=np.int64)
    one = ShownTree(none, np.array([-1]), 1, none == 0, none > 0, none)
    centred = Centred(1.0 * STEPS, np.array([5 * STEPS]))
    assert estimate_centred(one, [], centred).tolist() == [5.0]
