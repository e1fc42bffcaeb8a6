"""What Laplace and Gaussian noise on all nodes of a tree have in common: levels, scales, and the release."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from opendp.metrics import l1_distance
from opendp.mod import Domain, Metric

from opendp_tree import saturate
from opendp_tree._arguments import check_scale
from opendp_tree.postprocess.consistent import Consistency
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.consistent import gaussian_multiplier
from opendp_tree.trees.domains import CountSpace, check_metric
from opendp_tree.trees.least_squares import LARGEST_VARIANCE, LEAST_VARIANCE
from opendp_tree.trees.tree import Tree

Ints = npt.NDArray[np.int64]
Draw = Callable[[float, int], Ints]


@dataclass(frozen=True)
class LevelNoise:
    """A tree, a noise scale for each of its levels, and how to make a release."""

    space: CountSpace
    tree: Tree
    noise: str
    scales: tuple[float, ...]
    """One for each level; `inf` where nothing is measured, 0 where no noise is added."""
    consistent: bool
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        input_domain: Domain,
        input_metric: Metric,
        *,
        noise: str,
        scale: float,
        tree: Tree | None,
        weights: Sequence[float] | None,
        consistent: bool,
        **options: Any,
    ) -> LevelNoise:
        """Checks all arguments. A level of weight w gets w parts of the privacy loss."""
        space = CountSpace.of(input_domain)
        found = space.leaf_tree(tree)
        check_metric(input_metric, l1_distance)
        check_scale(scale)
        shares = check_weights(weights, found.depth)
        if not isinstance(consistent, bool):
            raise TypeError(f"consistent ({consistent!r}) must be True or False")
        if not consistent and 0 in shares:
            raise ValueError("weights must be positive without least squares. Hint: consistent=True")
        scales = level_scales(noise, float(scale), shares)
        made = cls(space, found, noise, scales, consistent, options)
        # The estimator of a large tree takes a second, so it is made when first needed, but not its errors.
        Consistency.of(Tree.from_parents([-1]), [1.0], noise=noise, **options)
        if math.inf in scales and 0 not in scales:
            _ = made.consistency
        return made

    @property
    def measured(self) -> list[float]:
        """The scales of the levels that get noise."""
        return [scale for scale in self.scales if scale < math.inf]

    @property
    def level_variances(self) -> list[float]:
        """The variance of each level's noise, or a little more; infinite where nothing is measured."""
        variance = laplace_variance if self.noise == "laplace" else gaussian_variance
        return [
            math.inf if scale == math.inf else min(max(variance(scale), LEAST_VARIANCE), LARGEST_VARIANCE)
            for scale in self.scales
        ]

    @cached_property
    def consistency(self) -> Consistency:
        """The estimator."""
        by_node = np.array(self.level_variances)[self.tree.node_levels]
        return Consistency.of(self.tree, by_node, noise=self.noise, **self.options)

    def function(self, draw: Draw, statement: Callable[[], PrivacyStatement]) -> Callable[[Any], TreeRelease]:
        """The whole way from leaf counts to a release."""

        def release(data: Any) -> TreeRelease:
            counts = self.tree.sum(self.space.read(data))
            if 0 in self.scales:  # no noise, no promise: nothing to estimate
                exact = counts.astype(np.float64)
                return TreeRelease(self.tree, exact, exact, exact, float(self.options["confidence"]), statement())
            noisy = self._noisy(counts, draw)
            return self.consistency.release(noisy, statement()) if self.consistent else self._raw(noisy, statement())

        return release

    def _raw(self, noisy: Ints, statement: PrivacyStatement) -> TreeRelease:
        """Noisy counts as they are, and what a single noise stays within."""
        confidence = float(self.options["confidence"])
        bounds = [single_bound(self.noise, scale, confidence) for scale in self.scales]
        reach = np.array(bounds, dtype=np.float64)[self.tree.node_levels]
        estimates = noisy.astype(np.float64)
        lower, upper = estimates - reach, estimates + reach
        if self.options["nonnegative"]:
            estimates, lower, upper = (np.maximum(part, 0.0) for part in (estimates, lower, upper))
        return TreeRelease(self.tree, estimates, lower, upper, confidence, statement)

    def _noisy(self, counts: Ints, draw: Draw) -> Ints:
        """Counts with noise on the measured levels, and 0 on the others: no exact count leaves here."""
        if len(set(self.scales)) == 1:
            return saturate.add(counts, draw(self.scales[0], counts.size))
        noisy = np.zeros_like(counts)
        for scale, nodes in zip(self.scales, self.tree.levels, strict=True):
            if scale < math.inf:
                noisy[nodes] = saturate.add(counts[nodes], draw(scale, nodes.size))
        return noisy


