"""A private report of what each bound on the rows of a person would keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from opendp.measures import max_divergence
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.budget import PrivacyStatement
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.rows.counting import read_unit
from opendp_tree.rows.domains import column_kinds
from opendp_tree.rows.leaf_counts import make_rows_per_unit
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.tails import bin_ends

_TILTS = np.array([*np.linspace(0.1, 0.98, 15), 0.995])
"""Parts of the rate of the noise on the largest weight: each gives a bound, and the least is taken."""
_STEPS = 32
_OUTWARD = 2.0**-40
"""Relative: floats are right to within much less."""
_LEAST_SCALE = 2.0**-50
"""A smaller scale adds no noise, and floats cannot hold its rate."""


def make_bound_report(
    input_domain: Domain, input_metric: Metric, scale: float, *, most: int, confidence: float = 0.95
) -> Measurement:
    """What each bound on the rows of a person would keep, from the rows of a frame: a `BoundReport`.

    People are counted by their number of rows, those with more than `most` as having `most`, and every count gets
    integer Laplace noise. Shares, intervals and a recommendation follow from these counts alone.

    `max_divergence()`: at distance k, epsilon is k/scale under `symmetric_id_distance`, and twice that under
    `change_one_id_distance`. Tight. Proof: docs/proofs/quantiles.md.

    :param input_domain: OpenDP's `lazyframe_domain`, or `frame_domain`, which does not copy frames in memory.
    :param input_metric: `symmetric_id_distance` or `change_one_id_distance`, whose identifier tells people apart. Rows
        without one are left out.
    :param scale: The scale of the noise, from 2**-50 to 2**50; 20 makes epsilon 0.05. With fewer than
        30 * most * scale rows the report says that it is not useful.
    :param most: The largest bound of interest, from 2 to 2**20. Choose it without looking at the data: a number that
        was read off the data is not paid for. Smaller is more accurate.
    :param confidence: The probability, at least, with which all intervals hold at once.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import frame_domain
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [1, 1, 2]})
    >>> report = (frame_domain(visits), dp.symmetric_id_distance("user")) >> then_bound_report(20.0, most=5)
    >>> report.map(1)
    0.05
    """
    assert_features("contrib")
    if not _LEAST_SCALE <= check_positive(scale, name="scale") <= noise.LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be from 2**-50 to 2**50. Hint: 1/epsilon")
    if check_probability(confidence, name="confidence") > 1 - Fraction(1, 2**50):
        raise ValueError(f"confidence ({confidence}) must be at most 1 - 2**-50. Hint: 0.95")
    people = make_rows_per_unit(input_domain, input_metric, most=most)
    ends, wide, sure = np.array(bin_ends(most), dtype=np.int64), float(scale), float(confidence)
    unit, changed = read_unit(input_metric, column_kinds(input_domain))

    def noise_loss(d_in: int | float) -> float:
        return round_up(laplace_epsilon(read_distance(d_in), scales=[Fraction(wide)]))

    loss = {"epsilon": noise_loss(people.map(1))}  # type: ignore[no-untyped-call]
    name = f"one value of {unit!r}" + (" for another" if changed else "")
    measure, parameters = max_divergence(), {"scale": wide, "most": int(ends[-1])}
    statement = PrivacyStatement("bound_report", measure_name(measure), 1, loss, parameters, name)

    def report(histogram: Any) -> BoundReport:
        counts = saturate.clamp(np.asarray(histogram, dtype=np.int64))
        noisy = saturate.add(counts, noise.laplace(wide, ends.size))
        shares = kept_shares(noisy, ends=ends, scale=wide, confidence=sure)
        return BoundReport(ends.copy(), noisy, *shares, estimated_rows(noisy, ends), sure, statement)

    return people >> make_measurement(people.output_domain, people.output_metric, measure, report, noise_loss)


then_bound_report = to_then(make_bound_report)


class KeptShares(NamedTuple):
    """For each bound the share of rows that it keeps: an estimate, and an interval. All intervals hold together."""

    estimates: Floats
    lower: Floats
    upper: Floats


def kept_shares(noisy: Ints, *, ends: Ints, scale: float, confidence: float) -> KeptShares:
    """What each bound of `ends` keeps of the rows, of which each person has at most `ends[-1]`."""
    firsts = np.concatenate(([1], ends[:-1] + 1))
    bounds = ends[:-1]  # the last one keeps everything
    # One test per bound and side; the probability of a miss is that of all of them together.
    budget = math.log(2 * bounds.size / (1 - confidence)) * (1 + _OUTWARD)
    low, high = (_Margins.of(noisy, bounds, *sides) for sides in ((firsts, ends), (ends, firsts)))
    lower = _last_rejected(0.0, 1.0, lambda shares: low.totals(shares) > low.reach(shares, scale, budget))
    upper = _last_rejected(1.0, 0.0, lambda shares: high.totals(shares) < -high.reach(shares, scale, budget))
    # A bound k keeps at least k of ends[-1] parts, and a larger one keeps no less.
    lower = np.maximum.accumulate(np.append(np.maximum(lower, bounds / ends[-1] * (1 - _OUTWARD)), 1.0))
    upper = np.minimum.accumulate(np.append(upper, 1.0)[::-1])[::-1]
    lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)  # a miss, should they cross
    total = estimated_rows(noisy, ends)
    kept = np.minimum(_middles(ends), ends[:, None]) @ noisy.astype(np.float64)
    ratios = kept / total if total > 0 else ends / ends[-1]
    estimates = np.maximum.accumulate(np.clip(ratios, lower, upper))
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
        return np.asarray(self.kept_total - shares * self.all_total)

    def reach(self, shares: Floats, scale: float, budget: float) -> Floats:
        """What the noise in that sum exceeds with probability at most e**-budget, plus the rounding of the sum."""
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
    return np.asarray(-np.log1p(-ratio * ratio))


def _last_rejected(start: float, end: float, rejects: Callable[[Floats], Bools]) -> Floats:
    """For each bound the last rejected share from `start` towards `end`; rejected shares have no gaps."""
    size = rejects(np.zeros(1)).size
    inside, outside = np.full(size, start), np.full(size, end)
    begins, ends = rejects(inside), rejects(outside)
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        within = rejects(middle)
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return np.where(begins, np.where(ends, end, inside), start)


def _middles(ends: Ints) -> Floats:
    """The middle of each bin, where everybody in it is taken to be."""
    return np.asarray((np.concatenate(([1], ends[:-1] + 1)) + ends) / 2)


def estimated_rows(noisy: Ints, ends: Ints) -> float:
    """How many rows there are."""
    return float(_middles(ends) @ noisy.astype(np.float64))
