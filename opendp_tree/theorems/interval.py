"""Numbers that are exact or rounded the safe way, and bisection.

A theorem is one function for any type of number. Exact tests call it with `Fraction`; a privacy map calls it with
`Interval`, which encloses the real value between two decimals, and takes `round_up` of the result. So the formula of
the tests is the formula of the privacy map.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

_DIGITS = 60
_TRAPS = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]


def _directed(digits: int) -> tuple[decimal.Context, decimal.Context]:
    down, up = (
        decimal.Context(prec=digits, rounding=mode, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=_TRAPS)
        for mode in (decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
    )
    return down, up


_USUAL = _directed(_DIGITS)
_contexts: ContextVar[tuple[decimal.Context, decimal.Context]] = ContextVar("contexts", default=_USUAL)


@contextmanager
def digits(count: int) -> Iterator[None]:
    """Work with `count` significant digits inside the block."""
    token = _contexts.set(_directed(count))
    try:
        yield
    finally:
        _contexts.reset(token)


class Interval:
    """A closed interval of decimals that is known to contain a real number."""

    __slots__ = ("hi", "lo")

    def __init__(self, lo: Decimal, hi: Decimal) -> None:
        self.lo, self.hi = lo, hi

    @classmethod
    def of(cls, value: int | float | Fraction | Interval) -> Interval:
        """The narrowest interval around an exactly given number."""
        if isinstance(value, Interval):
            return value
        down, up = _contexts.get()
        top, bottom = value.as_integer_ratio()
        return cls(down.divide(Decimal(top), Decimal(bottom)), up.divide(Decimal(top), Decimal(bottom)))

    def __add__(self, other: Interval | int) -> Interval:
        other, (down, up) = Interval.of(other), _contexts.get()
        return Interval(down.add(self.lo, other.lo), up.add(self.hi, other.hi))

    def __sub__(self, other: Interval | int) -> Interval:
        other, (down, up) = Interval.of(other), _contexts.get()
        return Interval(down.subtract(self.lo, other.hi), up.subtract(self.hi, other.lo))

    def __mul__(self, other: Interval | int) -> Interval:
        other, (down, up) = Interval.of(other), _contexts.get()
        if self.lo >= 0 and other.lo >= 0:
            return Interval(down.multiply(self.lo, other.lo), up.multiply(self.hi, other.hi))
        pairs = [(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(down.multiply(a, b) for a, b in pairs), max(up.multiply(a, b) for a, b in pairs))

    def __truediv__(self, other: Interval | int) -> Interval:
        other, (down, up) = Interval.of(other), _contexts.get()
        if other.lo <= 0 <= other.hi:
            raise ZeroDivisionError("the divisor's interval contains 0")
        pairs = [(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(down.divide(a, b) for a, b in pairs), max(up.divide(a, b) for a, b in pairs))

    def __pow__(self, exponent: int) -> Interval:
        if exponent < 0:
            return 1 / self**-exponent
        result, square = Interval.of(1), self
        while exponent:
            if exponent & 1:
                result = result * square
            exponent >>= 1
            if exponent:
                square = square * square
        return result

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Interval:
        return Interval.of(other) - self

    def __rtruediv__(self, other: int) -> Interval:
        return Interval.of(other) / self

    def __repr__(self) -> str:
        return f"Interval({self.lo}, {self.hi})"

    def exp(self) -> Interval:
        """The exponential. Decimal's is correct to the last digit, so one step outward encloses it."""
        down, up = _contexts.get()
        return Interval(max(down.next_minus(down.exp(self.lo)), Decimal(0)), up.next_plus(up.exp(self.hi)))

    def ln(self) -> Interval:
        """The natural logarithm, enclosed in the same way."""
        down, up = _contexts.get()
        return Interval(down.next_minus(down.ln(self.lo)), up.next_plus(up.ln(self.hi)))


Real = TypeVar("Real", Fraction, Interval)


def exp(value: int | float | Fraction) -> Interval:
    """An interval around e to the power of an exactly given number."""
    return Interval.of(value).exp()


def larger(a: Real, b: Real) -> Real:
    """The larger of two numbers; for intervals, an interval that encloses it."""
    if isinstance(a, Interval) and isinstance(b, Interval):
        return Interval(max(a.lo, b.lo), max(a.hi, b.hi))
    return a if a >= b else b


def geometric_sum(ratio: Real, terms: int) -> Real:
    """1 + ratio + ... + ratio**(terms - 1), by doubling: nothing cancels, even near ratio = 1."""
    if terms < 0:
        raise ValueError(f"terms ({terms}) must not be negative")
    total, power = ratio * 0, ratio**0
    for bit in bin(terms)[2:]:
        total, power = total + power * total, power * power
        if bit == "1":
            total, power = total * ratio + 1, power * ratio
    return total


def round_up(value: int | Fraction | Interval) -> float:
    """The smallest float that is not below the value; for an interval, not below its upper end."""
    exact: Fraction | Decimal | int = value.hi if isinstance(value, Interval) else value
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.nextafter(math.inf, 0)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def ceiling(value: Interval) -> int:
    """The smallest integer that is not below an interval."""
    return int(value.hi.to_integral_value(decimal.ROUND_CEILING))


def sqrt_up(value: Fraction) -> float:
    """The smallest float that is not below the square root."""
    top, bottom = value.as_integer_ratio()
    shift = max(0, 256 - top.bit_length() + bottom.bit_length())
    shift += shift % 2
    scaled = -((-top << shift) // bottom)
    root = math.isqrt(scaled - 1) + 1 if scaled > 0 else 0
    upper = round_up(Fraction(root, 1 << (shift // 2)))
    below = math.nextafter(upper, 0.0)
    return below if below > 0 and Fraction(below) ** 2 >= value else upper


def round_down(value: int | Fraction | Interval) -> float:
    """The largest float that is not above the value; for an interval, not above its lower end."""
    return 0.0 - round_up(0 - value)


def sqrt_down(value: Fraction) -> float:
    """The largest float that is not above the square root."""
    upper = sqrt_up(value)
    return upper if Fraction(upper) ** 2 <= value else math.nextafter(upper, 0.0)


Number = TypeVar("Number", int, float)
_CLOSE = 2.0**-40


def bisect(
    holds: Callable[[Number], bool], low: Number, high: Number, *, middle: Callable[[Number, Number], Number]
) -> Number:
    """The smallest number above `low` at which a condition holds, if it then holds for all larger ones."""
    while low < (at := middle(low, high)) < high:
        low, high = (low, at) if holds(at) else (at, high)
    return high


def least_whole(holds: Callable[[int], bool], *, most: int | None = None) -> int:
    """The smallest positive integer at which a condition holds, if it then holds for all larger ones."""
    low, high = 0, 1
    while (most is None or high <= most) and not holds(high):
        low, high = high, 2 * high
    if most is not None and high > most:
        high = most + 1
    return bisect(holds, low, high, middle=halfway)


def halfway(low: int, high: int) -> int:
    """The integer in the middle, rounded down."""
    return (low + high) // 2


def between(low: float, high: float) -> float:
    """The float in the middle, until the two agree in twelve digits."""
    return (low + high) / 2 if high - low > _CLOSE * high else high
