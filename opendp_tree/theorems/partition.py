"""The partition with known nodes: the privacy loss of its cells, gaps, rests and layers.

The fringe of a known node is that node and all unknown nodes whose lowest known ancestor it is. Each tested level i of
a fringe, from the top down, has a threshold T_i, a radius R_i, a margin A_i, and L_i = T_i - A_i, from which on a token
blurs counts. q = exp(-1/s) is the ratio of a test's noise, geometric on 0..R_i; t = exp(-1/s_t) that of a token,
geometric on all natural numbers. The noise of a rest or a layer is the difference of two geometric numbers: its right
tail falls by exp(-alpha), its left tail by exp(-beta). Proof: docs/proofs/partition.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum, larger

Level = tuple[int, int | None, int]
"""Threshold, radius and margin."""


@dataclass(frozen=True)
class Fringe:
    """The tested levels below one known node, from the top down, and the noise of its tests, tokens and rest.

    Where a radius is None, every empty node must be visited: unbounded noise may show it. A fringe without levels has
    no unknown nodes; one without `rest_scales` is silent.
    """

    thresholds: tuple[int, ...]
    radii: tuple[int | None, ...]
    margins: tuple[int, ...]
    test_scale: Fraction
    token_scale: Fraction
    rest_scales: tuple[Fraction, Fraction] | None
    """The scale of the right tail, 1/alpha, and that of the left tail, 1/beta."""

    def __post_init__(self) -> None:
        counts = len(self.thresholds), len(self.radii), len(self.margins)
        if len(set(counts)) > 1:
            raise ValueError(f"thresholds, radii and margins must be one per tested level, not {counts} numbers")
        for threshold, radius, margin in set(self.levels):
            numbers = [each for each in (threshold, radius, margin) if each is not None]
            if wrong := set(map(type, numbers)) - {int}:
                raise TypeError(f"thresholds, radii and margins must be integers, not {wrong.pop().__name__}")
            if max(numbers) >= 2**62:
                raise ValueError(f"threshold, radius and margin {numbers} must be below 2**62, where counts end")
            if radius is not None and not 1 <= radius < threshold:
                raise ValueError(
                    f"radius ({radius}) must be at least 1 and below the threshold ({threshold}), or empty nodes could "
                    "be shown. Hint: None for unbounded noise, where every node is visited"
                )
            if not 0 <= margin < threshold:
                raise ValueError(f"margin ({margin}) must be at least 0 and below the threshold ({threshold})")
        starts = tuple(threshold - margin for threshold, _, margin in self.levels)
        if any(above < below for above, below in pairwise(starts)):
            raise ValueError(
                f"threshold minus margin, {starts} from the top down, must not fall towards the root. "
                "Hint: raise the margin on lower levels"
            )
        for scale in (self.test_scale, self.token_scale, *(self.rest_scales or ())):
            if not isinstance(scale, Fraction | int) or isinstance(scale, bool):
                raise TypeError(f"scales must be fractions, not {type(scale).__name__}. Hint: Fraction({scale!r})")
            if scale <= 0:
                raise ValueError(f"scale ({scale}) must be positive. Hint: rest_scales=None for a silent known node")

    @property
    def levels(self) -> tuple[Level, ...]:
        """Threshold, radius and margin of each tested level, from the top down."""
        return tuple(zip(self.thresholds, self.radii, self.margins, strict=True))


def noise_tail(q: Real, *, radius: int | None, least: int) -> Real:
    """The probability that a test's noise, geometric on 0..radius (unbounded for None), is at least `least`."""
    if least <= 0:
        return q**0
    if radius is None:
        return q**least
    if least > radius:
        return q * 0
    return q**least * geometric_sum(q, radius - least + 1) / geometric_sum(q, radius + 1)


