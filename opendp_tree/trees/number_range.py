"""Ranges of equal width for numbers, dates and times, and the public tree of these ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_tree._arguments import check_integer, shortened
from opendp_tree.trees.labels import OUTSIDE, Label
from opendp_tree.trees.tree import Tree, fewest_children

MOST_BINS = 2**20
_MOST = 2**127
_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)
_MICROSECONDS = 86_400 * 10**6
_WIDE, _PLACES = 16, 30


@dataclass(frozen=True)
class NumberRange:
    """Ranges [edge 0, edge 1), [edge 1, edge 2), ... between two numbers, dates or times; the last one holds `high`."""

    low: Any
    high: Any
    bins: int

    def __post_init__(self) -> None:
        check_integer(self.bins, name="bins", least=1)
        if self.bins > MOST_BINS:
            raise ValueError(f"bins ({shortened(self.bins)}) must be at most 2**20. Hint: wider ranges")
        for name in ("low", "high"):
            bound = getattr(self, name)
            object.__setattr__(self, name, bound.item() if isinstance(bound, (np.integer, np.floating)) else bound)
        low, high = _exact(self.low, "low"), _exact(self.high, "high")
        if isinstance(self.low, date) != isinstance(self.high, date):
            raise TypeError("low and high must be two numbers, or two dates or times")
        if not low < high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high})")

    @classmethod
    def of_width(cls, low: Any, high: Any, width: Any) -> NumberRange:
        """Ranges of a width that divides the distance from `low` to `high`."""
        if isinstance(width, timedelta):
            size = Fraction(width // timedelta(microseconds=1), _MICROSECONDS)
        else:
            size = _exact(width, "width")
        if isinstance(width, timedelta) != isinstance(low, date) or isinstance(width, date):
            raise TypeError("width must be a number between numbers, a timedelta between dates or times")
        if size <= 0:
            raise ValueError(f"width ({width}) must be positive")
        bins = (_exact(high, "high") - _exact(low, "low")) / size
        if bins.denominator != 1:
            near = f"Hint: bins={max(1, round(bins))}"
            raise ValueError(f"width ({width}) must fit between low and high a whole number of times. {near}")
        return cls(low, high, int(bins))

    @property
    def has_dates(self) -> bool:
        """Whether the ends are dates or times."""
        return isinstance(self.low, date)

    @cached_property
    def exact_edges(self) -> tuple[range, int]:
        """The edges as integers over one denominator; dates and times are days since 1970."""
        low, high = _exact(self.low, "low"), _exact(self.high, "high")
        step = (high - low) / self.bins
        under = math.lcm(low.denominator, step.denominator)
        first, each = int(low * under), int(step * under)
        return range(first, first + each * self.bins + 1, each), under

    @cached_property
    def edges(self) -> tuple[Any, ...]:
        """The ends of all ranges in order, one more than there are ranges: integers, floats, dates or times."""
        numerators, under = self.exact_edges
        if not self.has_dates:
            return tuple(numerators if under == 1 else (number / under for number in numerators))
        if under == 1:
            return tuple(date(1970, 1, 1) + number * _DAY for number in numerators)
        ticks = (round(Fraction(number * _MICROSECONDS, under)) for number in numerators)
        return tuple(_EPOCH + timedelta(microseconds=tick) for tick in ticks)

    @cached_property
    def _texts(self) -> list[str]:
        """The edges as texts."""
        numerators, under = self.exact_edges
        if self.has_dates:
            return [edge.isoformat(*([" "] if isinstance(edge, datetime) else [])) for edge in self.edges]
        if under == 1:
            return [str(number) for number in numerators]
        if 10**_PLACES % under:  # infinite or very long decimals
            return [repr(number / under) for number in numerators]
        exact = Context(prec=100)
        return [f"{exact.divide(Decimal(number), Decimal(under)).normalize(exact):f}" for number in numerators]

    def label(self, first: int, last: int) -> str:
        """The label of the ranges first..last-1 together."""
        return f"[{self._texts[first]}, {self._texts[last]}{']' if last == self.bins else ')'}"

    def tree(self, *, branching: int | None, outside: bool, name: str | None = None) -> Tree:
        """The public tree of these ranges: `bins` leaves in order of value, above them ranges of `branching` each."""
        if branching is None:
            branching = max(2, fewest_children(self.bins, _WIDE)[1])
        check_integer(branching, name="branching", least=2)
        if len(set(self._texts)) <= self.bins:
            raise ValueError(f"bins ({self.bins}) must be fewer: as floats, some ends of ranges are equal")
        sizes = [self.bins]
        while sizes[-1] > 1 or len(sizes) == 1:
            sizes.append(-(-sizes[-1] // branching))
        parents, above, span = [np.array([-1])], 0, branching ** (len(sizes) - 1)
        labels: list[Label] = [None]
        for size in reversed(sizes[:-1]):
            span //= branching
            parents.append(above + np.arange(size) // branching)
            labels += [self.label(index * span, min((index + 1) * span, self.bins)) for index in range(size)]
            above += parents[-2].size
        if outside:
            parents.append(np.array([0]))
            labels.append(OUTSIDE)
        names = None if name is None else [f"{name}_{level}" for level in range(1, len(sizes))]
        return Tree(np.concatenate(parents), tuple(labels), names, ranges=self)


def _exact(bound: Any, name: str) -> Fraction:
    """A number as a fraction; a date or a time as days since 1970."""
    plain = bound.item() if isinstance(bound, (np.integer, np.floating)) else bound
    if isinstance(plain, datetime):
        if plain.tzinfo is not None:
            raise ValueError(f"{name} ({bound}) must have no time zone: it is local time in the column's time zone")
        return Fraction((plain - _EPOCH) // timedelta(microseconds=1), _MICROSECONDS)
    if isinstance(plain, date):
        return Fraction(plain.toordinal() - _EPOCH.toordinal())
    if isinstance(plain, bool) or not isinstance(plain, (int, float, Decimal, Fraction)):
        raise TypeError(f"{name} ({type(bound).__name__}) must be a number, a date or a time")
    number: Any = plain
    # Decimal NaNs cannot be compared, and decimals with a million digits take long to compare.
    odd = isinstance(number, Decimal) and not (number.is_finite() and int(number.as_tuple().exponent) >= -400)
    if odd or not -_MOST <= number <= _MOST:
        raise ValueError(f"{name} ({shortened(number)}) must be a number from -2**127 to 2**127")
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
