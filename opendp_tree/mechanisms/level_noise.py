"""Noise on the levels of a tree, before any data: how a privacy loss is shared among levels, and how far noise errs.

For planners there are the parts of noise's second moment that they add up, and pruned descent's alpha-RMSE. A law's
`above(start, edge)` is E[(Z - edge)**2; Z >= start]: of what Z exceeds an edge by, squared, from a start on.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_scale
from opendp_tree._types import Floats
from opendp_tree.theorems.gaussian import gaussian_multiplier

WIDEST_SUM = 2.0**12
"""Discrete Gaussian laws of a larger scale are taken as normal ones: they agree to more digits than matter."""


def check_weights(weights: Sequence[float] | None, depth: int) -> list[float]:
    """One non-negative number for each level, not all of them 0."""
    if weights is None:
        return [1.0] * depth
    if isinstance(weights, str) or len(weights) != depth:
        raise ValueError(f"weights must hold one number for each of the {depth} levels, from the root's down")
    shares = [float(check_scale(weight, name=f"weights[{level}]")) for level, weight in enumerate(weights)]
    if not any(shares):
        raise ValueError("weights must not all be 0")
    return shares


def level_scales(noise: str, scale: float, weights: Sequence[float]) -> tuple[float, ...]:
    """The scale of each level: one of weight w pays w parts of the loss; infinite where the weight is 0."""
    power = 1.0 if noise == "laplace" else 0.5
    return tuple(math.inf if w == 0 else min(scale / w**power, sys.float_info.max) for w in weights)


def laplace_variance(scale: float) -> float:
    """The variance of integer Laplace noise."""
    missed = -math.expm1(-1 / scale) if scale > 1e-300 else 1.0
    return 2 * math.exp(-1 / scale) / missed**2 if scale > 1e-300 else 0.0


def gaussian_variance(scale: float) -> float:
    """The variance of discrete Gaussian noise is at most this."""
    return scale * scale


def single_bound(noise: str, scale: float, confidence: float) -> int:
    """What one noise stays within with at least this probability."""
    if noise == "gaussian":
        return math.floor(gaussian_multiplier(confidence, least_scale=scale, measured=1) * scale)
    # P(|z| > b) = 2 q**(b + 1) / (1 + q) for q = exp(-1/scale)
    beyond = math.log(2 / ((1 + math.exp(-1 / scale)) * (1 - confidence)))
    return max(0, math.ceil(scale * beyond * (1 + 1e-12) - 1 + 1e-9))


def one_or_all(values: Sequence[int | float]) -> str:
    """Numbers by level as a text; once, if they are all the same."""
    shown = values[:1] if len(set(values)) == 1 else values
    return ", ".join(f"{value}" for value in shown)


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


def pruned_rmse(
    weights: npt.ArrayLike, *, noise: str, scales: Sequence[float], thresholds: Sequence[int], alpha: float
) -> Floats:
    """The alpha-RMSE, at each whole weight, of the deepest node of a chain all of whose nodes weigh that."""
    at: Floats = np.asarray(weights, dtype=np.float64)
    levels = Counter(zip(scales[:-1], thresholds[:-1], strict=True))
    above = np.ones_like(at)
    for (scale, threshold), times in levels.items():
        above *= shown_chance(threshold - at, noise, scale) ** times
    last, threshold = scales[-1], thresholds[-1]
    shown = above * shown_chance(threshold - at, noise, last)
    slack = alpha * at
    square = (1 - shown) * ((1 - alpha) * at) ** 2 + above * _excess_if_shown(threshold - at, slack, noise, last)
    root: Floats = np.sqrt(square.clip(0, None))
    return root


def worst_pruned_rmse(*, noise: str, scales: Sequence[float], thresholds: Sequence[int], alpha: float) -> float:
    """The largest `pruned_rmse` of any weight: the descent's alpha-mRMSE on trees of this depth."""

    def found(weights: Floats) -> Floats:
        return pruned_rmse(weights, noise=noise, scales=scales, thresholds=thresholds, alpha=alpha)

    low, high = 1.0, max(thresholds) + (12 + math.log(len(scales))) * max(scales)
    while True:  # a coarse look at all weights, then finer ones at the best
        weights: Floats = np.unique(np.rint(np.linspace(low, high, 200, dtype=np.float64)))
        errors = found(weights)
        best = int(np.argmax(errors))
        if weights.size < 200:
            return float(errors[best])
        low, high = weights[max(best - 2, 0)], weights[min(best + 2, weights.size - 1)]


def shown_chance(needed: Floats, noise: str, scale: float) -> Floats:
    """P(Z >= needed) for whole numbers."""
    size = np.where(needed > 0, needed, 1 - needed)  # the lighter side begins so far from 0
    if noise == "laplace":
        tail = np.exp(-size / scale) / (1 + math.exp(-1 / scale))
    elif scale > WIDEST_SUM:
        tail = normal_tail((size - 0.5) / scale)
    else:
        sums = gaussian_sums(scale)[0]
        tail = sums[np.minimum(size, sums.size - 1).astype(np.int64)]
    return np.where(needed > 0, tail, 1 - tail)


def _excess_if_shown(needed: Floats, slack: Floats, noise: str, scale: float) -> Floats:
    """E[max(|Z| - slack, 0)**2; Z >= needed]."""
    above = laplace_above if noise == "laplace" else gaussian_above
    start = np.ceil(slack)
    upper = above(np.maximum(start, needed), slack, scale)
    # Below, |Z| runs from the slack to -needed.
    lower = above(start, slack, scale) - above(np.maximum(start, 1 - needed), slack, scale)
    found: Floats = upper + lower.clip(0, None)
    return found
