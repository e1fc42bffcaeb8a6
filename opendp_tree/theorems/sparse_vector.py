"""Sparse vector: the privacy loss of telling which queries are above a noisy threshold.

Proof: docs/proofs/sparse_vector.md.
"""

from __future__ import annotations

from fractions import Fraction


def sparse_vector_epsilon(
    sensitivity: int | Fraction,
    *,
    scale: Fraction,
    query_scale: Fraction,
    cutoff: int,
    monotonic: bool,
    refreshed: bool,
) -> Fraction:
    """The epsilon at which up to `cutoff` answers are "above", whether or not they tell their gaps.

    Every draw of the threshold's noise pays once; every answer "above" pays for its query's noise, once if all
    queries move in one direction (`monotonic`) and twice if not. Answers "below" are free, however many.

    Parameters
    ----------
    sensitivity
        How far one query's answer moves at most.
    scale
        Of the threshold's noise.
    query_scale
        Of the noise of each query.
    cutoff
        How many answers may be "above".
    monotonic
        Whether all queries move in one direction.
    refreshed
        Whether the threshold's noise is drawn again after every answer "above".

    >>> spend = dict(scale=Fraction(2), query_scale=Fraction(4), cutoff=1)
    >>> sparse_vector_epsilon(1, **spend, monotonic=False, refreshed=True)  # Dwork and Roth's 2c/eps, 4c/eps
    Fraction(1, 1)
    """
    thresholds = cutoff if refreshed else 1
    shifts = cutoff if monotonic else 2 * cutoff
    return sensitivity * (thresholds / scale + shifts / query_scale)
