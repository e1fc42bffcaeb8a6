"""Integer arithmetic that never wraps: counts saturate at `LIMIT`.

Clamping exact results to [-LIMIT, LIMIT] never increases their distance, so stability proofs for exact integers hold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opendp_tree._types import Ints

LIMIT = 2**62 - 1
_LOW = np.int64(2**32 - 1)


def clamp(values: npt.NDArray[np.integer]) -> Ints:
    """The values as int64, clamped to [-LIMIT, LIMIT]."""
    top = min(LIMIT, int(np.iinfo(values.dtype).max))
    bottom = max(-LIMIT, int(np.iinfo(values.dtype).min))
    clamped: Ints = np.clip(values, bottom, top).astype(np.int64, copy=False)
    return clamped


def add(values: Ints, noise: Ints) -> Ints:
    """The exact sum, clamped to [-LIMIT, LIMIT]; the values must be clamped already, the noise may be any int64."""
    return values + np.clip(noise, -LIMIT - values, LIMIT - values)


def range_sums(values: Ints, first: Ints, last: Ints) -> Ints:
    """The exact sums of values[first:last] for each pair, clamped to [-LIMIT, LIMIT]."""
    bound = max(int(values.max()), -int(values.min())) if values.size else 0
    if bound * values.size <= LIMIT:
        return _differences(values, first, last)
    high, low = split(values)
    return join(_differences(high, first, last), _differences(low, first, last))


def split(values: Ints) -> tuple[Ints, Ints]:
    """The upper and lower 32 bits, whose sums and differences fit int64 for up to 2**31 values; inverse of `join`."""
    return values >> 32, values & _LOW


def join(high: Ints, low: Ints) -> Ints:
    """The exact high * 2**32 + low, clamped to [-LIMIT, LIMIT]."""
    high = high + (low >> 32)
    inside = high.clip(-(2**30), 2**30 - 1)
    total = (inside << 32) + (low & _LOW)
    return np.where(high > inside, LIMIT, np.where(high < inside, -LIMIT, np.maximum(total, -LIMIT)))


def _differences(values: Ints, first: Ints, last: Ints) -> Ints:
    running: Ints = np.cumsum(np.append(0, values))
    return running[last] - running[first]
