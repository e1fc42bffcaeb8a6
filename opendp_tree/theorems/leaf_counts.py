"""Leaf counts: how far they move when rows or people are added, removed or changed.

Proof: docs/proofs/leaf_counts.md.
"""

from __future__ import annotations


def leaf_counts_l1(d_in: int, *, per_unit: int = 1, changed: bool = False) -> int:
    """The L1 distance between leaf counts of frames that differ in `d_in` units.

    A unit is a row, or all rows of one person of which at most `per_unit` are counted. Where units are changed instead
    of added or removed, one goes and another comes.

    Parameters
    ----------
    d_in
        How many units differ.
    per_unit
        How many rows of one unit are counted at most. By default 1: units are rows.
    changed
        Whether units are changed. By default they are added or removed.

    >>> leaf_counts_l1(1), leaf_counts_l1(2, per_unit=3), leaf_counts_l1(1, per_unit=3, changed=True)
    (1, 6, 6)
    """
    return d_in * per_unit * (2 if changed else 1)


def per_person(*, rows: int | None, leaves: int | None, rows_per_leaf: int) -> int:
    """How many rows of one person are counted at most, under what is given of two bounds.

    Parameters
    ----------
    rows
        How many rows are kept at most; None for any number.
    leaves
        In how many leaves at most; None for any number.
    rows_per_leaf
        How many rows in each of these leaves.

    >>> per_person(rows=5, leaves=None, rows_per_leaf=1), per_person(rows=5, leaves=2, rows_per_leaf=2)
    (5, 4)
    """
    bounds = [] if rows is None else [rows]
    if leaves is not None:
        bounds.append(leaves * rows_per_leaf)
    return min(bounds)
