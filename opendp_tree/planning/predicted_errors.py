"""Noise on every node: its error over all nodes at once, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_choice, check_positive
from opendp_tree.mechanisms.tree_noise import check_weights, gaussian_variance, laplace_variance, level_scales
from opendp_tree.trees.least_squares import LARGEST_VARIANCE, LEAST_VARIANCE, LeastSquares
from opendp_tree.trees.tree import Tree, check_tree

__all__ = ["NoiseErrors", "largest_error_bound", "noise_errors"]


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
