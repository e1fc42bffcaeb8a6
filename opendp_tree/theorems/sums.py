"""Sums of people's weights, of values and along a line: how far one person moves them, and the privacy loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce

from opendp_tree.theorems.interval import Interval, Real, larger

STEPS = 2**20
"""The number of steps between the bounds of a value."""


# People with many rows: each adds to each layer of sets a vector of whole units, `units` per 1, which depends only on
# that person's rows and on public values. Proof: docs/proofs/people_and_means.md.
def node_units(held: int, *, most: int, units: int) -> int:
    """The weight in each set of a person in `held` sets of a layer, for Laplace noise: at most `most` in total."""
    return units if held <= most else units * most // held


def node_units_squared(held: int, *, most: int, units: int) -> int:
    """The same for Gaussian noise: the squares of a person's weights sum to at most `most`."""
    return units if held <= most else math.isqrt(units**2 * most // held)


def people_apart(d_in: int, *, changed: bool = False) -> int:
    """The number of people added or removed between frames; OpenDP counts a changed person as one of each."""
    return 2 * d_in if changed else d_in


def layer_l1(people: int, *, most: int, units: int) -> int:
    """The L1 distance between layers that differ in `people` people, if one weighs at most `most`."""
    return people * most * units


def layer_l2_squared(people: int, *, most: int, units: int) -> int:
    """The squared L2 distance, if the squares of one person's weights sum to at most `most`."""
    return people**2 * most * units**2


def layers_epsilon(distances: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The epsilon of integer Laplace noise of these scales on layers at these L1 distances."""
    return sum((distance / scale for distance, scale in zip(distances, scales, strict=True)), Fraction(0))


def layers_rho(squares: Sequence[int], *, scales: Sequence[Fraction]) -> Fraction:
    """The zCDP rho of discrete Gaussian noise of these scales on layers at these squared L2 distances."""
    return sum((square / (2 * scale**2) for square, scale in zip(squares, scales, strict=True)), Fraction(0))


def zcdp_epsilon_at(rho: Fraction, delta: Fraction, *, order: Fraction) -> Interval:
    """An epsilon for a zCDP rho and a delta, from any one order of Renyi divergence above 1; never below 0."""
    # Canonne, Kamath and Steinke (2020).
    rest = (1 / Interval.of(delta)).ln() - Interval.of(order).ln()
    found = Interval.of(rho * order) + rest / Interval.of(order - 1) + (1 - 1 / Interval.of(order)).ln()
    return larger(found, Interval.of(0))


# Sums and means: how a row's value is rounded, and the cost of noisy sums. Proof: docs/proofs/people_and_means.md.
def pair_l1(d_in: int, *, steps: int = STEPS) -> int:
    """The L1 distance between the pairs (P, Q) of a layer: a row of value y adds y to P and steps - y to Q."""
    return d_in * steps


def centred_l1(d_in: int, *, steps: int = STEPS) -> int:
    """The L1 distance between the centred sums of a layer, those of 2y - steps, which is within `steps` of 0."""
    return d_in * steps


def sums_epsilon(
    d_in: int, *, pairs: Sequence[Fraction], centred: Sequence[Fraction] = (), steps: int = STEPS
) -> Fraction:
    """The epsilon of layers of pairs and of centred sums, each with integer Laplace noise of its scale."""
    distances = [pair_l1(d_in, steps=steps)] * len(pairs) + [centred_l1(d_in, steps=steps)] * len(centred)
    return layers_epsilon(distances, scales=[*pairs, *centred])


def found_epsilon(d_in: int, *, finding: Real, measuring: Iterable[Real]) -> Real:
    """The epsilon of finding cells and of measuring them, where the cost of measuring may depend on the cells."""
    return (finding + reduce(larger, measuring)) * d_in


# Curves by group. Proof: docs/proofs/quantiles.md.
def grouped_epsilon(finding: Real, curve: Real) -> Real:
    """The epsilon of finding groups and of a curve for each: a row is in one group, and a curve's cost is linear."""
    return finding + curve
