"""Queries on a release, with variances and intervals: weighted sums of nodes, ranges and prefixes of leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_numbers, check_type
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import LevelOrder, Tree


@dataclass(frozen=True)
class RangeCounts:
    """Estimates of range counts; `lower` and `upper` hold each true count with probability at least `confidence`."""

    estimates: Floats
    lower: Floats
    upper: Floats
    confidence: Floats
    """One for each query. Where intervals of nodes are joined, fewer nodes give more confidence."""


@dataclass(frozen=True)
class LinearCounts(RangeCounts):
    """Estimates of weighted sums; `lower` and `upper` hold each true sum with probability at least `confidence`."""

    variances: Floats | None
    """Those of the best unbiased estimates of the sums, exactly, where the release comes from least squares."""


def linear_counts(release: TreeRelease, weights: npt.ArrayLike) -> LinearCounts:
    """Linear queries on a tree: sums of node counts, each times a weight, for one row of weights or for many.

    Where the release comes from least squares the variance is exact, with all correlations between nodes, and the
    interval is as sound as those of nodes. Elsewhere the intervals of the m nodes of weight other than 0 are joined,
    and fail with at most m times the probability of one. Costs no privacy. Proof: docs/proofs/counting.md.

    :param release: Over a public tree, or over an open one, of which it shows some nodes.
    :param weights: One number for each node, in the order of `release.estimates`; or an array with one such row for
        each query.

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
        pairs = (release.lower, release.upper), (release.upper, release.lower)
        ends = (np.where(rows == 0, 0.0, np.where(rows > 0, *pair)) for pair in pairs)
        lower, upper = ((rows * end).sum(axis=1) for end in ends)
        return LinearCounts(estimates, lower, upper, _joint_confidence(release, (rows != 0).sum(axis=1)), None)
    variances = np.array([_variance(release.fit.estimator, row) for row in rows])
    interval = _fit_interval(release, estimates, rows @ release.fit.best, variances, (rows >= 0).all(axis=1))
    return LinearCounts(estimates, *interval, variances)


def _joint_confidence(release: TreeRelease, pieces: Ints) -> Floats:
    return np.asarray(np.maximum(0.0, 1 - pieces * (1 - release.confidence)), dtype=np.float64)


