"""Predicted errors: what the laws of noise say before any data is touched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from opendp_tree._arguments import check_integer
from opendp_tree._types import Floats, Ints
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.chosen_quantiles import Choices
from opendp_tree.mechanisms.curve import BRANCHING, MeasuredLine
from opendp_tree.mechanisms.find import NAMED, PartitionParameters, variance
from opendp_tree.mechanisms.layers import LEAST_VARIANCE as LEAST_REST
from opendp_tree.mechanisms.layers import ShownTree, final_variances, level_shares
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.mechanisms.means import choose_shares
from opendp_tree.mechanisms.means import predict_levels as predict_means
from opendp_tree.mechanisms.pruned_descent import pruned_rmse, shown_chance, worst_pruned_rmse
from opendp_tree.mechanisms.tree_estimator import GapNoise
from opendp_tree.mechanisms.tree_noise import level_scales
from opendp_tree.noise import LARGEST_SCALE
from opendp_tree.paper.estimation import multiplicative_threshold
from opendp_tree.planning.candidate import LevelError
from opendp_tree.planning.cell_errors import coarse, one_test, totals_alpha_rmse, worst_alpha_rmse
from opendp_tree.planning.methods import Curve, Line, Quantiles
from opendp_tree.rows.value import Value, value_shares
from opendp_tree.theorems.interval import least_whole
from opendp_tree.theorems.paper import clipped_mrmse
from opendp_tree.theorems.partition import Fringe
from opendp_tree.trees.known_nodes import KnownNodes, level_of
from opendp_tree.trees.level_weights import level_variances, regular_level_weights
from opendp_tree.trees.tree import Tree

PEOPLE = 100_000  # so many people are on a line, where nobody says how many
_FEW_BINS = 1024
_CROWDS = 1.25  # a segment holds about this many thresholds of people
MOST_CELLS = 2**20
_CERTAIN = 6  # beyond so many thresholds the law of a test does not change any more
_SURE = 4  # a node of so many thresholds is a cell, as good as surely
_SPREAD = 1.5  # of the logarithm of leaf counts: that of places and categories, as a rule
_OFTEN = 0.95


def shown_from(chance: Callable[[Floats], Floats], threshold: float) -> float:
    """The least whole weight that is shown with a probability of at least 95 %, up to a hundred thresholds."""
    weights: Floats = np.unique(np.floor(np.geomspace(1, 100 * max(2.0, float(threshold)), 400))).astype(np.float64)
    enough = np.flatnonzero(chance(weights) >= _OFTEN)
    return float(weights[enough[0]]) if enough.size else math.inf


def deviation_curve(deviation: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of nodes of these weights under normal noise."""
    return np.sqrt(2 * normal_excess(alpha * weights, np.full_like(weights, max(deviation, 1e-9))))


def level_maxima(tree: Tree, by_node: Floats) -> list[float]:
    """The largest of each level."""
    return [float(by_node[nodes].max()) for nodes in tree.levels]


def means_errors(
    sizes: Sequence[int], budget: Budget, values: Sequence[Value], *, rows: int | None = None, tree: Tree | None = None
) -> tuple[LevelError, ...]:
    """Standard deviations of counts and sums by level, and of means where it is stated how many rows there are.

    A mean is that of a node with an even part of all rows, in the middle of the bounds; cells are taken to be leaves.
    """
    epsilon, d_in = budget.pure_epsilon, budget.d_in
    if tree is None:
        shares = choose_shares(len(sizes), epsilon, budget.delta, d_in)
        errors = predict_means(list(sizes), shares, epsilon=epsilon, delta=budget.delta, d_in=d_in)
        counts, sums = ([getattr(error, name) for error in errors] for name in ("count_sd", "sum_sd"))
    else:
        weights = np.array(regular_level_weights(tree, noise="laplace"))
        pairs = np.sqrt(level_maxima(tree, level_variances(tree, weights, noise="laplace")))
        counts = (2 * d_in * tree.depth / epsilon * pairs).tolist()
        sums = [deviation / 2 for deviation in counts]
    parts = value_shares(tuple(values))
    whole = math.sqrt(sum(float(share) ** 2 for share in parts))
    found = [LevelError(level, counts[level] / whole, "count", size) for level, size in enumerate(sizes)]
    for value, share in zip(values, parts, strict=True):
        for level, size in enumerate(sizes):
            spread = sums[level] / float(share) * (value.high - value.low)
            found.append(LevelError(level, spread, f"sum of {value.column}", size))
            if rows is not None:
                found.append(LevelError(level, spread * size / rows, f"mean of {value.column}", size))
    return tuple(found)