def check_weights(weights: Sequence[float] | None, depth: int) -> list[float]:
    """One non-negative number for each level, not all of them 0."""
    if weights is None:
        return [1.0] * depth
    if isinstance(weights, str) or len(weights) != depth:
        raise ValueError(f"weights must hold one number for each of the {depth} levels, from the root's down")
    shares = [float(check_scale(weight, name=f"weights[{level}]")) for level, weight in enumerate(weights)]
    if not any(shares):
        raise ValueError("weights must not all be 0")
    return shares


def level_scales(noise: str, scale: float, weights: Sequence[float]) -> tuple[float, ...]:
    """The scale of each level: one of weight w pays w parts of the loss; infinite where the weight is 0.

    >>> level_scales("laplace", 6.0, [1, 3]), level_scales("gaussian", 6.0, [0, 4])
    ((6.0, 2.0), (inf, 3.0))
    """
    power = 1.0 if noise == "laplace" else 0.5
    return tuple(math.inf if w == 0 else min(scale / w**power, sys.float_info.max) for w in weights)


def laplace_variance(scale: float) -> float:
    """The variance of integer Laplace noise.

    >>> round(laplace_variance(3.0), 6)
    17.834255
    """
    missed = -math.expm1(-1 / scale) if scale > 1e-300 else 1.0
    return 2 * math.exp(-1 / scale) / missed**2 if scale > 1e-300 else 0.0


def gaussian_variance(scale: float) -> float:
    """The variance of discrete Gaussian noise is at most this.

    >>> gaussian_variance(3.0)
    9.0
    """
    return scale * scale


def single_bound(noise: str, scale: float, confidence: float) -> int:
    """What one noise stays within with at least this probability.

    >>> [single_bound(noise, 3.0, 0.95) for noise in ("laplace", "gaussian")]
    [9, 6]
    """
    if noise == "gaussian":
        return math.floor(gaussian_multiplier(confidence, least_scale=scale, measured=1) * scale)
    # P(|z| > b) = 2 q**(b + 1) / (1 + q) for q = exp(-1/scale)
    beyond = math.log(2 / ((1 + math.exp(-1 / scale)) * (1 - confidence)))
    return max(0, math.ceil(scale * beyond * (1 + 1e-12) - 1 + 1e-9))


def one_or_all(values: Sequence[int | float]) -> str:
    """Numbers by level as a text; once, if they are all the same.

    >>> one_or_all([2, 2, 2]), one_or_all([2, 0.5])
    ('2', '2, 0.5')
    """
    shown = values[:1] if len(set(values)) == 1 else values
    return ", ".join(f"{value}" for value in shown)


def statement_of(noise: LevelNoise, *, scale: float, measure: str, loss: dict[str, float]) -> PrivacyStatement:
    """What a release cost, at distance 1."""
    parameters: dict[str, int | float | str | None] = {
        "scale": float(scale),
        "level_scales": one_or_all(noise.scales),
    }
    return PrivacyStatement(f"{'tree' if noise.consistent else 'raw'}_{noise.noise}", measure, 1, loss, parameters)
