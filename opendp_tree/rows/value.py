"""What is summed and averaged: a column of numbers, between bounds that everybody may know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction

import numpy as np

from opendp_tree._arguments import check_column, check_positive, shortened
from opendp_tree.rows.unit import Unit
from opendp_tree.theorems.tree_means import STEPS

__all__ = ["Value"]

_PARTS = 2**20
_LEAST_SHARE = Fraction(1, 1024)
_LARGEST_BOUND = 1e290
"""Sums of fewer than 2**42 rows within this, and their noise, are finite floats."""
_NUMBERS = ("integer", "float", "decimal")


@dataclass(frozen=True)
class Value:
    """A column whose sums and means are wanted.

    Each row's number is clipped to the bounds and rounded to the nearest of 2**20 steps between them. Rows without a
    number (null or NaN) are left out altogether, of counts too, so that counts, sums and means are of the same rows.

    Parameters
    ----------
    column
        The column: integers, floats or decimals.
    bounds
        The least and the largest number, which must not come from the data: what one row can add grows with them, and
        so does the noise. Numbers beyond are taken as the nearer bound. At most 1e290, so that sums are finite.
    weight
        How much this value matters where several share a release: what is spent on each is in proportion. By default 1,
        so that all have the same.

    Examples
    --------
    >>> Value("amount", bounds=(0, 500)).step
    0.000476837158203125

    """

    column: str
    _: KW_ONLY
    bounds: tuple[float, float]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise TypeError(f"value: column ({type(self.column).__name__}) must be a column's name. Hint: 'amount'")
        check_column(self.column)
        object.__setattr__(self, "bounds", _check_bounds(self.bounds))
        object.__setattr__(self, "weight", float(check_positive(self.weight, name="value: weight")))

    @property
    def low(self) -> float:
        """The lower bound."""
        return self.bounds[0]

    @property
    def high(self) -> float:
        """The upper bound."""
        return self.bounds[1]

    @property
    def step(self) -> float:
        """How far two numbers are apart that are told apart at least."""
        return (self.high - self.low) / STEPS

    def words(self) -> str:
        """What is summed, in words.

        Examples
        --------
        >>> Value("amount", bounds=(0, 500)).words()
        'amount clipped to [0, 500]'
        """
        return f"{self.column} clipped to [{self.low:.10g}, {self.high:.10g}]"

    def check_kinds(self, kinds: dict[str, str]) -> None:
        """That the column is there and holds numbers.

        Parameters
        ----------
        kinds
            What each column holds.
        """
        if self.column not in kinds:
            raise ValueError(f"value ({self.column!r}) must be a column of the data. Hint: check the name")
        if kinds[self.column] not in _NUMBERS:
            raise ValueError(
                f"value ({self.column!r}) must hold numbers; it holds {kinds[self.column]}. Hint: cast it first"
            )


def read_values(value: Value | Sequence[Value] | None) -> tuple[Value, ...]:
    """The values of a release: none, one, or several of different columns.

    Examples
    --------
    >>> read_values(None), len(read_values([Value("a", bounds=(0, 1)), Value("b", bounds=(0, 1))]))
    ((), 2)

    """
    if value is None:
        return ()
    given = (value,) if isinstance(value, Value) else value
    hint = "Hint: Value('amount', bounds=(0, 500))"
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, Value) for each in given):
        raise TypeError(f"value ({type(value).__name__}) must be a Value, or a list of them. {hint}")
    columns = [each.column for each in given]
    if not given or len(set(columns)) < len(columns):
        raise ValueError(f"value must name at least one column, and none twice. {hint}")
    value_shares(tuple(given))
    return tuple(given)


def value_shares(values: tuple[Value, ...]) -> tuple[Fraction, ...]:
    """The part of what sums may cost that each value has; they are at most 1 together, exactly.

    Examples
    --------
    >>> value_shares((Value("a", bounds=(0, 1)), Value("b", bounds=(0, 1), weight=3.0)))
    (Fraction(1, 4), Fraction(3, 4))

    """
    total = sum((Fraction(each.weight) for each in values), Fraction(0))
    shares = tuple(Fraction(math.floor(Fraction(each.weight) / total * _PARTS), _PARTS) for each in values)
    if min(shares) < _LEAST_SHARE:
        raise ValueError("value: each weight must be at least a thousandth of all together. Hint: fewer values")
    return shares


def value_unit(unit: Unit | None) -> Unit | None:
    """The unit of a release with values: at most so many rows of each person are kept."""
    person = Unit.of(unit)
    if person is not None and (person.rows is None or person.leaves is not None):
        raise ValueError(
            f"unit must be a bound on rows alone where there is a value. Hint: Unit({person.column!r}, rows=5)"
        )
    return person


def values_counted(counted: str | None, values: Sequence[Value]) -> str:
    """What is counted where rows without a number are left out, in words.

    Examples
    --------
    >>> values_counted("rows", [Value("amount", bounds=(0, 500))])
    'rows with a number in amount'

    """
    words = counted or "rows"
    first, *rest = words.split(" after ", 1) if " after " in words else words.split(", which ", 1)
    between = " after " if " after " in words else ", which "
    return between.join([f"{first} with a number in {' and '.join(each.column for each in values)}", *rest])


def _check_bounds(bounds: object) -> tuple[float, float]:
    hint = "Hint: bounds=(0, 500)"
    numbers = (int, float, Fraction, np.integer, np.floating)
    given = bounds if isinstance(bounds, (tuple, list)) else ()
    if len(given) != 2 or not all(isinstance(each, numbers) and not isinstance(each, bool) for each in given):
        raise TypeError(f"value: bounds must be two numbers, the least and the largest. {hint}")
    try:
        low, high = (float(each) for each in given)
    except OverflowError:
        low, high = -math.inf, math.inf
    if not (math.isfinite(high - low) and low < high and math.isfinite(STEPS / (high - low))):
        told = ", ".join(shortened(each) for each in given)
        raise ValueError(f"value: bounds ({told}) must be finite, and the first below the second. {hint}")
    if max(abs(low), abs(high)) > _LARGEST_BOUND:
        told = ", ".join(shortened(each) for each in given)
        raise ValueError(f"value: bounds ({told}) must be within {_LARGEST_BOUND:g} of 0. {hint}")
    # Steps that floats cannot tell apart would round a number by more than half a step.
    if (high - low) / STEPS < 4 * math.ulp(max(abs(low), abs(high))):
        told = ", ".join(shortened(each) for each in given)
        raise ValueError(f"value: bounds ({told}) must be further apart, for numbers of this size. {hint}")
    return low, high
