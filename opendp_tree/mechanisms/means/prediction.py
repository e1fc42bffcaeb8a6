"""The errors of sums and means to expect, and the shares of epsilon that they ask for, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from opendp_tree.mechanisms.partition.layers import NAMED, CellNoise
from opendp_tree.mechanisms.partition.parameters import GapParameters, choose_parameters

TYPICAL = 20.0
"""The children of a shown node, where nothing is known: what is chosen for them is near the best for 5 and for 100."""
_MOST = 1e6
_LADDER = 6
"""Deep trees are measured by a ladder of about so many layers, whatever their depth."""
_SHARES = tuple(part / 20 for part in range(3, 15))


@dataclass(frozen=True)
class LevelError:
    """What to expect of the nodes of one level."""

    level: int
    nodes: float
    count_sd: float
    """The standard deviation of a count."""
    sum_sd: float
    """That of a sum's distance from the middle of the bounds, times the count: in widths of the bounds."""

    @property
    def mean_sd(self) -> float:
        """That of a mean halfway from the middle to a bound, times the count: what the count lacks is felt there."""
        return math.hypot(self.sum_sd, self.count_sd / 4)


@dataclass(frozen=True)
class MeansShares:
    """How epsilon is divided: for finding cells, for pairs above the leaves, for centred sums. They sum to 1."""

    finding: float
    pairs: float
    cells: float


def predict_levels(
    sizes: Sequence[float], shares: MeansShares, *, epsilon: float, delta: float, d_in: int = 1
) -> tuple[LevelError, ...]:
    """The errors by level of an open tree whose shown nodes number so many, with even shares among measured levels."""
    depth, each = len(sizes), epsilon / d_in
    noise = CellNoise.of(_cells(depth, shares.finding * epsilon, delta, d_in))
    measured = max(depth - 1, 1) if depth <= NAMED else _LADDER
    pair = 4 / (shares.pairs * each / measured) ** 2
    counts = [noise.noise_variance + noise.token_variance]
    sums = [2 / (shares.cells * each) ** 2]
    for level in reversed(range(depth - 1)):
        fan = sizes[level + 1] / sizes[level]
        # What no cell holds adds to a count; the sum of what a node holds alone is measured like a leaf's.
        below = fan * counts[0] + (noise.threshold / 4) ** 2
        counts.insert(0, 1 / (1 / below + 1 / pair))
        below = (fan + 1) * sums[0] if level == depth - 2 else fan * sums[0] + 2 / (shares.cells * each) ** 2
        sums.insert(0, 1 / (1 / below + 1 / pair))
    return tuple(
        LevelError(level, size, math.sqrt(count), math.sqrt(total) / 2)
        for level, (size, count, total) in enumerate(zip(sizes, counts, sums, strict=True))
    )


@lru_cache(maxsize=256)
def _cells(depth: int, epsilon: float, delta: float, d_in: int) -> GapParameters:
    """The parameters of the cells: many shares of pairs and centred sums go with one of finding."""
    return choose_parameters(depth, epsilon, delta, d_in=d_in)


@lru_cache(maxsize=256)
def choose_shares(depth: int, epsilon: float, delta: float, d_in: int = 1) -> MeansShares:
    """The shares of least predicted error: of the smallest leaf that is found, and of counts and means by level."""
    sizes = [min(TYPICAL**level, _MOST) for level in range(depth)]
    best, least = None, math.inf
    for finding, pairs in product(_SHARES, repeat=2):
        cells = 1 - finding - pairs
        if cells < _SHARES[0] - 1e-9:
            continue
        shares = MeansShares(finding, pairs, cells)
        try:
            errors = predict_levels(sizes, shares, epsilon=epsilon, delta=delta, d_in=d_in)
            threshold = _cells(depth, finding * epsilon, delta, d_in).shape.thresholds[0]
        except ValueError:
            continue
        merit = math.log(threshold) + math.log(errors[-1].mean_sd)
        merit += sum(math.log(each.count_sd) + math.log(each.mean_sd) for each in errors) / depth
        if merit < least:
            best, least = shares, merit
    if best is None:
        raise ValueError(f"epsilon ({epsilon}) and delta ({delta}) must be larger for {depth} levels with sums")
    return best
