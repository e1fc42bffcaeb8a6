"""Counts that are not negative and still add up: from the root down, each node's count is shared out anew.

At each node the children's estimates from below are moved, by least squares in their own variances, to non-negative
numbers that sum to the node's count. This is the constrained least-squares solution node by node, given the node above;
it is not that of the whole tree at once. Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.least_squares import LeastSquares, Level

__all__ = ["nonnegative_descent"]

Floats = npt.NDArray[np.float64]

_UNKNOWN = 1e12  # a child that was not measured takes the change: as if its variance were this many times the others'


def nonnegative_descent(fit: LeastSquares, values: Floats) -> Floats:
    """Final estimates from those that `fit.ascend` gives, none negative, in place."""
    values[0] = max(values[0], 0.0)
    for level in fit.layout.levels:
        variances = _finite(level, fit.below[level.children])
        values[level.children] = share_out(level, values[level.inner], values[level.children], variances)
    return values


def share_out(level: Level, totals: Floats, wishes: Floats, variances: Floats) -> Floats:
    """Non-negative numbers near `wishes` that sum to `totals` over each node's children.

    Minimises the sum of (number - wish)**2 / variance. A child that is negative when the gap is spread over all who are
    left is zero in the solution, so it is set to zero and the gap is spread again; each round settles a child or ends.
    """
    left = np.ones(wishes.size, dtype=np.bool_)
    while True:
        room = np.add.reduceat(np.where(left, variances, 0.0), level.starts)
        gap = totals - np.add.reduceat(np.where(left, wishes, 0.0), level.starts)
        step = np.divide(gap, room, out=np.zeros_like(gap), where=room > 0)
        moved = np.where(left, wishes + variances * level.spread(step), 0.0)
        negative = moved < 0
        if not negative.any():
            return _rescaled(level, totals, moved)
        left &= ~negative


def _rescaled(level: Level, totals: Floats, moved: Floats) -> Floats:
    """The same, so that sums hold even where huge wishes met a small total and floats lost it."""
    found = np.add.reduceat(moved, level.starts)
    moved *= level.spread(np.divide(totals, found, out=np.ones_like(found), where=found > 0))
    lost = np.flatnonzero((found <= 0) & (totals > 0))
    moved[level.starts[lost]] = totals[lost]
    return moved


def _finite(level: Level, variances: Floats) -> Floats:
    unknown = np.isinf(variances)
    if not unknown.any():
        return variances
    others = np.add.reduceat(np.where(unknown, 0.0, variances), level.starts)
    return np.where(unknown, _UNKNOWN * np.maximum(level.spread(others), 1e-12), variances)
