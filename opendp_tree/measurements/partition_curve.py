"""The tree partition's error against the weight of a node."""

from __future__ import annotations

import math

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.measurements.partition_error import MOST_CELLS, cell_weight, chain_square, chains, mean_square
from opendp_tree.measurements.partition_plan import PartitionPlan, one_setting


def partition_rmse(weights: Floats, plan: PartitionPlan, *, alpha: float) -> Floats:
    """The alpha-RMSE of the worst node of each weight: without a cell, or with as many as its weight may hold.

    >>> from opendp_tree.measurements.partition_plan import plan_partition
    >>> found = plan_partition(depth=6, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    >>> partition_rmse(np.array([1.0, 10.0, 1e6]), found, alpha=0.1).round(1).tolist()
    [0.9, 9.0, 0.0]
    """
    settings = one_setting(plan.scale, plan.shape, plan.count_scale, plan.fill)
    at, total = settings.columns(1), np.asarray(weights, dtype=np.float64)[None, :]
    worst = mean_square(at, np.array([0]), np.zeros_like(total), total, alpha)
    if plan.shape.depth > 1:
        leaves, marked = chains(settings)
        near = np.interp(total, leaves[0], marked[0])
        inside = (total >= leaves.min()) & (total <= leaves.max())
        worst = np.where(inside, np.maximum(worst, chain_square(at, total, near, alpha)), worst)
        lightest = (leaves / marked.clip(1e-9, 1)).min(axis=1, keepdims=True)
        residuals = [0.0, *np.linspace(0.5, 1.5, 6) * plan.shape.threshold]
        for power in range(1 + int(math.log2(MOST_CELLS))):
            cells = np.array([2**power])
            for residual in residuals:
                left = np.full_like(total, residual)
                each = (total - left) / cells
                possible = each >= cell_weight(at, cells, lightest, left)
                square = mean_square(at, cells, np.maximum(each, lightest), left, alpha)
                worst = np.where(possible, np.maximum(worst, square), worst)
    found: Floats = np.sqrt(worst[0])
    return found
