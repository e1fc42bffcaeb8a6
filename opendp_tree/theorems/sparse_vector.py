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
    """
    thresholds = cutoff if refreshed else 1
    shifts = cutoff if monotonic else 2 * cutoff
    return sensitivity * (thresholds / scale + shifts / query_scale)
