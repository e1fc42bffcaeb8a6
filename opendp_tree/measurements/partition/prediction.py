"""What find, then measure errs by, before any data is touched.

The law of one node that is tested once is summed exactly, in floats, whatever its count; so is that of a caterpillar,
whose arrivals tokens may take off a few at a time. These are the worst inputs that are known. For a stated shape of
data, the errors of its levels come from the same law at the leaves and from runs of the mechanism above them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opendp_tree import saturate
from opendp_tree._types import Floats, Ints
from opendp_tree.measurements.alpha_errors import normal_excess
from opendp_tree.measurements.partition.layers import (
    LEAST_VARIANCE,
    NAMED,
    RATIO,
    CellNoise,
    LevelWeights,
    ShownTree,
    ladder_of,
    measure,
)
from opendp_tree.measurements.partition.parameters import GapParameters
from opendp_tree.measurements.partition.release import FindThenMeasure
from opendp_tree.measurements.partition.walk import find_cells
from opendp_tree.trees.occupied import Occupied

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
    """The largest alpha-RMSE of a node, over nodes that are tested once and the worst caterpillar that is found.

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
    return step * math.sqrt(max(*once, worst_caterpillar(parameters, alpha).mean_square))


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


@dataclass(frozen=True)
class Caterpillar:
    """How many people join at each level of a path, the deepest first, and the top node's error of not being shown."""

    arrivals: tuple[int, ...]
    mean_square: float


@lru_cache(maxsize=256)
def worst_caterpillar(parameters: GapParameters, alpha: float) -> Caterpillar:
    """The path whose top errs most by not being shown: the best of even ones, changed level by level while that helps.

    Every level has a token of its own, so people who join a few at a time are taken off more easily than all at once.
    No level without arrivals helps, so a path has no more levels than people. The search is local: on small trees it
    finds what trying everything finds, but it proves nothing.

    Parameters
    ----------
    parameters
        Those of the cells.
    alpha
        The part of the count that the error forgives.

    >>> from opendp_tree.measurements.partition.parameters import choose_parameters
    >>> worst_caterpillar(choose_parameters(5, 0.5, 1e-2, exact_share=0.05), 0.0).arrivals
    (4, 1, 2, 2, 4)
    """
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
    runs: int = 30,
) -> LevelPrediction:
    """Errors by level for a shape that is stated or taken to be typical: leaf counts of a tree of few levels.

    Leaves by the exact law; levels above them by running the mechanism on that shape, which is no data; the root, of
    which there is but one, by the variance of its own count and of the sum of the level below it, which is up to a
    third too little where hardly anything measures. Nodes that are not shown count as 0.

    Parameters
    ----------
    parameters
        Those of the cells, which test all levels.
    epsilon
        What the layers cost together.
    leaf_counts
        A count for each leaf of a tree in which every node of level i has sizes[i] children, in order.
    sizes
        The numbers of children, from the root down.
    weights
        Which levels matter, as for the estimator.
    runs
        How often the mechanism is run. 30 by default, for a level of fifty nodes to be known within a few percent.
    """
    widths = [math.prod(sizes[level:]) for level in range(len(sizes) + 1)]
    counts = [leaf_counts.reshape(-1, width).sum(axis=1) for width in widths]
    mechanism = FindThenMeasure(parameters, Fraction(epsilon), weights, 0.95)
    squares, numbers, root_precision, summed = np.zeros(len(counts)), np.zeros(len(counts)), 0.0, 0.0
    for _ in range(runs):
        shown, nodes = _found(parameters, leaf_counts, widths)
        layers = mechanism.layers(shown)
        root_precision += sum(0.5 / layer.scale**2 for layer in layers.layers[:1]) / runs
        people = np.concatenate([own[here] for own, here in zip(counts, nodes, strict=True)])
        measured = measure(layers, *saturate.split(people))
        estimates = mechanism.estimates(shown, measured, shown.levels == shown.depth - 1)
        for level, (own, here) in enumerate(zip(counts, nodes, strict=True)):
            values = np.zeros(own.size)
            values[here] = estimates[shown.at(level)]
            squares[level] += float(((values - own)[own > 0] ** 2).mean()) / runs
            numbers[level] += here.size / runs
            summed += float((values - own).sum()) ** 2 / runs if level == 1 else 0.0
    if len(sizes) > 1:  # errors of the level below may be alike, and then they add up
        below = max(squares[1] * np.count_nonzero(counts[1]), summed, LEAST_VARIANCE)
        squares[0] = 1 / (root_precision + 1 / below)
    distinct, times = np.unique(leaf_counts[leaf_counts > 0], return_counts=True)
    laws = [one_test(parameters, people) for people in distinct.tolist()]
    squares[-1] = times @ np.array([law.mean_square for law in laws]) / times.sum()
    numbers[-1] = times @ np.array([law.shown for law in laws])
    return LevelPrediction(np.sqrt(squares), numbers)


def _found(parameters: GapParameters, leaf_counts: Ints, widths: Sequence[int]) -> tuple[ShownTree, list[Ints]]:
    """The nodes that one run shows, as a tree and by their numbers in each level; `widths` are leaves below a node."""
    depth, places = len(widths), np.flatnonzero(leaf_counts)
    same = [places[1:] // width == places[:-1] // width for width in widths]
    occupied = Occupied(np.full(places.size, depth - 1), np.sum(same, axis=0) - 1, leaf_counts[places], places)
    cells = find_cells(occupied, parameters)
    nodes: list[Ints] = []
    parents, gaps = [], []
    for level, width in enumerate(widths):
        below = cells.levels >= level
        here = np.unique(places[cells.places[below]] // width)
        own, at = np.zeros(here.size, dtype=np.int64), cells.levels == level
        own[np.searchsorted(here, places[cells.places[at]] // width)] = cells.gaps[at]
        start = sum(part.size for part in nodes[:-1])
        above = np.searchsorted(nodes[-1], here // (widths[level - 1] // width)) + start if level else here - 1
        nodes.append(here)
        parents.append(above)
        gaps.append(own)
    levels = np.concatenate([np.full(part.size, level) for level, part in enumerate(nodes)])
    known = np.concatenate(gaps)
    return ShownTree(levels, np.concatenate(parents), known, known > 0, depth), nodes
