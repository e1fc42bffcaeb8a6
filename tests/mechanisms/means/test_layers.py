from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import noise
from opendp_tree.mechanisms.means.layers import (
    NodeSums,
    SumScales,
    counts_of_pairs,
    measure_centred,
    measure_pairs,
)
from opendp_tree.mechanisms.partition.layers import ShownTree, cut_by_level, make_layers
from opendp_tree.theorems.tree_means import STEPS
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

LEVELS = np.array([0, 1, 1, 2, 2, 2])
PARENTS = np.array([-1, 0, 0, 1, 1, 2])
SHOWN = ShownTree(LEVELS, PARENTS, np.zeros(6, dtype=np.int64), np.array([0, 0, 1, 1, 1, 1], dtype=bool), 3)
ROWS = np.array([100, 60, 40, 30, 20, 25])
SUMS = NodeSums(ROWS, ROWS * STEPS // 4)
MARKED, CUTS = cut_by_level(SHOWN)
LAYERS = make_layers(SHOWN, MARKED, CUTS, np.array([1.0, 2.0]), Fraction(1, 2))
SHARES = (Fraction(1, 4), Fraction(3, 4))


def test_what_is_spent_is_within_what_was_set_aside_and_close():
    for cells in (Fraction(1, 3), Fraction(1, 7)):
        spent = SumScales.of(LAYERS, SHARES, cells).spent()
        assert spent <= Fraction(1, 2) + cells
        assert spent > (Fraction(1, 2) + cells) * (1 - Fraction(1, 10**4))


def test_without_noise_pairs_tell_counts_and_sums(monkeypatch):
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))
    scales = SumScales.of(LAYERS, SHARES, Fraction(1, 3))
    pairs = measure_pairs(LAYERS, scales, (SUMS, SUMS))
    for measured, part in zip(counts_of_pairs(pairs), pairs[0], strict=True):
        assert measured.whole == pytest.approx(ROWS[measured.layer.nodes])
        whole = part.measured(part.high).whole
        assert whole.tolist() == SUMS.steps[measured.layer.nodes].tolist()
        total = (part.high + part.low).sum()
        assert total == STEPS * ROWS[0]  # the sets of a layer are all rows
    centred = measure_centred(SHOWN, scales, (SUMS, SUMS))[0]
    assert SHOWN.totals(centred.sums.astype(float)).tolist() == (2 * SUMS.steps - STEPS * ROWS).tolist()


def test_counts_of_several_values_are_weighted_by_what_was_spent():
    scales = SumScales.of(LAYERS, SHARES, Fraction(1, 3))
    told = counts_of_pairs(measure_pairs(LAYERS, scales, (SUMS, SUMS)))
    alone = counts_of_pairs(measure_pairs(LAYERS, scales, (SUMS, SUMS))[1:])
    for both, one in zip(told, alone, strict=True):
        # Precisions add: 1/16 + 9/16 of a pair with everything, against 9/16.
        assert both.layer.scale**2 / one.layer.scale**2 == pytest.approx(9 / 10, rel=1e-5)


def test_noise_has_the_scale_that_is_paid_for_and_another_would_be_noticed():
    scale = 1.7
    layers = make_layers(SHOWN, MARKED, CUTS[:1], np.array([1.0]), Fraction(1, 2))
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
        exact = sums.steps[part.layer.nodes]
        assert (np.abs(part.measured(part.high).whole - exact) < 2**40).all()
        assert (np.abs(part.low) < 2**40).all()
