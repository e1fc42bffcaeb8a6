"""Tree sum: how far node counts move when leaf counts move.

Proof: docs/proofs/tree_sum.md.
"""

from __future__ import annotations

from fractions import Fraction


def tree_sum_l1(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The L1 distance between node counts: each unit at a leaf is counted at most `depth` times.

    Parameters
    ----------
    d_in
        The L1 distance of the leaf counts.
    depth
        The tree's number of levels, with the root's.

    >>> tree_sum_l1(2, depth=3)
    Fraction(6, 1)
    """
    return Fraction(d_in) * depth


def tree_sum_l2_squared(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The square of the L2 distance: worst when the whole distance falls on one deepest leaf.

    Parameters
    ----------
    d_in, depth
        As for `tree_sum_l1`.

    >>> tree_sum_l2_squared(2, depth=3)
    Fraction(12, 1)
    """
    return Fraction(d_in) ** 2 * depth


def tree_sum_linf(d_in: int | Fraction) -> Fraction:
    """The largest change of any one node's count: reached at the root.

    Parameters
    ----------
    d_in
        The L1 distance of the leaf counts.

    >>> tree_sum_linf(2)
    Fraction(2, 1)
    """
    return Fraction(d_in)
