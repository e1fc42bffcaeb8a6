"""Predicted errors: what the laws of noise say before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_choice, check_positive
from opendp_tree._types import Floats
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.chosen_quantiles import Choices
from opendp_tree.mechanisms.curve import BRANCHING, MeasuredLine
from opendp_tree.mechanisms.level_noise import normal_excess
from opendp_tree.mechanisms.means.prediction import choose_shares, predict_levels
from opendp_tree.mechanisms.tree_noise import check_weights, gaussian_variance, laplace_variance, level_scales
from opendp_tree.paper.estimation import multiplicative_threshold
from opendp_tree.planning.candidate import LevelError
from opendp_tree.planning.methods import Curve, Line, Quantiles
from opendp_tree.rows.value import Value, value_shares
from opendp_tree.theorems.paper import clipped_mrmse
from opendp_tree.trees.least_squares import LARGEST_VARIANCE, LEAST_VARIANCE, LeastSquares
from opendp_tree.trees.level_weights import level_variances, regular_level_weights
from opendp_tree.trees.tree import Tree, check_tree

__all__ = ["NoiseErrors", "noise_errors"]

PEOPLE = 100_000
"""So many people are on a line, where nobody says how many."""
_FEW_BINS = 1024
_CROWDS = 1.25
"""A segment holds about this many thresholds of people."""
_OFTEN = 0.95


@dataclass(frozen=True)
class NoiseErrors:
    """Errors of noise on every node of a tree. They are the same on every input."""

    worst: float
    """The RMSE of the worst node: the mRMSE."""
    l2: float
    """The root of the mean square error over all nodes: the paper's l2-squared error."""
    linf: float
    """What the largest error of any node is in the mean, at most: the paper's l-infinity error."""


def noise_errors(
    tree: Tree, *, noise: str, scale: float, weights: Sequence[float] | None = None, consistent: bool = True
) -> NoiseErrors:
    """What `make_tree_laplace` or `make_tree_gaussian` errs by, in three measures, for one tree and scale.

    `worst` and `l2` are exact, up to the variance of discrete Gaussian noise, which is at most its scale's square;
    `linf` is a bound, at most about twice what is seen. Non-negative and whole counts are not considered.
    Proof: docs/proofs/error_measures.md.

    Parameters
    ----------
    tree
        Whose nodes get noise.
    noise
        "laplace" or "gaussian".
    scale
        As for the constructor: of a level of weight 1.
    weights
        As for the constructor: one for each level; by default equal.
    consistent
        Whether least squares follows, as it does by default.

    Examples
    --------
    >>> tree = Tree.balanced(branching=2, depth=10)
    >>> found = noise_errors(tree, noise="gaussian", scale=10.0)
    >>> round(found.worst, 2), round(found.l2, 2), round(found.linf, 1)
    (7.79, 7.07, 29.2)
    """
    check_tree(tree)
    check_choice(noise, name="noise", choices=("laplace", "gaussian"))
    scales = level_scales(noise, float(check_positive(scale, name="scale")), check_weights(weights, tree.depth))
    law = laplace_variance if noise == "laplace" else gaussian_variance
    by_level = np.full(tree.depth, math.inf)
    for level, each in enumerate(scales):
        if math.isfinite(each):
            by_level[level] = min(max(law(each), LEAST_VARIANCE), LARGEST_VARIANCE)
    variances = by_level[tree.node_levels]
    if consistent:
        variances = LeastSquares.of(tree, variances).variances
    # Exponential moments are those of Laplace noise of the same scale on the line, whose variance is a little larger.
    finite = [(each, value) for each, value in zip(scales, by_level, strict=True) if math.isfinite(each)]
    more = max(2 * each**2 / value for each, value in finite) if noise == "laplace" else 1.0
    linf = largest_error_bound(variances * more, noise=noise)
    return NoiseErrors(math.sqrt(float(variances.max())), math.sqrt(float(variances.mean())), linf)


def largest_error_bound(variances: npt.ArrayLike, *, noise: str) -> float:
    """A bound on the mean of the largest of some errors that are weighted sums of noise, independent or not."""
    values, times = np.unique(np.asarray(variances, dtype=np.float64), return_counts=True)
    if not np.isfinite(values[-1]):
        return math.inf
    if values[-1] == 0:
        return 0.0
    best = math.sqrt(float(values @ times))  # the largest square is at most the sum of all
    if noise == "laplace":
        tries = math.sqrt(2 / float(values[-1])) * (1 - np.geomspace(1e-6, 0.999, 200))
    else:
        tries = math.sqrt(2 * math.log(2 * int(times.sum())) / float(values[-1])) * np.geomspace(0.2, 2, 200)
    for slope in tries.tolist():
        squares = slope**2 * values / 2
        moments = 1 / (1 - squares) if noise == "laplace" else np.exp(squares)
        best = min(best, math.log(2 * float(moments @ times)) / slope)
    return best


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
        errors = predict_levels(list(sizes), shares, epsilon=epsilon, delta=budget.delta, d_in=d_in)
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


def expected_rank_error(method: Line, bins: int, budget: Budget, *, people: int = PEOPLE) -> float:
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
    if line.parameters is not None:
        count = max(1, min(bins, round(people / (_CROWDS * line.parameters.shape.thresholds[0]))))
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
