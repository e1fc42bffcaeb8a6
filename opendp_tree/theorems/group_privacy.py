"""Group privacy: what a promise for one person is worth for several.

Proof: docs/proofs/group_privacy.md.
"""

from __future__ import annotations

from fractions import Fraction

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum, round_up

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
