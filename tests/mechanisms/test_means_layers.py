from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import noise
from opendp_tree.mechanisms.layers import ShownTree, cut_by_level, make_layers
from opendp_tree.mechanisms.means import (
    NodeSums,
    SumScales,
    counts_of_pairs,
    measure_centred,
    measure_pairs,
)
from opendp_tree.theorems.tree_means import STEPS
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

LEVELS = np.array([0, 1, 1, 2, 2, 2])
PARENTS = np.array([-1, 0, 0, 1, 1, 2])
NOBODY = np.zeros(6, dtype=np.int64)
SHOWN = ShownTree(LEVELS, PARENTS, 3, np.array([0, 0, 1, 1, 1, 1], dtype=bool), NOBODY > 0, NOBODY)
ROWS = np.array([100, 60, 40, 30, 20, 25])
SUMS = NodeSums(ROWS, ROWS * STEPS // 4)
MARKED, CUTS = cut_by_level(SHOWN, [0, 1])
LAYERS = make_layers(SHOWN, MARKED, CUTS, np.array([1.0, 2.0]), Fraction(1, 2), Fraction(1, 2))
SHARES = (Fraction(1, 4), Fraction(3, 4))


def test_what_is_spent_is_within_what_was_set_aside_and_close():
    for cells in (Fraction(1, 3), Fraction(1, 7)):
        spent = SumScales.of(LAYERS, SHARES, cells).spent()
        assert spent <= Fraction(1, 2) + cells
        assert spent > (Fraction(1, 2) + cells) * (1 - Fraction(1, 100))


def test_without_noise_pairs_tell_counts_and_sums(monkeypatch):
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))
    scales = SumScales.of(LAYERS, SHARES, Fraction(1, 3))
    pairs = measure_pairs(LAYERS, scales, (SUMS, SUMS))
    for measured, part in zip(counts_of_pairs(pairs), pairs[0], strict=True):
        assert measured.sums[: measured.nodes.size] == pytest.approx(ROWS[measured.nodes])
        assert part.high[: part.nodes.size].tolist() == SUMS.steps[part.nodes].tolist()
        total = (part.high + part.low).sum()
        assert total == STEPS * ROWS[0]  # the sets of a layer are all rows
    centred = measure_centred(SHOWN, scales, (SUMS, SUMS))[0]
    assert SHOWN.totals(centred.sums.astype(float)).tolist() == (2 * SUMS.steps - STEPS * ROWS).tolist()


def test_counts_of_several_values_are_weighted_by_what_was_spent():
    """The variance that is told is that of even shares, and for others no less than the true one."""
    for shares in (SHARES, (Fraction(1, 2),) * 2):
        scales = SumScales.of(LAYERS, shares, Fraction(1, 3))
        told = counts_of_pairs(measure_pairs(LAYERS, scales, (SUMS, SUMS)))
        for both, layer in zip(told, scales.pairs, strict=True):
            variances = [4 * (scale / STEPS) ** 2 for scale in layer]  # of P + Q
            true = 1 / sum(1 / each for each in variances)  # precisions add
            assert both.variance >= true * (1 - 1e-5)
            assert shares == SHARES or both.variance == pytest.approx(true, rel=1e-5)


def test_noise_has_the_scale_that_is_paid_for_and_another_would_be_noticed():
    scale = 1.7
    layers = make_layers(SHOWN, MARKED, CUTS[:1], np.array([1.0]), Fraction(1, 2), Fraction(1, 2))
    scales = SumScales(((scale,),), (scale,))
    drawn = [measure_pairs(layers, scales, (SUMS,))[0][0] for _ in range(2000)]
    high = np.array([part.high[0] - SUMS.steps[0] for part in drawn])
    low = np.array([part.low[0] - (STEPS * ROWS[0] - SUMS.steps[0]) for part in drawn])
    assert np.array_equal(high, low) is False
    support = np.arange(-80, 81)
    for found in (high, low):
        assert p_value(found, support, laplace_masses(scale, support)) > FALSE_ALARM
        assert p_value(found, support, laplace_masses(1.3 * scale, support)) < FALSE_ALARM


def test_sums_near_the_end_of_int64_do_not_wrap():
    rows = np.full(6, 2**42 - 1)
    rows[1:] = [2**41, 2**41 - 1, 2**40, 2**40, 2**41 - 1]
    sums = NodeSums(rows, rows * STEPS)
    scales = SumScales.of(LAYERS, (Fraction(1),), Fraction(1, 3))
    for part in measure_pairs(LAYERS, scales, (sums,))[0]:
        assert (np.abs(part.high[: part.nodes.size] - sums.steps[part.nodes]) < 2**40).all()
        assert (np.abs(part.low) < 2**40).all()
