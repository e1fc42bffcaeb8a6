"""The paper's error measures, over repeated estimates and the truth.

Each takes estimates of shape (runs, nodes) with the truth of shape (nodes,), or of shape (runs,) with one true count,
and takes the mean over the runs. How the measures are related: docs/proofs/bounds.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_numbers, check_positive, check_scale
from opendp_tree._types import Array, Bools, Floats
from opendp_tree.saturate import LIMIT

__all__ = ["accuracy", "is_accurate", "l2_error", "linf_error", "mrmse_alpha", "rmse_alpha", "smoothed_relative_error"]

_LARGEST = 2.0**1000
"""The limit for inputs, so that no sum over runs overflows."""


def rmse_alpha(estimates: npt.ArrayLike, truth: npt.ArrayLike, *, alpha: float = 0.0) -> Floats:
    """The alpha-RMSE of each node: the root mean square of the excess of its error over alpha times its count.

    :param estimates: An array of shape (runs, nodes), or of shape (runs,) for one count.
    :param truth: The true counts: of shape (nodes,), or one number.
    :param alpha: Errors up to this share of the count are forgiven. By default 0: the plain RMSE.

    >>> rmse_alpha([[103, 7], [88, 7]], [100, 7], alpha=0.1).round(3)
    array([1.414, 0.   ])
    """
    forgiven = float(check_scale(alpha, name="alpha"))
    errors, counts = _errors(estimates, truth)
    return _root_mean_square(np.maximum(errors - _times(forgiven, counts), 0))


def mrmse_alpha(estimates: npt.ArrayLike, truth: npt.ArrayLike, *, alpha: float = 0.0) -> float:
    """The largest alpha-RMSE of any node, on this input; the paper's alpha-mRMSE is the largest over all inputs.

    Other parameters: as for `rmse_alpha`.

    >>> round(mrmse_alpha([[103, 7], [88, 7]], [100, 7], alpha=0.1), 3)
    1.414
    """
    return float(rmse_alpha(estimates, truth, alpha=alpha).max())


def accuracy(estimates: npt.ArrayLike, truth: npt.ArrayLike, *, alpha: float, tau: npt.ArrayLike = 0.0) -> Floats:
    """The fraction of runs in which each node's error is at most alpha times the larger of its count and `tau`.

    Other parameters: as for `rmse_alpha`.

    :param alpha: The relative error that is allowed.
    :param tau: The threshold; one number, or one for each node. By default 0: no threshold.

    >>> accuracy([[103, 7], [88, 9]], [100, 7], alpha=0.1, tau=20)
    array([0.5, 1. ])
    """
    return np.asarray(np.mean(~_misses(estimates, truth, alpha=alpha, tau=tau), axis=0))


def is_accurate(
    estimates: npt.ArrayLike, truth: npt.ArrayLike, *, alpha: float, eta: float, tau: npt.ArrayLike = 0.0
) -> bool:
    """Whether every node is as accurate in a fraction 1 - eta of the runs: (alpha, eta)-accuracy on this input.

    Other parameters: as for `accuracy`.

    :param eta: The share of runs that may miss this accuracy.

    >>> is_accurate([[103, 7], [88, 9]], [100, 7], alpha=0.1, eta=0.5, tau=20)
    True
    """
    failure = float(check_scale(eta, name="eta"))
    return bool((np.mean(_misses(estimates, truth, alpha=alpha, tau=tau), axis=0) <= failure).all())


def smoothed_relative_error(estimates: npt.ArrayLike, truth: npt.ArrayLike, *, smoothing: float) -> Floats:
    """The mean error of each node, divided by the larger of its count and `smoothing`.

    Other parameters: as for `rmse_alpha`.

    :param smoothing: The count from which on errors are relative; positive.

    >>> smoothed_relative_error([[103, 7], [88, 9]], [100, 7], smoothing=10)
    array([0.075, 0.1  ])
    """
    least = float(check_positive(smoothing, name="smoothing"))
    errors, counts = _errors(estimates, truth)
    with np.errstate(over="ignore"):
        return np.asarray(np.mean(errors / np.maximum(counts, least), axis=0))


def l2_error(estimates: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """The root of the mean square error over all nodes and runs: the paper's l2-squared error, on this input.

    Other parameters: as for `rmse_alpha`.

    >>> round(l2_error([[103, 7], [88, 9]], [100, 7]), 3)
    6.265
    """
    return float(_root_mean_square(np.ravel(rmse_alpha(estimates, truth))))


def linf_error(estimates: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """The mean over the runs of the largest error of any node: the paper's l-infinity error, on this input.

    Other parameters: as for `rmse_alpha`.

    >>> linf_error([[103, 7], [88, 9]], [100, 7])
    7.5
    """
    errors, _ = _errors(estimates, truth)
    return float(np.mean(errors.reshape(errors.shape[0], -1).max(axis=1)))


def _root_mean_square(values: Floats) -> Floats:
    # Divided by the largest, so that no square is too large or too small for a float.
    largest = np.maximum(values.max(axis=0), np.finfo(np.float64).tiny)
    return np.asarray(largest * np.sqrt(np.mean((values / largest) ** 2, axis=0)))


def _misses(estimates: npt.ArrayLike, truth: npt.ArrayLike, *, alpha: float, tau: npt.ArrayLike) -> Bools:
    """Where an error exceeds alpha times the larger of count and threshold."""
    allowed = float(check_scale(alpha, name="alpha"))
    errors, counts = _errors(estimates, truth)
    thresholds = _numbers(tau, name="tau").astype(np.float64)
    if thresholds.shape not in ((), counts.shape):
        raise ValueError(f"tau (of shape {thresholds.shape}) must be one number, or one for each node")
    if (thresholds < 0).any():
        raise ValueError("tau must not be negative")
    return np.asarray(errors > _times(allowed, np.maximum(counts, thresholds)))


def _times(factor: float, counts: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return factor * counts


def _errors(estimates: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The distances of estimates from the truth, and the truth."""
    guesses, counts = _numbers(estimates, name="estimates"), _numbers(truth, name="truth")
    if guesses.ndim != counts.ndim + 1 or counts.ndim > 1 or guesses.shape[1:] != counts.shape or guesses.size == 0:
        raise ValueError(
            f"estimates (of shape {guesses.shape}) must have shape (runs, nodes) for a truth of shape (nodes,), "
            f"or (runs,) for one count, and at least one run; truth has shape {counts.shape}"
        )
    if (counts < 0).any():
        raise ValueError("truth must not be negative. Hint: give counts")
    if all(x.dtype.kind in "iu" and int(x.min()) >= -LIMIT and int(x.max()) <= LIMIT for x in (guesses, counts)):
        guesses, counts = guesses.astype(np.int64), counts.astype(np.int64)  # exact beyond 2**53 too
    else:
        guesses, counts = guesses.astype(np.float64), counts.astype(np.float64)
    return np.abs(guesses - counts).astype(np.float64), counts.astype(np.float64)


def _numbers(values: npt.ArrayLike, *, name: str) -> Array:
    array = check_numbers(values, name=name, hint="an array of numbers")
    if array.dtype.kind == "f" and not (np.abs(array.astype(np.float64)) < _LARGEST).all():
        raise ValueError(f"{name} must be finite and below 2**1000")
    return array
