"""The tree partition's error, predicted, and the parameters that make it least."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    shortened,
)
from opendp_tree._types import Floats
from opendp_tree.measurements.partition_error import MOST_CELLS, Settings, largest_errors, unmarked, worst_mean_square
from opendp_tree.theorems.bisection import between, bisect
from opendp_tree.theorems.interval import exp, geometric_sum, round_up
from opendp_tree.theorems.tree_partition import PartitionShape, partition_delta, partition_epsilon

Aim = Literal["rmse", "largest"]

LARGEST_SCALE = 2.0**50
"""What untruncated noise can be drawn at; see `opendp_tree.noise`."""


@dataclass(frozen=True)
class PartitionPlan:
    """Parameters of a partition and its cell counts, with the error that they are predicted to have.

    Predictions are floats, so a plan may miss its budget by a last digit: `fitted` makes sure.
    """

    scale: float
    shape: PartitionShape
    count_scale: float
    fill: float
    """The estimate of the people at a node whom no cell holds; not for nodes that are cells, which leave nobody."""
    error: float

    def __post_init__(self) -> None:
        for name, value in (("scale", self.scale), ("count_scale", self.count_scale)):
            if not (isinstance(value, float) and 0 < value <= LARGEST_SCALE):
                raise ValueError(f"{name} ({value!r}) must be a float above 0 and at most 2**50")
        if not 0 <= self.fill < math.inf:
            raise ValueError(f"fill ({self.fill!r}) must be finite and non-negative")

    def fitted(self, *, epsilon: Fraction, delta: Fraction) -> PartitionPlan:
        """The plan, moved by as little as makes its exact loss at distance 1 at most (epsilon, delta).

        The partition stays as it is, but for a threshold and a radius that delta may need one larger; the cell counts
        get what it leaves of epsilon.
        """
        shape = self.shape
        while partition_delta(exp(-1 / Fraction(self.scale)), shape).hi > delta:
            shape = replace(shape, threshold=shape.threshold + 1, radius=shape.radius + 1)
        left = epsilon - Fraction(partition_epsilon(Fraction(self.scale), shape).hi)
        if left <= 0:
            raise ValueError(f"epsilon ({float(epsilon)}) leaves nothing for cell counts after this partition")
        return replace(self, shape=shape, count_scale=round_up(1 / left))


def best_partition(
    *, depth: int, epsilon: float, delta: float, d_in: int = 1, alpha: float = 0.0
) -> tuple[float, PartitionShape]:
    """The scale and shape whose cells miss the fewest people, within (epsilon, delta) at distance `d_in`.

    "Fewest" is the worst alpha-RMSE of what a node may keep unmarked.

    >>> scale, shape = best_partition(depth=33, epsilon=1.0, delta=1e-6)
    >>> shape
    PartitionShape(depth=33, threshold=27, radius=22, margin=6)
    """
    d_in = check_integer(d_in, name="d_in", least=1)
    check_integer(depth, name="depth", least=1)
    one = _check_epsilon(epsilon) / d_in
    share = check_probability(delta, name="delta") / Fraction(geometric_sum(exp(one), d_in).hi)
    found = plan_partition(
        depth=depth, epsilon=float(one), delta=float(share), alpha=alpha, public=False, count_share=0.0
    )
    shape = found.shape
    while partition_delta(exp(-1 / Fraction(found.scale)), shape).hi > share:
        shape = replace(shape, threshold=shape.threshold + 1, radius=shape.radius + 1)
    # Delta falls with the scale, so what is left of epsilon may go into a smaller one.
    low, high = 0.8 * found.scale, found.scale
    while partition_epsilon(Fraction(high), shape).hi > one:
        low, high = high, high * (1 + 2.0**-30)
    return bisect(lambda at: partition_epsilon(Fraction(at), shape).hi <= one, low, high, middle=between), shape


def _check_epsilon(epsilon: float) -> Fraction:
    exact = check_positive(epsilon, name="epsilon")
    if not 1e-16 <= exact <= 10**6:
        raise ValueError(f"epsilon ({shortened(epsilon)}) must be from 1e-16 to 1000000")
    return exact


def unmarked_chance(scale: float, shape: PartitionShape, residuals: Floats) -> Floats:
    """The chance that one test with a token of its own answers "bottom", for each residual.

    >>> unmarked_chance(1.0, PartitionShape(depth=3, threshold=9, radius=5, margin=2), np.array([0.0, 3.0])).tolist()
    [1.0, 1.0]
    """
    return unmarked(one_setting(scale, shape, 1.0, 0.0), residuals)


def worst_rmse(
    scale: float,
    shape: PartitionShape,
    count_scale: float,
    *,
    alpha: float,
    fill: float,
    most_cells: int = MOST_CELLS,
) -> float:
    """The largest alpha-RMSE of any node: without a cell, with one, or with up to `most_cells`.

    A node whose residual stays unmarked errs by that residual; one that is or holds cells, by their noise.
    """
    at = one_setting(scale, shape, count_scale, fill)
    return math.sqrt(worst_mean_square(at, alpha=alpha, most_cells=most_cells).item())


def largest_error(
    scale: float, shape: PartitionShape, count_scale: float, *, alpha: float, fill: float, nodes: int
) -> float:
    """The largest alpha-error to be expected over this many nodes: what a node exceeds with chance 1/nodes."""
    return largest_errors(one_setting(scale, shape, count_scale, fill), alpha=alpha, nodes=nodes).item()


def one_setting(scale: float, shape: PartitionShape, count_scale: float, fill: float) -> Settings:
    """The parameters of one partition as arrays of size 1."""
    values = (scale, shape.threshold, shape.radius, shape.margin, count_scale, fill)
    return Settings(shape.depth, *(np.array([value], dtype=np.float64) for value in values))


@dataclass(frozen=True)
class _Budget:
    """What a plan may spend at distance 1, and how a split of it becomes parameters."""

    depth: int
    epsilon: float
    delta: float
    public: bool
    count_share: float | None

    def settings(self, splits: Floats) -> Settings:
        """For each row of shares: of epsilon for the partition, of that for noise below the carrier level, and the
        estimate of what is unmarked as a share of the threshold. What whole numbers leave of epsilon, counts get.
        """
        part, quiet, filled = splits.T
        part = part if self.count_share is None else np.full_like(part, 1 - self.count_share)
        scale = 1 / (part * self.epsilon * (1 - quiet))
        threshold, radius, margin = shapes_for(
            scale, depth=self.depth, noise_epsilon=part * self.epsilon * quiet, delta=self.delta
        )
        silence = np.log(-np.expm1(-(radius + 1) / scale)) - np.log(-np.expm1(-(margin + 1) / scale))
        left = self.epsilon - 1 / scale - self.depth * silence
        count_scale = np.where(self.count_share == 0, 1e-9, 1 / np.maximum(left, 1e-9 * self.epsilon))
        fill = filled * threshold if self.public else np.zeros_like(threshold)
        return Settings(self.depth, scale, threshold, radius, margin, count_scale, fill)


_SHARES: Floats = np.array([[0.05], [0.1], [0.2], [0.35], [0.5], [0.65], [0.8], [0.9], [0.97]])


def shapes_for(scale: Floats, *, depth: int, noise_epsilon: Floats, delta: float) -> tuple[Floats, Floats, Floats]:
    """Threshold, radius and margin: the least for each scale whose noise below the carrier level costs at most
    `noise_epsilon`. Of several shares of delta for noise at its end, the rest being for carriers that meet, the one
    with the lowest threshold is taken.
    """
    q = np.exp(-1 / scale)
    # d * p(R) <= share * delta, with p(R) = q**R (1 - q) / (1 - q**(R + 1))
    radius = np.ceil(scale * np.log(np.maximum(1.0, -np.expm1(-1 / scale) * depth / (_SHARES * delta) + q)))
    radius = np.maximum(radius, 1)
    # d * ln(1/(1 - pi)) <= noise_epsilon, with 1 - pi = (1 - q**(A + 1)) / (1 - q**(R + 1))
    quiet = np.exp(-noise_epsilon / depth) * -np.expm1(-(radius + 1) / scale)
    margin = np.ceil(-scale * np.log1p(-np.minimum(quiet, 1 - 1e-15)) - 1 - 1e-9).clip(0, radius)
    gap = np.ceil(scale * np.log((1 + depth * np.exp(-(margin - 1) / scale)) / ((1 - _SHARES) * delta)))
    threshold = np.maximum(np.maximum(radius + 1, 2 * margin + 1), 2 * margin + gap)
    best = np.argmin(threshold, axis=0)
    lowest = (np.take_along_axis(array, best[None], axis=0)[0] for array in (threshold, radius, margin))
    return next(lowest), next(lowest), next(lowest)


_LEAST: Floats = np.array([0.2, 0.005, 0.0])
_MOST: Floats = np.array([0.98, 0.4, 0.9])
_START: Floats = np.array([0.85, 0.1, 0.4])
_REACH: Floats = np.array([0.3, 0.15, 0.3])
# The axes, and points that fill a cube evenly: multiples of powers of the root of x**4 = x + 1.
_STEPS: Floats = (0.5 + np.arange(1, 151, dtype=np.float64)[:, None] * 1.2207440846057596 ** -np.arange(1.0, 4.0)) % 1
_CLOUD: Floats = np.concatenate((np.zeros((1, 3)), np.eye(3), -np.eye(3), 2 * _STEPS - 1))


@lru_cache(maxsize=256)
def plan_partition(
    *,
    depth: int,
    epsilon: float,
    delta: float,
    alpha: float,
    public: bool,
    minimise: Aim = "rmse",
    node_count: int = 10**6,
    count_share: float | None = None,
    most_cells: int = MOST_CELLS,
) -> PartitionPlan:
    """The plan of least predicted error that spends at most (epsilon, delta) at distance 1.

    With `minimise="rmse"` the error is the worst alpha-RMSE of any node; with "largest" the largest alpha-error to be
    expected over `node_count` nodes. What is left unmarked is estimated as nobody, in public trees as what is best.
    `count_share` fixes the share of epsilon for the cell counts. An alpha of 0 forgives no noise, and the more cells a
    node has below it the more it errs: the plan is then for at most `most_cells`.

    >>> plan = plan_partition(depth=33, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    >>> plan.shape.radius < plan.shape.threshold < 40, round(plan.error)
    (True, 25)
    """
    check_integer(depth, name="depth", least=1)
    check_integer(node_count, name="node_count", least=1)
    check_integer(most_cells, name="most_cells", least=1)
    check_choice(minimise, name="minimise", choices=("rmse", "largest"))
    for name, value in (("delta", delta), ("alpha", alpha), ("count_share", count_share)):
        if value is not None and check_scale(value, name=name) >= 1:
            raise ValueError(f"{name} ({value}) must be below 1")
    if delta == 0:
        raise ValueError("delta (0) must be positive")
    epsilon = float(_check_epsilon(epsilon))
    budget = _Budget(depth, min(epsilon, 50.0), delta, public, count_share)  # beyond, hardly any noise is left to plan
    # Whole numbers make many separate valleys, so the best few of them are followed.
    best: dict[tuple[float, float], tuple[float, Floats]] = {}
    ranked: list[tuple[float, Floats]] = []
    centres, reach, cloud = [_START], _REACH, _CLOUD  # a look at all there is, then closer and closer ones at the best
    for _ in range(7):
        splits = np.concatenate([centre + reach * cloud for centre in centres]).clip(_LEAST, _MOST)
        at = budget.settings(splits)
        errors = (
            worst_mean_square(at, alpha=alpha, most_cells=most_cells) ** 0.5
            if minimise == "rmse"
            else largest_errors(at, alpha=alpha, nodes=node_count)
        )
        for place in np.argsort(errors)[::-1].tolist():
            whole = (float(at.threshold[place]), float(at.margin[place]))
            if errors[place] < best.get(whole, (math.inf,))[0]:
                best[whole] = float(errors[place]), splits[place]
        ranked = sorted(best.values(), key=lambda pair: pair[0])
        centres, reach, cloud = [split for _, split in ranked[:5]], 0.55 * reach, _CLOUD[:11]
    if not best:
        raise ValueError(f"epsilon ({epsilon}) and delta ({delta}) are too small for a partition of depth {depth}")
    error, split = ranked[0]
    scale, threshold, radius, margin, count_scale, fill = budget.settings(split[None]).row(0)
    shape = PartitionShape(depth, int(threshold), int(radius), int(margin))
    return PartitionPlan(scale, shape, count_scale, fill, error)
