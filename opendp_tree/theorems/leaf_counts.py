"""Leaf counts: how far they move when rows or people are added, removed or changed.

Proof: docs/proofs/leaf_counts.md.
"""

from __future__ import annotations


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
