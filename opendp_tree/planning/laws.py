"""Predicted errors, computed from the laws of the noise, before any data is touched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from opendp_tree._types import Floats
from opendp_tree.budget import Budget, level_scales
from opendp_tree.mechanisms.curve import BRANCHING, MeasuredLine
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, mean, variance
from opendp_tree.mechanisms.layers import LEAST_VARIANCE, RATIO, ladder_of
from opendp_tree.mechanisms.means import TYPICAL, OpenMeans, choose_shares, predict_levels
from opendp_tree.mechanisms.pruned_descent import Pruning
from opendp_tree.mechanisms.tails import (
    WIDEST_SUM,
    gaussian_above,
    gaussian_sums,
    laplace_above,
    normal_excess,
    normal_tail,
)
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.rows.unit import Value, value_shares
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import least_whole
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.level_weights import regular_level_weights
from opendp_tree.trees.nodes import KnownNodes, level_of
from opendp_tree.trees.tree import Tree

PEOPLE = 100_000  # the number of rows on a line that predictions assume
_CROWDS = 1.25  # a segment holds about this many times the threshold
MOST_CELLS = 2**20
_CERTAIN = 6  # beyond this many thresholds the law of a test no longer changes
_OFTEN = 0.95
PRUNED_SHARES = (0.1, 0.3)  # of delta for the threshold; the rest turns Gaussian noise into epsilon
FINEST = 64  # laws are summed exactly up to this threshold, and beyond in this many steps
_STARTS = 4  # the search for the worst caterpillar starts from this many even ones
_TAIL = 1e-12  # smaller probabilities are left out of sums


class LevelError(NamedTuple):
    """The predicted error of the nodes of one level."""

    level: int
    error: float
    """The root of the mean square error of the worst node, or of a typical one, as the plan says."""
    quantity: str = "count"
    nodes: int | None = None
    """How many nodes the level has, if that is known."""


def shown_from(probability: Callable[[int], float]) -> float:
    """The least whole weight that is shown with a probability of at least 95 %."""
    weight = least_whole(lambda weight: probability(weight) >= _OFTEN, most=LIMIT)
    return float(weight) if weight <= LIMIT else math.inf


def deviation_curve(deviation: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of nodes of these weights under normal noise."""
    return np.sqrt(2 * normal_excess(alpha * weights, np.full_like(weights, max(deviation, 1e-9))))


def level_maxima(tree: Tree, by_node: Floats) -> list[float]:
    """The largest of each level."""
    return [float(by_node[nodes].max()) for nodes in tree.levels]


def means_errors(
    levels: Sequence[int], budget: Budget, values: Sequence[Value], source: Tree | OpenMeans | None
) -> tuple[LevelError, ...]:
    """Standard deviations of counts and sums by shown level: of a public tree, of known nodes, or of typical ones."""
    depth, parts = len(levels), value_shares(tuple(values))
    whole, nodes = math.sqrt(sum(float(share) ** 2 for share in parts)), np.zeros(depth, dtype=np.int64)
    if isinstance(source, Tree):
        precisions, depths = np.array(regular_level_weights(source, noise="laplace")) ** 2, source.node_levels
        by_node = precisions[depths]
        by_node[source.leaves] = precisions[::-1].cumsum()[::-1][depths[source.leaves]]  # deeper layers hold them too
        pairs = np.sqrt(level_maxima(source, LeastSquares.of(source, 1 / by_node).variances))
        sums = budget.noise_scale("laplace", depth) * pairs
        counts = 2 * sums / whole
        nodes = np.bincount(source.node_levels)
    elif source is not None:
        at, *deviations = source.predict(whole)
        shown, firsts, nodes = np.unique(at, return_index=True, return_counts=True)
        levels, (counts, sums) = shown.tolist(), (np.maximum.reduceat(each, firsts) for each in deviations)
    else:  # each node is taken to have as many children as is typical, and cells to be leaves
        sizes = [min(TYPICAL**level, 1e6) for level in range(depth)]
        counts, sums = predict_levels(sizes, choose_shares(depth, budget), budget, whole)
    errors = {"count": counts}
    for value, share in zip(values, parts, strict=True):
        # A sum is the middle of the bounds times the count, and the centred sum, whose noise is another.
        middle, width = (value.low + value.high) / 2, (value.high - value.low) / float(share)
        errors[f"sum of {value.column}"] = np.hypot(middle * counts, width * sums)
    return tuple(
        LevelError(level, error, quantity, size or None)
        for quantity, each in errors.items()
        for level, error, size in zip(levels, each.tolist(), nodes.tolist(), strict=True)
    )


