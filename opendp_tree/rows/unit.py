"""`Unit`: who is protected and what is counted of them; `Value`: what is summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from opendp.metrics import change_one_distance, hamming_distance
from opendp.mod import ChangeOneIdDistance, FrameDistance, Metric, SymmetricIdDistance

from opendp_tree._arguments import check_choice, check_column, check_integer, check_positive, check_type, shortened
from opendp_tree._opendp import total_bound
from opendp_tree.theorems.noise import per_person
from opendp_tree.theorems.sums import STEPS
from opendp_tree.trees.labels import column_name

LARGEST_BOUND = 2**20
"""The largest bound on the rows or nodes of one person."""
BOUNDS = {"rows": ("rows", "leaves"), "people": ("nodes",), "shares": ()}
"""What may be counted of people, and the bounds that each may have."""
COUNTS = tuple(BOUNDS)
_PARTS = 2**20
_LEAST_SHARE = Fraction(1, 1024)
_LARGEST_VALUE = 1e290
"""Sums of fewer than 2**42 numbers up to this, and their noise, are finite floats."""


@dataclass(frozen=True)
class Unit:
    """One person, that is all rows with the same value in a column, and what is counted of people.

    Rows without a value there are left out, because nothing bounds how many of them one person has. Bounds are public
    numbers. A bound that was read off the data would be private and unpaid; `bound_report` pays for it.

    :param column: The column that tells people apart.
    :param count: What is counted. "rows", the default: the rows of a person with more than `rows` weigh less, so that
        they weigh `rows` together. "people": how many people are at each node; a person at more than `nodes` nodes of a
        level weighs less at each. These counts do not add up, because one person may be at several nodes. "shares": all
        rows of a person weigh 1 together, which adds up to people and needs no bound.
    :param rows: For "rows", the largest weight of all rows of one person: one number, or one per shown level from the
        root's down; levels then do not add up. By default as many as `leaves` allows.
    :param leaves: Instead of weighing, the largest number of leaves at which rows of one person are kept, drawn at
        random. By default any number, up to `rows`. For "rows" only.
    :param rows_per_leaf: The largest number of rows of one person that are kept at one leaf; with `leaves` only. By
        default 1, so that leaf counts are counts of people.
    :param nodes: For "people", the largest weight of one person at all nodes of a level: one number, or one per shown
        level below the root's, which is one node. Choose one that hardly anybody exceeds.

    >>> Unit("user", rows=5).most_rows, Unit("user", leaves=3, rows_per_leaf=2).most_rows
    (5, 6)
    >>> Unit("user", count="people", nodes=(6, 12, 20)).bounds(4)
    (1, 6, 12, 20)
    """

    column: str
    _: KW_ONLY
    count: str = "rows"
    rows: int | Sequence[int] | None = None
    leaves: int | None = None
    rows_per_leaf: int = 1
    nodes: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_column(check_type(self.column, str, name="unit: column", hint="a column's name, such as 'user'"))
        check_choice(self.count, name="unit: count", choices=COUNTS)
        for name in ("leaves", "rows_per_leaf"):
            if name == "rows_per_leaf" or self.leaves is not None:
                object.__setattr__(self, name, check_integer(getattr(self, name), name=f"unit: {name}", least=1))
        for name in ("rows", "nodes"):
            object.__setattr__(self, name, _check_bound(getattr(self, name), name=name))
        given = [name for name in ("rows", "leaves", "nodes") if getattr(self, name) is not None]
        allowed = BOUNDS[self.count]
        for name in given:
            if name not in allowed:
                raise ValueError(f"unit: {name} must not be given for count={self.count!r}. {_hint(self.column)}")
        if allowed and not given:
            raise ValueError(f"unit: {allowed[0]} must be given for count={self.count!r}. {_hint(self.column)}")
        if self.rows_per_leaf != 1 and self.leaves is None:
            raise ValueError("unit: rows_per_leaf needs leaves. Hint: Unit('user', leaves=3, rows_per_leaf=2)")
        if self.leaves is not None and isinstance(self.rows, tuple):
            raise ValueError("unit: rows must be one number where leaves are bounded. Hint: rows=5")

    @classmethod
    def of(cls, unit: Unit | str | None) -> Unit | None:
        """A unit as it is, or None for one row. The name of a column alone is refused, because it gives no bound.

        :param unit: The argument of a function.
        """
        if isinstance(unit, str):
            raise ValueError(f"unit ({unit!r}) must say how much of one person is counted. {_hint(unit)}")
        return unit if unit is None else check_type(unit, Unit, name="unit", hint="Unit('user', rows=5)")

    @property
    def weighs(self) -> bool:
        """Whether rows are weighed, rather than kept up to a number of leaves per person."""
        return self.leaves is None

    @property
    def most_rows(self) -> int:
        """The largest number of rows of one person that are kept, where rows are kept."""
        if self.count != "rows" or isinstance(self.rows, tuple):
            raise ValueError(
                f"unit: count={self.count!r} must be 'rows', with one bound, where rows are kept and not weighed. "
                "Hint: Unit('user', rows=5)"
            )
        return per_person(rows=self.rows, leaves=self.leaves, rows_per_leaf=self.rows_per_leaf)  # type: ignore[arg-type]

    def bounds(self, levels: int) -> tuple[int, ...]:
        """The largest weight of one person at each shown level, from the root's down.

        :param levels: The number of shown levels, including the root's.
        """
        if self.count == "shares":
            return (1,) * levels
        name, needed = ("rows", levels) if self.count == "rows" else ("nodes", levels - 1)
        bound = getattr(self, name)
        each = bound if isinstance(bound, tuple) else (bound,) * needed
        if bound is None or len(each) != needed:
            which = "from the root's down" if name == "rows" else "below the root's"
            raise ValueError(f"unit: {name} ({bound}) must be one number, or {needed}: one per shown level {which}")
        return each if name == "rows" else (1, *each)

    def counted(self, *, of: str = "rows", weighed: bool = False) -> str:
        """A description of what is counted.

        :param of: What is counted without bounds; by default rows.
        :param weighed: Whether rows are weighed; by default they are kept, up to the bounds.
        """
        who = self.column if self.column.replace(" ", "_").isidentifier() else repr(self.column)
        what = {"rows": of, "people": "people", "shares": "shares of people"}[self.count if weighed else "rows"]
        what += "" if of in (what, "rows") else f", from {of}"
        bounds = self._weighed(who) if weighed else self._kept(who)
        return f"{what}. {bounds}; rows without a {who} are not counted"

    def _kept(self, who: str) -> str:
        if self.leaves is None:
            return f"{_at_most(self.rows, who)} in total (others are dropped)"
        leaves = "one leaf" if self.leaves == 1 else f"{self.leaves} leaves"
        total = "" if self.rows is None else f", and at most {self.rows} in total"
        return f"{_at_most(self.rows_per_leaf, who)} in each of at most {leaves}{total} (others are dropped)"

    def _weighed(self, who: str) -> str:
        if self.count == "shares":
            return f"All rows of each {who} count as 1 in total"
        bound = self.rows if self.count == "rows" else self.nodes
        if self.count == "rows":
            by = ", by level from the root" if isinstance(bound, tuple) else ""
            return f"{_at_most(bound, who)} in total{by} (more are scaled down)"
        limit = (
            ", ".join(map(str, bound)) + " by level below the root"
            if isinstance(bound, tuple)
            else f"{bound} per level"
        )
        return f"Each {who} counts once per node, and at most {limit} (more are scaled down)"


def _at_most(bound: object, who: str) -> str:
    limit = ", ".join(map(str, bound)) if isinstance(bound, tuple) else str(bound)
    return f"At most {limit} {f'row of each {who} counts' if bound == 1 else f'rows of each {who} count'}"


def _hint(column: str) -> str:
    return f"Hint: Unit({column!r}, rows=5), or Unit({column!r}, count='shares'), or count='people' with nodes=5"


def _check_bound(bound: Any, *, name: str) -> int | tuple[int, ...] | None:
    """One number, or one per level."""
    if bound is None:
        return None
    several = isinstance(bound, (list, tuple))
    if several and not bound:
        raise ValueError(f"unit: {name} must be a number, or one per level. Hint: {name}=5")
    for each in bound if several else (bound,):
        if check_integer(each, name=f"unit: {name}", least=1) > LARGEST_BOUND:
            hint = "Hint: count='shares' needs no bound"
            raise ValueError(f"unit: {name} ({each}) must be at most {LARGEST_BOUND}. {hint}")
    return tuple(map(int, bound)) if several else int(bound)


def inner_metric(metric: Metric) -> Metric:
    """The distance between rows or people that a distance between frames is made of."""
    return metric.inner_metric if isinstance(metric, FrameDistance) else metric


def identifier_of(metric: Metric) -> str | None:
    """The column that tells people apart, if a metric counts people and not rows."""
    inner = inner_metric(metric)
    if not isinstance(inner, (SymmetricIdDistance, ChangeOneIdDistance)):
        return None
    name = column_name(inner.identifier)
    if name is None:
        raise ValueError(f"unit: the identifier of input_metric ({metric}) must be a column of input_domain")
    return name


def unit_words(column: str | None, *, people: int | None = 1, rows: int | None = None) -> str:
    """A description of what a budget protects: "2 rows", "one value of 'user'"."""
    if column is None:
        return "one row" if rows in (None, 1) else f"{rows} rows"
    count = {1: "one value", None: "values"}.get(people, f"{people} values")
    return f"{count} of {column!r}"


def protected_unit(metric: Metric, d_in: Any) -> str:
    """A description of what a budget at a distance protects: rows, or people with all their rows, kept or not."""
    bound = total_bound(metric, d_in)
    is_change = inner_metric(metric) in (change_one_distance(), hamming_distance())  # one row leaves, and one comes
    rows = 2 * bound if bound and is_change else bound
    return unit_words(identifier_of(metric), people=bound, rows=rows)


@dataclass(frozen=True)
class Value:
    """A column whose sums and means are released.

    Each row's number is clipped to the bounds and rounded to the nearest of 2**20 steps between them. Rows without a
    number (null or NaN) are left out of everything, counts included, so that counts, sums and means are of the same
    rows.

    :param column: The column: integers, floats or decimals.
    :param bounds: The smallest and the largest number, which must not come from the data: what one row can add grows
        with them, and so does the noise. Numbers beyond a bound are replaced by it. At most 1e290.
    :param weight: How much this value matters where several share a release: the budget is divided in proportion. By
        default 1, so that all have the same share.

    >>> Value("amount", bounds=(0, 500)).step
    0.000476837158203125
    """

    column: str
    _: KW_ONLY
    bounds: tuple[float, float]
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_column(check_type(self.column, str, name="value: column", hint="a column's name, such as 'amount'"))
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
        """The distance between two neighbouring steps."""
        return (self.high - self.low) / STEPS

    def check_kinds(self, kinds: dict[str, str]) -> None:
        """Checks that the column exists and holds numbers.

        :param kinds: What each column holds.
        """
        if self.column not in kinds:
            raise ValueError(f"value ({self.column!r}) must be a column of the data. Hint: check the name")
        kind = kinds[self.column]
        if kind not in ("integer", "float", "decimal"):
            hint = f"read_source(data, schema={{{self.column!r}: pl.Float64}})"
            raise ValueError(f"value ({self.column!r}) must hold numbers; it holds {kind}. Hint: {hint}")


def _check_bounds(bounds: object) -> tuple[float, float]:
    hint = "Hint: bounds=(0, 500)"
    numbers = (int, float, Fraction, np.integer, np.floating)
    given = bounds if isinstance(bounds, (tuple, list)) else ()
    if len(given) != 2 or not all(isinstance(each, numbers) and not isinstance(each, bool) for each in given):
        raise TypeError(f"value: bounds must be two numbers, the smallest and the largest. {hint}")
    try:
        low, high = (float(each) for each in given)
    except OverflowError:
        low, high = -math.inf, math.inf
    largest, problem = max(abs(low), abs(high)), ""
    if not (math.isfinite(high - low) and low < high and math.isfinite(STEPS / (high - low))):
        problem = "finite, and the first below the second"
    elif largest > _LARGEST_VALUE:
        problem = f"within {_LARGEST_VALUE:g} of 0"
    elif (high - low) / STEPS < 4 * math.ulp(largest):  # floats would round a number by more than half a step
        problem = "further apart, for numbers of this size"
    if problem:
        raise ValueError(f"value: bounds ({', '.join(map(shortened, given))}) must be {problem}. {hint}")
    return low, high


def read_values(value: Value | Sequence[Value] | None) -> tuple[Value, ...]:
    """The values of a release: none, one, or several of different columns."""
    if value is None:
        return ()
    values = (value,) if isinstance(value, Value) else value
    hint = "Hint: Value('amount', bounds=(0, 500))"
    if not isinstance(values, Sequence) or not all(isinstance(each, Value) for each in values):
        raise TypeError(f"value ({type(value).__name__}) must be a Value, or a list of them. {hint}")
    if not values or len({each.column for each in values}) < len(values):
        raise ValueError(f"value must name at least one column, and none twice. {hint}")
    value_shares(tuple(values))
    return tuple(values)


def value_shares(values: tuple[Value, ...]) -> tuple[Fraction, ...]:
    """Each value's share of the budget for sums; together at most 1, exactly."""
    total = sum((Fraction(each.weight) for each in values), Fraction(0))
    shares = tuple(Fraction(math.floor(Fraction(each.weight) / total * _PARTS), _PARTS) for each in values)
    if min(shares) < _LEAST_SHARE:
        raise ValueError("value: each weight must be at least a thousandth of their sum. Hint: fewer values")
    return shares


def values_counted(counted: str, values: Sequence[Value]) -> str:
    """A description of what is counted where rows without a number are left out: "rows with a number in amount"."""
    between = ". " if ". " in counted else ", which "
    first, *rest = counted.split(between, 1)
    return between.join([f"{first} with a number in {' and '.join(each.column for each in values)}", *rest])
