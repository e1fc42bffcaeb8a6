"""The tree partition's error, predicted, and the parameters that make it least."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from opendp_tree.theorems.interval import exp, geometric_sum, round_up
from opendp_tree.theorems.tree_partition import PartitionShape, partition_delta, partition_epsilon

Floats = npt.NDArray[np.float64]
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
    PartitionShape(depth=33, threshold=28, radius=21, margin=6)
    """
    one = Fraction(epsilon) / d_in
    share = Fraction(delta) / Fraction(geometric_sum(exp(one), d_in).hi)
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
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if partition_epsilon(Fraction(middle), shape).hi <= one else (middle, high)
    return high, shape


def unmarked_chance(scale: float, shape: PartitionShape, residuals: Floats) -> Floats:
    """The chance that one test with a token of its own answers "bottom", for each residual.

    >>> unmarked_chance(1.0, PartitionShape(depth=3, threshold=9, radius=5, margin=2), np.array([0.0, 3.0])).tolist()
    [1.0, 1.0]
    """
    needed = shape.threshold - residuals
    quiet, quieter = -math.expm1(-1 / scale), -math.expm1(-2 / scale)  # 1 - q and 1 - q**2

    def power(exponent: Floats | float) -> Floats:
        return np.exp(-np.asarray(exponent) / scale)

    # The chance that noise z and a token of at most z - needed come together, summed over z in closed form.
    whole = -math.expm1(-(shape.radius + 1) / scale) / quiet
    short = np.maximum(needed, 1)
    some = (power(short) - power(shape.radius + 1)) / quiet - (
        power(1 + short) - power(2 * shape.radius + 3 - short)
    ) / quieter
    most = whole - power(1 - np.minimum(needed, 0)) * -math.expm1(-2 * (shape.radius + 1) / scale) / quieter
    marked: Floats = np.where(needed > shape.radius, 0.0, np.where(needed >= 1, some, most) / whole)
    return 1 - marked.clip(0, 1)


def laplace_excess(shift: Floats, slack: Floats, scale: float) -> Floats:
    """E[max(|Z - shift| - slack, 0)**2] for Laplace noise Z, shift and slack not negative."""
    over = slack - shift
    near = np.where(
        over >= 0,
        scale**2 * np.exp(-np.maximum(over, 0) / scale),
        over**2 + 2 * scale**2 - scale**2 * np.exp(np.minimum(over, 0) / scale),
    )
    far: Floats = scale**2 * np.exp(-(slack + shift) / scale)
    return near + far


def normal_excess(shift: Floats, slack: Floats, deviation: float | Floats) -> Floats:
    """The same for normal noise, which stands for the sum of many cells' noise."""

    def upper(edge: Floats) -> Floats:
        at = edge / deviation
        tail = _normal_tail(at)
        second: Floats = (edge**2 + deviation**2) * tail - edge * deviation * np.exp(-(at**2) / 2) / math.sqrt(
            2 * math.pi
        )
        return second

    return upper(slack + shift) + upper(slack - shift)


