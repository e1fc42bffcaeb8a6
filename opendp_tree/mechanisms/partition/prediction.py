"""What find, then measure errs by, before any data is touched.

The law of one node that is tested once is summed exactly, in floats, whatever its count; so is that of a caterpillar,
whose arrivals tokens may take off a few at a time. These are the worst inputs that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.mechanisms.find import PartitionParameters
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.mechanisms.partition.layers import NAMED, RATIO, CellNoise, ladder_of
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.theorems.tree_partition import GapShape

FINEST = 64
"""Steps up to the threshold at which laws are summed: exact up to this, and then in steps of several people."""
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
    """The exact law of one test of a node with so many people: at the deepest tested level, or at the top one."""
    shape, tested = parameters.shape, -1 if is_leaf else 0
    threshold, radius = shape.thresholds[tested], shape.radii[tested]
    level = threshold - shape.margins[tested]
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
    thresholds = parameters.shape.thresholds
    counts = range(max(1, thresholds[-1] // 2), thresholds[0] + math.ceil(4 * parameters.token_scale) + 2)
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
    starts = [max(1, round(start / step)) for start in shape.blur_levels]
    margins = tuple(max(0, threshold - start) for threshold, start in zip(thresholds, starts, strict=True))
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


def as_gaps(parameters: PartitionParameters) -> GapParameters:
    """The tests below the root, whose laws are predicted."""
    top = parameters.fringes[0]
    levels = tuple(range(1, len(top.levels) + 1))
    shape = GapShape(levels, top.thresholds, top.radii, top.margins)
    return GapParameters(float(top.test_scale), float(top.token_scale), shape)
