"""Clipping: estimates moved into intervals that always hold the truth.

Proof: docs/proofs/clipping.md.
"""

from __future__ import annotations

from fractions import Fraction

from opendp_tree.theorems.interval import Real, sqrt_up
from opendp_tree.theorems.truncated_laplace import truncated_laplace_delta


def clipping_epsilon(d_in: int | Fraction, *, scale: Fraction, depth: int) -> Fraction:
    """The epsilon of truncated Laplace noise on every node: the distance counts once at each level.

    Parameters
    ----------
    d_in
        The L1 distance of the leaf counts.
    scale
        Of the noise.
    depth
        The tree's number of levels.

    >>> clipping_epsilon(2, scale=Fraction(6), depth=3)
    Fraction(1, 1)
    """
    return d_in * depth / scale


def clipping_delta(q: Real, *, radius: int, d_in: int, depth: int) -> Real:
    """The delta: the chance that some level shows noise that only one of the two inputs can show.

    Parameters
    ----------
    q
        exp(-1/scale), the ratio of the noise.
    radius
        The largest noise.
    d_in
        The L1 distance of the leaf counts.
    depth
        The tree's number of levels.

    >>> clipping_delta(Fraction(1, 2), radius=1, d_in=1, depth=2)
    Fraction(7, 16)
    """
    return 1 - (1 - truncated_laplace_delta(q, radius=radius, d_in=d_in)) ** depth


def clipped_mrmse(*, alpha: Fraction, tau: Fraction, eta: Fraction, radius: int) -> float:
    """A bound on the alpha-mRMSE of clipped estimates that were (alpha, eta)-accurate above tau, rounded up.

    Parameters
    ----------
    alpha
        The relative error that was promised, and that is forgiven.
    tau
        The count from which on it was promised.
    eta
        The chance with which the promise may fail at a node.
    radius
        The largest noise of the intervals.

    >>> clipped_mrmse(alpha=Fraction(1, 10), tau=Fraction(30), eta=Fraction(1, 100), radius=20)
    5.0
    """
    return sqrt_up((alpha * tau) ** 2 + eta * 4 * radius**2)
