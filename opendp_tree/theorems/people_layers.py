"""People with many rows: each is placed once to find nodes, and weighs little enough to count at what was found.

A person adds to each layer of sets a vector of whole *units*, so many to 1, which depends on that person's own rows and
on public things alone. Proof: docs/proofs/people_layers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, larger


def row_units(rows: int, total: int, *, most: int, units: int) -> int:
    """What a person with `total` rows weighs at a leaf where `rows` of them are: all rows together at most `most`."""
    return units * rows if total <= most else units * rows * most // total


def node_units(held: int, *, most: int, units: int) -> int:
    """What a person who is in `held` sets of a layer weighs in each, for Laplace noise: `most` together at most."""
    return units if held <= most else units * most // held


def node_units_squared(held: int, *, most: int, units: int) -> int:
    """The same for Gaussian noise: the squares of all weights of a person are at most `most` together."""
    return units if held <= most else math.isqrt(units**2 * most // held)


def people_apart(d_in: int, *, changed: bool = False) -> int:
    """How many people come or go between frames at a distance; where people are changed, OpenDP counts pairs."""
    return 2 * d_in if changed else d_in


def layer_l1(people: int, *, most: int, units: int) -> int:
    """How far a layer moves in L1 when so many people come or go, if one weighs at most `most` in it."""
    return people * most * units


def layer_l2_squared(people: int, *, most: int, units: int) -> int:
    """The square of how far a layer moves in L2, if the squares of what one weighs in it are at most `most`."""
    return people**2 * most * units**2


def layers_epsilon(distances: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise of these scales on layers that move so far in L1."""
    return sum((distance / scale for distance, scale in zip(distances, scales, strict=True)), Fraction(0))


def layers_rho(squares: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The rho, in zero-concentrated privacy, of discrete Gaussian noise on layers that move by roots of these in L2."""
    return sum((square / (2 * scale**2) for square, scale in zip(squares, scales, strict=True)), Fraction(0))


def zcdp_epsilon_at(rho: Fraction, delta: Fraction, *, order: Fraction) -> Interval:
    """An epsilon that rho, in zero-concentrated privacy, has at a delta: by one order above 1 of Renyi divergence.

    Any order will do; the best is the least. Canonne, Kamath and Steinke (2020). Where the formula is below 0, as at a
    small rho and a large delta, 0 is what is promised: more is always true.
    """
    rest = (1 / Interval.of(delta)).ln() - Interval.of(order).ln()
    found = Interval.of(rho * order) + rest / Interval.of(order - 1) + (1 - 1 / Interval.of(order)).ln()
    return larger(found, Interval.of(0))
