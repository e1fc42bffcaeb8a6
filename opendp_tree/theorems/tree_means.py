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
    """The step of a row's value: 0 at the lower bound and below, `steps` at the upper one and above."""
    if value <= low or value >= high:
        return 0 if value <= low else steps
    return min(steps, max(0, math.floor((Fraction(value) - low) / (high - low) * steps + Fraction(1, 2))))


def pair_l1(d_in: int, *, steps: int = STEPS) -> int:
    """How far the pairs of all sets of one layer move: P, the sum of steps, and Q, the sum of what steps leave.

    A row is in one set, and adds y to its P and steps - y to its Q, which is `steps` together, whatever y is.
    """
    return d_in * steps


def centred_l1(d_in: int, *, steps: int = STEPS) -> int:
    """How far the centred sums of all sets of one layer move: those of 2y - steps, which is within `steps` of 0."""
    return d_in * steps


def sums_epsilon(
    d_in: int, *, pairs: Sequence[Fraction], centred: Sequence[Fraction] = (), steps: int = STEPS
) -> Fraction:
    """The epsilon of layers of pairs and of centred sums, each with integer Laplace noise of its scale."""
    moved = pair_l1(d_in, steps=steps) * sum((1 / scale for scale in pairs), Fraction(0))
    return moved + centred_l1(d_in, steps=steps) * sum((1 / scale for scale in centred), Fraction(0))


def tree_means_epsilon(d_in: int, *, found: Fraction, layers: Fraction) -> Fraction:
    """The epsilon of cells and gaps, which lose `found` at distance 1, and of layers that lose `layers`."""
    return d_in * (found + layers)
