"""What find, then measure errs by, before any data is touched.

The law of one node that is tested once is summed exactly, in floats, whatever its count; so is that of a caterpillar,
whose arrivals tokens may take off a few at a time. These are the worst inputs that are known. For a stated shape of
data, the errors of its levels come from the same law at the leaves and from variances of layers and cells above them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats, Ints
from opendp_tree.mechanisms.find import PartitionParameters
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.mechanisms.partition.layers import (
    NAMED,
    RATIO,
    CellNoise,
    LevelWeights,
    ShownTree,
    ladder_of,
    level_shares,
)
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.theorems.tree_partition import GapShape

FINEST = 64
"""Steps up to the threshold at which laws are summed: exact up to this, and then in steps of several people."""
_SURE = 4
"""A node of so many thresholds is a cell, as good as surely."""
_FLOW = 0.2
"""The deviation of what no cell holds of a shown node, in thresholds: it is less than one, and rarely none."""
_STARTS = 4
"""From so many lengths of even caterpillars the search for the worst one starts."""
_TAIL = 1e-12
"""Chances of noise that are less than this, and what lies beyond, are left out of sums."""


@dataclass(frozen=True)
class OneTest:
    """A node of a given count that is tested once: the chance that it is shown, and its mean squared alpha-error."""

    shown: float
    mean_square: float


def one_test(parameters: GapParameters, people: int, *, alpha: float = 0.0, is_leaf: bool = True) -> OneTest:
    """The exact law of one test of a node with so many people, at the deepest tested level."""
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
    """The largest alpha-RMSE of a node, over nodes that are tested once and the worst caterpillar that is found."""
    parameters, step = coarse(parameters)
    threshold = parameters.shape.thresholds[-1]
    counts = range(max(1, threshold // 2), threshold + math.ceil(4 * parameters.token_scale) + 2)
    once = (
        one_test(parameters, people, alpha=alpha, is_leaf=is_leaf).mean_square
        for is_leaf in (True, False)
        for people in counts
    )
    return step * math.sqrt(max(*once, worst_caterpillar(parameters, alpha).mean_square))


def coarse(parameters: GapParameters) -> tuple[GapParameters, float]:
    """The same parameters in units of several people, if there are more than `FINEST`; and the unit."""
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


@dataclass(frozen=True)
class Caterpillar:
    """How many people join at each level of a path, the deepest first, and the top node's error of not being shown."""

    arrivals: tuple[int, ...]
    mean_square: float


@lru_cache(maxsize=256)
def worst_caterpillar(parameters: GapParameters, alpha: float) -> Caterpillar:
    """The path whose top errs most by not being shown: the best of even ones, changed level by level."""
    steps = _hidden_steps(parameters)
    most, threshold, _ = steps.shape
    sizes, depth, found = np.arange(most), parameters.shape.depth, []
    for each in range(1, 4):  # start with any number, and as many at each further level
        held, even = steps[:, 0, :], []
        for length in range(1, min(depth, 4 * threshold) + 1):
            squares = held.sum(axis=1) * (sizes + each * (length - 1)) ** 2
            even.append((float(squares.max()), int(squares.argmax()), length))
            held = held @ steps[each]
        for _, start, length in sorted(even)[-_STARTS:]:
            found.append(_ascend(steps, [0] * min(2, depth - length) + [start] + [each] * (length - 1)))
    square, arrivals = max(found)
    return Caterpillar(arrivals, (1 - alpha) ** 2 * square)


def _hidden_steps(parameters: GapParameters) -> Floats:
    """By arrivals, count before and count after: the chance that a node that so many join is no cell and passes it."""
    shape = parameters.shape
    threshold, level = shape.thresholds[0], shape.thresholds[0] - shape.margins[0]
    t = math.exp(-1 / parameters.token_scale)
    tests = _geometric(parameters.scale, shape.radii[0])
    stays = np.cumsum(np.append(tests, np.zeros(threshold)))[:threshold][::-1]  # P(noise < threshold - y), y ascending
    joined, before, after = np.ogrid[: threshold + 3, :threshold, :threshold]
    held = joined + before
    least = np.maximum(level - 1, before)
    chance = np.where(after > least, 1 - t, 1.0) * t ** np.maximum(held - after, 0)
    blurred = np.where((after >= least) & (after <= held), chance, 0.0)
    found: Floats = np.where(held < level, after == held, blurred) * stays
    return found