def curve_rank_error(bins: int, budget: Budget, *, finding: float, people: int = PEOPLE) -> float:
    """The mean error of a quantile of a curve, in rows, if rows are spread evenly."""
    line = MeasuredLine.of(bins, budget.noise_scale("laplace", 1), finding=finding, branching=BRANCHING, confidence=0.5)
    count = bins
    if line.fringe is not None:
        count = max(1, min(bins, round(people / (_CROWDS * line.fringe.thresholds[0]))))
    tree, ends = line.segment_tree(count), np.unique(np.linspace(0, count, 129).astype(np.int64))
    spread = float(np.sqrt(tree.variances(np.zeros_like(ends), ends, ends / count)).mean())
    normal, z = NormalDist(), people / bins / 4 / spread  # errors within a bin do not count
    noise = 2 * spread * (normal.pdf(z) - z * normal.cdf(-z))
    inside = 0.32 * math.sqrt(people / count) if count < bins else 0.0  # a bridge between two cuts, in the mean
    return math.hypot(noise, inside)


def known_errors(known: KnownNodes, parameters: PartitionParameters, levels: Sequence[int]) -> list[LevelError]:
    """The approximate deviation of a known node's count by shown level, if no others are found.

    A leaf has a noisy rest, and each level above it a layer; the root of three or more levels is the sum of the level
    below it. In deep trees, whose layers depend on what is found, the sum of all rests is a bound.
    """
    numbers = Counter(level_of(known.tree, path) for path in known.paths)
    leaf = parameters.fringes[-1].rest_scales
    assert leaf is not None
    rest = sum(variance(float(scale)) for scale in leaf)
    layers = max(len(levels) - 2, 1)
    layer = sum(variance(layers / float(part)) for part in (parameters.alphas, parameters.betas))
    squares = [len(known.paths) * rest if len(levels) > NAMED else layer] * (len(levels) - 1) + [rest]
    if 2 < len(levels) <= NAMED:
        squares[0] = layer * max(1, numbers[levels[1]])
    by_level = zip(levels, squares, strict=True)
    return [LevelError(level, math.sqrt(each), nodes=numbers[level]) for level, each in by_level if numbers[level]]


def pruned_rmse(levels: Pruning, weights: Any, alpha: float) -> Floats:
    """The alpha-RMSE, at each whole weight, of the worst node of a chain all of whose nodes weigh that."""
    at: Floats = np.asarray(weights, dtype=np.float64)
    depth, square = len(levels.scales), np.zeros_like(at)
    # Where all levels are equal, the deepest node has the largest error.
    for end in [depth] if len(set(levels.scales)) == 1 else range(1, depth + 1):
        scale, needed = levels.scales[end - 1], levels.thresholds[end - 1] - at
        above = chain_chance(levels, at, end - 1)
        missed = (1 - above * shown_chance(needed, levels.noise, scale)) * ((1 - alpha) * at) ** 2
        square = np.maximum(square, missed + above * _excess_if_shown(needed, alpha * at, levels.noise, scale))
    root: Floats = np.sqrt(square)
    return root


def chain_chance(levels: Pruning, at: Floats, end: int | None = None) -> Floats:
    """The probability that all nodes of a chain are shown, or the first of them, if all have these weights."""
    chance = np.ones_like(at)
    for (scale, threshold), times in Counter(zip(levels.scales[:end], levels.thresholds[:end], strict=True)).items():
        chance *= shown_chance(threshold - at, levels.noise, scale) ** times
    return chance


def worst_pruned_rmse(levels: Pruning, alpha: float) -> float:
    """The largest `pruned_rmse` of any weight: the descent's alpha-mRMSE."""
    low, high = 1.0, max(levels.thresholds) + (12 + math.log(len(levels.scales))) * max(levels.scales)
    while True:  # a coarse grid over all weights, then finer ones around the best
        weights: Floats = np.unique(np.rint(np.linspace(low, high, 200, dtype=np.float64)))
        errors = pruned_rmse(levels, weights, alpha)
        best = int(np.argmax(errors))
        if weights.size < 200:
            return float(errors[best])
        low, high = weights[max(best - 2, 0)], weights[min(best + 2, weights.size - 1)]


