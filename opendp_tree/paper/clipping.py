"""Clipping: any estimator of node counts, with an error that is always bounded and no larger than before."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from opendp.measures import approximate, max_divergence
from opendp.mod import Domain, Measurement, Metric

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_scale, check_type, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Array, Floats, Ints
from opendp_tree.budget import PrivacyStatement, amounts_of_loss
from opendp_tree.mechanisms.truncated_laplace import chosen_radius, noise_ratio
from opendp_tree.paper.classification import people_reader
from opendp_tree.releases.release import TreeRelease
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.paper import clipping_delta
from opendp_tree.trees.tree import Tree


def make_clipped_estimator(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    estimator: Measurement,
    radius: int | None = None,
    delta: float | None = None,
    tree: Tree | None = None,
) -> Measurement:
    """What an estimator of node counts releases, moved into intervals that always hold the truth.

    Truncated Laplace noise of `scale` on every node gives an interval of 2 * `radius` + 1 integers that holds the
    node's count whatever happens. An estimate outside of it is moved to its nearer end. So no estimate is further
    from the truth than before, and none by more than 2 * `radius`: an estimator that is right with high probability
    gets a bounded mean squared error. The release is a `TreeRelease` with these intervals. A leaf count below 0 is
    taken as 0, and the truth is the sum of those.

    `approximate(max_divergence())`: at distance k the estimator's own loss, plus depth * k/scale, plus the exact
    probability that some level shows noise that only one input can show. Proof: docs/proofs/paper.md.

    Other parameters: as for `make_tree_sum`.

    :param scale: The scale of the truncated noise that gives the intervals. Without noise, at 0, nothing is promised.
    :param estimator: A measurement on the same input space, of the same measure (OpenDP's `make_approximate` helps),
        which releases a `TreeRelease`, or one number for each node by node id.
    :param radius: What that noise never exceeds. Give this or `delta`.
    :param delta: Instead of `radius`: chooses the smallest one whose own delta at distance 1 is at most this. The map
        then reports exactly this beside the estimator's, so that OpenDP's searches for `scale` can compare.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain, then_tree_sum
    >>> dp.enable_features("contrib")
    >>> tree = Tree.balanced(branching=2, depth=3)
    >>> space = leaf_domain(tree), dp.l1_distance(T="i64")
    >>> noisy = dp.c.make_approximate(space >> then_tree_sum(carrier="vector") >> dp.m.then_laplace(3.0))
    >>> clipped = space >> then_clipped_estimator(3.0, estimator=noisy, delta=1e-6)
    >>> clipped.map(1)
    (2.0, 1e-06)
    """
    tree, node_counts = people_reader(input_domain, input_metric, tree)
    _check_estimator(estimator, input_domain, input_metric)
    exact_scale, depth = check_scale(scale), tree.depth
    q, measure = noise_ratio(exact_scale), approximate(max_divergence())
    own_delta = partial(clipping_delta, q, depth=depth)
    reach, promised = chosen_radius(radius, delta, partial(own_delta, d_in=1), scale=exact_scale)

    def function(data: Any) -> TreeRelease:
        counts = node_counts(data)
        centres = saturate.add(counts, noise.truncated_laplace(float(scale), reach, counts.size))
        clipped = _clip(_numbers(estimator(data), tree.node_count), centres, reach)
        lower, upper = _ends(centres, reach)
        spent, parameters = amounts_of_loss(measure, privacy_map(1)), {"scale": float(scale), "radius": reach}
        statement = PrivacyStatement("clipped_estimator", measure_name(measure), 1, spent, parameters)
        return TreeRelease(tree, clipped.astype(np.float64), lower, upper, 1.0, statement)

    def privacy_map(distance: int | float) -> tuple[float, float]:
        exact = math.floor(read_distance(distance))
        if exact == 0:
            return 0.0, 0.0
        epsilon, lost = estimator.map(distance)  # type: ignore[no-untyped-call]
        if not (exact_scale and math.isfinite(epsilon)):
            return math.inf, 1.0
        more = laplace_epsilon(exact, scales=[exact_scale] * depth)
        own = max(Fraction(own_delta(radius=reach, d_in=exact).hi), promised)
        return round_up(Fraction(epsilon) + more), min(1.0, round_up(Fraction(lost) + own))

    return make_measurement(input_domain, input_metric, measure, function, privacy_map)


then_clipped_estimator = to_then(make_clipped_estimator)


def _check_estimator(estimator: Measurement, input_domain: Domain, input_metric: Metric) -> None:
    check_type(estimator, Measurement, name="estimator", hint="make_multiplicative_estimator(...)")
    if estimator.input_domain != input_domain or estimator.input_metric != input_metric:
        raise ValueError("estimator must start from the same input_domain and input_metric")
    if estimator.output_measure != approximate(max_divergence()):
        raise ValueError(
            f"estimator's output measure ({estimator.output_measure}) must be approximate(max_divergence()). "
            "Hint: opendp.combinators.make_approximate"
        )


def _numbers(release: Any, nodes: int) -> Array:
    numbers = np.asarray(release.estimates if isinstance(release, TreeRelease) else release)
    if numbers.shape != (nodes,) or numbers.dtype.kind not in "iuf":
        raise TypeError(f"estimator must release one number for each of the {nodes} nodes")
    return numbers


def _ends(centres: Ints, radius: int) -> tuple[Floats, Floats]:
    """Intervals around noisy counts of people that hold the counts themselves, always."""
    middle = centres.astype(np.float64)
    # Floats do not hold all integers beyond 2**53: outward by more than all roundings.
    largest = np.abs(middle) + radius
    reach = radius + np.where(largest > 2**51, largest * 2.0**-50, 0.0)
    return np.maximum(middle - reach, 0), np.maximum(middle + reach, 0)


def _clip(estimates: Array, centres: Ints, radius: int) -> Ints:
    """Each estimate, moved to within `radius` of its centre; one that is no number becomes the centre."""
    reach = np.full(centres.size, radius, dtype=np.int64)
    low, high = saturate.add(centres, -reach), saturate.add(centres, reach)
    if estimates.dtype.kind == "f":
        # Beyond float's integers only the order matters, and clamping keeps it.
        rounded = np.clip(np.where(np.isnan(estimates), centres, np.rint(estimates)), -(2.0**62), 2.0**62)
        estimates = rounded.astype(np.int64)
    return np.clip(saturate.clamp(estimates), low, high)
