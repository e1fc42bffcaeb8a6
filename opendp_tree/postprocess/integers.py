"""Whole counts that still add up: from the root down, each child becomes one of the two integers around it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opendp_tree.trees.least_squares import Level, TreeLayout

__all__ = ["whole_counts"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def whole_counts(layout: TreeLayout, values: Floats) -> Floats:
    """Consistent values, in breadth-first order, as integers that add up: each the floor or the ceiling of its value.

    The children of a node are rounded down, and what their sum then lacks goes, one each, to those with the largest
    fractions: never more than have a fraction. Beyond 2**53 floats hold no single units, and sums are as exact as they.
    """
    nearest = np.rint(values)
    # A value this near an integer is that integer plus rounding errors.
    near = np.minimum(1e-3, 1e-9 + 64 * np.spacing(np.abs(nearest)))
    values = np.where(np.abs(values - nearest) <= near, nearest, values)
    whole = np.floor(values)
    whole[0] = nearest[0]
    for level in layout.levels:
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


def _rank(level: Level, values: Floats) -> Ints:
    """The place of each child among its siblings, the largest value first."""
    order = np.lexsort((-values, level.spread(np.arange(level.starts.size))))
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size) - level.spread(level.starts)
    return rank
