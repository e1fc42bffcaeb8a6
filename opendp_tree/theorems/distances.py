"""How far counts move when rows or people come and go, and what a promise for one is worth for several."""

from __future__ import annotations

from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum, round_up

# Leaf counts: how far they move when rows or people are added, removed or changed.
# Proof: docs/proofs/leaf_counts.md.


def leaf_counts_l1(d_in: int, *, per_unit: int = 1, changed: bool = False) -> int:
    """The L1 distance between leaf counts of frames that differ in `d_in` units.

    A unit is a row, or all rows of one person of which at most `per_unit` are counted. Where units are changed instead
    of added or removed, one goes and another comes.
    """
    return d_in * per_unit * (2 if changed else 1)


def per_person(*, rows: int | None, leaves: int | None, rows_per_leaf: int) -> int:
    """How many rows of one person are counted at most, under what is given of two bounds."""
    bounds = [] if rows is None else [rows]
    if leaves is not None:
        bounds.append(leaves * rows_per_leaf)
    return min(bounds)


# Tree sum: how far node counts move when leaf counts move. Proof: docs/proofs/tree_sum.md.


def tree_sum_l1(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The L1 distance between node counts: each unit at a leaf is counted at most `depth` times."""
    return Fraction(d_in) * depth


def tree_sum_l2_squared(d_in: int | Fraction, *, depth: int) -> Fraction:
    """The square of the L2 distance: worst when the whole distance falls on one deepest leaf."""
    return Fraction(d_in) ** 2 * depth


def tree_sum_linf(d_in: int | Fraction) -> Fraction:
    """The largest change of any one node's count: reached at the root."""
    return Fraction(d_in)


# Group privacy: what a promise for one person is worth for several.
# Proof: docs/proofs/group_privacy.md.


_HUGE = 10**6
"""Beyond this many units of epsilon the exponential is not worth computing: delta is 1 for every delta in use."""


def group_delta(delta: Real, *, ratio: Real, k: int) -> Real:
    """The delta for k people, where one costs `delta` and `ratio` is e**epsilon of one."""
    return delta * geometric_sum(ratio, k)


def group_loss(epsilon: Fraction, delta: Interval, *, k: int) -> tuple[float, float]:
    """The pair (epsilon, delta) for k people, rounded up."""
    total = round_up(k * epsilon)
    if k == 0 or delta.hi == 0:
        return total, 0.0
    if k == 1:
        return total, min(1.0, round_up(delta))
    if k * epsilon > _HUGE:
        return total, 1.0
    return total, min(1.0, round_up(group_delta(delta, ratio=exp(epsilon), k=k)))
