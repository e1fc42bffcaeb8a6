"""What a sum of independent integer Laplace numbers exceeds with at most a given chance."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from opendp_tree._types import Floats, Ints

_FINE = 512.0  # the scale at which integer noise stands for continuous noise
_EXACT = 64  # up to this many terms every number of terms has its own quantile


def noise_bounds(terms: Ints, scale: float, chance: float) -> Ints:
    """For each number of terms the least bound that the sum of so many exceeds with at most this chance.

    Exact up to 64 terms; beyond, the bound of at most 2 % more terms, which is no smaller.
    """
    distinct, places = np.unique(few_numbers(terms), return_inverse=True)
    return np.array([_bound(int(count), scale, chance) for count in distinct], dtype=np.int64)[places]


def few_numbers(terms: Ints) -> Ints:
    """Numbers of terms, no smaller, of which there are few: beyond 64 rounded up by at most 2 %."""
    rounded = terms.copy()
    many = terms > _EXACT
    steps = np.ceil(np.log(terms[many] / _EXACT) / math.log(1.02) - 1e-9)
    rounded[many] = np.maximum(np.ceil(_EXACT * 1.02**steps), terms[many])
    return rounded


def sum_reach(sets: Ints, parts: tuple[float, ...], chance: float) -> Floats:
    """What the sum of a Laplace number of each scale, for each of so many sets, exceeds with at most this chance.

    For continuous noise. Where all scales are one, the bound of integer noise that is fine enough: each continuous
    number is within 1 of an integer one (docs/proofs/tree_means.md). Otherwise Chernoff's.
    """
    if len(set(parts)) == 1:
        terms = sets * len(parts)
        return (noise_bounds(terms, _FINE, chance) + terms) / _FINE * parts[0]
    scales = np.array(parts)
    rates = np.linspace(0.002, 0.998, 499) / scales.max()
    moments = -np.log1p(-(np.outer(scales, rates) ** 2)).sum(axis=0)
    distinct, places = np.unique(few_numbers(sets), return_inverse=True)
    found: Floats = ((math.log(1 / chance) + distinct[:, None] * moments) / rates).min(axis=1)
    return found[places]


@lru_cache(maxsize=4096)
def _bound(terms: int, scale: float, chance: float) -> int:
    if terms == 0 or scale == 0:
        return 0
    reach = _chernoff(terms, scale, chance / 1000)  # what lies beyond is a thousandth of the chance
    # Floats carry a convolution's tail to some 1e-15, and each further number adds as much: beyond, Chernoff's bound.
    if reach > 2**20 or chance < 1e-13 * (100 + terms):
        return _chernoff(terms, scale, chance)
    size = 1 << (2 * reach + 2).bit_length()
    masses = np.zeros(size)
    places = np.arange(-reach, reach + 1)
    masses[places] = np.exp(-np.abs(places) / scale)
    masses /= masses.sum()
    law = np.fft.irfft(np.fft.rfft(masses) ** terms, size)[: reach + 1]
    above = 0.5 * (1 - law[0]) - np.cumsum(law[1:])  # chance of more than 1, 2, ...; symmetric
    above = np.concatenate(([0.5 * (1 - law[0])], above))
    return int(np.argmax(above <= chance)) if (above <= chance).any() else reach


def _chernoff(terms: int, scale: float, chance: float) -> int:
    """A bound that the sum exceeds with at most this chance, by its moment generating function: sound, not exact."""
    rates = np.linspace(0.002, 0.998, 499) / scale
    moments = 2 * math.log(-math.expm1(-1 / scale)) - sum(
        np.log1p(-np.exp(sign * rates - 1 / scale)) for sign in (1, -1)
    )
    return math.ceil(float(((math.log(1 / chance) + terms * moments) / rates).min()))
