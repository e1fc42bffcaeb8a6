"""Truncated Laplace noise: its error is always bounded, at the price of a small delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from opendp.measures import approximate, max_divergence, smoothed_max_divergence
from opendp.metrics import absolute_distance, l1_distance
from opendp.mod import Domain, Measure, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_integer, check_probability, check_scale, computable, read_distance
from opendp_tree._opendp import make_measurement, make_profile, to_then
from opendp_tree.theorems.interval import Interval, exp, least_whole, round_up
from opendp_tree.theorems.tails import truncated_laplace_delta, truncated_laplace_profile
from opendp_tree.trees.domains import CountSpace, check_metric


def make_truncated_laplace(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    radius: int | None = None,
    delta: float | None = None,
    d_in: int = 1,
) -> Measurement:
    """Integers plus noise that never exceeds `radius`: `P(z)` as `exp(-|z|/scale)`, on -radius..radius.

    `approximate(max_divergence())`: at distance k, epsilon is k/scale and delta is the exact mass of the noise
    above radius - k. Both are tight. Proof: docs/proofs/tree_noise.md.

    Counts beyond ±(2**62 - 1) are clamped first; results that do not fit the integer type become the nearest that does.

    :param input_domain: An integer or a vector of integers, or arrays by `leaf_domain` or `node_domain`.
    :param input_metric: `absolute_distance` for one integer, `l1_distance` for vectors.
    :param scale: The scale of the noise. A scale of 0 adds no noise and promises nothing.
    :param radius: What the noise never exceeds. Give this or `delta`.
    :param delta: Instead of `radius`: chooses the smallest one whose delta at distance `d_in` is at most this, which
        the map then reports up to that distance, so that OpenDP's searches for `scale` can compare.
    :param d_in: The distance at which `delta` must hold; 1, one row. After a tree sum it is the tree's depth.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    >>> noisy = space >> then_truncated_laplace(2.0, radius=30)
    >>> noisy.map(1)
    (0.5, 7.492120446888263e-08)
    >>> (space >> then_truncated_laplace(2.0, delta=1e-9)).map(1)
    (0.5, 1e-09)
    """
    assert_features("contrib")
    exact_scale, d_in = check_scale(scale), check_integer(d_in, name="d_in", least=1)
    q = noise_ratio(exact_scale)
    lost = partial(truncated_laplace_delta, q, d_in=d_in)
    reach, promised = chosen_radius(radius, delta, lost, scale=exact_scale)

    def privacy_map(distance: int | float) -> tuple[float, float]:
        exact = read_distance(distance)
        if exact == 0:
            return 0.0, 0.0
        if exact_scale == 0:
            return math.inf, 1.0
        # Integers that are 1.5 apart are 1 apart.
        tail = truncated_laplace_delta(q, radius=reach, d_in=math.floor(exact))
        return round_up(exact / exact_scale), min(1.0, max(round_up(tail), float(promised)))

    return _make(input_domain, input_metric, approximate(max_divergence()), float(scale), reach, privacy_map)


def make_truncated_laplace_profile(
    input_domain: Domain, input_metric: Metric, scale: float, *, radius: int
) -> Measurement:
    """As `make_truncated_laplace`, with its whole privacy profile: the exact delta at every epsilon.

    `smoothed_max_divergence()`: the profile below k/scale too, for spending delta in place of epsilon.
    OpenDP composes no profiles: pass it through `make_fix_delta` first. OpenDP asks for the feature
    "honest-but-curious" wherever Python gives a profile. Proof: docs/proofs/tree_noise.md.

    Other parameters: as for `make_truncated_laplace`.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    >>> profile = space >> then_truncated_laplace_profile(2.0, radius=30)
    >>> profile.map(1).delta(0.5), profile.map(1).delta(0.4)
    (7.492120446888263e-08, 0.05923490760803739)
    >>> dp.c.make_fix_delta(profile, delta=0.1).map(1)
    (0.3248689800481846, 0.1)
    """
    assert_features("contrib", "honest-but-curious")
    exact_scale = check_scale(scale)
    q = noise_ratio(exact_scale)
    check_integer(radius, name="radius", least=0)

    def curve(distance: int, epsilon: float) -> float:
        if math.isnan(epsilon) or epsilon < 0:
            raise ValueError(f"epsilon ({epsilon}) must be non-negative")
        if distance == 0:
            return 0.0
        if exact_scale == 0:
            return 1.0
        if epsilon == math.inf or Fraction(epsilon) * exact_scale >= distance:
            return min(1.0, round_up(truncated_laplace_delta(q, radius=radius, d_in=distance)))
        if epsilon > 10**6:  # the exponential would overflow, for a promise that nobody can use
            return 1.0
        exact = Fraction(epsilon)
        log_ratio, ratio = exact * exact_scale, exp(exact)
        lost = truncated_laplace_profile(q, radius=radius, d_in=distance, log_ratio=log_ratio, ratio=ratio)
        return min(1.0, max(0.0, round_up(lost)))

    def privacy_map(distance: int | float) -> Any:
        whole = math.floor(read_distance(distance))
        return make_profile(lambda epsilon: curve(whole, epsilon))

    return _make(input_domain, input_metric, smoothed_max_divergence(), float(scale), radius, privacy_map)


then_truncated_laplace = to_then(make_truncated_laplace)
then_truncated_laplace_profile = to_then(make_truncated_laplace_profile)


def truncated_laplace_radius(scale: float, *, delta: float, d_in: int = 1) -> int:
    """The smallest radius at which truncated Laplace noise of this scale loses at most `delta` at distance `d_in`.

    Other parameters: as for `make_truncated_laplace`.

    >>> truncated_laplace_radius(2.0, delta=1e-9)
    39
    """
    exact_scale, d_in = check_scale(scale), check_integer(d_in, name="d_in", least=1)
    lost = partial(truncated_laplace_delta, noise_ratio(exact_scale), d_in=d_in)
    return chosen_radius(None, delta, lost, scale=exact_scale)[0]


def noise_ratio(scale: Fraction) -> Interval:
    """The ratio exp(-1/scale) of the probabilities of neighbouring integers; 0 for a scale of 0."""
    return exp(-1 / scale) if scale else Interval.of(0)


def chosen_radius(
    radius: int | None, delta: float | None, lost: Callable[..., Interval], *, scale: Fraction
) -> tuple[int, Fraction]:
    """The radius, or the smallest one whose `lost(radius=...)` is at most `delta`; and the promised delta, or 0."""
    if (radius is None) == (delta is None):
        raise ValueError("exactly one of radius and delta must be given. Hint: delta=1e-6")
    if delta is None:
        return check_integer(radius, name="radius", least=0), Fraction(0)
    promised = check_probability(delta, name="delta")
    if scale == 0:
        return 0, promised

    def suffices(reach: int) -> bool:
        return lost(radius=reach).hi <= promised

    with computable("scale, delta and distance"):
        if not suffices(saturate.LIMIT):
            raise ValueError(f"scale ({float(scale)}) must be smaller: it needs a radius beyond 2**62 - 1")
        return least_whole(suffices), promised


def _make(
    input_domain: Domain, input_metric: Metric, measure: Measure, scale: float, radius: int, privacy_map: Any
) -> Measurement:
    space = CountSpace.of(input_domain)
    check_metric(input_metric, absolute_distance if space.scalar else l1_distance)

    def function(data: Any) -> Any:
        counts = space.read(data)
        return space.write(saturate.add(counts, noise.truncated_laplace(scale, radius, counts.size)))

    return make_measurement(input_domain, input_metric, measure, function, privacy_map, space.output_type)
