"""Consistent trees: least squares on noisy counts of all nodes; on request non-negative, or whole.

Proof: docs/proofs/tree_noise.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.mod import Function, assert_features

from opendp_tree._arguments import check_choice, check_flags, check_probability
from opendp_tree._opendp import make_function
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import PrivacyStatement
from opendp_tree.releases.release import Fit, TreeRelease
from opendp_tree.theorems.tails import gaussian_multiplier, laplace_multiplier, normal_multiplier
from opendp_tree.trees.least_squares import LARGEST_VARIANCE, LEAST_VARIANCE, LeastSquares, check_variances
from opendp_tree.trees.nodes import contracted_parents
from opendp_tree.trees.tree import InnerLevel, LevelOrder, Tree, check_tree

_UNKNOWN = 1e12  # a child that was not measured takes the change: as if its variance were this many times the others'


def nonnegative_descent(order: LevelOrder, values: Floats, variances: Floats) -> Floats:
    """Values that add up and are not negative, changed in place from the root down, in proportion to `variances`."""
    values[0] = max(values[0], 0.0)
    for level in order.inner_levels:
        shares = variances[level.children]
        unknown = np.isinf(shares)
        if unknown.any():
            others = np.add.reduceat(np.where(unknown, 0.0, shares), level.starts)
            shares = np.where(unknown, _UNKNOWN * np.maximum(level.spread(others), 1e-12), shares)
        values[level.children] = share_out(level, values[level.inner], values[level.children], shares)
    return values


def polished(release: TreeRelease, *, nonnegative: bool, integers: bool) -> TreeRelease:
    """A release of non-negative or whole estimates that still add up, with those of the rows "(other)"."""
    shown = np.ones(release.estimates.size, dtype=np.bool_) if release.shown is None else release.shown
    values = release.estimates[shown]
    if release.adds_up and values.size:
        parents = contracted_parents(release.parents, shown)
        lacking = np.bincount(parents[parents >= 0], minlength=values.size) > 0
        if isinstance(release.tree, Tree):
            hidden = release.parents[~shown]
            lacking &= (np.bincount(hidden[hidden >= 0], minlength=shown.size) > 0)[shown]
        inner = np.flatnonzero(lacking)
        order = Tree.from_parents(np.concatenate((parents, inner))).level_order
        rest = values - np.bincount(parents[parents >= 0], values[parents >= 0], minlength=values.size)
        by_place = order.place(np.concatenate((values, rest[inner])))
        if nonnegative:
            by_place = nonnegative_descent(order, by_place, np.ones_like(by_place))
        values = order.by_node(whole_counts(order, by_place) if integers else by_place)[: values.size]
    else:
        values = np.maximum(values, 0.0) if nonnegative else values
        values = np.rint(values) if integers else values
    estimates = release.estimates.copy()
    estimates[shown] = values
    lower, upper = np.minimum(release.lower, estimates), np.maximum(release.upper, estimates)
    lower = np.maximum(lower, 0.0) if nonnegative else lower
    return replace(release, estimates=estimates, lower=lower, upper=upper, fit=None, whole=integers)


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
            break
        left &= ~negative
    # Sums must hold even where huge wishes met a small total and floats lost it.
    found = np.add.reduceat(moved, level.starts)
    moved *= level.spread(np.divide(totals, found, out=np.ones_like(found), where=found > 0))
    lost = np.flatnonzero((found <= 0) & (totals > 0))
    moved[level.starts[lost]] = totals[lost]
    return moved


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


def consistent_estimator(
    tree: Tree, variances: Floats, noise: str, confidence: float, *, nonnegative: bool, integers: bool
) -> Callable[[npt.NDArray[np.number], PrivacyStatement | None], TreeRelease]:
    """Noisy counts by node id, of these variances, to estimates and intervals; all that can be prepared is."""
    # Variances are moved into the range of floats.
    variances = np.where(np.isinf(variances), np.inf, variances.clip(LEAST_VARIANCE, LARGEST_VARIANCE))
    known = variances[np.isfinite(variances)]
    if not known.size:
        raise ValueError("variances must be finite for at least one node")
    multiplier = noise_multiplier(noise, confidence, float(known.min()), known.size)
    solver = LeastSquares.of(tree, variances)
    order = solver.order

    def release(measurements: npt.NDArray[np.number], statement: PrivacyStatement | None) -> TreeRelease:
        upward, sums = solver.ascend(solver.place(measurements))
        if nonnegative:
            best = solver.descend(upward.copy(), sums)
            values = nonnegative_descent(order, upward, solver.below)
        else:
            best = values = solver.descend(upward, sums)
        if integers:
            values = whole_counts(order, values)
        estimates, centre = order.by_node(values), order.by_node(best)
        half = multiplier * np.sqrt(solver.variances)
        lower, upper = centre - half, centre + half
        if nonnegative:
            lower, upper = np.maximum(lower, 0.0), np.maximum(upper, 0.0)
        if nonnegative or integers:  # a wider interval holds the truth no less often
            lower, upper = np.minimum(lower, estimates), np.maximum(upper, estimates)
        for array in (estimates, centre):  # ranges are counted from these, which may be one array
            array.flags.writeable = False
        fit = Fit(solver, multiplier, centre, nonnegative)
        return TreeRelease(tree, estimates, lower, upper, confidence, statement, fit=fit, whole=integers)

    return release


def make_consistent(
    tree: Tree,
    *,
    variances: Sequence[float] | npt.NDArray[np.floating[Any]],
    noise: str = "gaussian",
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Function:
    """A postprocessor: noisy counts of all nodes, by node id, to a `TreeRelease` whose counts add up.

    The estimates are the best linear unbiased ones (generalised least squares), on a tree of any shape: no node's
    variance exceeds that of its own measurement. Proof: docs/proofs/tree_noise.md. The cost is two passes over the
    nodes; making it takes a few times that.

    Other parameters: as for `make_tree_laplace`.

    :param tree: The tree whose nodes the counts are of.
    :param variances: The variances of the noise: one for each level from the root's down, or one for each node; `inf`
        where nothing was measured, whose counts are ignored. For "gaussian" noise the squares of its scales.
    :param noise: Which law the intervals are for: "gaussian" or "laplace" on the integers, by sound bounds, or
        "normal", exactly.
    :param nonnegative: Shares every node's count out from the root down so that none is negative, at no cost in
        coverage if true counts are not; False, because sums of small counts become biased.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> consistent = make_consistent(tree, variances=[2.0, 2.0, 2.0], noise="normal")
    >>> release = consistent([106, 90, 73, 20, 10])
    >>> release.estimates.round(2).tolist()
    [104.12, 92.25, 72.62, 19.62, 11.88]
    >>> release.fit.estimator.variances.round(2).tolist()
    [1.25, 1.0, 1.25, 1.25, 1.25]
    """
    assert_features("contrib")
    check_tree(tree)
    check_choice(noise, name="noise", choices=("gaussian", "laplace", "normal"))
    level = float(check_probability(confidence, name="confidence"))
    check_flags(nonnegative=nonnegative, integers=integers)
    by_node = check_variances(tree, variances)
    work = consistent_estimator(tree, by_node, noise, level, nonnegative=nonnegative, integers=integers)
    # A chain has as many levels as nodes: refuse to guess where the two readings differ.
    upside_down = tree.depth == tree.node_count and bool((tree.node_levels != np.arange(tree.depth)).any())
    if upside_down and np.unique(by_node).size > 1:
        raise ValueError(
            "variances of a chain must not differ unless its node ids run from the root down: they might be meant "
            "by level or by node. Hint: number the nodes in that order"
        )

    def function(data: Any) -> TreeRelease:
        try:
            measurements = np.array(data, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("the noisy counts must be numbers") from None
        if measurements.shape != (tree.node_count,):
            raise ValueError(
                f"the noisy counts must be one-dimensional with one for each of the {tree.node_count} nodes"
            )
        return work(measurements, None)

    return make_function(function)


then_consistent = make_consistent
"""The same: `measurement >> then_consistent(tree, variances=...)`."""


def noise_multiplier(noise: str, confidence: float, least_variance: float, measured: int) -> float:
    """How many standard deviations an interval reaches, for `measured` measurements of at least this variance."""
    if noise == "normal":
        return normal_multiplier(confidence)
    if noise == "laplace":
        return laplace_multiplier(confidence, least_variance=least_variance)
    return gaussian_multiplier(confidence, least_scale=least_variance**0.5, measured=measured)
