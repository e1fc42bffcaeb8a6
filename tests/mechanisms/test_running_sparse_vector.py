from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.mechanisms.running_sparse_vector import BELOW, Calibration, SparseVector


def calibration(**options):
    given = {"threshold": 100, "scale": 1.0, "query_scale": 1.0, "cutoff": 2, "monotonic": False}
    return Calibration.of(**{**given, "threshold_noise": "once", **options})


def test_after_the_cutoff_everything_is_below():
    """Noise of a thousandth: an answer other than this has a chance below e**-900."""
    running = SparseVector(calibration(scale=1e-3, query_scale=1e-3))
    answers = running.answer(np.array([0, 1000, 0, 1000, 1000]))
    assert (answers >= 0).tolist() == [False, True, False, True, False]
    assert running.left == 0
    assert running.answer(np.array([1000])).tolist() == [BELOW]


def test_epsilon_grows_with_what_is_paid_for():
    once, more = calibration(), calibration(cutoff=3)
    assert once.epsilon(Fraction(0)) == 0.0
    assert once.epsilon(Fraction(1)) == 5.0
    assert once.epsilon(Fraction(1)) < more.epsilon(Fraction(1))
    assert calibration(monotonic=True).epsilon(Fraction(1)) == 3.0


def test_wrong_choices_are_named():
    with pytest.raises(ValueError, match="threshold_noise"):
        calibration(threshold_noise="never")