def expected_rank_error(method: Line, bins: int, budget: Budget, *, people: int) -> float:
    """By how many people a quantile is missed, in the mean, where people are spread evenly."""
    if isinstance(method, Quantiles):
        choices = Choices.of(choice_scale(method, budget), method.at, confidence=0.5)
        scales = [scale / share.denominator for share, scale in zip(choices.shares, choices.scales, strict=True)]
        return _beyond(float(np.mean(scales)), people / bins / 4, laplace=True)
    line = MeasuredLine.of(
        bins,
        budget.d_in / budget.pure_epsilon,
        finding=method.finding if uses_segments(method, bins) else 0.0,
        branching=BRANCHING,
        confidence=0.5,
    )
    count = bins
    if line.fringe is not None:
        count = max(1, min(bins, round(people / (_CROWDS * line.fringe.thresholds[0]))))
    tree = line.segment_tree(count)
    ends = np.unique(np.linspace(0, count, 129).astype(np.int64))
    spread = float(np.sqrt(tree.variances(np.zeros_like(ends), ends, ends / count)).mean())
    noise = _beyond(spread, people / bins / 4)
    inside = 0.32 * math.sqrt(people / count) if count < bins else 0.0  # a bridge between two cuts, in the mean
    return math.hypot(noise, inside)


def _beyond(spread: float, bin_: float, *, laplace: bool = False) -> float:
    """How far noise goes, in the mean, beyond what a bin hides."""
    if laplace:
        return spread * math.exp(-bin_ / spread)
    normal, z = NormalDist(), bin_ / spread
    return 2 * spread * (normal.pdf(z) - z * normal.cdf(-z))


def uses_segments(method: Curve, bins: int) -> bool:
    """Whether a partition first finds where people are."""
    return bins > _FEW_BINS if method.segments is None else method.segments


def choice_scale(method: Quantiles, budget: Budget) -> float:
    """The scale of a choice; in rho each quantile costs an eighth of the square of its epsilon."""
    if budget.rho is None:
        return budget.d_in / budget.pure_epsilon
    return budget.d_in / math.sqrt(8 * len(method.at) * budget.rho)


def clipping_radius(scale: float, delta: float, depth: int) -> int:
    """A radius that suffices for delta: on each level P(noise = radius) is at most its share of it."""
    most = depth * -math.expm1(-1 / scale) / ((1 + math.exp(-1 / scale)) * delta)
    return max(1, math.ceil(scale * math.log(max(most, 1.0)))) + 1


def paper_error(
    depth: int, epsilon: float, delta: float, alpha: float, eta: float, radius: int
) -> tuple[float, float, float]:
    """The error bound, with the chance of failure and the threshold that it is for."""
    tau = multiplicative_threshold(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, depth=depth)
    bound = clipped_mrmse(alpha=Fraction(alpha), tau=Fraction(tau), eta=Fraction(eta), radius=radius)
    return bound, eta, tau


def known_errors(known: KnownNodes, parameters: PartitionParameters, levels: Sequence[int] | None) -> list[LevelError]:
    """About the deviation of a known node's count by shown level, where no others are found.

    A leaf has its own rest, and a level above it a layer; the root of three levels or more is the sum of the level
    below it. In deep trees, whose layers follow what is found, nodes are bounded by the sum of all rests.
    """
    shown = list(range(known.tree.depth)) if levels is None else list(levels)
    numbers = Counter(level_of(known.tree, path) for path in known.paths)
    leaf = parameters.fringes[-1].rest_scales
    assert leaf is not None
    rest = sum(variance(float(scale)) for scale in leaf)
    layers = max(len(shown) - 2, 1)
    layer = sum(variance(layers / float(part)) for part in (parameters.alphas, parameters.betas))
    above = len(known.paths) * rest if len(shown) > NAMED else layer
    squares = [above] * (len(shown) - 1) + [rest]
    if 2 < len(shown) <= NAMED:
        squares[0] = layer * max(1, numbers[shown[1]])
    return [
        LevelError(level, math.sqrt(square), nodes=numbers[level])
        for level, square in zip(shown, squares, strict=True)
        if numbers[level]
    ]


def cell_chance(fringe: Fringe, weights: Floats) -> Floats:
    """The chance that a leaf of each weight is a cell."""
    rough, step = coarse(fringe)
    chances = _chances(rough)
    found: Floats = np.interp(weights / step, np.arange(chances.size), chances)
    return found


@lru_cache(maxsize=64)
def _chances(fringe: Fringe) -> Floats:
    """The chances of leaves of 0, 1, ... people."""
    most = _CERTAIN * fringe.thresholds[-1]
    return np.array([one_test(fringe, people).shown for people in range(most + 1)])


