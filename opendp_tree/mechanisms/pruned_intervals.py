"""Intervals for a pruned descent: of shown nodes by their own noise, of hidden ones by the threshold that hid them.

The argument is in docs/proofs/pruned_descent.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_tree._types import Floats, Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.pruned_descent import noise_bound, pruned_chances


@dataclass(frozen=True)
class PrunedIntervals:
    """For each level how far the noise of a shown node goes, and what a node holds at most if hidden at that level."""

    reach: Floats
    hidden: Floats

    @classmethod
    def of(
        cls, *, noise: str, scales: Sequence[float], thresholds: Sequence[int], confidence: Fraction
    ) -> PrunedIntervals:
        """The bounds for noise of these scales."""
        own, above = pruned_chances(1 - confidence, len(scales))
        exact = [Fraction(scale) for scale in scales]
        # A hidden node's noise fails on one side only, which is half of what both sides do.
        hidden = [t - 1 + noise_bound(noise, s, 2 * above) for s, t in zip(exact, thresholds, strict=True)]
        return cls(
            np.array([round_up(noise_bound(noise, scale, own)) for scale in exact]),
            np.array([round_up(bound) for bound in hidden]),
        )

    def around(self, noisy: Ints, levels: Ints) -> tuple[Floats, Floats]:
        """The ends for shown nodes. Empty nodes are never shown, so there is at least one person."""
        # Floats do not hold all integers beyond 2**53: outward by more than all roundings.
        slack = np.where(np.abs(noisy) > 2**52, np.abs(noisy) * 2.0**-50, 0.0)
        reach = self.reach[levels] + slack
        return np.maximum(noisy - reach, 1.0), noisy + reach
