"""Noise on the levels of a tree: how a privacy loss is shared among them, and what the noise of each stays within."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from opendp_tree._arguments import check_scale
from opendp_tree.theorems.consistent import gaussian_multiplier


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
    """The scale of each level: one of weight w pays w parts of the loss; infinite where the weight is 0.

    >>> level_scales("laplace", 6.0, [1, 3]), level_scales("gaussian", 6.0, [0, 4])
    ((6.0, 2.0), (inf, 3.0))
    """
    power = 1.0 if noise == "laplace" else 0.5
    return tuple(math.inf if w == 0 else min(scale / w**power, sys.float_info.max) for w in weights)


def laplace_variance(scale: float) -> float:
    """The variance of integer Laplace noise.

    >>> round(laplace_variance(3.0), 6)
    17.834255
    """
    missed = -math.expm1(-1 / scale) if scale > 1e-300 else 1.0
    return 2 * math.exp(-1 / scale) / missed**2 if scale > 1e-300 else 0.0


def gaussian_variance(scale: float) -> float:
    """The variance of discrete Gaussian noise is at most this.

    >>> gaussian_variance(3.0)
    9.0
    """
    return scale * scale


def single_bound(noise: str, scale: float, confidence: float) -> int:
    """What one noise stays within with at least this probability.

    >>> [single_bound(noise, 3.0, 0.95) for noise in ("laplace", "gaussian")]
    [9, 6]
    """
    if noise == "gaussian":
        return math.floor(gaussian_multiplier(confidence, least_scale=scale, measured=1) * scale)
    # P(|z| > b) = 2 q**(b + 1) / (1 + q) for q = exp(-1/scale)
    beyond = math.log(2 / ((1 + math.exp(-1 / scale)) * (1 - confidence)))
    return max(0, math.ceil(scale * beyond * (1 + 1e-12) - 1 + 1e-9))


def one_or_all(values: Sequence[int | float]) -> str:
    """Numbers by level as a text; once, if they are all the same.

    >>> one_or_all([2, 2, 2]), one_or_all([2, 0.5])
    ('2', '2, 0.5')
    """
    shown = values[:1] if len(set(values)) == 1 else values
    return ", ".join(f"{value}" for value in shown)
