"""Laplace or Gaussian noise on every node of a tree, made consistent by least squares; how levels share a loss."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measure, Measurement, Metric, assert_features

from opendp_tree import noise as noises
from opendp_tree import saturate
from opendp_tree._arguments import check_flags, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Ints
from opendp_tree.mechanisms.consistent import Consistency
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.theorems.gaussian import gaussian_multiplier, gaussian_rho
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.laplace import laplace_epsilon
from opendp_tree.trees.domains import CountSpace, check_metric
from opendp_tree.trees.least_squares import LARGEST_VARIANCE, LEAST_VARIANCE
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_gaussian", "make_tree_laplace", "then_tree_gaussian", "then_tree_laplace"]


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
    """The scale of each level: one of weight w pays w parts of the loss; infinite where the weight is 0."""
    power = 1.0 if noise == "laplace" else 0.5
    return tuple(math.inf if w == 0 else min(scale / w**power, sys.float_info.max) for w in weights)


def laplace_variance(scale: float) -> float:
    """The variance of integer Laplace noise."""
    missed = -math.expm1(-1 / scale) if scale > 1e-300 else 1.0
    return 2 * math.exp(-1 / scale) / missed**2 if scale > 1e-300 else 0.0


def gaussian_variance(scale: float) -> float:
    """The variance of discrete Gaussian noise is at most this."""
    return scale * scale


def single_bound(noise: str, scale: float, confidence: float) -> int:
    """What one noise stays within with at least this probability."""
    if noise == "gaussian":
        return math.floor(gaussian_multiplier(confidence, least_scale=scale, measured=1) * scale)
    # P(|z| > b) = 2 q**(b + 1) / (1 + q) for q = exp(-1/scale)
    beyond = math.log(2 / ((1 + math.exp(-1 / scale)) * (1 - confidence)))
    return max(0, math.ceil(scale * beyond * (1 + 1e-12) - 1 + 1e-9))


def one_or_all(values: Sequence[int | float]) -> str:
    """Numbers by level as a text; once, if they are all the same."""
    shown = values[:1] if len(set(values)) == 1 else values
    return ", ".join(f"{value}" for value in shown)


@dataclass(frozen=True)
class Law:
    """A kind of noise: how it is drawn, and what it costs."""

    draw: Callable[[float, int], Ints]
    variance: Callable[[float], float]
    measure: Callable[[], Measure]
    loss: str
    """What the measure calls its loss."""
    theorem: Callable[..., Fraction]
    """The loss at a distance, from the scales of the levels."""


LAWS = {
    "laplace": Law(noises.laplace, laplace_variance, max_divergence, "epsilon", laplace_epsilon),
    "gaussian": Law(noises.gaussian, gaussian_variance, zero_concentrated_divergence, "rho", gaussian_rho),
}


def make_tree_laplace(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    weights: Sequence[float] | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts: integer Laplace noise on every node, then least squares: a `TreeRelease`.

    `max_divergence()`: at distance k, epsilon is k times the sum over the levels of 1/scale. Tight.
    Proof: docs/proofs/tree_noise.md. The cost is the noise, and two passes over the nodes.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared size, vectors are
        cut to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`, of an integer type or f64.
    scale
        Of the noise of a level of weight 1. A scale of 0 adds no noise and promises nothing.
    tree
        The tree, where `input_domain` does not carry it.
    weights
        One for each level from the root's down: how the privacy loss is shared. A level of weight w gets noise of
        scale/w; weight 0 leaves it out. By default all levels weigh 1, so that none is favoured.
    consistent
        Whether least squares follows, which makes counts add up and lowers every error; True, because it costs no
        privacy. Otherwise noisy counts are released as they are.
    confidence
        The probability with which a node's interval holds its count, node by node; 0.95, as people expect.
    nonnegative
        Whether estimates are made non-negative; False, because that biases sums of small counts.
    integers
        Whether estimates are made whole; False, because rounding adds error.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_laplace(3.0, nonnegative=True)
    >>> counts.map(1)
    1.0
    >>> release = counts(tree.count(["ghent"] * 700 + ["lu"] * 100))
    >>> [bool(abs(a - b) < 100) for a, b in zip(release.estimates, [800, 700, 700, 0, 100])]
    [True, True, True, True, True]
    >>> release.statement.loss
    {'epsilon': 1.0}

    """
    options = {"confidence": confidence, "nonnegative": nonnegative, "integers": integers}
    return _make("laplace", input_domain, input_metric, scale, tree, weights, consistent, options)


