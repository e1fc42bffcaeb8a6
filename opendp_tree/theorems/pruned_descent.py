"""Pruned descent: what the nodes that are shown, and their noisy counts, reveal.

A node's tail is the chance that noise lifts a count of c to the threshold: P(noise >= threshold - c). Everything that
one input can show and another cannot begins at a new node, and a path has only one first new node.
Proof: docs/proofs/pruned_descent.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from opendp_tree.theorems.bisection import least_whole
from opendp_tree.theorems.discrete_gaussian import gaussian_tail
from opendp_tree.theorems.interval import Interval, Real, exp


def laplace_tail(q: Real, at: int, *, power: Real | None = None) -> Real:
    """P(z >= at) for integer Laplace noise, P(z) proportional to q**|z|.

    Parameters
    ----------
    q
        exp(-1/scale), the ratio of the noise.
    at
        Any integer.
    power
        q to the power of `laplace_exponent(at)`, if the caller knows it better than by multiplying. By default None.

    >>> laplace_tail(Fraction(1, 2), 1), laplace_tail(Fraction(1, 2), 0)
    (Fraction(1, 3), Fraction(2, 3))
    """
    beyond = (q ** laplace_exponent(at) if power is None else power) / (1 + q)
    return beyond if at > 0 else 1 - beyond


def laplace_exponent(at: int) -> int:
    """The distance from 0 of the nearest number in the lighter one of the two sides of `at`.

    Parameters
    ----------
    at
        Any integer.

    >>> laplace_exponent(3), laplace_exponent(-2)
    (3, 3)
    """
    return at if at > 0 else 1 - at


def hides_for_a_shift(scale: Fraction, tail: Interval) -> bool:
    """Whether 1 - tail is surely at least exp(-1/scale): then hiding a node of one unit costs no more than a shift.

    Parameters
    ----------
    scale
        Of the level's noise.
    tail
        That of a node of one unit.

    >>> hides_for_a_shift(Fraction(10), Interval.of(Fraction(1, 20)))
    True
    """
    rate = 1 / scale
    # 1 - exp(-x) >= x - x**2 / 2, which loses no digits where x is tiny.
    return bool(tail.hi <= rate - rate**2 / 2 or tail.hi <= (1 - exp(-rate)).lo)


def pruned_deltas(one: Real, all_at_once: Real, d_in: int) -> tuple[Real, Real]:
    """Two candidates, the larger of which is delta at distance `d_in` for one level: one new node that all units make
    at once, with tail `all_at_once`, or `d_in` new nodes of one unit each, with tail `one`.

    Parameters
    ----------
    one
        The tail of a node of one unit.
    all_at_once
        That of a node of `d_in` units.
    d_in
        The distance.

    >>> pruned_deltas(Fraction(1, 10), Fraction(1, 8), 2)
    (Fraction(1, 8), Fraction(19, 100))
    """
    return all_at_once, 1 - (1 - one) ** d_in


def pruned_laplace_ratio(q: Real, one: Real) -> tuple[Real, Real]:
    """Two candidates, the larger of which is the factor e**epsilon that one level adds at distance 1: a shift of the
    noise by one, or a node that is there in one input only and is not shown.

    Parameters
    ----------
    q
        exp(-1/scale), the ratio of the noise.
    one
        The tail of a node of one unit.

    >>> pruned_laplace_ratio(Fraction(1, 2), Fraction(1, 3))
    (Fraction(2, 1), Fraction(3, 2))
    """
    return 1 / q, 1 / (1 - one)


def pruned_laplace_epsilon(d_in: Fraction, *, scales: Sequence[Fraction], tails: Sequence[Interval]) -> Interval:
    """Epsilon for Laplace noise with these scales, and the tails of a single unit at the levels' thresholds.

    Parameters
    ----------
    d_in
        The distance.
    scales
        Of each level's noise.
    tails
        Each level's tail of a node of one unit.

    >>> low = Interval.of(Fraction(1, 10**6))
    >>> float(pruned_laplace_epsilon(Fraction(2), scales=[Fraction(4), Fraction(2)], tails=[low, low]).hi)
    1.5
    """
    shifts, rest = Fraction(0), Interval.of(0)
    for scale, tail in zip(scales, tails, strict=True):
        if hides_for_a_shift(scale, tail):
            shifts += 1 / scale
        else:
            worse = max((1 / (1 - tail)).ln().hi, Interval.of(1 / scale).hi)
            rest = rest + Interval(worse, worse)
    return (Interval.of(shifts) + rest) * Interval.of(d_in)


def noise_tail(noise: str, scale: Fraction, at: int) -> Interval:
    """P(z >= at) for "laplace" or "gaussian" noise on the integers, enclosed, or bounded above.

    Parameters
    ----------
    noise
        "laplace" or "gaussian".
    scale
        Of the noise.
    at
        Any integer.

    >>> round(float(noise_tail("laplace", Fraction(2), 7).hi), 6)
    0.018797
    """
    if noise == "gaussian":
        return gaussian_tail(scale, at)
    return laplace_tail(exp(-1 / scale), at, power=exp(-laplace_exponent(at) / scale))


@lru_cache(maxsize=4096)
def noise_bound(noise: str, scale: Fraction, chance: Fraction) -> int:
    """The least bound that noise exceeds with at most this chance, on both sides together.

    Parameters
    ----------
    noise
        "laplace" or "gaussian".
    scale
        Of the noise.
    chance
        The chance that is allowed.

    >>> noise_bound("laplace", Fraction(2), Fraction(1, 20)), noise_bound("gaussian", Fraction(2), Fraction(1, 20))
    (6, 4)
    """

    def suffices(bound: int) -> bool:
        return noise_tail(noise, scale, bound + 1).hi * 2 <= chance

    return 0 if scale == 0 or suffices(0) else least_whole(suffices)


def pruned_chances(miss: Fraction, depth: int) -> tuple[Fraction, Fraction]:
    """How the chance of a missed count is shared: to a node's own noise, on both sides together; and to the noise of
    each node on its path, on the side that hides it.

    Parameters
    ----------
    miss
        The chance with which an interval may miss its count.
    depth
        The tree's number of levels.

    >>> pruned_chances(Fraction(1, 20), 4)
    (Fraction(9, 200), Fraction(1, 800))
    """
    return miss * Fraction(9, 10), miss / 10 / depth
