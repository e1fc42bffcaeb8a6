"""Sums and means: what a row's value is rounded to, and what noisy sums of it cost.

Proof: docs/proofs/tree_means.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

STEPS = 2**20
"""Into so many steps the bounds of a value are divided."""


def steps_of(value: Fraction | float, *, low: Fraction, high: Fraction, steps: int = STEPS) -> int:
    """The step of a row's value: 0 at the lower bound and below, `steps` at the upper one and above.

    Parameters
    ----------
    value
        The row's number.
    low, high
        The bounds.
    steps
        How many steps are between them. By default 2**20.

    >>> [steps_of(value, low=Fraction(0), high=Fraction(500), steps=10) for value in (-math.inf, 24, 25, 499, 1e300)]
    [0, 0, 1, 10, 10]
    """
    if value <= low or value >= high:
        return 0 if value <= low else steps
    return min(steps, max(0, math.floor((Fraction(value) - low) / (high - low) * steps + Fraction(1, 2))))


def pair_l1(d_in: int, *, steps: int = STEPS) -> int:
    """How far the pairs of all sets of one layer move: P, the sum of steps, and Q, the sum of what steps leave.

    A row is in one set, and adds y to its P and steps - y to its Q, which is `steps` together, whatever y is.

    Parameters
    ----------
    d_in
        How many rows come or go.
    steps
        How many steps are between a value's bounds. By default 2**20.

    >>> pair_l1(2, steps=10)
    20
    """
    return d_in * steps


def centred_l1(d_in: int, *, steps: int = STEPS) -> int:
    """How far the centred sums of all sets of one layer move: those of 2y - steps, which is within `steps` of 0.

    Parameters
    ----------
    d_in, steps
        As for `pair_l1`.

    >>> centred_l1(2, steps=10)
    20
    """
    return d_in * steps


def sums_epsilon(
    d_in: int, *, pairs: Sequence[Fraction], centred: Sequence[Fraction] = (), steps: int = STEPS
) -> Fraction:
    """The epsilon of layers of pairs and of centred sums, each with integer Laplace noise of its scale.

    Parameters
    ----------
    d_in
        How many rows come or go.
    pairs
        The scale of each layer of pairs.
    centred
        The scale of each layer of centred sums. By default there are none.
    steps
        How many steps are between a value's bounds. By default 2**20.

    >>> sums_epsilon(2, pairs=[Fraction(100), Fraction(50)], centred=[Fraction(25)], steps=10)
    Fraction(7, 5)
    """
    moved = pair_l1(d_in, steps=steps) * sum((1 / scale for scale in pairs), Fraction(0))
    return moved + centred_l1(d_in, steps=steps) * sum((1 / scale for scale in centred), Fraction(0))


def tree_means_epsilon(d_in: int, *, found: Fraction, layers: Fraction) -> Fraction:
    """The epsilon of cells and gaps, which lose `found` at distance 1, and of layers that lose `layers`.

    Parameters
    ----------
    d_in
        How many rows come or go.
    found
        The epsilon of cells and gaps for one row.
    layers
        That of the layers of sums for one row.

    >>> tree_means_epsilon(3, found=Fraction(1, 2), layers=Fraction(1, 4))
    Fraction(9, 4)
    """
    return d_in * (found + layers)