def _normal_tail(at: Floats) -> Floats:
    """The chance that a standard normal number exceeds each value, to seven digits (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(at) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    upper = 0.5 * series * np.exp(-(size**2))
    return np.where(at >= 0, upper, 1 - upper)


def worst_rmse(scale: float, shape: PartitionShape, count_scale: float, *, alpha: float, fill: float) -> float:
    """The largest alpha-RMSE of any node: without a cell, with one, or with many.

    A node whose residual stays unmarked errs by that residual; one that is or holds cells, by their noise. Cells are
    taken to hold the carrier level, below which few are marked.
    """
    residuals: Floats = np.linspace(0.0, shape.threshold + 12 * scale, 200, dtype=np.float64)
    unmarked = unmarked_chance(scale, shape, residuals)
    suppressed = np.maximum(np.abs(residuals - fill) - alpha * residuals, 0) ** 2
    marked = laplace_excess(np.zeros_like(residuals), alpha * residuals, count_scale)
    worst = float((unmarked * suppressed + (1 - unmarked) * marked).max())
    cells = 1
    while cells <= 2**14:
        slack = alpha * (cells * shape.carrier + residuals)
        if cells == 1:
            here = laplace_excess(np.abs(residuals - fill), slack, count_scale)
        else:
            here = normal_excess(np.abs(residuals - fill), slack, count_scale * math.sqrt(2 * cells))
        more = normal_excess(np.zeros_like(residuals), slack, count_scale * math.sqrt(2 * (cells + 1)))
        found = float((unmarked * here + (1 - unmarked) * more).max())
        worst = max(worst, found)
        if found < worst / 16:
            break
        cells *= 2
    return math.sqrt(worst)


def largest_error(
    scale: float, shape: PartitionShape, count_scale: float, *, alpha: float, fill: float, nodes: int
) -> float:
    """The largest alpha-error to be expected over this many nodes: what a node exceeds with chance 1/nodes."""
    residual = shape.threshold + scale * math.log(nodes)
    suppressed = (1 - alpha) * residual - fill
    noise = count_scale * math.log(nodes) - alpha * shape.carrier
    both = noise / 2 + (1 - alpha) * (shape.threshold + scale * math.log(nodes) / 2) - fill
    return max(suppressed, noise + fill, both, fill)


def shape_for(scale: float, *, depth: int, noise_epsilon: float, delta: float, share: float) -> PartitionShape | None:
    """The least shape for a scale whose noise below the carrier level costs at most `noise_epsilon`.

    `share` of delta goes to noise at its end, the rest to carriers that meet; None if nothing fits.
    """
    q = math.exp(-1 / scale)
    if q == 0 or q >= 1:
        return None
    # d * p(R) <= share * delta, with p(R) = q**R (1 - q) / (1 - q**(R + 1))
    radius = max(1, math.ceil(scale * math.log(max(1.0, (1 - q) * depth / (share * delta) + q))))
    # d * ln(1/(1 - pi)) <= noise_epsilon, with 1 - pi = (1 - q**(A + 1)) / (1 - q**(R + 1))
    quiet = math.exp(-noise_epsilon / depth) * -math.expm1(-(radius + 1) / scale)
    if quiet >= 1:
        return None
    margin = min(radius, max(0, math.ceil(-scale * math.log1p(-quiet) - 1 - 1e-9)))
    meeting = (1 - share) * delta
    gap = math.ceil(scale * math.log((1 + depth * q ** (margin - 1)) / meeting))
    return PartitionShape(depth, max(radius + 1, 2 * margin + 1, 2 * margin + gap), radius, margin)


def plan_partition(
    *,
    depth: int,
    epsilon: float,
    delta: float,
    alpha: float,
    public: bool,
    aim: Aim = "rmse",
    nodes: int = 10**6,
    count_share: float | None = None,
) -> PartitionPlan:
    """The plan of least predicted error that spends at most (epsilon, delta) at distance 1.

    With `aim="rmse"` the error is the worst alpha-RMSE of any node; with "largest" the largest alpha-error to be
    expected over `nodes` nodes. What is left unmarked is estimated as nobody, in public trees as what is best.
    `count_share` fixes the share of epsilon for the cell counts.

    >>> plan = plan_partition(depth=33, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    >>> plan.shape.radius < plan.shape.threshold < 40, round(plan.error)
    (True, 26)
    """
    best: PartitionPlan | None = None
    epsilon = min(epsilon, 50.0)  # beyond, there is hardly any noise left to plan

    def error_at(spot: list[float]) -> float:
        nonlocal best
        part, quiet, share, filled = spot
        spent = part * epsilon
        scale, count_scale = 1 / (spent * (1 - quiet)), 1 / (epsilon - spent) if spent < epsilon else 1e-9
        shape = shape_for(scale, depth=depth, noise_epsilon=spent * quiet, delta=delta, share=share)
        if shape is None:
            return math.inf
        fill = filled * shape.threshold
        if aim == "rmse":
            error = worst_rmse(scale, shape, count_scale, alpha=alpha, fill=fill)
        else:
            error = largest_error(scale, shape, count_scale, alpha=alpha, fill=fill, nodes=nodes)
        if best is None or error < best.error:
            best = PartitionPlan(scale, shape, count_scale, fill, error)
        return error

    # Share of epsilon for the partition, of that for noise below the carrier level, of delta for noise at its end,
    # and the estimate of what is unmarked as a share of the threshold; one after the other, in ever smaller steps.
    spot = [0.85 if count_share is None else 1 - count_share, 0.07, 0.6, 0.4 if public else 0.0]
    ranges = [(0.2, 0.97, 1.0), (0.005, 0.4, 0.4), (0.05, 0.95, 1.0), (0.0, 0.9, 1.0)]
    for step in (0.08, 0.03, 0.01):
        for axis in (0, 1, 2, 3, 0, 1):
            if (axis == 0 and count_share is not None) or (axis == 3 and not public):
                continue
            low, high, unit = ranges[axis]
            tries = [min(high, max(low, spot[axis] + step * unit * k)) for k in range(-3, 4)]
            errors = [error_at([*spot[:axis], value, *spot[axis + 1 :]]) for value in tries]
            spot[axis] = tries[int(np.argmin(errors))]
    if best is None:
        raise ValueError(f"epsilon ({epsilon}) and delta ({delta}) are too small for a partition of depth {depth}")
    return best
