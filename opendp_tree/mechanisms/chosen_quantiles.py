"""A few quantiles, each chosen among the bins of a line by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.mod import Domain, Measure, Measurement, Metric, assert_features

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_positive, check_probability, read_distance
from opendp_tree._opendp import make_measurement, measure_name, to_then
from opendp_tree._types import Ints
from opendp_tree.mechanisms.curve import read_line
from opendp_tree.releases.chosen_quantiles import ChosenQuantiles
from opendp_tree.releases.curve import check_quantiles
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.quantiles import choice_epsilon, choice_rho, score_sensitivity
from opendp_tree.trees.tree import Tree

__all__ = ["make_chosen_quantiles", "then_chosen_quantiles"]

SCALES = 2.0**-20, 2.0**20
MOST_QUANTILES = 64
_SMALL = 2**40


def make_chosen_quantiles(
    input_domain: Domain,
    input_metric: Metric,
    scale: float,
    *,
    quantiles: Sequence[float],
    tree: Tree | None = None,
    confidence: float = 0.95,
    output_measure: Measure | None = None,
) -> Measurement:
    """A few quantiles of a line, each chosen among its bins with the exponential mechanism: `ChosenQuantiles`.

    A bin's score is the number of people by which it misses the quantile: max(0, below - share * n, share * n - upto),
    where `below` lie before the bin, `upto` before its end, and n in all. Ties cost nothing. For up to about three
    quantiles this errs less than a curve; it has no counts, so it cannot say between which values a quantile lies, only
    by how many people it may miss it.

    `max_divergence()`: at distance k, epsilon is k/scale, or less by rounding; each quantile gets the same part of it.
    `zero_concentrated_divergence()`: rho is an eighth of the sum of the squares of these parts, k**2 / (8 * scale**2)
    for one. Proof: docs/proofs/quantiles.md. The cost is about one noise a bin and quantile.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)` of a tree whose leaves in order are the bins; or a vector of integers, with the tree.
    input_metric
        `l1_distance`, of an integer type or f64.
    scale
        One over epsilon at distance 1, from 2**-20 to 2**20.
    quantiles
        Shares from 0 to 1, at most 64; read as fractions with a denominator of at most a million.
    tree
        The tree, where `input_domain` does not carry it.
    confidence
        The probability with which each quantile misses by no more than it says; 0.95, as people expect.
    output_measure
        `max_divergence()`, the default, or `zero_concentrated_divergence()`.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> bins = Tree.balanced(branching=10, depth=3)
    >>> median = (leaf_domain(bins), dp.l1_distance(T="i64")) >> then_chosen_quantiles(1.0, quantiles=[0.5])
    >>> median.map(1)
    1.0
    >>> 74 <= median(np.repeat([0, 1000], 50)).quantiles([0.5])["estimate"][0] <= 76
    True

    """
    assert_features("contrib")
    space, _, edges = read_line(input_domain, input_metric, tree)
    measure = max_divergence() if output_measure is None else output_measure
    if measure not in (max_divergence(), zero_concentrated_divergence()):
        raise ValueError("output_measure must be max_divergence() or zero_concentrated_divergence()")
    choice = Choices.of(scale, quantiles, confidence=confidence, pure=measure == max_divergence())

    def release(data: Any) -> ChosenQuantiles:
        chosen = choice.bins(space.read_people(data)[: edges.size - 1])
        return ChosenQuantiles(
            choice.shares, chosen, choice.reach(edges.size - 1), edges, choice.confidence, choice.statement
        )

    return make_measurement(input_domain, input_metric, measure, release, choice.loss)


then_chosen_quantiles = to_then(make_chosen_quantiles)


@dataclass(frozen=True)
class Choices:
    """How quantiles are chosen; all of it is public."""

    shares: tuple[Fraction, ...]
    scales: tuple[float, ...]
    """Of each quantile's scores, which are in parts of a person: as many as its share's denominator says."""
    confidence: float
    asked: float
    pure: bool

    @classmethod
    def of(cls, scale: float, quantiles: Sequence[float], *, confidence: float, pure: bool = True) -> Choices:
        """Checks all arguments. Each quantile gets the same part of one over the scale."""
        exact = check_positive(scale, name="scale")
        if not SCALES[0] <= exact <= SCALES[1]:
            raise ValueError(f"scale ({scale}) must be from 2**-20 to 2**20. Hint: 1/epsilon")
        check_probability(confidence, name="confidence")
        shares = check_quantiles(quantiles)
        if len(shares) > MOST_QUANTILES:
            raise ValueError(f"quantiles must be at most 64, found {len(shares)}. Hint: a curve has them all")
        scales = [2 * len(shares) * exact * share.denominator * score_sensitivity(share) for share in shares]
        return cls(shares, tuple(map(round_up, scales)), float(confidence), float(scale), pure)

    def loss(self, d_in: int | float) -> float:
        """The privacy map, rounded up."""
        theorem = choice_epsilon if self.pure else choice_rho
        parts = (
            theorem(
                read_distance(d_in), sensitivity=share.denominator * score_sensitivity(share), scale=Fraction(scale)
            )
            for share, scale in zip(self.shares, self.scales, strict=True)
        )
        return round_up(sum(parts, Fraction(0)))

    @cached_property
    def statement(self) -> PrivacyStatement:
        """What the choice costs at distance 1."""
        measure = max_divergence() if self.pure else zero_concentrated_divergence()
        parameters: dict[str, int | float | str | None] = {"scale": self.asked, "quantiles": len(self.shares)}
        loss = {"epsilon" if self.pure else "rho": self.loss(1)}
        return PrivacyStatement("chosen_quantiles", measure_name(measure), 1, loss, parameters)

    def bins(self, counts: Ints) -> Ints:
        """One run of the mechanism on the counts of bins, none below 0."""
        return np.array(
            [noise.choice(scores(counts, share), scale) for share, scale in zip(self.shares, self.scales, strict=True)]
        )

    def reach(self, bins: int) -> Ints:
        """By how many people each quantile is missed at most, but for what may be missed."""
        budget = (math.log(bins) - math.log1p(-self.confidence)) * (1 + 2.0**-40)
        return np.array(
            [
                math.ceil(scale / share.denominator * budget)
                for share, scale in zip(self.shares, self.scales, strict=True)
            ]
        )


def scores(counts: Ints, share: Fraction) -> Ints:
    """For each bin `quantile_score` times the denominator of the share, clamped to 2**62 - 1."""
    exact: Any = counts if float(counts.sum(dtype=np.float64)) < _SMALL else counts.astype(object)
    upto = np.cumsum(exact)
    below = upto - exact
    wanted = share.numerator * upto[-1]
    missed = np.maximum(np.maximum(share.denominator * below - wanted, wanted - share.denominator * upto), 0)
    clamped: Ints = np.minimum(missed, saturate.LIMIT).astype(np.int64)
    return clamped
