"""Intervals for nodes of a partition: the cells' noise by its law, the people outside cells by the tokens' tail.

The argument is in docs/proofs/partition_estimator.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opendp_tree.theorems.tree_partition import PartitionShape

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_EXACT = 64  # up to this many cells every number of cells has its own quantile


def noise_bounds(cells: Ints, scale: float, chance: float) -> Ints:
    """For each number of cells the least bound that the sum of their noise exceeds with at most this chance.

    Exact up to 64 cells; beyond, the bound of at most 2 % more cells, which is no smaller.
    """
    rounded = cells.copy()
    many = cells > _EXACT
    steps = np.ceil(np.log(cells[many] / _EXACT) / math.log(1.02) - 1e-9)
    rounded[many] = np.maximum(np.ceil(_EXACT * 1.02**steps), cells[many])
    distinct, places = np.unique(rounded, return_inverse=True)
    return np.array([_bound(int(count), scale, chance) for count in distinct], dtype=np.int64)[places]


@lru_cache(maxsize=4096)
def _bound(cells: int, scale: float, chance: float) -> int:
    if cells == 0 or scale == 0:
        return 0
    reach = _chernoff(cells, scale, chance / 1000)  # what lies beyond is a thousandth of the chance
    if reach > 2**20:
        return _chernoff(cells, scale, chance)
    size = 1 << (2 * reach + 2).bit_length()
    masses = np.zeros(size)
    places = np.arange(-reach, reach + 1)
    masses[places] = np.exp(-np.abs(places) / scale)
    masses /= masses.sum()
    law = np.fft.irfft(np.fft.rfft(masses) ** cells, size)[: reach + 1]
    above = 0.5 * (1 - law[0]) - np.cumsum(law[1:])  # chance of more than 1, 2, ...; symmetric
    above = np.concatenate(([0.5 * (1 - law[0])], above))
    return int(np.argmax(above <= chance)) if (above <= chance).any() else reach


def _chernoff(cells: int, scale: float, chance: float) -> int:
    """A bound that the sum exceeds with at most this chance, by its moment generating function: sound, not exact."""
    rates = np.linspace(0.002, 0.998, 499) / scale
    moments = 2 * math.log(-math.expm1(-1 / scale)) - sum(
        np.log1p(-np.exp(sign * rates - 1 / scale)) for sign in (1, -1)
    )
    return math.ceil(float(((math.log(1 / chance) + cells * moments) / rates).min()))


def residual_bounds(held: Floats, scale: float, shape: PartitionShape, chance: float) -> Floats:
    """For each node, a number of people outside its cells that is exceeded with at most this chance.

    `held` is an upper bound on the people inside its cells.
    """
    # The least x with (held + T + x + 1) q**(x + 1) <= chance * L; falling in x once held + T + x exceeds the scale.
    base = np.maximum(held, 0) + max(shape.threshold, scale)
    beyond = np.zeros_like(base)
    while True:
        needed = np.ceil(scale * np.log((base + beyond + 1) / (chance * shape.carrier)) - 1)
        needed = np.maximum(needed, 0)
        if (needed <= beyond).all():
            break
        beyond = np.maximum(beyond, needed)
    return shape.threshold + beyond - 1
