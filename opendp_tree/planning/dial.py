"""More keys, or better totals? What each share of epsilon that measures would give, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from opendp_tree._arguments import check_integer, check_probability
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.find import PartitionParameters, choose_parameters, variance
from opendp_tree.mechanisms.layers import LEAST_VARIANCE, ShownTree, final_variances, level_shares
from opendp_tree.mechanisms.partition.prediction import as_gaps, one_test
from opendp_tree.mechanisms.tree_estimator import GapNoise
from opendp_tree.planning.candidate import Candidate, LevelError
from opendp_tree.planning.methods import TreeEstimator
from opendp_tree.planning.plan import Plan

__all__ = ["plan_dial"]

_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_SPREAD = 1.5
"""Of the logarithm of leaf counts: that of places and categories, as a rule."""
_MOST_LEAVES = 2**20
_SURE = 4
"""A node of so many thresholds is a cell, as good as surely."""


def plan_dial(
    children: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    rows: int | None = None,
    leaf_counts: Any = None,
    shares: Sequence[float] = _SHARES,
    d_in: int = 1,
) -> Plan:
    """Errors and shown nodes by level, for each share of epsilon that `TreeEstimator(measuring=...)` may take.

    The rest of epsilon finds nodes: a small share shows more of them, a large one measures totals better. Predicted for
    a shape that is stated, not from data. Nodes that are not shown count as 0. At leaves the law is exact, above them
    it is that of layers and least squares.

    Parameters
    ----------
    children
        How many children each node has, from the root down: `[50, 20, 10]` for states, counties and cities.
    epsilon
        The privacy loss.
    delta
        The chance of a larger loss, which unknown nodes need.
    rows
        About how many rows there are. By default None: `leaf_counts` say it. Their sizes are then taken to be
        log-normal, as those of places and categories often are, spread evenly over the tree.
    leaf_counts
        Instead of `rows`: a typical count of each leaf, children of one node together. By default None.
    shares
        The shares of epsilon to compare. By default a tenth to seven tenths.
    d_in
        How many rows one person may have. By default 1.

    Examples
    --------
    >>> found = plan_dial([50, 20, 10], rows=1_000_000, epsilon=1.0, delta=1e-6, shares=[0.2, 0.6])
    >>> levels = found.levels().sort("method")
    >>> keys, totals = levels.filter(level=3)["shown"]
    >>> keys > totals  # more cities are found if less measures
    True
    >>> keys, totals = levels.filter(level=1)["error"]
    >>> keys > totals  # and states are better if more does
    True

    """
    sizes = [check_integer(each, name="children", least=1) for each in children]
    if not sizes or math.prod(sizes) > _MOST_LEAVES:
        raise ValueError(f"children must be one number or more, with at most {_MOST_LEAVES:,} leaves in all")
    budget = Budget.of(epsilon=epsilon, delta=float(check_probability(delta, name="delta")), d_in=d_in)
    counts = _leaf_counts(sizes, rows, leaf_counts)
    found = [_candidate(float(check_probability(share, name="shares")), budget, counts, sizes) for share in shares]
    numbers = ", ".join(f"{math.prod(sizes[:level]):,}" for level in range(len(sizes) + 1))
    subject = f"A tree of depth {len(sizes) + 1} with {numbers} nodes by level and {int(counts.sum()):,} rows"
    measure = "the root mean square error of the nodes of the worst level, where those that are not shown count as 0"
    return Plan(subject, measure, budget, tuple(sorted(found, key=lambda each: each.error)))


def _candidate(share: float, budget: Budget, counts: Ints, sizes: Sequence[int]) -> Candidate:
    """What comes of one share of epsilon that measures."""
    parameters = choose_parameters(len(sizes) + 1, *budget.exact, d_in=budget.d_in, measuring=share)
    rmse, shown = (each.tolist() for each in predict_levels(parameters, counts, sizes))
    errors = [
        LevelError(level, rmse[level], nodes=math.prod(sizes[:level]), shown=shown[level]) for level in range(len(rmse))
    ]
    return Candidate(
        TreeEstimator.name,
        feasible=True,
        reason=f"{share:g} of epsilon measures totals, and the rest finds nodes",
        needs="epsilon and delta",
        error=max(rmse),
        guarantee="epsilon and delta",
        parameters={"measuring": share},
        shown_from=float(parameters.fringes[0].thresholds[-1]),
        by_level=lambda: errors,
        budget=budget,
        method=TreeEstimator(measuring=share),
    )


def predict_levels(parameters: PartitionParameters, leaf_counts: Ints, sizes: Sequence[int]) -> tuple[Floats, Floats]:
    """By level from the root down: the plain RMSE of non-empty nodes, and how many nodes are shown."""
    depth, gaps = len(sizes) + 1, as_gaps(parameters)
    counts = [leaf_counts.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(depth)]
    distinct, inverse = np.unique(leaf_counts, return_inverse=True)
    laws = [one_test(gaps, int(people)) for people in distinct]
    seen, squares = (np.array([getattr(law, name) for law in laws])[inverse] for name in ("shown", "mean_square"))
    shown, cells, passed = [seen], [seen], [leaf_counts * (1 - seen)]
    once = np.array([one_test(gaps, people).shown for people in range(_SURE * gaps.shape.thresholds[0])])
    for level in reversed(range(depth - 1)):
        flow = passed[0].reshape(counts[level].size, -1).sum(axis=1)
        cell = np.where(flow < once.size - 1, np.interp(flow, np.arange(once.size), once), 1.0)
        below = 1 - np.prod((1 - shown[0]).reshape(counts[level].size, -1), axis=1)
        passed.insert(0, flow * (1 - cell))
        cells.insert(0, cell)
        shown.insert(0, 1 - (1 - cell) * (1 - below))
    shown[0] = np.ones(1)
    variances = _variances(parameters, _typical(shown, cells, passed, counts, sizes))
    rmse = np.zeros(depth)
    for level in range(depth):
        real = counts[level] > 0
        if level == depth - 1:
            rmse[level] = math.sqrt(squares[real].mean()) if real.any() else 0.0
        else:
            part, missed = shown[level][real], (1 - shown[level][real]) * counts[level][real].astype(float) ** 2
            rmse[level] = math.sqrt(float((part * variances[level] + missed).mean())) if real.any() else 0.0
    return rmse, np.array([part.sum() for part in shown])


def _typical(
    shown: list[Floats], cells: list[Floats], passed: list[Floats], counts: list[Ints], sizes: Sequence[int]
) -> ShownTree:
    """The tree of the nodes that are rather shown than not, with those as cells that rather are."""
    depth = len(sizes) + 1
    kept = [np.flatnonzero(part > 0.5) for part in shown]
    starts = np.append(0, np.cumsum([part.size for part in kept]))
    parents = np.full(starts[-1], -1)
    for level in range(1, depth):
        above = np.searchsorted(kept[level - 1], kept[level] // sizes[level - 1])
        parents[starts[level] : starts[level + 1]] = starts[level - 1] + above.clip(0, max(kept[level - 1].size - 1, 0))
    levels = np.repeat(np.arange(depth), [part.size for part in kept])
    is_cell = np.concatenate([chance[here] > 0.5 for chance, here in zip(cells, kept, strict=True)])
    is_cell[0] = False
    flows = [counts[-1][kept[-1]], *(part[here] for part, here in zip(passed[:-1], kept[:-1], strict=True))]
    gaps = np.concatenate((*flows[1:], flows[0]))
    return ShownTree(levels, parents, depth, is_cell, np.arange(levels.size) == 0, np.rint(gaps).astype(np.int64))


def _variances(parameters: PartitionParameters, shown: ShownTree) -> Floats:
    """The mean variance of the nodes of each level, after least squares up and down the tree."""
    rest = GapNoise.of(parameters, np.zeros(shown.levels.size, dtype=np.int64), shown).rest_variance(shown)
    levels = list(range(0 if shown.depth <= 2 else 1, max(shown.depth - 1, 1)))
    alphas, betas = float(parameters.alphas), float(parameters.betas)
    shares = level_shares(shown, rest, levels, np.ones(len(levels)), alphas, betas, 1.0)
    precisions = np.zeros(shown.depth)
    for level, share in zip(levels, shares.tolist(), strict=True):
        precisions[level] = 1 / max(variance(1 / (share * alphas)) + variance(1 / (share * betas)), LEAST_VARIANCE)
    deeper = precisions[::-1].cumsum()[::-1] - precisions
    rest = 1 / (1 / rest + np.where(shown.levels < shown.depth - 1, deeper[shown.levels], 0.0))
    after = final_variances(shown, rest, precisions[shown.levels])
    return np.array(
        [after[shown.at(level)].mean() if after[shown.at(level)].size else 0.0 for level in range(shown.depth)]
    )


def _leaf_counts(sizes: Sequence[int], rows: int | None, stated: Any) -> Ints:
    """Those that are stated, or log-normal ones that sum to about `rows`, large and small ones mixed."""
    leaves = math.prod(sizes)
    if (rows is None) == (stated is None):
        raise ValueError("give either rows or leaf_counts. Hint: rows=1_000_000")
    if stated is not None:
        counts = np.asarray(stated)
        if counts.shape != (leaves,) or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
            raise ValueError(f"leaf_counts must be {leaves:,} whole numbers, none negative: one for each leaf")
        return counts.astype(np.int64)
    assert rows is not None
    total = check_integer(rows, name="rows", least=1)
    normal = NormalDist()
    ranks = (np.arange(leaves) * _coprime(leaves)) % leaves  # every part of the tree gets small and large ones
    weights = np.exp(_SPREAD * np.array([normal.inv_cdf((rank + 0.5) / leaves) for rank in ranks.tolist()]))
    typical: Ints = np.rint(weights * (total / weights.sum())).astype(np.int64)
    return typical


def _coprime(number: int) -> int:
    """A step that visits every place once, far from its neighbours."""
    step = max(1, round(number * 0.618))
    while math.gcd(step, number) != 1:
        step += 1
    return step
