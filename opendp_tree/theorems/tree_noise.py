"""Noise on every node of a tree, of one scale for each level: what the noisy counts reveal.

Leaf counts that move by `d_in` in L1 move each level's counts by at most that. Proof: docs/proofs/tree_noise.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction


def tree_laplace_epsilon(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise with these scales on the measured levels."""
    return d_in * sum((count / scale for scale, count in Counter(scales).items()), Fraction(0))


def tree_gaussian_rho(d_in: int | Fraction, *, scales: Sequence[Fraction]) -> Fraction:
    """The rho, in zero-concentrated privacy, of discrete Gaussian noise with these scales on the measured levels."""
    return Fraction(d_in) ** 2 / 2 * sum((count / scale**2 for scale, count in Counter(scales).items()), Fraction(0))
