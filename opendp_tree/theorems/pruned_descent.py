"""Pruned descent: what the nodes that are shown, and their noisy counts, reveal.

A node's tail is the chance that noise lifts a count of c to the threshold: P(noise >= threshold - c). Everything that
one input can show and another cannot begins at a new node, and a path has only one first new node.
Proof: docs/proofs/pruned_descent.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from opendp_tree.theorems.gaussian import gaussian_tail
from opendp_tree.theorems.interval import Interval, Real, exp, least_whole


def laplace_tail(q: Real, at: int, *, power: Real | None = None) -> Real:
    """P(z >= at) for integer Laplace noise, P(z) proportional to q**|z|."""
    beyond = (q ** laplace_exponent(at) if power is None else power) / (1 + q)
    return beyond if at > 0 else 1 - beyond


def laplace_exponent(at: int) -> int:
    """The distance from 0 of the nearest number in the lighter one of the two sides of `at`."""
    return at if at > 0 else 1 - at


def hides_for_a_shift(scale: Fraction, tail: Interval) -> bool:
    """Whether 1 - tail is surely at least exp(-1/scale): then hiding a node of one unit costs no more than a shift."""
    rate = 1 / scale
    # 1 - exp(-x) >= x - x**2 / 2, which loses no digits where x is tiny.
    return bool(tail.hi <= rate - rate**2 / 2 or tail.hi <= (1 - exp(-rate)).lo)


def pruned_deltas(one: Real, all_at_once: Real, d_in: int) -> tuple[Real, Real]:
    """Two candidates, the larger of which is delta at distance `d_in` for one level: one new node that all units make
    at once, with tail `all_at_once`, or `d_in` new nodes of one unit each, with tail `one`.
    """
    return all_at_once, 1 - (1 - one) ** d_in


def pruned_laplace_ratio(q: Real, one: Real) -> tuple[Real, Real]:
    """Two candidates, the larger of which is the factor e**epsilon that one level adds at distance 1: a shift of the
    noise by one, or a node that is there in one input only and is not shown.
    """
    return 1 / q, 1 / (1 - one)


def pruned_laplace_epsilon(d_in: Fraction, *, scales: Sequence[Fraction], tails: Sequence[Interval]) -> Interval:
    """Epsilon for Laplace noise with these scales, and the tails of a single unit at the levels' thresholds."""
    shifts, rest = Fraction(0), Interval.of(0)
    for scale, tail in zip(scales, tails, strict=True):
        if hides_for_a_shift(scale, tail):
            shifts += 1 / scale
        else:
            worse = max((1 / (1 - tail)).ln().hi, Interval.of(1 / scale).hi)
            rest = rest + Interval(worse, worse)
    return (Interval.of(shifts) + rest) * Interval.of(d_in)


def noise_tail(noise: str, scale: Fraction, at: int) -> Interval:
    """P(z >= at) for "laplace" or "gaussian" noise on the integers, enclosed, or bounded above."""
    if noise == "gaussian":
        return gaussian_tail(scale, at)
    return laplace_tail(exp(-1 / scale), at, power=exp(-laplace_exponent(at) / scale))


@lru_cache(maxsize=4096)
def noise_bound(noise: str, scale: Fraction, chance: Fraction) -> int:
    """The least bound that noise exceeds with at most this chance, on both sides together."""

    def suffices(bound: int) -> bool:
        return noise_tail(noise, scale, bound + 1).hi * 2 <= chance

    return 0 if scale == 0 or suffices(0) else least_whole(suffices)


def pruned_chances(miss: Fraction, depth: int) -> tuple[Fraction, Fraction]:
    """How the chance of a missed count is shared: to a node's own noise, on both sides together; and to the noise of
    each node on its path, on the side that hides it.
    """
    return miss * Fraction(9, 10), miss / 10 / depth
