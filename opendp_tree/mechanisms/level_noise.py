"""Second moments of noise, for planners: `above(start, edge)` is E[(Z - edge)**2; Z >= start]."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats

WIDEST_SUM = 2.0**12
"""Discrete Gaussian laws of a larger scale are taken as normal ones: they agree to more digits than matter."""


def laplace_above(start: Floats, edge: Floats, scale: Floats | float) -> Floats:
    """E[(Z - edge)**2; Z >= start] for integer Laplace noise and integers start >= 0."""
    q, quiet = np.exp(-1 / np.asarray(scale)), -np.expm1(-1 / np.asarray(scale))
    gap = start - edge
    tail = np.exp(-start / np.asarray(scale)) / (1 + q)  # (1 - q) / (1 + q) * q**start, without one factor 1 - q
    found: Floats = tail * (gap**2 + 2 * gap * q / quiet + q * (1 + q) / quiet**2)
    return found


def laplace_excess(edge: Floats, scale: Floats | float) -> Floats:
    """E[max(Z - edge, 0)**2] for integer Laplace noise, whatever the edge's sign."""
    q, quiet = np.exp(-1 / np.asarray(scale)), -np.expm1(-1 / np.asarray(scale))
    size = np.abs(edge)
    beyond = laplace_above(np.ceil(size), size, scale)
    # Both sides together are the whole second moment about the edge.
    found: Floats = np.where(edge >= 0, beyond, 2 * q / quiet**2 + size**2 - beyond)
    return found


def normal_excess(edge: Floats, deviation: Floats, kurtosis: Floats | float = 0.0) -> Floats:
    """E[max(Z - edge, 0)**2] for nearly normal noise; `kurtosis`, the excess one, is taken in to first order."""
    at = edge / deviation
    density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
    found: Floats = deviation**2 * ((at**2 + 1) * normal_tail(at) - at * density + kurtosis * at * density / 12)
    return found.clip(0, None)


def normal_tail(at: Floats) -> Floats:
    """The chance that a standard normal number exceeds each value, to seven digits (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(at) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    upper = 0.5 * series * np.exp(-(size**2))
    return np.where(at >= 0, upper, 1 - upper)


@lru_cache(maxsize=8)
def gaussian_sums(scale: float) -> tuple[Floats, Floats, Floats]:
    """For discrete Gaussian noise of a scale up to `WIDEST_SUM`: P(Z >= k), E[Z; Z >= k] and E[Z**2; Z >= k] at each
    k = 0, 1, ..., until nothing is left.
    """
    steps: Floats = np.arange(math.ceil(12 * scale) + 2, dtype=np.float64)
    weight = np.exp(-0.5 * (steps / scale) ** 2)
    weight /= 2 * weight.sum() - 1
    sums = [np.cumsum((weight * steps**power)[::-1])[::-1] for power in range(3)]
    return sums[0], sums[1], sums[2]


def gaussian_above(start: Floats, edge: Floats, scale: float) -> Floats:
    """E[(Z - edge)**2; Z >= start] for discrete Gaussian noise and integers start >= 0."""
    if scale > WIDEST_SUM:
        at = (start - 0.5) / scale
        density = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
        tail = normal_tail(at)
        normal: Floats = scale**2 * (at * density + tail) - 2 * edge * scale * density + edge**2 * tail
        return normal
    zeroth, first, second = gaussian_sums(scale)
    place = np.minimum(start, zeroth.size - 1).astype(np.int64)
    found: Floats = second[place] - 2 * edge * first[place] + edge**2 * zeroth[place]
    return found
