"""Consistent trees: least squares on noisy counts of all nodes; if wanted, non-negative or whole from the root down.

Proof: docs/proofs/consistent.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.mod import Function, assert_features

from opendp_tree._arguments import check_choice, check_flags, check_probability
from opendp_tree._opendp import make_function
from opendp_tree._types import Floats, Ints
from opendp_tree.releases.release import Fit, PrivacyStatement, TreeRelease
from opendp_tree.theorems.gaussian import gaussian_multiplier, normal_multiplier
from opendp_tree.theorems.laplace import laplace_multiplier
from opendp_tree.trees.arrays import InnerLevel, LevelOrder
from opendp_tree.trees.least_squares import LeastSquares, check_variances
from opendp_tree.trees.shown_nodes import contracted_parents
from opendp_tree.trees.tree import Tree, check_tree

__all__ = ["Consistency", "make_consistent", "nonnegative_descent", "polished", "then_consistent", "whole_counts"]

_UNKNOWN = 1e12  # a child that was not measured takes the change: as if its variance were this many times the others'


def nonnegative_descent(fit: LeastSquares, values: Floats) -> Floats:
    """Final estimates from those that `fit.ascend` gives, none negative, in place."""
    values[0] = max(values[0], 0.0)
    for level in fit.order.inner_levels:
        variances = _finite(level, fit.below[level.children])
        values[level.children] = share_out(level, values[level.inner], values[level.children], variances)
    return values


def polished(release: TreeRelease, *, nonnegative: bool, integers: bool) -> TreeRelease:
    """Estimates that are not negative, or whole, and add up where they did: with rows "(other)", which are so, too."""
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
            by_place[0] = max(by_place[0], 0.0)
            for level in order.inner_levels:
                wishes = by_place[level.children]
                by_place[level.children] = share_out(level, by_place[level.inner], wishes, np.ones_like(wishes))
        placed = whole_counts(order, by_place) if integers else by_place
        everywhere = np.empty_like(placed)
        everywhere[order.nodes] = placed
        values = everywhere[: values.size]
    else:
        values = np.maximum(values, 0.0) if nonnegative else values
        values = np.rint(values) if integers else values
    estimates = release.estimates.copy()
    estimates[shown] = values
    lower, upper = np.minimum(release.lower, estimates), np.maximum(release.upper, estimates)
    lower = np.maximum(lower, 0.0) if nonnegative else lower
    return replace(release, estimates=estimates, lower=lower, upper=upper, fit=None)


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


NOISES = ("gaussian", "laplace", "normal")


@dataclass(frozen=True)
class Consistency:
    """All that making a tree consistent needs, checked and made ready."""

    estimator: LeastSquares
    multiplier: float
    confidence: float
    nonnegative: bool
    integers: bool

    @classmethod
    def of(
        cls, tree: Tree, variances: object, *, noise: str, confidence: float, nonnegative: bool, integers: bool
    ) -> Consistency:
        """Checks all arguments."""
        check_tree(tree)
        check_choice(noise, name="noise", choices=NOISES)
        level = float(check_probability(confidence, name="confidence"))
        check_flags(nonnegative=nonnegative, integers=integers)
        by_node = check_variances(tree, variances)
        known = by_node[np.isfinite(by_node)]
        if not known.size:
            raise ValueError("variances must be finite for at least one node")
        multiplier = _multiplier(noise, level, float(known.min()), known.size)
        return cls(LeastSquares.of(tree, by_node), multiplier, level, nonnegative, integers)

    def release(self, measurements: npt.NDArray[np.number], statement: PrivacyStatement | None) -> TreeRelease:
        """Estimates and intervals from noisy counts by node id."""
        solver, order = self.estimator, self.estimator.order
        upward, sums = solver.ascend(solver.place(measurements))
        if self.nonnegative:
            best = solver.descend(upward.copy(), sums)
            values = nonnegative_descent(solver, upward)
        else:
            best = values = solver.descend(upward, sums)
        if self.integers:
            values = whole_counts(order, values)
        estimates, centre = order.by_node(values), order.by_node(best)
        half = self.multiplier * np.sqrt(solver.variances)
        lower, upper = centre - half, centre + half
        if self.nonnegative:
            lower, upper = np.maximum(lower, 0.0), np.maximum(upper, 0.0)
        if self.nonnegative or self.integers:  # a wider interval holds the truth no less often
            lower, upper = np.minimum(lower, estimates), np.maximum(upper, estimates)
        for array in (estimates, centre):  # which may be one: what a range is counted from must not change
            array.flags.writeable = False
        fit = Fit(solver, self.multiplier, centre, self.nonnegative)
        return TreeRelease(order.tree, estimates, lower, upper, self.confidence, statement, fit=fit)


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

    The estimates are the best linear unbiased ones (generalised least squares), on a tree of any shape, for any
    `variances` of the noise: one for each level from the root's down, or one for each node. `inf` says that a node was
    not measured; what stands there is not read. No node's variance exceeds that of its own measurement.
    Proof: docs/proofs/consistent.md.

    `lower` and `upper` hold a node's true count with probability at least `confidence`: for "gaussian" noise on the
    integers (whose variances are to be given as the squares of its scales) and for "laplace" noise by sound bounds, for
    "normal" noise exactly.

    `nonnegative` shares every node's count out from the root down so that none is negative, at some cost in bias and
    none in coverage if the true counts are not negative; `integers` rounds so that counts still add up. The cost is two
    passes over the nodes and a few array operations for each level; making it takes a few times that.

    Parameters
    ----------
    tree
        The tree whose nodes the counts are of.
    variances
        Of the noise: one for each level from the root's down, or one for each node; `inf` where nothing was
        measured, and what stands there is not read. For "gaussian" noise the squares of its scales.
    noise
        Which law the intervals are for: "gaussian" or "laplace" on the integers, by sound bounds, or "normal",
        exactly.
    confidence
        The probability with which a node's interval holds its count, node by node; 0.95, as people expect.
    nonnegative
        Shares every node's count out from the root down so that none is negative, at some cost in bias and none
        in coverage if true counts are not negative; False, because sums of small counts become biased.
    integers
        Rounds so that counts still add up; False, because rounding adds error.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain, then_consistent, then_tree_sum
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> consistent = make_consistent(tree, variances=[2.0, 2.0, 2.0], noise="normal")
    >>> release = consistent([106, 90, 73, 20, 10])
    >>> release.estimates.round(2).tolist()
    [104.12, 92.25, 72.62, 19.62, 11.88]
    >>> release.fit.estimator.variances.round(2).tolist()
    [1.25, 1.0, 1.25, 1.25, 1.25]
    >>> sums = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_sum(carrier="vector")
    >>> noisy = sums >> dp.m.then_laplace(scale=3.0)
    >>> chain = noisy >> then_consistent(tree, variances=[18.0] * 3, noise="laplace", integers=True)
    >>> estimates = chain(tree.count(["ghent"] * 70 + ["lu"] * 30)).estimates
    >>> chain.map(1), estimates[0] == estimates[2:].sum()
    (1.0, np.True_)
    """
    assert_features("contrib")
    work = Consistency.of(
        tree, variances, noise=noise, confidence=confidence, nonnegative=nonnegative, integers=integers
    )
    _check_chain(tree, variances)

    def function(data: Any) -> TreeRelease:
        try:
            measurements = np.array(data, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("the noisy counts must be numbers") from None
        if measurements.shape != (tree.node_count,):
            raise ValueError(
                f"the noisy counts must be one-dimensional with one for each of the {tree.node_count} nodes"
            )
        return work.release(measurements, None)

    return make_function(function)


def _check_chain(tree: Tree, variances: Any) -> None:
    """On a chain there are as many levels as nodes; refuse to guess where the two readings differ."""
    chain = tree.depth == tree.node_count and bool((tree.node_levels != np.arange(tree.depth)).any())
    if chain and len(set(np.asarray(variances, dtype=np.float64).tolist())) > 1:
        raise ValueError(
            "variances of a chain must not differ unless its node ids run from the root down: they might be meant "
            "by level or by node. Hint: number the nodes in that order"
        )


then_consistent = make_consistent
"""The same: `measurement >> then_consistent(tree, variances=...)`."""


def _multiplier(noise: str, confidence: float, least_variance: float, measured: int) -> float:
    if noise == "normal":
        return normal_multiplier(confidence)
    if noise == "laplace":
        return laplace_multiplier(confidence, least_variance=least_variance)
    return gaussian_multiplier(confidence, least_scale=least_variance**0.5, measured=measured)