def _fit_interval(
    release: TreeRelease, estimates: Floats, centre: Floats, variances: Floats, positive: npt.ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Intervals around least-squares estimates, which hold the released estimates, and their confidence."""
    assert release.fit is not None
    half = release.fit.multiplier * np.sqrt(variances)
    # A sum without negative weights of counts that are not negative is not negative.
    least = np.where(positive, 0.0, -np.inf) if release.fit.nonnegative else -np.inf
    lower, upper = (np.maximum(end, least) for end in (centre - half, centre + half))
    confidence = np.full(estimates.size, release.confidence)
    return np.minimum(lower, estimates), np.maximum(upper, estimates), confidence


def _check_weights(weights: npt.ArrayLike, nodes: int) -> Floats:
    array = check_numbers(weights, name="weights", hint="one for each node, or rows of them", kinds="biuf")
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


def range_counts(release: TreeRelease, first: npt.ArrayLike, last: npt.ArrayLike) -> RangeCounts:
    """The counts of the leaves first..last-1, in the order of `tree.leaves`, for one range or for arrays of them.

    Where the release comes from least squares, each range's variance is exact, and its interval as sound as those of
    nodes. Elsewhere a range is put together from the fewest nodes, and their intervals are joined: with m nodes it
    fails with at most m times the probability of one. Costs no privacy. Proof: docs/proofs/counting.md.

    :param release: Over a public tree whose leaves are numbered depth-first, with counts that add up.
    :param first: The first leaf of each range, as a place in `tree.leaves`: a number or an array.
    :param last: The place after the last leaf of each range.

    >>> from opendp_tree import Tree, make_consistent
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> release = make_consistent(tree, variances=[1.0] * 3, noise="normal")([10, 6, 4, 4, 2, 3, 1])
    >>> found = range_counts(release, [0, 1], [2, 3])
    >>> found.estimates.tolist(), (found.upper - found.estimates).round(2).tolist()
    ([6.0, 5.0], [1.35, 2.1])
    """
    tree = check_type(release, TreeRelease, name="release", hint="what a mechanism gave").tree
    if not isinstance(tree, Tree):
        raise TypeError(
            f"release must be over a public Tree, found {type(tree).__name__}: its leaves have a known order"
        )
    if tree._depth_first is not None:
        raise ValueError(
            "release must be over a tree whose leaves are numbered depth-first. Hint: sort the paths, or the node ids"
        )
    if not release.adds_up:
        raise ValueError("release must add up: one person may be counted at several leaves. Hint: count='shares'")
    starts, ends = _check_ranges(first, last, tree.leaf_count)
    order = tree.level_order
    running = np.concatenate(([0.0], np.cumsum(release.estimates[tree.leaves])))
    estimates = running[ends] - running[starts]
    edges = map(range_edges(order), starts.tolist(), ends.tolist())
    if release.fit is None:
        lower, upper, pieces = np.array([_joined(release, order, each) for each in edges]).reshape(-1, 3).T
        return RangeCounts(estimates, lower, upper, _joint_confidence(release, pieces))
    best = np.concatenate(([0.0], np.cumsum(release.fit.best[tree.leaves])))
    variances = np.array([range_variance(release.fit.estimator, each) for each in edges])
    return RangeCounts(estimates, *_fit_interval(release, estimates, best[ends] - best[starts], variances, True))


def prefix_counts(release: TreeRelease, last: npt.ArrayLike) -> RangeCounts:
    """The counts of the first `last` leaves, for one number or for an array of them: thresholds, or a running total.

    :param release: As for `range_counts`.
    :param last: How many leaves each prefix has: a number or an array.
    """
    return range_counts(release, np.zeros_like(np.asarray(last)), last)


def _check_ranges(first: npt.ArrayLike, last: npt.ArrayLike, leaves: int) -> tuple[Ints, Ints]:
    ends = []
    for name, given in (("first", first), ("last", last)):
        array = np.atleast_1d(np.asarray(given))
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise TypeError(f"{name} must be an integer or a one-dimensional array of integers")
        if array.size and not (array.min() >= 0 and array.max() <= leaves):
            raise ValueError(f"{name} must be from 0 to {leaves}, the number of leaves")
        ends.append(array.astype(np.int64))
    if ends[0].shape != ends[1].shape:
        raise ValueError(f"first ({ends[0].size}) and last ({ends[1].size}) must have the same length")
    if (ends[0] > ends[1]).any():
        raise ValueError("first must not be above last")
    return ends[0], ends[1]


Edges = list[tuple[int, slice, Bools]]
"""From the root down, the nodes that a range covers in part, their children, and which of these are covered."""


def range_edges(order: LevelOrder) -> Callable[[int, int], Edges]:
    """The edges of ranges of leaves, as places in the level order: at most two nodes per level."""
    first, last = order.leaf_ranges
    starts, ends = np.zeros((2, order.nodes.size), dtype=np.int64)  # of each place's children; a leaf has none
    for level in order.inner_levels:
        starts[level.inner] = level.children.start + level.starts
        ends[level.inner] = starts[level.inner] + level.sizes

    def edges(a: int, b: int) -> Edges:
        found = []
        level = [0] if first[0] < a or b < last[0] else []
        while level:
            below = []
            for place in level:
                part = slice(int(starts[place]), int(ends[place]))
                whole = (first[part] >= a) & (last[part] <= b)
                found.append((place, part, whole))
                touched = (first[part] < b) & (last[part] > a) & ~whole
                below += (np.flatnonzero(touched) + part.start).tolist()
            level = below
        return found

    return edges


def range_variance(fit: LeastSquares, edges: Edges) -> float:
    """The exact variance of the least-squares estimate of a range."""
    slopes: dict[int, float] = {}
    scatters: dict[int, float] = {}
    for place, part, whole in reversed(edges):
        inside = whole.astype(np.float64)
        scatter = 0.0
        for child in [child for child in slopes if part.start <= child < part.stop]:  # at most two
            inside[child - part.start] = slopes.pop(child)
            scatter += scatters.pop(child)
        slope = float(inside @ fit.share[part])
        known = np.isfinite(fit.below[part])
        scatters[place] = scatter + float(fit.below[part][known] @ (inside[known] - slope) ** 2)
        slopes[place] = slope
    return slopes.get(0, 1.0) ** 2 * float(fit.variances[fit.order.tree.root]) + scatters.get(0, 0.0)


def _joined(release: TreeRelease, order: LevelOrder, edges: Edges) -> tuple[float, float, int]:
    """The sums of the lower and upper ends of the fewest nodes that make up a range, and their number."""
    places = np.concatenate([np.flatnonzero(whole) + part.start for _, part, whole in edges] or [np.array([0])])
    nodes = order.nodes[places]
    return float(release.lower[nodes].sum()), float(release.upper[nodes].sum()), int(nodes.size)