@dataclass(frozen=True)
class FirstReach:
    """The number of draws of a test's noise that stay below `least` before the first that does not, or `span`."""

    scale: Fraction
    radius: int
    least: int
    span: int
    unit: int = 1

    def _below(self) -> Interval:
        return 1 - noise_tail(exp(-1 / self.scale), radius=self.radius, least=self.least)

    def cdf(self, at: int) -> Interval:
        """The probability of at most `at` draws below."""
        return Interval.of(1) if at >= self.span else 1 - self._below() ** (at + 1)

    def edges(self) -> Iterator[Interval]:
        """cdf(0), ..., cdf(span - 1)."""
        below = self._below()
        all_below = below
        for _ in range(self.span):
            yield 1 - all_below
            all_below = all_below * below


def stay_ratio(q: Real, *, threshold: int, radius: int | None, margin: int) -> Real:
    """e**c: the largest factor on the probability of "no cell" when one person leaves a node whose count is exact."""
    if threshold - margin == 1 or (radius is not None and margin >= radius):
        return q**0  # no count of at least 1 is exact, or exact counts are never shown
    return geometric_sum(q, margin + 2) / geometric_sum(q, margin + 1)


def lost_chance(fringe: Fringe, *, q: Real, k: int) -> Real:
    """delta_u(k): the probability that a test on a path, one per level, has noise above its radius less k."""
    lost = q * 0
    for radius, count in Counter(fringe.radii).items():
        if radius is not None and k > 0:
            tail = noise_tail(q, radius=radius, least=radius - k + 1)
            here = tail * geometric_sum(1 - tail, count)  # 1 - (1 - tail)**count, without cancellation
            lost = lost + here * (1 - lost)
    return lost


def removal_epsilon(fringe: Fringe) -> Interval:
    """b_u: the epsilon of removing one person from a fringe, beside `removal_delta`."""
    slopes = [1 / Fraction(fringe.test_scale)] if fringe.levels else []
    if fringe.rest_scales is not None:
        slopes.append(1 / Fraction(fringe.rest_scales[0]))
    return Interval.of(max(slopes, default=Fraction(0)))


def addition_epsilon(fringe: Fringe) -> Interval:
    """a_u: the epsilon of adding one person to a fringe, with no delta."""
    rest = Interval.of(Fraction(0) if fringe.rest_scales is None else 1 / Fraction(fringe.rest_scales[1]))
    if not fringe.levels:
        return rest
    q = exp(-1 / Fraction(fringe.test_scale))
    added = larger(Interval.of(1 / Fraction(fringe.token_scale)), _stay_loss(q, fringe.levels[0]) + rest)
    for level, count in Counter(fringe.levels[1:]).items():
        added = added + _stay_loss(q, level) * count
    return added


def _stay_loss(q: Interval, level: Level) -> Interval:
    """The logarithm of `stay_ratio`; 0 exactly where that is 1."""
    threshold, radius, margin = level
    ratio = stay_ratio(q, threshold=threshold, radius=radius, margin=margin)
    return Interval.of(0) if ratio.lo == ratio.hi == 1 else ratio.ln()


def removal_delta(fringe: Fringe, *, k: int) -> Interval:
    """delta_u(k): the delta of removing k people, all from one fringe."""
    return lost_chance(fringe, q=exp(-1 / Fraction(fringe.test_scale)), k=k)


def find_epsilon_delta(fringes: Collection[Fringe], *, k: int) -> tuple[Interval, Interval]:
    """Epsilon and delta at distance k of cells, gaps and rests together."""
    return estimator_loss(fringes, alphas=Fraction(0), betas=Fraction(0), k=k)


def estimator_loss(
    fringes: Collection[Fringe], *, alphas: Fraction, betas: Fraction, k: int
) -> tuple[Interval, Interval]:
    """Epsilon and delta at distance k of cells, gaps, rests and layers whose slopes add up to alphas and betas."""
    if not fringes:
        raise ValueError("fringes () must be at least one: the root is known")
    if min(alphas, betas) < 0:
        raise ValueError(f"alphas ({alphas}) and betas ({betas}) must not be negative")
    kinds = set(fringes)
    removed = reduce(larger, map(removal_epsilon, kinds)) + Interval.of(alphas)
    added = reduce(larger, map(addition_epsilon, kinds)) + Interval.of(betas)
    delta = reduce(larger, (removal_delta(fringe, k=k) for fringe in kinds))
    return larger(removed, added) * k, delta
