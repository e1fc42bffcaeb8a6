import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opendp_tree.error_measures import (
    accuracy,
    is_accurate,
    l2_error,
    linf_error,
    mrmse_alpha,
    rmse_alpha,
    smoothed_relative_error,
)
from opendp_tree.theorems.interval import sqrt_up

ALPHAS = st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.99])
NEARLY = 1 + 1e-9


@st.composite
def results(draw):
    """Estimates of any size and sign, also far beyond all counts, and the truth."""
    runs, nodes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    top = draw(st.sampled_from([1.0, 100.0, 1e18, 1e100]))
    truth = draw(hnp.arrays(np.float64, nodes, elements=st.floats(0, top)))
    errors = draw(hnp.arrays(np.float64, (runs, nodes), elements=st.floats(-10 * top, 10 * top)))
    return truth + errors, truth


@given(results(), ALPHAS, st.sampled_from([0.0, 3.0, 1e19]), st.sampled_from([0.5, 20.0]))
def test_measures_are_their_definitions(data, alpha, tau, smoothing):
    estimates, truth = data
    for node, count in enumerate(truth.tolist()):
        errors = [abs(x - count) for x in estimates[:, node].tolist()]
        over = [Fraction(max(e - alpha * count, 0.0)) for e in errors]
        square = sum(x * x for x in over) / len(over)
        assert Fraction(rmse_alpha(estimates, truth, alpha=alpha)[node]) ** 2 == pytest.approx(square, rel=1e-12)
        right = sum(e <= alpha * max(count, tau) for e in errors)
        assert accuracy(estimates, truth, alpha=alpha, tau=tau)[node] == right / len(errors)
        relative = math.fsum(e / max(count, smoothing) for e in errors) / len(errors)
        found = smoothed_relative_error(estimates, truth, smoothing=smoothing)[node]
        assert found == pytest.approx(relative, rel=1e-12)
        alone = rmse_alpha(estimates[:, node], count, alpha=alpha)
        assert alone == rmse_alpha(estimates, truth, alpha=alpha)[node]
    assert mrmse_alpha(estimates, truth, alpha=alpha) == rmse_alpha(estimates, truth, alpha=alpha).max()


@given(results(), ALPHAS, st.sampled_from([0.5, 5.0, 1e3]), st.integers(1, 50))
def test_accurate_and_clipped_means_few_rmse(data, alpha, tau, radius):
    """Lemma: accuracy to alpha-mRMSE, on data: estimates moved into the ball of twice the radius around the truth."""
    estimates, truth = data
    eta = float(1 - accuracy(estimates, truth, alpha=alpha, tau=tau).min())
    clipped = np.clip(estimates, truth - 2 * radius, truth + 2 * radius)
    bound = sqrt_up((Fraction(alpha) * Fraction(tau)) ** 2 + Fraction(eta) * 4 * radius**2)
    # Adding to and taking from the truth loses digits where counts are huge.
    assert mrmse_alpha(clipped, truth, alpha=alpha) <= bound * NEARLY + 4 * np.spacing(truth.max() + 2 * radius)


def test_integers_are_compared_exactly():
    """Beyond 2**53 floats would not see an error of one."""
    truth = np.array([2**62 - 1])
    assert rmse_alpha(truth[None, :] - 1, truth).tolist() == [1.0]
    assert rmse_alpha(np.array([[2**63 - 1]]), np.array([0])).tolist() == [2.0**63]
    assert rmse_alpha(np.array([[2**63]], dtype=np.uint64), np.array([0])).tolist() == [2.0**63]
    assert rmse_alpha(np.array([-(2**63)]), 0) == 2.0**63


def test_extreme_sizes_neither_overflow_nor_vanish():
    for size in (1e-200, 1e200, 2.0**999):
        assert rmse_alpha([size, -size], 0) == size
    assert mrmse_alpha(np.array([1.5], dtype=np.float32), 1.0, alpha=np.float32(0.25)) == 0.25
    assert smoothed_relative_error([1e300], 0, smoothing=1e-300) == math.inf
    assert rmse_alpha([1e300], 1e300, alpha=1e300) == 0


def test_a_fraction_of_failures_is_compared_as_written():
    """Seven of ten right: 1 - 0.7 is more than 0.3 in floats."""
    estimates = np.array([0] * 7 + [5] * 3)
    assert is_accurate(estimates, 0, alpha=0.5, tau=2, eta=0.3)
    assert not is_accurate(estimates, 0, alpha=0.5, tau=2, eta=0.29)


def test_thresholds_may_differ_by_node():
    estimates, truth = [[4, 4]], [0, 0]
    assert accuracy(estimates, truth, alpha=0.5, tau=[8, 7]).tolist() == [1.0, 0.0]
    assert not is_accurate(estimates, truth, alpha=0.5, tau=[8, 7], eta=0.5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rmse_alpha([1, 2], [1, 2]), ValueError, r"estimates \(of shape \(2,\)\) must have shape"),
        (lambda: rmse_alpha([[1, 2]], [1, 2, 3]), ValueError, r"truth has shape \(3,\)"),
        (lambda: rmse_alpha(np.zeros((0, 2)), [1, 2]), ValueError, "at least one run"),
        (lambda: rmse_alpha([[1]], [-1]), ValueError, "truth must not be negative"),
        (lambda: rmse_alpha([[math.nan]], [1]), ValueError, "estimates must be finite"),
        (lambda: rmse_alpha([["a"]], [1]), TypeError, "estimates must be numbers, not"),
        (lambda: rmse_alpha([[1], [1, 2]], [1]), TypeError, "estimates must be numbers, not"),
        (lambda: rmse_alpha([[1]], [1], alpha=-0.1), ValueError, r"alpha \(-0.1\) must be finite and non-negative"),
        (lambda: accuracy([[1]], [1], alpha=0.1, tau=[1, 2]), ValueError, r"tau \(of shape \(2,\)\)"),
        (lambda: accuracy([[1]], [1], alpha=0.1, tau=-1), ValueError, "tau must not be negative"),
        (lambda: smoothed_relative_error([[1]], [1], smoothing=0), ValueError, r"smoothing \(0\) must be positive"),
        (lambda: is_accurate([[1]], [1], alpha=0.1, eta=-1), ValueError, r"eta \(-1\) must be finite and non-negative"),
    ],
)
def test_arguments_are_checked(call, error, message):
    with pytest.raises(error, match=message):
        call()


@given(results())
def test_errors_over_all_nodes_are_their_definitions(data):
    estimates, truth = data
    errors = np.abs(estimates - truth)
    square = sum(Fraction(e) ** 2 for e in errors.ravel().tolist()) / errors.size
    assert Fraction(l2_error(estimates, truth)) ** 2 == pytest.approx(square, rel=1e-12)
    largest = math.fsum(max(row) for row in errors.tolist()) / len(errors)
    assert linf_error(estimates, truth) == pytest.approx(largest, rel=1e-12)
    assert l2_error(estimates, truth) <= mrmse_alpha(estimates, truth) * NEARLY
