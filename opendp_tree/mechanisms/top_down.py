"""Counts that still add up, made non-negative or whole: from the root down, each node's count is shared out anew.

Non-negative: at each node the children's estimates from below are moved, by least squares in their own variances, to
non-negative numbers that sum to the node's count. This is the constrained least-squares solution node by node, given
the node above; it is not that of the whole tree at once. Whole: each child becomes one of the two integers around it.
Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

import numpy as np

from opendp_tree._types import Floats, Ints
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.level_order import InnerLevel, LevelOrder

__all__ = ["nonnegative_descent", "whole_counts"]

_UNKNOWN = 1e12  # a child that was not measured takes the change: as if its variance were this many times the others'


def nonnegative_descent(fit: LeastSquares, values: Floats) -> Floats:
    """Final estimates from those that `fit.ascend` gives, none negative, in place."""
    values[0] = max(values[0], 0.0)
    for level in fit.order.inner_levels:
        variances = _finite(level, fit.below[level.children])
        values[level.children] = share_out(level, values[level.inner], values[level.children], variances)
    return values


def share_out(level: InnerLevel, totals: Floats, wishes: Floats, variances: Floats) -> Floats:
    """Non-negative numbers near `wishes` that sum to `totals` over each node's children."""
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


def _rescaled(level: InnerLevel, totals: Floats, moved: Floats) -> Floats:
    """The same, so that sums hold even where huge wishes met a small total and floats lost it."""
    found = np.add.reduceat(moved, level.starts)
    moved *= level.spread(np.divide(totals, found, out=np.ones_like(found), where=found > 0))
    lost = np.flatnonzero((found <= 0) & (totals > 0))
    moved[level.starts[lost]] = totals[lost]
    return moved


def _finite(level: InnerLevel, variances: Floats) -> Floats:
    unknown = np.isinf(variances)
    if not unknown.any():
        return variances
    others = np.add.reduceat(np.where(unknown, 0.0, variances), level.starts)
    return np.where(unknown, _UNKNOWN * np.maximum(level.spread(others), 1e-12), variances)


def whole_counts(order: LevelOrder, values: Floats) -> Floats:
    """Consistent values, in the level order, as integers that add up: each the floor or the ceiling of its value."""
    nearest = np.rint(values)
    # A value this near an integer is that integer plus rounding errors.
    near = np.minimum(1e-3, 1e-9 + 64 * np.spacing(np.abs(nearest)))
    values = np.where(np.abs(values - nearest) <= near, nearest, values)
    whole = np.floor(values)
    whole[0] = nearest[0]
    for level in order.inner_levels:
        lacking = whole[level.inner] - level.sums(whole)
        fractions = values[level.children] - whole[level.children]
        whole[level.children] += _rank(level, fractions) < level.spread(lacking)
        # Rounding errors may leave a sum off by a few: one each for the largest children, beyond 2**53 all for one.
        for limit in (1.0, np.inf):
            rest = level.spread(whole[level.inner] - level.sums(whole))
            if not rest.any():
                break
            chosen = _rank(level, whole[level.children]) < np.where(limit == 1.0, np.abs(rest), rest != 0)
            whole[level.children] += np.where(chosen, rest.clip(-limit, limit), 0.0)
    return whole


def _rank(level: InnerLevel, values: Floats) -> Ints:
    """The place of each child among its siblings, the largest value first."""
    order = np.lexsort((-values, level.spread(np.arange(level.starts.size))))
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size) - level.spread(level.starts)
    return rank
