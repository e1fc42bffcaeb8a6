"""Pruned descent's error, predicted from its exact noise laws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendp_tree.measurements.excess import (
    WIDEST_SUM,
    Floats,
    gaussian_above,
    gaussian_sums,
    laplace_above,
    normal_tail,
)


def pruned_rmse(
    weights: npt.ArrayLike, *, noise: str, scales: Sequence[float], thresholds: Sequence[int], alpha: float
) -> Floats:
    """The alpha-RMSE, at each whole weight, of the deepest node of a chain all of whose nodes weigh that.

    No node of that weight is hidden more often: ancestors weigh no less. What is hidden is estimated as nobody.
    `scales` and `thresholds` are the levels', from the root's down.

    >>> pruned_rmse([1, 30, 1000], noise="laplace", scales=[2.0, 2.0], thresholds=[28, 28], alpha=0.1).round(1).tolist()
    [0.9, 13.8, 0.0]
    """
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
    """The largest `pruned_rmse` of any weight: the descent's alpha-mRMSE on trees of this depth.

    >>> round(worst_pruned_rmse(noise="gaussian", scales=[6.0] * 3, thresholds=[30] * 3, alpha=0.1), 1)
    24.9
    """

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