def make_tree_gaussian(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    weights: Sequence[float] | None = None,
    consistent: bool = True,
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts: discrete Gaussian noise on every node, then least squares: a `TreeRelease`.

    `zero_concentrated_divergence()`: at distance k, rho is k**2 / 2 times the sum over the levels of 1/scale**2. Tight.
    For (epsilon, delta) pass it through OpenDP's `make_zCDP_to_approxDP` and `make_fix_delta`.
    Proof: docs/proofs/tree_noise.md. The cost is the noise, and two passes over the nodes.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or a vector of integers with the tree as an argument. Without a declared size, vectors are
        cut to the number of leaves, or filled up with zeros.
    input_metric
        `l1_distance`, of an integer type or f64.
    scale
        Of the noise of a level of weight 1. A scale of 0 adds no noise and promises nothing.
    tree
        The tree, where `input_domain` does not carry it.
    weights
        One for each level from the root's down: how the privacy loss is shared. A level of weight w gets noise of
        scale/sqrt(w); weight 0 leaves it out. By default all levels weigh 1, so that none is favoured.
    consistent
        Whether least squares follows, which makes counts add up and lowers every error; True, because it costs no
        privacy. Otherwise noisy counts are released as they are.
    confidence
        The probability with which a node's interval holds its count, node by node; 0.95, as people expect.
    nonnegative
        Whether estimates are made non-negative; False, because that biases sums of small counts.
    integers
        Whether estimates are made whole; False, because rounding adds error.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=8)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_gaussian(4.0)
    >>> counts.map(1)
    0.25
    >>> dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(counts), delta=1e-6).map(1)
    (3.542291300477016, 1e-06)
    >>> release = counts(np.full(tree.leaf_count, 100))
    >>> bool(abs(release.estimates[0] - 12800) < 50)
    True

    """
    options = {"confidence": confidence, "nonnegative": nonnegative, "integers": integers}
    return _make("gaussian", input_domain, input_metric, scale, tree, weights, consistent, options)


then_tree_laplace = to_then(make_tree_laplace)
then_tree_gaussian = to_then(make_tree_gaussian)


def _make(
    kind: str,
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    tree: Tree | None,
    weights: Sequence[float] | None,
    consistent: bool,
    options: dict[str, Any],
) -> Measurement:
    assert_features("contrib")
    check_metric(input_metric, l1_distance)
    work = NoisyTree.of(input_domain, kind, scale, tree=tree, weights=weights, consistent=consistent, options=options)
    law = LAWS[kind]
    exact = [Fraction(level) for level in work.measured]

    @lru_cache(maxsize=8)  # a release's statement asks again
    def privacy_map(d_in: int | float) -> float:
        distance = read_distance(d_in)
        if distance == 0:
            return 0.0
        return math.inf if 0 in exact else round_up(law.theorem(distance, scales=exact))

    def statement() -> PrivacyStatement:
        parameters: dict[str, int | float | str | None] = {
            "scale": float(scale),
            "level_scales": one_or_all(work.scales),
        }
        name = f"{'tree' if consistent else 'raw'}_{kind}"
        return PrivacyStatement(name, measure_name(law.measure()), 1, {law.loss: privacy_map(1)}, parameters)

    return make_measurement(
        input_domain, input_metric, law.measure(), lambda data: work.release(data, statement()), privacy_map
    )


@dataclass(frozen=True)
class NoisyTree:
    """A tree, a noise scale for each of its levels, and how to make a release."""

    space: CountSpace
    tree: Tree
    kind: str
    scales: tuple[float, ...]
    """One for each level; `inf` where nothing is measured, 0 where no noise is added."""
    consistent: bool
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        input_domain: Domain,
        kind: str,
        scale: float,
        *,
        tree: Tree | None,
        weights: Sequence[float] | None,
        consistent: bool,
        options: dict[str, Any],
    ) -> NoisyTree:
        """Checks all arguments. A level of weight w gets w parts of the privacy loss."""
        space, public = CountSpace.of_leaves(input_domain, tree)
        check_scale(scale)
        shares = check_weights(weights, public.depth)
        check_probability(options["confidence"], name="confidence")
        check_flags(consistent=consistent, nonnegative=options["nonnegative"], integers=options["integers"])
        if not consistent and 0 in shares:
            raise ValueError("weights must be positive without least squares. Hint: consistent=True")
        scales = level_scales(kind, float(scale), shares)
        made = cls(space, public, kind, scales, consistent, options)
        # The estimator of a large tree takes a second, so it is made when first needed, but not its errors.
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
        variance = LAWS[self.kind].variance
        return [
            math.inf if scale == math.inf else min(max(variance(scale), LEAST_VARIANCE), LARGEST_VARIANCE)
            for scale in self.scales
        ]

    @cached_property
    def consistency(self) -> Consistency:
        """The estimator."""
        by_node = np.array(self.level_variances)[self.tree.node_levels]
        return Consistency.of(self.tree, by_node, noise=self.kind, **self.options)

    def release(self, data: Any, statement: PrivacyStatement) -> TreeRelease:
        """The whole way from leaf counts to a release."""
        counts = self.tree.sum(self.space.read(data))
        if 0 in self.scales:  # no noise, no promise: nothing to estimate
            exact = counts.astype(np.float64)
            return TreeRelease(self.tree, exact, exact, exact, float(self.options["confidence"]), statement)
        noisy = self._noisy(counts)
        return self.consistency.release(noisy, statement) if self.consistent else self._raw(noisy, statement)

    def _raw(self, noisy: Ints, statement: PrivacyStatement) -> TreeRelease:
        """Noisy counts as they are, and what a single noise stays within."""
        confidence = float(self.options["confidence"])
        bounds = [single_bound(self.kind, scale, confidence) for scale in self.scales]
        reach = np.array(bounds, dtype=np.float64)[self.tree.node_levels]
        estimates = noisy.astype(np.float64)
        lower, upper = estimates - reach, estimates + reach
        if self.options["nonnegative"]:
            estimates, lower, upper = (np.maximum(part, 0.0) for part in (estimates, lower, upper))
        return TreeRelease(self.tree, estimates, lower, upper, confidence, statement)

    def _noisy(self, counts: Ints) -> Ints:
        """Counts with noise on the measured levels, and 0 on the others: no exact count leaves here."""
        draw = LAWS[self.kind].draw
        if len(set(self.scales)) == 1:
            return saturate.add(counts, draw(self.scales[0], counts.size))
        noisy = np.zeros_like(counts)
        for scale, nodes in zip(self.scales, self.tree.levels, strict=True):
            if scale < math.inf:
                noisy[nodes] = saturate.add(counts[nodes], draw(scale, nodes.size))
        return noisy
