"""Clipping: estimates moved into intervals that always hold the truth.

Proof: docs/proofs/clipping.md.
"""

from __future__ import annotations

from fractions import Fraction

from opendp_tree.theorems.interval import Real, sqrt_up
from opendp_tree.theorems.truncated_laplace import truncated_laplace_delta


def clipping_epsilon(d_in: int | Fraction, *, scale: Fraction, depth: int) -> Fraction:
    """The epsilon of truncated Laplace noise on every node: the distance counts once at each level."""
    return d_in * depth / scale


def clipping_delta(q: Real, *, radius: int, d_in: int, depth: int) -> Real:
    """The delta: the chance that some level shows noise that only one of the two inputs can show."""
    return 1 - (1 - truncated_laplace_delta(q, radius=radius, d_in=d_in)) ** depth


def clipped_mrmse(*, alpha: Fraction, tau: Fraction, eta: Fraction, radius: int) -> float:
    """A bound on the alpha-mRMSE of clipped estimates that were (alpha, eta)-accurate above tau, rounded up."""
    return sqrt_up((alpha * tau) ** 2 + eta * 4 * radius**2)