def _ascend(steps: Floats, arrivals: list[int]) -> tuple[float, tuple[int, ...]]:
    """Change the arrivals of one level after the other, each to what is best given the others, until nothing helps."""
    sizes, best, last = np.arange(steps.shape[0]), 0.0, -1.0
    while best > last * (1 + 1e-9):
        last, after = best, [np.ones(steps.shape[1])]  # chances to stay hidden from each level on, by count
        for size in reversed(arrivals):
            after.append(steps[size] @ after[-1])
        held = np.zeros(steps.shape[1])
        held[0] = 1.0
        for place in range(len(arrivals)):
            chances = (steps @ after[-2 - place]) @ held
            squares = chances * (sum(arrivals) - arrivals[place] + sizes) ** 2
            arrivals[place], best = int(squares.argmax()), float(squares.max())
            held = held @ steps[arrivals[place]]
    return best, tuple(arrivals[next((at for at, size in enumerate(arrivals) if size), 0) :])


def totals_alpha_rmse(parameters: GapParameters, epsilon: float, alpha: float, cells: Floats) -> Floats:
    """The alpha-RMSE of nodes with so many cells at or below them, each of about the threshold: typical ones."""
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
    """Errors by level for a shape that is stated or taken to be typical: leaf counts of a tree of few levels."""
    depth = len(sizes) + 1
    counts = [leaf_counts.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(depth)]
    distinct, inverse = np.unique(leaf_counts, return_inverse=True)
    laws = [one_test(parameters, int(people)) for people in distinct]
    seen = np.array([law.shown for law in laws])[inverse]
    squares = np.array([law.mean_square for law in laws])[inverse]
    shown_chance, cell_chance, passed = [seen], [seen], [leaf_counts * (1 - seen)]
    once = np.array([one_test(parameters, people).shown for people in range(_SURE * parameters.shape.thresholds[0])])
    for level in reversed(range(depth - 1)):
        flow = passed[0].reshape(counts[level].size, -1).sum(axis=1)
        cell = np.where(flow < once.size - 1, np.interp(flow, np.arange(once.size), once), 1.0)
        below = 1 - np.prod((1 - shown_chance[0]).reshape(counts[level].size, -1), axis=1)
        passed.insert(0, flow * (1 - cell))
        cell_chance.insert(0, cell)
        shown_chance.insert(0, 1 - (1 - cell) * (1 - below))
    model, typical = CellNoise.of(parameters), _typical(shown_chance, cell_chance, sizes)
    shares = level_shares(typical, model, epsilon, weights)
    variances = _variances(typical, model, shares * epsilon / shares.sum())
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


def _typical(shown: list[Floats], cells: list[Floats], sizes: Sequence[int]) -> ShownTree:
    """The tree of the nodes that are rather shown than not, with those as cells that rather are."""
    depth = len(sizes) + 1
    kept = [np.flatnonzero(part > 0.5) for part in shown]
    levels = np.concatenate([np.full(part.size, level) for level, part in enumerate(kept)])
    starts = np.append(0, np.cumsum([part.size for part in kept]))
    parents = np.full(levels.size, -1)
    for level in range(1, depth):
        above = np.searchsorted(kept[level - 1], kept[level] // sizes[level - 1])
        parents[starts[level] : starts[level + 1]] = starts[level - 1] + above.clip(0, max(kept[level - 1].size - 1, 0))
    is_cell = np.concatenate([chance[here] > 0.5 for chance, here in zip(cells, kept, strict=True)])
    return ShownTree(levels, parents, np.zeros(levels.size, dtype=np.int64), is_cell, depth)


def _variances(shown: ShownTree, model: CellNoise, shares: Floats) -> Floats:
    """The mean variance of the nodes of each level above the deepest, after least squares up and down the tree."""
    precisions = np.append(shares**2 / 2, 0.0)
    lower = np.append(np.cumsum(precisions[::-1])[::-1], 0.0)[1:]
    own = np.where(shown.is_cell, model.variance(shown.levels == shown.depth - 1), (_FLOW * model.threshold) ** 2)
    before = np.where(shown.levels == shown.depth - 1, own, 1 / (1 / own + lower[shown.levels]))
    after = before.copy()
    for level in reversed(range(shown.depth - 1)):
        here = shown.at(level)
        before[here] += shown.sum_children(after, level)
        after[here] = 1 / (1 / before[here] + precisions[level])
    for level in range(1, shown.depth):
        here = shown.at(level)
        above = shown.parents[here]  # whose variances are final by now
        known = after[above] / before[above]
        after[here] -= after[here] ** 2 / before[above] * (1 - known)
    return np.array(
        [after[shown.at(level)].mean() if shown.at(level).stop else 0.0 for level in range(shown.depth - 1)]
    )


def as_gaps(parameters: PartitionParameters) -> GapParameters:
    """The tests below the root, whose laws are predicted."""
    top = parameters.fringes[0]
    levels = tuple(range(1, len(top.levels) + 1))
    shape = GapShape(levels, top.thresholds, top.radii, top.margins)
    return GapParameters(float(top.test_scale), float(top.token_scale), shape)