def shown_chance(needed: Floats, noise: str, scale: float) -> Floats:
    """P(Z >= needed) for whole numbers."""
    size = np.where(needed > 0, needed, 1 - needed)  # the distance of the lighter side from 0
    if noise == "laplace":
        tail = np.exp(-size / scale) / (1 + math.exp(-1 / scale))
    elif scale > WIDEST_SUM:
        tail = normal_tail((size - 0.5) / scale)
    else:
        sums = gaussian_sums(scale)[0]
        tail = sums[np.minimum(size, sums.size - 1).astype(np.int64)]
    return np.where(needed > 0, tail, 1 - tail)


def _excess_if_shown(needed: Floats, slack: Floats, noise: str, scale: float) -> Floats:
    """E[max(|Z| - slack, 0)**2; Z >= needed]."""
    above = laplace_above if noise == "laplace" else gaussian_above
    start = np.ceil(slack)
    upper = above(np.maximum(start, needed), slack, scale)
    # Below, |Z| runs from the slack to -needed.
    lower = above(start, slack, scale) - above(np.maximum(start, 1 - needed), slack, scale)
    found: Floats = upper + lower.clip(0, None)
    return found


def pruned_shown_from(levels: Pruning) -> float:
    """The least whole weight that is shown, if its ancestors weigh no more."""
    return shown_from(lambda weight: float(chain_chance(levels, np.array(float(weight)))))


def choose_pruning(
    noise: str, weights: Sequence[float], budget: Budget, alpha: float
) -> tuple[float, float, Pruning] | None:
    """The least error with its scale at weight 1 and its thresholds; None if noise for the budget cannot be drawn."""
    tried = []
    # Only Gaussian noise that becomes epsilon has a delta to split.
    for share in PRUNED_SHARES if noise == "gaussian" and budget.rho is None else (1.0,):
        delta = budget.delta * share
        scale = budget.noise_scale(noise, len(weights), delta=budget.delta - delta if share < 1 else None)
        scales = level_scales(noise, scale, weights)
        if max(scales) <= LARGEST_SCALE:
            levels = Pruning.of(noise=noise, scales=scales, threshold=None, delta=delta, d_in=budget.d_in)
            tried.append((worst_pruned_rmse(levels, alpha), scale, levels))
    return min(tried, key=lambda each: each[0], default=None)


# The error of the tests below the root. The law of a node that is tested once is summed exactly, in floats; so is that
# of a caterpillar, a path that people join level by level. These are the worst known inputs.


class OneTest(NamedTuple):
    """The probability that a node that is tested once is shown, and its mean squared alpha-error."""

    shown: float
    mean_square: float


def one_test(fringe: Fringe, people: int, *, alpha: float = 0.0, is_leaf: bool = True) -> OneTest:
    """The exact law of one test of a node of this count: at the deepest tested level, or at the top one."""
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


def _once_tested(fringe: Fringe, people: int, alpha: float) -> float:
    """The larger mean squared alpha-error of a leaf and of a node above leaves."""
    return max(one_test(fringe, people, alpha=alpha, is_leaf=is_leaf).mean_square for is_leaf in (True, False))


def _geometric(scale: float, radius: int | None) -> Floats:
    """The probabilities of 0, 1, ..., up to the radius, or to a negligible tail."""
    end = math.ceil(-scale * math.log(_TAIL)) + 1 if radius is None else radius + 1
    weights: Floats = np.exp(-np.arange(end) / scale)
    weights /= weights.sum()
    return weights


def cell_shown_from(fringe: Fringe | None) -> float:
    """The least weight of a leaf that is shown with this probability; 0 where nothing needs to be found."""
    if fringe is None or not fringe.levels:
        return 0.0
    rough, step = coarse(fringe)
    return float(round(step * shown_from(lambda people: one_test(rough, people).shown)))


