"""Error measures: what one says of another.

alpha-RMSE forgives an error of alpha times the count; (alpha, eta)-accuracy asks for an error of at most alpha times
the larger of count and threshold, with probability 1 - eta; the smoothed relative error divides the mean error by
the larger of count and smoothing. From accuracy to alpha-RMSE: `opendp_tree.theorems.paper.clipped_mrmse`.
Proof: docs/proofs/error_measures.md.
"""

from __future__ import annotations

from fractions import Fraction


def failure_bound(*, mrmse: Fraction, alpha: Fraction, wider: Fraction, tau: Fraction) -> Fraction:
    """The chance eta, at most 1, for which an alpha-mRMSE of `mrmse` implies (`wider`, eta)-accuracy above `tau`.

    >>> failure_bound(mrmse=Fraction(3), alpha=Fraction(1, 10), wider=Fraction(1, 5), tau=Fraction(100))
    Fraction(9, 100)
    """
    if not 0 <= alpha < wider:
        raise ValueError(f"wider ({float(wider)}) must be above alpha ({float(alpha)}), which must not be negative")
    if tau < 0 or mrmse < 0:
        raise ValueError(f"tau ({float(tau)}) and mrmse ({float(mrmse)}) must not be negative")
    if mrmse == 0:
        return Fraction(0)
    slack = (wider - alpha) * tau
    return Fraction(1) if slack <= mrmse else (mrmse / slack) ** 2


def relative_error_bound(*, rmse: Fraction, alpha: Fraction, smoothing: Fraction) -> Fraction:
    """A bound on the smoothed relative error of an estimate with this alpha-RMSE.

    >>> relative_error_bound(rmse=Fraction(3), alpha=Fraction(1, 10), smoothing=Fraction(20))
    Fraction(1, 4)
    """
    if alpha < 0 or rmse < 0:
        raise ValueError(f"alpha ({float(alpha)}) and rmse ({float(rmse)}) must not be negative")
    if smoothing <= 0:
        raise ValueError(f"smoothing ({float(smoothing)}) must be positive")
    return rmse / smoothing + alpha
