"""What the tests below the root err by, before any data is touched.

The law of one node that is tested once is summed exactly, in floats, whatever its count; so is that of a caterpillar,
whose arrivals tokens may take off a few at a time. These are the worst inputs that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.mechanisms.find import NAMED, mean, variance
from opendp_tree.mechanisms.layers import LEAST_VARIANCE, RATIO, ladder_of
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.theorems.partition import Fringe

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


def one_test(fringe: Fringe, people: int, *, alpha: float = 0.0, is_leaf: bool = True) -> OneTest:
    """The exact law of one test of a node with so many people: at the deepest tested level, or at the top one."""
    threshold, radius, margin = fringe.levels[-1 if is_leaf else 0]
    level, token_scale = threshold - margin, float(fringe.token_scale)
    tokens = _geometric(token_scale, None)
    room = max(people - level + 1, 0)
    taken = np.minimum(np.arange(tokens.size), room)
    chances = np.bincount(taken, tokens)
    tests = _geometric(float(fringe.test_scale), radius)
    gap = people - np.arange(chances.size)[:, None] + np.arange(tests.size)
    weights = chances[:, None] * tests
    shift = (1 if is_leaf else 2) * mean(token_scale) - mean(float(fringe.test_scale))
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
def worst_alpha_rmse(fringe: Fringe, alpha: float) -> float:
    """The largest alpha-RMSE of a node, over nodes that are tested once and the worst caterpillar that is found."""
    rough, step = coarse(fringe)
    thresholds = rough.thresholds
    counts = range(max(1, thresholds[-1] // 2), thresholds[0] + math.ceil(4 * rough.token_scale) + 2)
    once = (
        one_test(rough, people, alpha=alpha, is_leaf=is_leaf).mean_square
        for is_leaf in (True, False)
        for people in counts
    )
    return step * math.sqrt(max(*once, worst_caterpillar(rough, alpha).mean_square))


def coarse(fringe: Fringe) -> tuple[Fringe, float]:
    """The same tests in units of several people, if there are more than `FINEST`; and the unit."""
    step = max(*map(float, fringe.thresholds), float(fringe.test_scale), float(fringe.token_scale)) / FINEST
    if step <= 1:
        return fringe, 1.0
    levels = []
    for threshold, radius, margin in fringe.levels:
        near = max(2, round(threshold / step))
        end = None if radius is None else min(max(1, round(radius / step)), near - 1)
        levels.append((near, end, near - max(1, round((threshold - margin) / step))))
    thresholds, radii, margins = zip(*levels, strict=True)
    test, token = (Fraction(float(scale) / step) for scale in (fringe.test_scale, fringe.token_scale))
    return Fringe(thresholds, radii, margins, test, token, None), step


@dataclass(frozen=True)
class Caterpillar:
    """How many people join at each level of a path, the deepest first, and the top node's error of not being shown."""

    arrivals: tuple[int, ...]
    mean_square: float


@lru_cache(maxsize=256)
def worst_caterpillar(fringe: Fringe, alpha: float) -> Caterpillar:
    """The path whose top errs most by not being shown: the best of even ones, changed level by level."""
    steps = _hidden_steps(fringe)
    most, threshold, _ = steps.shape
    sizes, depth, found = np.arange(most), len(fringe.levels), []
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


def _hidden_steps(fringe: Fringe) -> Floats:
    """By arrivals, count before and count after: the chance that a node that so many join is no cell and passes it."""
    threshold, radius, margin = fringe.levels[0]
    level, t = threshold - margin, math.exp(-1 / fringe.token_scale)
    tests = _geometric(float(fringe.test_scale), radius)
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


def totals_alpha_rmse(fringe: Fringe, epsilon: float, alpha: float, cells: Floats) -> Floats:
    """The alpha-RMSE of nodes with so many cells at or below them, each of about the threshold: typical ones."""
    depth, threshold = len(fringe.levels), sum(fringe.thresholds) / len(fringe.levels)
    if depth <= NAMED:
        layers, sets = float(max(depth - 1, 1)), np.ones(cells.size)
    else:
        layers, sets = 1.0 + len(ladder_of(float(cells[-1]), RATIO)), np.minimum(cells, math.sqrt(RATIO))
    measured = 2 * (layers / epsilon) ** 2 * sets
    test, token = (max(variance(float(scale)), LEAST_VARIANCE) for scale in (fringe.test_scale, fringe.token_scale))
    summed = cells * (test + 3 * token) + (threshold / 4) ** 2
    deviation = np.sqrt(1 / (1 / measured + 1 / summed))
    found: Floats = np.sqrt(2 * normal_excess(alpha * cells * threshold, deviation))
    return found
