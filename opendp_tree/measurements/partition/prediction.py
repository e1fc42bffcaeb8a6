"""What find, then measure errs by, before any data is touched.

The law of one node that is tested once is summed exactly, in floats, whatever its count; so is that of a caterpillar,
whose arrivals tokens may take off one by one. These are the worst inputs that are known. For a stated shape of data,
the errors of its levels come from the same law at the leaves and from the variances of layers and cells above them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats, Ints
from opendp_tree.measurements.alpha_errors import normal_excess
from opendp_tree.measurements.partition.layers import (
    NAMED,
    RATIO,
    CellNoise,
    LevelWeights,
    ShownTree,
    ladder_of,
    level_shares,
)
from opendp_tree.measurements.partition.parameters import GapParameters

FINEST = 64
"""Steps up to the threshold at which laws are summed: exact up to this, and then in steps of several people."""
_SURE = 4
"""A node of so many thresholds is a cell, as good as surely."""
_TAIL = 1e-12
"""Chances of noise that are less than this, and what lies beyond, are left out of sums."""


@dataclass(frozen=True)
class OneTest:
    """A node of a given count that is tested once: the chance that it is shown, and its mean squared alpha-error."""

    shown: float
    mean_square: float


def one_test(parameters: GapParameters, people: int, *, alpha: float = 0.0, is_leaf: bool = True) -> OneTest:
    """The exact law of one test of a node with so many people, at the deepest tested level.

    Parameters
    ----------
    parameters
        Those of the cells.
    people
        The node's count.
    alpha
        The part of the count that the error forgives; 0, the default, for the plain error.
    is_leaf
        Whether the node is a leaf of the tree; more is added to an inner cell's gap. True by default.

    >>> from opendp_tree.measurements.partition.parameters import choose_parameters
    >>> found = one_test(choose_parameters(3, 1.0, 1e-6), 1000)
    >>> found.shown, round(found.mean_square**0.5, 1)
    (1.0, 1.4)
    """
    shape = parameters.shape
    threshold, radius = shape.thresholds[-1], shape.radii[-1]
    level = threshold - shape.margins[-1]
    tokens = _geometric(parameters.token_scale, None)
    room = max(people - level + 1, 0)
    taken = np.minimum(np.arange(tokens.size), room)
    chances = np.bincount(taken, tokens)
    tests = _geometric(parameters.scale, radius)
    gap = people - np.arange(chances.size)[:, None] + np.arange(tests.size)
    weights = chances[:, None] * tests
    shift = float(CellNoise.of(parameters).shift(np.array([is_leaf]))[0])
    error = np.maximum(np.abs(np.maximum(gap + shift, 1.0) - people) - alpha * people, 0.0) ** 2
    cell = gap >= threshold
    shown = float(weights[cell].sum())
    missed = ((1 - alpha) * people) ** 2 * float(weights[~cell].sum())
    return OneTest(min(shown, 1.0), float((weights * error)[cell].sum()) + missed)


def _geometric(scale: float, radius: int | None) -> Floats:
    """The chances of 0, 1, ..., up to the radius or until hardly anything is left."""
    end = math.ceil(-scale * math.log(_TAIL)) + 1 if radius is None else radius + 1
    weights: Floats = np.exp(-np.arange(end) / scale)
    weights /= weights.sum()
    return weights


@lru_cache(maxsize=256)
def worst_alpha_rmse(parameters: GapParameters, alpha: float) -> float:
    """The largest alpha-RMSE of a node, over nodes that are tested once and over caterpillars with one arrival a level.

    Laws of thresholds beyond `FINEST` are summed in steps of several people, which changes it by about a hundredth.

    >>> from opendp_tree.measurements.partition.parameters import choose_parameters
    >>> round(worst_alpha_rmse(choose_parameters(3, 1.0, 1e-6), 0.1), 1)
    12.0
    """
    parameters, step = coarse(parameters)
    threshold = parameters.shape.thresholds[-1]
    counts = range(max(1, threshold // 2), threshold + math.ceil(4 * parameters.token_scale) + 2)
    once = (
        one_test(parameters, people, alpha=alpha, is_leaf=is_leaf).mean_square
        for is_leaf in (True, False)
        for people in counts
    )
    starts = range(1, threshold)
    longest = (worst_caterpillar(parameters, start, alpha)[0] for start in starts)
    return step * math.sqrt(max(*once, *longest))


def coarse(parameters: GapParameters) -> tuple[GapParameters, float]:
    """The same parameters in units of several people, if there are more than `FINEST`; and the unit.

    >>> from opendp_tree.measurements.partition.parameters import choose_parameters
    >>> found, step = coarse(choose_parameters(3, 0.01, 1e-6))
    >>> found.shape.thresholds[0], round(step, 1)
    (64, 16.1)
    """
    shape = parameters.shape
    step = max(*shape.thresholds, parameters.scale, parameters.token_scale) / FINEST
    if step <= 1:
        return parameters, 1.0
    thresholds = tuple(max(1, round(threshold / step)) for threshold in shape.thresholds)
    radii: list[int | None] = []
    for radius, threshold, old in zip(shape.radii, thresholds, shape.thresholds, strict=True):
        near = None if radius is None else max(1, round(radius / step))
        radii.append(near if near is None or (radius or 0) >= old else min(near, max(1, threshold - 1)))
    margins = tuple(
        min(round(margin / step), threshold - 1) for margin, threshold in zip(shape.margins, thresholds, strict=True)
    )
    rough = replace(shape, thresholds=thresholds, radii=tuple(radii), margins=margins, every_node=True)
    return GapParameters(parameters.scale / step, parameters.token_scale / step, rough), step


def worst_caterpillar(parameters: GapParameters, start: int, alpha: float) -> tuple[float, int]:
    """One person joins `start` others at each level: the largest mean squared alpha-error of not being shown.

    Also the count of the node where that is.
    """
    shape = parameters.shape
    threshold, level = shape.thresholds[0], shape.thresholds[0] - shape.margins[0]
    t = math.exp(-1 / parameters.token_scale)
    tests = _geometric(parameters.scale, shape.radii[0])
    stays = np.cumsum(np.append(tests, np.zeros(threshold)))[:threshold][::-1]  # P(noise < threshold - y), y ascending
    counts = np.arange(threshold)
    held, worst = np.zeros(threshold), (0.0, start)
    held[start] = stays[start] if start < level else 0.0
    most = ((1 - alpha) * (start + shape.depth)) ** 2
    for people in range(start + 1, start + shape.depth):
        grown = np.append(0.0, held[:-1])  # one more, who may be taken off by a token
        kept = np.where(counts >= level, (1 - t) * grown, grown)
        held = (kept + np.where(counts + 1 >= level, t * held, 0.0)) * stays
        chance = float(held.sum())
        worst = max(worst, (chance * ((1 - alpha) * people) ** 2, people))
        if chance * most <= worst[0]:  # it only falls
            break
    return worst


def totals_alpha_rmse(parameters: GapParameters, epsilon: float, alpha: float, cells: Floats) -> Floats:
    """The alpha-RMSE of nodes with so many cells at or below them, each of about the threshold: typical ones.

    Least squares over the cells' gaps and over layers that share epsilon alike; on deep trees a node is about as often
    one of a layer's sets as a dozen of them.

    Parameters
    ----------
    parameters
        Those of the cells.
    epsilon
        What the layers cost together.
    alpha
        The part of the count that the error forgives.
    cells
        How many cells a node has, from the least to the most that any has.
    """
    model, depth = CellNoise.of(parameters), parameters.shape.depth
    if depth <= NAMED:
        layers, sets = float(max(depth - 1, 1)), np.ones(cells.size)
    else:
        layers, sets = 1.0 + len(ladder_of(float(cells[-1]), RATIO)), np.minimum(cells, math.sqrt(RATIO))
    measured = 2 * (layers / epsilon) ** 2 * sets
    summed = cells * float(model.variance(np.array([False]))[0]) + (model.threshold / 4) ** 2
    deviation = np.sqrt(1 / (1 / measured + 1 / summed))
    found: Floats = np.sqrt(2 * normal_excess(alpha * cells * model.threshold, deviation))
    return found


@dataclass(frozen=True)
class LevelPrediction:
    """For each level from the root down: the plain RMSE of its non-empty nodes, and how many of them are shown."""

    rmse: Floats
    shown: Floats


def predict_levels(
    parameters: GapParameters,
    epsilon: float,
    leaf_counts: Ints,
    sizes: Sequence[int],
    *,
    weights: LevelWeights = None,
) -> LevelPrediction:
    """Errors by level for a shape that is stated or taken to be typical: leaf counts of a tree of few levels.

    Leaves by the exact law; levels above them by the variances of their layers, the cells below them, and what flows
    past them. Nodes that are not shown count as 0.

    Parameters
    ----------
    parameters
        Those of the cells.
    epsilon
        What the layers cost together.
    leaf_counts
        A count for each leaf of a tree in which every node of level i has sizes[i] children, in order.
    sizes
        The numbers of children, from the root down.
    weights
        Which levels matter, as for the estimator.
    """
    depth = len(sizes) + 1
    counts = [leaf_counts.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(depth)]
    distinct, inverse = np.unique(leaf_counts, return_inverse=True)
    laws = [one_test(parameters, int(people)) for people in distinct]
    seen = np.array([law.shown for law in laws])[inverse]
    squares = np.array([law.mean_square for law in laws])[inverse]
    shown_chance, passed = [seen], [leaf_counts * (1 - seen)]
    once = np.array([one_test(parameters, people).shown for people in range(_SURE * parameters.shape.thresholds[0])])
    for level in reversed(range(depth - 1)):
        flow = passed[0].reshape(counts[level].size, -1).sum(axis=1)
        cell = np.where(flow < once.size - 1, np.interp(flow, np.arange(once.size), once), 1.0)
        below = 1 - np.prod((1 - shown_chance[0]).reshape(counts[level].size, -1), axis=1)
        passed.insert(0, flow * (1 - cell))
        shown_chance.insert(0, 1 - (1 - cell) * (1 - below))
    typical = _typical(shown_chance, sizes)
    shares = level_shares(typical, CellNoise.of(parameters), epsilon, weights)
    variances = _variances(typical, CellNoise.of(parameters), shares * epsilon / shares.sum())
    rmse = np.zeros(depth)
    for level in range(depth):
        real = counts[level] > 0
        if level == depth - 1:
            rmse[level] = math.sqrt(squares[real].mean())
        else:
            part = shown_chance[level][real]
            missed = (1 - part) * counts[level][real].astype(float) ** 2
            rmse[level] = math.sqrt(float((part * variances[level] + missed).mean()))
    return LevelPrediction(rmse, np.array([part.sum() for part in shown_chance]))


def _typical(chances: list[Floats], sizes: Sequence[int]) -> ShownTree:
    """The tree of the nodes that are rather shown than not, with cells at the leaves."""
    depth = len(sizes) + 1
    kept = [np.flatnonzero(part > 0.5) for part in chances]
    levels = np.concatenate([np.full(part.size, level) for level, part in enumerate(kept)])
    starts = np.append(0, np.cumsum([part.size for part in kept]))
    parents = np.full(levels.size, -1)
    for level in range(1, depth):
        above = np.searchsorted(kept[level - 1], kept[level] // sizes[level - 1])
        parents[starts[level] : starts[level + 1]] = starts[level - 1] + above.clip(0, max(kept[level - 1].size - 1, 0))
    is_cell = np.ones(levels.size, dtype=np.bool_)
    is_cell[: starts[depth - 1]] = False
    return ShownTree(levels, parents, np.zeros(levels.size, dtype=np.int64), is_cell, depth)


def _variances(shown: ShownTree, model: CellNoise, shares: Floats) -> Floats:
    """The mean variance of the nodes of each level above the deepest, after least squares upwards."""
    sizes = np.diff(shown.edges).astype(float)
    found = np.zeros(shown.depth)
    found[-1] = float(model.variance(np.array([True]))[0])
    for level in reversed(range(shown.depth - 1)):
        ratio = sizes[level + 1] / max(sizes[level], 1.0)
        below = (model.threshold / 4) ** 2 + found[level + 1] * ratio
        found[level] = 1 / (1 / below + shares[level] ** 2 / 2)
    return found