def estimator_curve(fringe: Fringe, epsilon: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of a leaf, or of a node with cells of about the threshold below it, whichever is larger."""
    rough, step = coarse(fringe)
    limit = _CERTAIN * rough.thresholds[-1]
    # Beyond, the law of a leaf's error is fixed, and alpha covers more and more of it.
    at = np.minimum(np.rint(weights / step), limit).astype(np.int64)
    counts, places = np.unique(at, return_inverse=True)
    squares = [_once_tested(rough, people, alpha) for people in counts.tolist()]
    leaf = step * np.sqrt(np.array(squares))[places]
    # A node that is tested several times may err more: by the factor of the worst one.
    leaf *= max(1.0, worst_alpha_rmse(fringe, alpha) / max(float(leaf.max(initial=0.0)), 1e-9))
    cells = np.append(np.maximum(weights / fringe.thresholds[-1], 1.0), MOST_CELLS)
    many = np.where(cells > 1, totals_alpha_rmse(fringe, epsilon, alpha, cells), 0.0)[:-1]
    larger: Floats = np.maximum(np.where(at < limit, leaf, 0.0), many)
    return larger


def estimator_error(fringe: Fringe, epsilon: float, alpha: float) -> float:
    """The largest alpha-RMSE of a node of any count."""
    cells: Floats = np.exp2(np.arange(MOST_CELLS.bit_length(), dtype=np.float64))
    return max(worst_alpha_rmse(fringe, alpha), float(totals_alpha_rmse(fringe, epsilon, alpha, cells).max()))


@lru_cache(maxsize=256)
def worst_alpha_rmse(fringe: Fringe, alpha: float) -> float:
    """The largest alpha-RMSE of nodes that are tested once, and of the worst caterpillar."""
    rough, step = coarse(fringe)
    thresholds = rough.thresholds
    counts = range(max(1, thresholds[-1] // 2), thresholds[0] + math.ceil(4 * rough.token_scale) + 2)
    once = (_once_tested(rough, people, alpha) for people in counts)
    return step * math.sqrt(max(*once, worst_caterpillar(rough, alpha)[0]))


def coarse(fringe: Fringe) -> tuple[Fringe, float]:
    """The same tests in units of several people, if thresholds exceed `FINEST`; and the unit."""
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


@lru_cache(maxsize=256)
def worst_caterpillar(fringe: Fringe, alpha: float) -> tuple[float, tuple[int, ...]]:
    """The largest mean square error of the top of a path if not shown, and the people who join at each level."""
    # The best even paths, changed level by level; the deepest level comes first.
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
    return (1 - alpha) ** 2 * square, arrivals


def _hidden_steps(fringe: Fringe) -> Floats:
    """By arrivals, count before and count after: the probability that a node is no cell and passes that count on."""
    threshold, radius, margin = fringe.levels[0]
    level, t = threshold - margin, math.exp(-1 / fringe.token_scale)
    tests = _geometric(float(fringe.test_scale), radius)
    stays = np.cumsum(np.append(tests, np.zeros(threshold)))[:threshold][::-1]  # P(noise < threshold - y), y ascending
    joined, before, after = np.ogrid[: threshold + 3, :threshold, :threshold]
    held = joined + before
    least = np.maximum(level - 1, before)
    chance = np.where(after > least, 1 - t, 1.0) * t ** np.maximum(held - after, 0)
    blurred = np.where((after >= least) & (after <= held), chance, 0.0)
    steps: Floats = np.where(held < level, after == held, blurred) * stays
    return steps


def _ascend(steps: Floats, arrivals: list[int]) -> tuple[float, tuple[int, ...]]:
    """Coordinate ascent: the best arrivals of one level after the other, until nothing improves."""
    sizes, best, last = np.arange(steps.shape[0]), 0.0, -1.0
    while best > last * (1 + 1e-9):
        last, after = best, [np.ones(steps.shape[1])]  # probabilities of staying hidden from each level on, by count
        for size in reversed(arrivals):
            after.append(steps[size] @ after[-1])
        held = np.zeros(steps.shape[1])
        held[0] = 1.0
        for index in range(len(arrivals)):
            chances = (steps @ after[-2 - index]) @ held
            squares = chances * (sum(arrivals) - arrivals[index] + sizes) ** 2
            arrivals[index], best = int(squares.argmax()), float(squares.max())
            held = held @ steps[arrivals[index]]
    return best, tuple(arrivals[next((at for at, size in enumerate(arrivals) if size), 0) :])


def totals_alpha_rmse(fringe: Fringe, epsilon: float, alpha: float, cells: Floats) -> Floats:
    """The alpha-RMSE of typical nodes with these numbers of cells at or below them, each of about the threshold."""
    depth, threshold = len(fringe.levels), sum(fringe.thresholds) / len(fringe.levels)
    if depth <= NAMED:
        layers, sets = float(max(depth - 1, 1)), np.ones(cells.size)
    else:
        layers, sets = 1.0 + len(ladder_of(float(cells[-1]), RATIO)), np.minimum(cells, math.sqrt(RATIO))
    measured = 2 * (layers / epsilon) ** 2 * sets
    test, token = (max(variance(float(scale)), LEAST_VARIANCE) for scale in (fringe.test_scale, fringe.token_scale))
    summed = cells * (test + 3 * token) + (threshold / 4) ** 2
    deviation = np.sqrt(1 / (1 / measured + 1 / summed))
    errors: Floats = np.sqrt(2 * normal_excess(alpha * cells * threshold, deviation))
    return errors
