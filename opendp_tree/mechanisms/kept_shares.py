"""The share of rows that each bound keeps, from a noisy histogram of rows per person, with proven intervals.

The argument is in docs/proofs/bound_report.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendp_tree._types import Bools, Floats, Ints

_TILTS = np.array([*np.linspace(0.1, 0.98, 15), 0.995])
"""Of the largest weight, as parts of the noise's rate: each gives a bound, the least is taken."""
_STEPS = 32
_OUTWARD = 2.0**-40
"""Relative: floats are right to within much less."""


@dataclass(frozen=True)
class KeptShares:
    """For each bound the share of rows that it keeps: an estimate, and an interval. All intervals hold together."""

    estimates: Floats
    lower: Floats
    upper: Floats


def kept_shares(noisy: Ints, *, ends: Ints, scale: float, confidence: float) -> KeptShares:
    """What each bound of `ends` keeps of the rows, of which each person has at most `ends[-1]`."""
    firsts = np.concatenate(([1], ends[:-1] + 1))
    bounds = ends[:-1]  # the last one keeps everything
    # On each side two tests a bound, and one chance in all of a miss.
    budget = math.log(2 * bounds.size / (1 - confidence)) * (1 + _OUTWARD)
    low, high = (_Margins.of(noisy, bounds, *sides) for sides in ((firsts, ends), (ends, firsts)))
    lower = _last_rejected(0.0, 1.0, lambda shares: low.totals(shares) > low.reach(shares, scale, budget))
    upper = _last_rejected(1.0, 0.0, lambda shares: high.totals(shares) < -high.reach(shares, scale, budget))
    # A bound k keeps at least k of ends[-1] parts, and a larger one keeps no less.
    lower = np.maximum.accumulate(np.append(np.maximum(lower, bounds / ends[-1] * (1 - _OUTWARD)), 1.0))
    upper = np.minimum.accumulate(np.append(upper, 1.0)[::-1])[::-1]
    lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)  # a miss, should they cross
    estimates = np.maximum.accumulate(np.clip(_ratios(noisy, firsts, ends), lower, upper))
    return KeptShares(np.minimum(estimates, upper), lower, upper)


@dataclass(frozen=True)
class _Margins:
    """For each bound and bin the extreme margin `kept - share * all` of a person there, and its noisy sum."""

    kept: Floats
    all: Floats
    kept_total: Floats
    all_total: Floats

    @classmethod
    def of(cls, noisy: Ints, bounds: Ints, inside: Ints, outside: Ints) -> _Margins:
        """`inside` is the number of rows that is extreme in bins up to the bound, `outside` in those beyond."""
        within = np.arange(inside.size) <= np.arange(bounds.size)[:, None]
        kept, every = np.where(within, inside, bounds[:, None]), np.where(within, inside, outside)
        sums = [np.array([int(x) for x in part.astype(object) @ noisy.astype(object)]) for part in (kept, every)]
        return cls(*(part.astype(np.float64) for part in (kept, every, *sums)))

    def totals(self, shares: Floats) -> Floats:
        """The noisy sum of margins, at one share for each bound."""
        found: Floats = self.kept_total - shares * self.all_total
        return found

    def reach(self, shares: Floats, scale: float, budget: float) -> Floats:
        """What the noise in that sum exceeds with a chance of at most e**-budget, and the rounding of the sum."""
        weights = np.abs(self.kept - shares[:, None] * self.all)
        largest = weights.max(axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            parts = weights / np.where(largest > 0, largest, 1.0)
            tilted = _TILTS[:, None] * parts[:, None, :]  # bound, tilt, bin
            moments = _log_moment(tilted, scale).sum(axis=2)
        found: Floats = (largest * scale * (budget + moments) / _TILTS).min(axis=1) * (1 + _OUTWARD)
        return found + 2.0**-50 * (np.abs(self.kept_total) + np.abs(self.all_total))


def _log_moment(tilts: Floats, scale: float) -> Floats:
    """The logarithm of E e**(tilt * z / scale) for integer Laplace noise z, for tilts from 0 to below 1."""
    rate = 1 / scale
    ratio = np.exp(rate / 2 * (tilts - 1)) * (np.expm1(-rate * tilts) / math.expm1(-rate))
    found: Floats = -np.log1p(-ratio * ratio)
    return found


def _last_rejected(start: float, end: float, rejects: Callable[[Floats], Bools]) -> Floats:
    """For each bound how far, from start towards end, shares are rejected; what is rejected has no gaps."""
    size = rejects(np.zeros(1)).size
    inside, outside = np.full(size, start), np.full(size, end)
    begins, ends = rejects(inside), rejects(outside)
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        within = rejects(middle)
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(begins, np.where(ends, end, inside), start)


def _ratios(noisy: Ints, firsts: Ints, ends: Ints) -> Floats:
    """Rows kept over all rows, with everybody in the middle of their bin."""
    middles, people = (firsts + ends) / 2, noisy.astype(np.float64)
    total = float(middles @ people)
    kept: Floats = np.minimum(middles, ends[:, None]) @ people / total if total > 0 else ends / ends[-1]
    return kept


def estimated_rows(noisy: Ints, ends: Ints) -> float:
    """How many rows there are, with everybody in the middle of their bin."""
    firsts = np.concatenate(([1], ends[:-1] + 1))
    return float((firsts + ends) / 2 @ noisy.astype(np.float64))
