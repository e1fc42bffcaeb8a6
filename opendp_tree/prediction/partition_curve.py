"""The tree partition's error against the weight of a node."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from opendp_tree.prediction.partition import PartitionPlan, laplace_excess, normal_excess, unmarked_chance

Floats = npt.NDArray[np.float64]


def partition_rmse(weights: Floats, plan: PartitionPlan, *, alpha: float) -> Floats:
    """The alpha-RMSE of the worst node of each weight: without a cell, or with as many cells as its weight may hold.

    >>> from opendp_tree import plan_partition
    >>> found = plan_partition(depth=6, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    >>> partition_rmse(np.array([1.0, 10.0, 1e6]), found, alpha=0.1).round(1).tolist()
    [0.9, 9.0, 0.0]
    """
    at = np.asarray(weights, dtype=np.float64)
    slack = alpha * at
    alone = unmarked_chance(plan.scale, plan.shape, at)
    suppressed = np.maximum(np.abs(at - plan.fill) - slack, 0) ** 2
    worst = alone * suppressed + (1 - alone) * laplace_excess(np.zeros_like(at), slack, plan.count_scale)
    residuals: Floats = np.linspace(0.0, plan.shape.threshold + 12 * plan.scale, 60, dtype=np.float64)
    unmarked = unmarked_chance(plan.scale, plan.shape, residuals)
    for residual, left in zip(residuals.tolist(), unmarked.tolist(), strict=True):
        cells = np.floor((at - residual) / max(plan.shape.carrier, 1))
        fits = cells >= 1
        deviation = plan.count_scale * np.sqrt(2 * np.maximum(cells, 1.0))
        shift = np.full_like(at, abs(residual - plan.fill))
        here = left * normal_excess(shift, slack, deviation)
        more = (1 - left) * normal_excess(np.zeros_like(at), slack, deviation * math.sqrt(2))
        worst = np.where(fits, np.maximum(worst, here + more), worst)
    found: Floats = np.sqrt(worst)
    return found
