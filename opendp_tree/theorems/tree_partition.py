"""The private tree partition: what its cells and their gaps reveal.

Notation, by tested level i from the root (0) down: threshold T_i, radius R_i, margin A_i, and L_i = T_i - A_i, from
which on a node's count is blurred by a token. q = exp(-1/scale) is the ratio of a test's noise, geometric on 0..R_i;
t = exp(-1/token_scale) that of a token, geometric on all natural numbers. Proof: docs/proofs/tree_partition.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from opendp_tree.theorems.interval import Interval, Real, exp, geometric_sum, larger
from opendp_tree.theorems.partition import noise_tail, stay_ratio


@dataclass(frozen=True)
class GapShape:
    """The integers of a partition, checked: all that its claim asks of them."""

    levels: tuple[int, ...]
    thresholds: tuple[int, ...]
    radii: tuple[int | None, ...]
    margins: tuple[int, ...]
    every_node: bool = False

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError("levels () must name at least one level. Hint: a partition without tests shows nothing")
        if self.levels[0] < 0 or any(a >= b for a, b in pairwise(self.levels)):
            raise ValueError(f"levels {self.levels} must ascend from the root's, which is 0")
        for name in ("thresholds", "radii", "margins"):
            if len(getattr(self, name)) != len(self.levels):
                raise ValueError(f"{name} must be {len(self.levels)}, one for each tested level")
        numbers = (*self.levels, *self.thresholds, *self.margins, *(r for r in self.radii if r is not None))
        if wrong := set(map(type, numbers)) - {int}:
            raise TypeError(f"levels, thresholds, radii and margins must be integers, found {wrong.pop().__name__}")
        if max(map(abs, numbers)) >= 2**62:
            raise ValueError("levels, thresholds, radii and margins must be below 2**62, where counts end")
        for threshold, radius, margin in set(zip(self.thresholds, self.radii, self.margins, strict=True)):
            self._check_level(threshold, radius, margin)
        starts = self.blur_levels
        if any(above < below for above, below in pairwise(starts)):
            raise ValueError(
                f"threshold minus margin {starts} must not fall towards the root, or the claim breaks. "
                "Hint: raise the margin on lower levels"
            )

    def _check_level(self, threshold: int, radius: int | None, margin: int) -> None:
        if radius is not None and radius < 1:
            raise ValueError(f"radius ({radius}) must be at least 1. Hint: None for noise without end")
        if margin < 0:
            raise ValueError(f"margin ({margin}) must not be negative")
        if threshold - margin < 1:
            raise ValueError(f"margin ({margin}) must be below the threshold ({threshold})")
        if self.every_node:
            return
        if radius is None:
            raise ValueError("radius (None) must be an integer: noise without end would show nodes that nobody is at")
        if threshold <= radius:
            raise ValueError(f"threshold ({threshold}) must exceed radius ({radius}), or empty nodes could be shown")

    @classmethod
    def uniform(
        cls, depth: int, *, threshold: int, radius: int | None, margin: int, every_node: bool = False
    ) -> GapShape:
        """The same integers on each of `depth` levels, all of them tested."""
        return cls(tuple(range(depth)), (threshold,) * depth, (radius,) * depth, (margin,) * depth, every_node)

    @property
    def depth(self) -> int:
        """The number of tested levels: all that the price depends on."""
        return len(self.levels)

    @property
    def blur_levels(self) -> tuple[int, ...]:
        """L: from this count on a node's count is blurred by a token."""
        return tuple(threshold - margin for threshold, margin in zip(self.thresholds, self.margins, strict=True))


def gap_removal_ratio(q: Real) -> Real:
    """What one person less costs: the noise of one test moves up by one."""
    return 1 / q


def gap_addition_ratio(q: Real, t: Real, shape: GapShape) -> Real:
    """What one person more costs, and nothing is lost: "no cell" at exact counts, until a token takes the person up."""
    top, below = _stays(shape)
    product = q**0
    for level, count in below.items():
        product = product * _stay(q, level) ** count
    return product * larger(_stay(q, top), 1 / t)


def gap_ratio(q: Real, t: Real, shape: GapShape) -> Real:
    """e**epsilon at distance 1; at distance k its k-th power."""
    return larger(gap_removal_ratio(q), gap_addition_ratio(q, t, shape))


def gap_delta(q: Real, shape: GapShape, *, k: int = 1) -> Real:
    """Delta at distance k: some test on the way to the root, one a level, has noise above its radius less k."""
    lost = q * 0
    for radius, count in Counter(shape.radii).items():
        if radius is not None and k > 0:
            tail = noise_tail(q, radius=radius, least=radius - k + 1)
            here = tail * geometric_sum(1 - tail, count)  # 1 - (1 - tail)**count, without cancellation
            lost = lost + here * (1 - lost)
    return lost


def gap_epsilon(scale: Fraction, token_scale: Fraction, shape: GapShape) -> Interval:
    """The logarithm of `gap_ratio` at q = exp(-1/scale) and t = exp(-1/token_scale), enclosed."""
    q, (top, below) = exp(-1 / scale), _stays(shape)
    added = larger(_stay(q, top).ln(), Interval.of(1 / token_scale))
    for level, count in below.items():
        added = added + _stay(q, level).ln() * count
    return larger(Interval.of(1 / scale), added)


Level = tuple[int, int | None, int]


def _stays(shape: GapShape) -> tuple[Level, Counter[Level]]:
    """The integers of the topmost tested level, and those of the others with how often they occur."""
    top, *below = zip(shape.thresholds, shape.radii, shape.margins, strict=True)
    return top, Counter(below)


def _stay(q: Real, level: Level) -> Real:
    threshold, radius, margin = level
    return stay_ratio(q, threshold=threshold, radius=radius, margin=margin)


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
        """The chance of at most `at` draws below."""
        return Interval.of(1) if at >= self.span else 1 - self._below() ** (at + 1)

    def edges(self) -> Iterator[Interval]:
        """cdf(0), ..., cdf(span - 1)."""
        below = self._below()
        all_below = below
        for _ in range(self.span):
            yield 1 - all_below
            all_below = all_below * below