def estimator_curve(fringe: Fringe, epsilon: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of a leaf, or of a node with cells of about the threshold below it, whichever is larger."""
    rough, step = coarse(fringe)
    most = _CERTAIN * rough.thresholds[-1]
    # From there on a leaf's error has one law, of which alpha forgives more and more.
    at = np.minimum(np.rint(weights / step), most)
    by_count = {
        people: max(one_test(rough, people, alpha=alpha, is_leaf=leaf).mean_square for leaf in (True, False))
        for people in np.unique(at).astype(int).tolist()
    }
    leaf = step * np.sqrt(np.array([by_count[people] for people in at.astype(int).tolist()]))
    # A node that is tested several times may err more: as much more as the worst of all does.
    leaf *= max(1.0, worst_alpha_rmse(fringe, alpha) / max(float(leaf.max(initial=0.0)), 1e-9))
    cells = np.append(np.maximum(weights / fringe.thresholds[-1], 1.0), MOST_CELLS)
    many = np.where(cells > 1, totals_alpha_rmse(fringe, epsilon, alpha, cells), 0.0)[:-1]
    found: Floats = np.maximum(np.where(at < most, leaf, 0.0), many)
    return found


@dataclass(frozen=True)
class Pruning:
    """One way to split delta, and what comes of it."""

    scale: float
    delta: float
    """What the thresholds may spend."""
    scales: tuple[float, ...]
    thresholds: tuple[int, ...]
    ends: tuple[int, ...]
    """How many levels lie on the paths to nodes that may err most."""
    noise: str

    def shown(self, at: Floats) -> Floats:
        """The chance that the deepest node of a chain is shown, where all of its nodes have these weights."""
        chance = np.ones_like(at)
        for (scale, threshold), times in Counter(zip(self.scales, self.thresholds, strict=True)).items():
            chance *= shown_chance(threshold - at, self.noise, scale) ** times
        return chance

    def errors(self, alpha: float, at: Floats) -> Floats:
        """The largest alpha-RMSE of nodes of these weights."""
        paths = ((self.scales[:end], self.thresholds[:end]) for end in self.ends)
        errors = [pruned_rmse(at, noise=self.noise, scales=s, thresholds=t, alpha=alpha) for s, t in paths]
        largest: Floats = np.maximum.reduce(errors)
        return largest


def pruning(
    noise: str, weights: Sequence[float], budget: Budget, alpha: float, share: float
) -> tuple[float, Pruning] | None:
    """The error and the settings of one share of delta for the thresholds; None if noise for it cannot be drawn."""
    delta = budget.delta * share
    scale = budget.noise_scale(noise, len(weights), delta=budget.delta - delta if share < 1 else None)
    scales = level_scales(noise, scale, weights)
    if max(scales) > LARGEST_SCALE:
        return None
    by_scale = {each: lowest_threshold(noise, each, delta, budget.d_in) for each in set(scales)}
    thresholds = tuple(by_scale[each] for each in scales)
    # Of equal levels the deepest errs most; of others any may.
    ends = (len(scales),) if len(by_scale) == 1 else tuple(range(1, len(scales) + 1))
    found = Pruning(scale, delta, scales, thresholds, ends, noise)
    error = max(
        worst_pruned_rmse(noise=noise, scales=scales[:end], thresholds=thresholds[:end], alpha=alpha) for end in ends
    )
    return error, found


def lowest_threshold(noise: str, scale: float, delta: float, d_in: int) -> int:
    """The threshold that `make_pruned_descent` finds for delta exactly, in floats: a prediction needs no more.

    Examples
    --------
    >>> lowest_threshold("laplace", 3.0, 1e-6, 1)
    41

    """

    def enough(threshold: int) -> bool:
        one, together = shown_chance(np.array([threshold - 1.0, threshold - float(d_in)]), noise, scale).tolist()
        hides = noise == "gaussian" or one <= -math.expm1(-1 / scale)
        return bool(hides and together <= delta and -math.expm1(d_in * math.log1p(-min(one, 0.5))) <= delta)

    return least_whole(enough)


def predict_levels(parameters: PartitionParameters, leaf_counts: Ints, sizes: Sequence[int]) -> tuple[Floats, Floats]:
    """By level from the root down: the plain RMSE of non-empty nodes, and how many nodes are shown."""
    depth, tests = len(sizes) + 1, parameters.fringes[0]
    counts = [leaf_counts.reshape(math.prod(sizes[:level]), -1).sum(axis=1) for level in range(depth)]
    distinct, inverse = np.unique(leaf_counts, return_inverse=True)
    laws = [one_test(tests, int(people)) for people in distinct]
    seen, squares = (np.array([getattr(law, name) for law in laws])[inverse] for name in ("shown", "mean_square"))
    shown, cells, passed = [seen], [seen], [leaf_counts * (1 - seen)]
    once = np.array([one_test(tests, people).shown for people in range(_SURE * tests.thresholds[0])])
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
        precisions[level] = 1 / max(variance(1 / (share * alphas)) + variance(1 / (share * betas)), LEAST_REST)
    deeper = precisions[::-1].cumsum()[::-1] - precisions
    rest = 1 / (1 / rest + np.where(shown.levels < shown.depth - 1, deeper[shown.levels], 0.0))
    after = final_variances(shown, rest, precisions[shown.levels])
    return np.array(
        [after[shown.at(level)].mean() if after[shown.at(level)].size else 0.0 for level in range(shown.depth)]
    )


def typical_counts(sizes: Sequence[int], rows: int | None, stated: Any) -> Ints:
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
