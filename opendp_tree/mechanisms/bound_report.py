"""A private report of what each bound on the rows of a person would keep."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.measures import max_divergence
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Ints
from opendp_tree.mechanisms.kept_shares import estimated_rows, kept_shares
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.rows.frames import column_kinds
from opendp_tree.rows.rows_per_unit import check_most, make_rows_per_unit, read_unit
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.laplace import bin_ends, laplace_epsilon

__all__ = ["make_bound_report", "then_bound_report"]

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
