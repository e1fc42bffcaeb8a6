"""A private report of what each bound on the rows of a person would keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import max_divergence
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.rows.domains import column_kinds
from opendp_tree.rows.rows_per_unit import check_most, make_rows_per_unit, read_unit
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.laplace import bin_ends, laplace_epsilon

__all__ = ["make_bound_report", "then_bound_report"]

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


LEAST_SCALE = 2.0**-50
"""Noise of a smaller scale is none, and floats have no room for its rate."""


def make_bound_report(
    input_domain: Domain, input_metric: Metric, scale: float, *, most: int, confidence: float = 0.95
) -> Measurement:
    """What each bound on the rows of a person would keep, from the rows of a frame: a `BoundReport`.

    People are counted by their number of rows, those with more than `most` as having `most`, and every count gets
    integer Laplace noise. Shares, intervals and a recommendation follow from these counts alone.

    `max_divergence()`: at distance k, epsilon is k/scale under `symmetric_id_distance`, and twice that under
    `change_one_id_distance`. Tight. Proof: docs/proofs/bound_report.md. The cost is that of one Polars group-by.

    Parameters
    ----------
    input_domain
        OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    input_metric
        `symmetric_id_distance` or `change_one_id_distance`, whose identifier tells people apart. Rows without one are
        left out.
    scale
        Of the noise, from 2**-50 to 2**50; 20 makes epsilon 0.05. All rows come out with an error of about
        3 * most * scale, so the report says itself not to be useful below ten times as many rows.
    most
        The largest bound of interest, from 2 to 2**20. A public number: one that was read off the data would be
        private and unpaid. Smaller is more accurate.
    confidence
        The probability, at least, with which all intervals hold at once; 0.95, as people expect.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [*range(40_000), *range(5_000), *range(5_000)]})
    >>> report = (frame_domain(visits), dp.symmetric_id_distance("user")) >> then_bound_report(20.0, most=5)
    >>> report.map(1)
    0.05
    >>> report(visits)
    BoundReport(most=5, recommended=3, useful=True)

    """
    assert_features("contrib")
    people = make_rows_per_unit(input_domain, input_metric, most=most)
    unit, changed = read_unit(input_metric, column_kinds(input_domain))
    name = f"one value of {unit!r}" + (" for another" if changed else "")
    noisy = NoisyHistogram.of(scale, most, confidence, epsilon=noise_loss(people.map(1), scale), unit=name)  # type: ignore[no-untyped-call]
    return people >> make_measurement(
        people.output_domain,
        people.output_metric,
        max_divergence(),
        noisy.report,
        lambda d_in: noise_loss(d_in, scale),
    )


then_bound_report = to_then(make_bound_report)


def noise_loss(d_in: int | float, scale: float) -> float:
    """The epsilon of the noise on a histogram at an L1 distance, rounded up."""
    if not LEAST_SCALE <= check_positive(scale, name="scale") <= noise.LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be from 2**-50 to 2**50. Hint: 1/epsilon")
    return round_up(laplace_epsilon(read_distance(d_in), scales=[Fraction(float(scale))]))


@dataclass(frozen=True)
class NoisyHistogram:
    """How a histogram becomes a report; all of it is public."""

    ends: Ints
    scale: float
    confidence: float
    statement: PrivacyStatement

    @classmethod
    def of(cls, scale: float, most: int, confidence: float, *, epsilon: float, unit: str) -> NoisyHistogram:
        """Checks the arguments that the histogram does not need."""
        if check_probability(confidence, name="confidence") > 1 - Fraction(1, 2**50):
            raise ValueError(f"confidence ({confidence}) must be at most 1 - 2**-50. Hint: 0.95")
        parameters: dict[str, int | float | str | None] = {"scale": float(scale), "most": check_most(most)}
        measure = measure_name(max_divergence())
        statement = PrivacyStatement("bound_report", measure, 1, {"epsilon": epsilon}, parameters, unit)
        return cls(np.array(bin_ends(most), dtype=np.int64), float(scale), float(confidence), statement)

    def report(self, histogram: Any) -> BoundReport:
        """The report on a histogram: noise on every bin, and what follows from that."""
        people = np.asarray(histogram, dtype=np.int64)
        if people.shape != self.ends.shape:
            raise TypeError("the data must have a count for each bin of `bin_ends(most)`")
        noisy = saturate.add(saturate.clamp(people), noise.laplace(self.scale, people.size))
        shares = kept_shares(noisy, ends=self.ends, scale=self.scale, confidence=self.confidence)
        return BoundReport(
            self.ends.copy(),
            noisy,
            shares.estimates,
            shares.lower,
            shares.upper,
            estimated_rows(noisy, self.ends),
            self.confidence,
            self.statement,
        )
