"""Laplace or Gaussian noise on every node of a tree, made consistent by least squares; how levels share a loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.mod import Domain, Measure, Measurement, Metric

from opendp_tree import noise as noises
from opendp_tree import saturate
from opendp_tree._arguments import check_flags, check_probability, check_scale, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Ints
from opendp_tree.budget import PrivacyStatement, level_scales
from opendp_tree.mechanisms.consistent import consistent_estimator
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.noise import gaussian_rho, laplace_epsilon
from opendp_tree.theorems.tails import gaussian_multiplier, noise_bound
from opendp_tree.trees.domains import CountSpace
from opendp_tree.trees.least_squares import LARGEST_VARIANCE
from opendp_tree.trees.tree import Tree


def check_weights(
    weights: Any, depth: int | None = None, *, check: Callable[..., Fraction] = check_scale
) -> tuple[float, ...]:
    """One number per level from the root's down, not all of them 0; without a depth, of any number of levels."""
    if weights is None and depth is not None:
        return (1.0,) * depth
    if not isinstance(weights, (Sequence, np.ndarray)) or isinstance(weights, str):
        raise TypeError(f"weights ({weights!r}) must be a number for each level, from the root's down")
    if depth is not None and len(weights) != depth:
        raise ValueError(f"weights must hold one number for each of the {depth} levels, from the root's down")
    shares = tuple(float(check(weight, name=f"weights[{level}]")) for level, weight in enumerate(weights))
    if not any(shares):
        raise ValueError("weights must not all be 0")
    return shares


def laplace_variance(scale: float) -> float:
    """The variance of integer Laplace noise."""
    if not 1e-300 < scale < 1e150:  # beyond floats
        return 0.0 if scale < 1 else math.inf
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def gaussian_variance(scale: float) -> float:
    """The variance of discrete Gaussian noise is at most this."""
    return scale * scale


def single_bound(noise: str, scale: float, confidence: float) -> int:
    """What the absolute value of one draw does not exceed, with at least this probability."""
    if noise == "gaussian":
        return math.floor(gaussian_multiplier(confidence, least_scale=scale, measured=1) * scale)
    return noise_bound("laplace", Fraction(scale), 1 - Fraction(confidence))


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
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts: integer Laplace noise on every node, then least squares: a `TreeRelease`.

    `max_divergence()`: at distance k, epsilon is k times the sum over the levels of 1/scale. Tight.
    Proof: docs/proofs/tree_noise.md. The cost is the noise, and two passes over the nodes.

    Other parameters: as for `make_tree_sum`.

    :param scale: The scale of the noise of a level of weight 1. A scale of 0 adds no noise and promises nothing.
    :param weights: One for each level from the root's down: how the privacy loss is shared. A level of weight w gets
        noise of scale/w; weight 0 leaves it out. By default all levels weigh 1, so that none is favoured.
    :param confidence: The probability with which a node's interval holds its count, node by node.
    :param nonnegative: Whether estimates are made non-negative; False, because that biases sums of small counts.
    :param integers: Whether estimates are made whole; False, because rounding adds error.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_laplace(3.0, nonnegative=True)
    >>> counts.map(1)
    1.0
    >>> counts(tree.count(["ghent"] * 700 + ["lu"] * 100)).statement.loss
    {'epsilon': 1.0}
    """
    form = {"nonnegative": nonnegative, "integers": integers}
    return _make("laplace", input_domain, input_metric, scale, tree, weights, confidence, **form)


def make_tree_gaussian(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    tree: Tree | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts: discrete Gaussian noise on every node, then least squares: a `TreeRelease`.

    `zero_concentrated_divergence()`: at distance k, rho is k**2 / 2 times the sum over the levels of 1/scale**2. Tight.
    For (epsilon, delta) pass it through OpenDP's `make_zCDP_to_approxDP` and `make_fix_delta`.
    Proof: docs/proofs/tree_noise.md.

    Other parameters: as for `make_tree_laplace`.

    :param weights: How the levels share the privacy loss, as there; a level of weight w gets noise of scale/sqrt(w).

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=8)
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_gaussian(4.0)
    >>> counts.map(1)
    0.25
    >>> dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(counts), delta=1e-6).map(1)
    (3.542291300477016, 1e-06)
    """
    form = {"nonnegative": nonnegative, "integers": integers}
    return _make("gaussian", input_domain, input_metric, scale, tree, weights, confidence, **form)


then_tree_laplace = to_then(make_tree_laplace)
then_tree_gaussian = to_then(make_tree_gaussian)


def _make(
    kind: str,
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    tree: Tree | None,
    weights: Sequence[float] | None,
    confidence: float,
    **form: bool,
) -> Measurement:
    law = LAWS[kind]
    space, known = CountSpace.of_leaves(input_domain, input_metric, tree)
    check_scale(scale)
    shares = check_weights(weights, known.depth)
    level = float(check_probability(confidence, name="confidence"))
    check_flags(**form)
    scales = level_scales(kind, float(scale), shares)  # inf where nothing is measured, 0 where no noise is added
    measured = [Fraction(each) for each in scales if each < math.inf]

    @cache  # that of a large tree takes a second: it is made when first needed
    def estimator() -> Callable[..., TreeRelease]:
        variances = [math.inf if each == math.inf else min(law.variance(each), LARGEST_VARIANCE) for each in scales]
        by_node = np.array(variances)[known.node_levels]
        return consistent_estimator(known, by_node, kind, level, **form)

    if math.inf in scales and 0 not in scales:
        estimator()  # raises here, not at a release, where what is measured does not suffice

    @lru_cache(maxsize=8)  # a release's statement asks again
    def privacy_map(d_in: int | float) -> float:
        distance = read_distance(d_in)
        if distance == 0:
            return 0.0
        return math.inf if 0 in measured else round_up(law.theorem(distance, scales=measured))

    def function(data: Any) -> TreeRelease:
        loss = {law.loss: privacy_map(1)}
        parameters: dict[str, Any] = {"scale": float(scale), "level_scales": one_or_all(scales)}
        statement = PrivacyStatement(f"tree_{kind}", measure_name(law.measure()), 1, loss, parameters)
        counts = known.sum(space.read(data))
        if 0 in scales:  # without noise nothing is promised, and nothing is estimated
            exact = counts.astype(np.float64)
            return TreeRelease(known, exact, exact, exact, level, statement, whole=form["integers"])
        return estimator()(_add_noise(known, counts, law, scales), statement)

    return make_measurement(input_domain, input_metric, law.measure(), function, privacy_map)


def _add_noise(tree: Tree, counts: Ints, law: Law, scales: Sequence[float]) -> Ints:
    """Counts with noise on the measured levels, and 0 on the others: no exact count leaves here."""
    if len(set(scales)) == 1:
        return saturate.add(counts, law.draw(scales[0], counts.size))
    noisy = np.zeros_like(counts)
    for scale, nodes in zip(scales, tree.levels, strict=True):
        if scale < math.inf:
            noisy[nodes] = saturate.add(counts[nodes], law.draw(scale, nodes.size))
    return noisy
