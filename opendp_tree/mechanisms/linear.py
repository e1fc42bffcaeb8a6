"""Any weighted sums of node counts, estimated from a release, with variances and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_type
from opendp_tree._types import Floats
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.least_squares import LeastSquares

__all__ = ["LinearCounts", "linear_counts"]


@dataclass(frozen=True)
class LinearCounts:
    """Estimates of weighted sums; `lower` and `upper` hold each true sum with probability at least `confidence`."""

    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: Floats
    """One for each sum: fewer nodes, more confidence, where intervals of nodes are joined."""
    variances: Floats | None
    """Of the best unbiased estimates of the sums, exactly, where the release comes from least squares."""


def linear_counts(release: TreeRelease, weights: npt.ArrayLike) -> LinearCounts:
    """Linear queries on a tree: sums of node counts, each times a weight, for one row of weights or for many.

    Differences of two nodes, means over leaves, totals of a selection. Where the release comes from least squares the
    variance is exact, with all correlations between nodes, and the interval is as sound as those of nodes. Elsewhere
    the intervals of the m nodes of weight other than 0 are joined, and fail with at most m times the probability of
    one. Costs no privacy. Proof: docs/proofs/range_counts.md.

    Parameters
    ----------
    release
        Over a public tree, or over an open one, of which it shows some nodes.
    weights
        One number for each node, in the order of `release.estimates`; or an array with one such row for each query.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, make_consistent
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> release = make_consistent(tree, variances=[2.0] * 3, noise="normal")([106, 90, 73, 20, 10])
    >>> found = linear_counts(release, [0, 1, 0, 0, -1])  # how many more in be than in lu
    >>> found.estimates.round(2).tolist(), found.variances.round(2).tolist()
    ([80.38], [3.25])
    """
    check_type(release, TreeRelease, name="release", hint="what a mechanism gave")
    rows = _check_weights(weights, release.estimates.size)
    estimates = rows @ release.estimates
    if release.fit is None:
        low, high = np.where(rows > 0, release.lower, release.upper), np.where(rows > 0, release.upper, release.lower)
        counted = rows != 0
        lower = np.where(counted, rows * np.where(counted, low, 0.0), 0.0).sum(axis=1)
        upper = np.where(counted, rows * np.where(counted, high, 0.0), 0.0).sum(axis=1)
        confidence = np.maximum(0.0, 1 - counted.sum(axis=1) * (1 - release.confidence))
        return LinearCounts(estimates, lower, upper, confidence, None)
    fit = release.fit
    variances = np.array([_variance(fit.estimator, row) for row in rows])
    centre, half = rows @ fit.best, fit.multiplier * np.sqrt(variances)
    lower, upper = np.minimum(centre - half, estimates), np.maximum(centre + half, estimates)
    if fit.nonnegative:  # a sum without negative weights of counts that are not negative is not
        never = (rows >= 0).all(axis=1)
        lower = np.where(never, np.maximum(lower, 0.0), lower)
        upper = np.where(never, np.maximum(upper, 0.0), upper)
    return LinearCounts(estimates, lower, upper, np.full(rows.shape[0], release.confidence), variances)


def _check_weights(weights: npt.ArrayLike, nodes: int) -> Floats:
    try:
        array = np.asarray(weights)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise TypeError("weights must be numbers. Hint: one for each node, or rows of them")
    if array.ndim not in (1, 2) or array.shape[-1] != nodes:
        raise ValueError(
            f"weights (of shape {array.shape}) must hold one number for each of the {nodes} nodes, or rows"
        )
    rows: Floats = np.atleast_2d(array).astype(np.float64)
    if not (np.abs(rows) <= 1e100).all():
        raise ValueError("weights must be finite and at most 1e100")
    return rows


def _variance(fit: LeastSquares, weights: Floats) -> float:
    """The exact variance of a weighted sum of the estimates, from the leaves up."""
    slopes = fit.order.place(weights)  # of the sum below a place in that place's own count
    scatters = np.zeros_like(slopes)
    for level in reversed(fit.order.inner_levels):
        below = slopes[level.children]
        mean = np.add.reduceat(below * fit.share[level.children], level.starts)
        known = np.isfinite(fit.below[level.children])
        apart = (below - level.spread(mean)) ** 2
        own = np.where(known, np.where(known, fit.below[level.children], 0.0) * apart, 0.0)
        scatters[level.inner] = np.add.reduceat(scatters[level.children] + own, level.starts)
        slopes[level.inner] += mean
    root = float(fit.variances[fit.order.tree.root])
    return float(slopes[0] ** 2 * root + scatters[0])
