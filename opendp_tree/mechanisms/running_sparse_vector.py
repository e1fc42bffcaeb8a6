"""A running sparse vector: noise on the threshold, noise on each query, and the answers between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_tree import noise, saturate
from opendp_tree._arguments import check_choice, check_integer, check_scale
from opendp_tree._types import Ints
from opendp_tree.theorems.interval import round_up
from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon

__all__ = ["BELOW", "Calibration", "SparseVector"]

BELOW = -1
"""The gap of an answer "below", of which nothing more is told."""

_CHUNK = 4096  # queries that are looked at under one threshold before the next "above" is searched further


@dataclass(frozen=True)
class Calibration:
    """What a sparse vector needs to know of its noise, and what that costs."""

    threshold: int
    scale: float
    query_scale: float
    cutoff: int
    monotonic: bool
    refreshed: bool

    @classmethod
    def of(
        cls,
        *,
        threshold: int,
        scale: float,
        query_scale: float | None,
        cutoff: int,
        monotonic: bool,
        threshold_noise: str,
    ) -> Calibration:
        """A checked calibration; without a `query_scale`, the one that is best for the given `scale`."""
        check_scale(scale)
        check_integer(threshold, name="threshold")
        check_integer(cutoff, name="cutoff", least=1)
        check_choice(threshold_noise, name="threshold_noise", choices=("once", "refreshed"))
        refreshed = threshold_noise == "refreshed"
        if query_scale is None:
            # Per answer "above": Dwork and Roth's ratio. Drawn once: the split that minimises the sum's variance.
            shifts = 1 if monotonic else 2
            query_scale = float(scale) * (shifts if refreshed else (shifts * cutoff) ** (1 / 3))
        check_scale(query_scale, name="query_scale")
        return cls(int(threshold), float(scale), float(query_scale), int(cutoff), monotonic, refreshed)

    def epsilon(self, sensitivity: Fraction) -> float:
        """The privacy loss when every query moves by at most `sensitivity`, rounded up."""
        if sensitivity == 0:
            return 0.0
        if self.scale == 0 or self.query_scale == 0:
            return math.inf
        return round_up(
            sparse_vector_epsilon(
                sensitivity,
                scale=Fraction(self.scale),
                query_scale=Fraction(self.query_scale),
                cutoff=self.cutoff,
                monotonic=self.monotonic,
                refreshed=self.refreshed,
            )
        )


class SparseVector:
    """The running mechanism: noise for the threshold, and how many answers "above" are left."""

    def __init__(self, calibration: Calibration) -> None:
        self.left = calibration.cutoff
        self._calibration = calibration
        self._threshold = self._draw_threshold()

    def answer(self, values: Ints) -> Ints:
        """For each value that is above, by how much its noisy value exceeds the noisy threshold; `BELOW` for others."""
        answers = np.full(values.size, BELOW, dtype=np.int64)
        if self.left == 0:
            return answers
        drawn = noise.laplace(self._calibration.query_scale, values.size)
        if not self._calibration.refreshed:
            needed = self._needed(values)
            above = np.flatnonzero(drawn >= needed)[: self.left]
            answers[above] = _gaps(drawn[above], needed[above])
            self.left -= above.size
            return answers
        start = 0
        while self.left and start < values.size:
            part = slice(start, start + _CHUNK)
            needed = self._needed(values[part])
            above = np.flatnonzero(drawn[part] >= needed)
            if above.size == 0:
                start += _CHUNK
                continue
            # The noise of later queries was not looked at under the old threshold, so it may serve under the new.
            first = above[:1]
            answers[start + first] = _gaps(drawn[start + first], needed[first])
            start += int(first[0]) + 1
            self.left -= 1
            self._threshold = self._draw_threshold()
        return answers

    def _needed(self, values: Ints) -> Ints:
        """The noise at which each value reaches the noisy threshold. Clamping the two sides instead would not do:
        at the clamp the threshold cannot be shifted, and every answer "below" would leak.
        """
        if abs(self._threshold) <= saturate.LIMIT:
            return self._threshold - values
        return np.array([_nearest(self._threshold - value) for value in values.tolist()], dtype=np.int64)

    def _draw_threshold(self) -> int:
        return self._calibration.threshold + int(noise.laplace(self._calibration.scale, 1)[0])


def _gaps(drawn: Ints, needed: Ints) -> Ints:
    """How far noise exceeds what was needed, exactly, or 2**62 - 1 if that is less."""
    gaps = drawn.astype(np.uint64) - needed.astype(np.uint64)  # modulo 2**64, and the true difference is in range
    return np.minimum(gaps, np.uint64(saturate.LIMIT)).astype(np.int64)


def _nearest(value: int) -> int:
    return max(-(2**63) + 1, min(2**63 - 1, value))
