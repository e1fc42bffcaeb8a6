"""Where a condition begins to hold: the one bisection of the package.

Whatever is found was tried and held, so a search may cost sharpness and never truth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)
_CLOSE = 2.0**-40


def bisect(
    holds: Callable[[Number], bool], low: Number, high: Number, *, middle: Callable[[Number, Number], Number]
) -> Number:
    """The smallest number above `low` at which a condition holds that all larger ones keep.

    Examples
    --------
    >>> round(bisect(lambda number: number**2 >= 2, 1.0, 2.0, middle=between), 9)
    1.414213562

    """
    while low < (at := middle(low, high)) < high:
        low, high = (low, at) if holds(at) else (at, high)
    return high


def least_whole(holds: Callable[[int], bool], *, most: int | None = None) -> int:
    """The smallest positive whole number at which a condition holds that all larger ones keep.

    Examples
    --------
    >>> least_whole(lambda radius: radius >= 37), least_whole(lambda radius: radius >= 37, most=20)
    (37, 21)

    """
    low, high = 0, 1
    while (most is None or high <= most) and not holds(high):
        low, high = high, 2 * high
    if most is not None and high > most:
        high = most + 1
    return bisect(holds, low, high, middle=halfway)


def halfway(low: int, high: int) -> int:
    """The whole number in the middle, the lower of two."""
    return (low + high) // 2


def between(low: float, high: float) -> float:
    """The float in the middle, until the two agree in twelve digits."""
    return (low + high) / 2 if high - low > _CLOSE * high else high
