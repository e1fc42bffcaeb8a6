"""Tree sum: how far node counts move when leaf counts move.

Proof: docs/proofs/tree_sum.md.
"""

from __future__ import annotations

from fractions import Fraction


def tree_sum_l1(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The L1 distance between node counts: each unit at a leaf is counted at most `depth` times."""
    return Fraction(d_in) * depth


def tree_sum_l2_squared(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The square of the L2 distance: worst when the whole distance falls on one deepest leaf."""
    return Fraction(d_in) ** 2 * depth


def tree_sum_linf(d_in: int | Fraction) -> Fraction:
    """The largest change of any one node's count: reached at the root."""
    return Fraction(d_in)
