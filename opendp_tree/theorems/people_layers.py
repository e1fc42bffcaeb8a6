"""People with many rows: each is placed once to find nodes, and weighs little enough to count at what was found.

A person adds to each layer of sets a vector of whole *units*, so many to 1, which depends on that person's own rows and
on public things alone. Proof: docs/proofs/people_layers.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from opendp_tree.theorems.interval import Interval, larger


def row_units(rows: int, total: int, *, most: int | None, units: int) -> int:
    """What a person with `total` rows weighs at a leaf where `rows` of them are: all rows together at most `most`.

    Parameters
    ----------
    rows
        That person's rows at the leaf.
    total
        That person's rows in all.
    most
        What all of them weigh at most; None for 1, however many there are.
    units
        How many units are 1.

    >>> row_units(3, 10, most=5, units=4), row_units(3, 4, most=5, units=4), row_units(1, 3, most=None, units=4)
    (6, 12, 1)
    """
    if most is not None and total <= most:
        return units * rows
    return units * rows * (1 if most is None else most) // total


def node_units(held: int, *, most: int, units: int) -> int:
    """What a person who is in `held` sets of a layer weighs in each, for Laplace noise: `most` together at most.

    Parameters
    ----------
    held
        How many sets of the layer the person is in.
    most
        What the person weighs in the layer at most.
    units
        How many units are 1.

    >>> node_units(2, most=3, units=4), node_units(6, most=3, units=4)
    (4, 2)
    """
    return units if held <= most else units * most // held


def node_units_squared(held: int, *, most: int, units: int) -> int:
    """The same for Gaussian noise: the squares of all weights of a person are at most `most` together.

    Parameters
    ----------
    held
        How many sets of the layer the person is in.
    most
        What the squares of the person's weights are at most, together.
    units
        How many units are 1.

    >>> node_units_squared(2, most=3, units=4), node_units_squared(6, most=3, units=4)
    (4, 2)
    """
    return units if held <= most else math.isqrt(units**2 * most // held)


def people_apart(d_in: int, *, changed: bool = False) -> int:
    """How many people come or go between frames at a distance; where people are changed, OpenDP counts them in pairs.

    Parameters
    ----------
    d_in
        The distance in OpenDP's metric.
    changed
        Whether the metric counts people who are changed. By default those who come or go.

    >>> people_apart(3), people_apart(3, changed=True)
    (3, 6)
    """
    return 2 * d_in if changed else d_in


def layer_l1(people: int, *, most: int, units: int) -> int:
    """How far a layer moves in L1 when so many people come or go, if one weighs at most `most` in it.

    Parameters
    ----------
    people
        How many come or go.
    most
        What one person weighs in the layer at most.
    units
        How many units are 1.

    >>> layer_l1(2, most=6, units=4)
    48
    """
    return people * most * units


def layer_l2_squared(people: int, *, most: int, units: int) -> int:
    """The square of how far a layer moves in L2, if the squares of what one weighs in it are at most `most`.

    Parameters
    ----------
    people
        How many come or go.
    most
        What the squares of one person's weights are at most, together.
    units
        How many units are 1.

    >>> layer_l2_squared(2, most=6, units=4)
    384
    """
    return people**2 * most * units**2


def layers_epsilon(distances: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise of these scales on layers that move so far in L1.

    Parameters
    ----------
    distances
        How far each layer moves in L1, in units.
    scales
        Of each layer's noise, in units.

    >>> layers_epsilon([4, 24], scales=[Fraction(40), Fraction(80)])
    Fraction(2, 5)
    """
    return sum((distance / scale for distance, scale in zip(distances, scales, strict=True)), Fraction(0))


def layers_rho(squares: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The rho, in zero-concentrated privacy, of discrete Gaussian noise on layers that move by roots of these in L2.

    Parameters
    ----------
    squares
        The square of how far each layer moves in L2, in units.
    scales
        Of each layer's noise, in units.

    >>> layers_rho([16, 96], scales=[Fraction(8), Fraction(8)])
    Fraction(7, 8)
    """
    return sum((square / (2 * scale**2) for square, scale in zip(squares, scales, strict=True)), Fraction(0))


def zcdp_epsilon_at(rho: Fraction, delta: Fraction, *, order: Fraction) -> Interval:
    """An epsilon that rho, in zero-concentrated privacy, has at a delta: by one order above 1 of Renyi divergence.

    Any order will do; the best is the least. Canonne, Kamath and Steinke (2020). Where the formula is below 0, as at a
    small rho and a large delta, 0 is what is promised: more is always true.

    Parameters
    ----------
    rho
        The loss in zero-concentrated privacy.
    delta
        The chance of a larger loss than epsilon.
    order
        Of the Renyi divergence, above 1.

    >>> round(float(zcdp_epsilon_at(Fraction(1, 4), Fraction(1, 10**6), order=Fraction(8)).hi), 3)
    3.543
    >>> round(float(zcdp_epsilon_at(Fraction(1, 1000), Fraction(1, 10), order=Fraction(32)).hi), 3)
    0.0
    """
    rest = (1 / Interval.of(delta)).ln() - Interval.of(order).ln()
    found = Interval.of(rho * order) + rest / Interval.of(order - 1) + (1 - 1 / Interval.of(order)).ln()
    return larger(found, Interval.of(0))
