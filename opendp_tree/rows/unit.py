"""Who is protected: one row, or all rows of one person up to a bound."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from opendp.mod import ChangeOneIdDistance, FrameDistance, Metric, SymmetricIdDistance

from opendp_tree._arguments import check_integer
from opendp_tree._opendp import total_bound
from opendp_tree.theorems.leaf_counts import per_person

__all__ = ["Unit"]


@dataclass(frozen=True)
class Unit:
    """One person: all rows that share a value of a column, of which a bounded number is counted.

    Which rows and leaves of a person are counted is drawn at random. Rows without a value there are left out, because
    nothing bounds how many of them one person has. At least one of `rows` and `leaves` must be given.

    Parameters
    ----------
    column
        The column that tells people apart.
    rows
        The most rows of one person that are counted. By default as many as `leaves` allows.
    leaves
        The most leaves at which one person is counted. By default any number, up to `rows`.
    rows_per_leaf
        The most rows of one person that are counted at one leaf; with `leaves` only. By default 1, because with it
        leaf counts are of people.

    Examples
    --------
    >>> Unit("user", rows=5).most_rows, Unit("user", leaves=3, rows_per_leaf=2).most_rows
    (5, 6)

    """

    column: str
    _: KW_ONLY
    rows: int | None = None
    leaves: int | None = None
    rows_per_leaf: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise TypeError(f"unit: column ({type(self.column).__name__}) must be a column's name. Hint: 'user'")
        if self.rows is None and self.leaves is None:
            raise ValueError(_unbounded(self.column))
        for name in ("rows", "leaves", "rows_per_leaf"):
            bound = getattr(self, name)
            if bound is not None or name == "rows_per_leaf":
                object.__setattr__(self, name, check_integer(bound, name=f"unit: {name}", least=1))
        if self.rows_per_leaf != 1 and self.leaves is None:
            raise ValueError("unit: rows_per_leaf needs leaves. Hint: Unit('user', leaves=3, rows_per_leaf=2)")

    @classmethod
    def of(cls, unit: Unit | str | None) -> Unit | None:
        """A unit as it is, or None for one row. A column's name alone says too little, and is refused.

        Parameters
        ----------
        unit
            What was given.

        Examples
        --------
        >>> Unit.of(Unit("user", rows=5))
        Unit(column='user', rows=5, leaves=None, rows_per_leaf=1)

        """
        if isinstance(unit, str):
            raise ValueError(_unbounded(unit))
        if unit is not None and not isinstance(unit, Unit):
            raise TypeError(f"unit ({type(unit).__name__}) must be a Unit. Hint: Unit('user', rows=5)")
        return unit

    @property
    def most_rows(self) -> int:
        """The most rows of one person that are counted."""
        return per_person(rows=self.rows, leaves=self.leaves, rows_per_leaf=self.rows_per_leaf)

    def counted(self, *, of: str = "rows") -> str:
        """What is counted once at most so much of each person is kept, in words.

        Parameters
        ----------
        of
            What is counted where nothing is cut; by default rows.

        Examples
        --------
        >>> Unit("user", rows=5).counted()
        'rows after keeping at most 5 of each user, and none without a user'
        """
        who = self.column if self.column.replace(" ", "_").isidentifier() else repr(self.column)
        leaves = "1 leaf" if self.leaves == 1 else f"{self.leaves} leaves"
        bounds = [] if self.leaves is None else [f"{self.rows_per_leaf} in each of at most {leaves}"]
        if self.rows is not None:
            bounds.append(f"{self.rows} in all" if bounds else f"{self.rows}")
        return f"{of} after keeping at most {' and '.join(bounds)} of each {who}, and none without a {who}"


def _unbounded(column: str) -> str:
    return (
        f"unit ({column!r}) must say how much of one person is counted. "
        f"Hint: Unit({column!r}, rows=5), or Unit({column!r}, leaves=3, rows_per_leaf=2)"
    )


def identifier_of(metric: Metric) -> str | None:
    """The column that tells people apart, if a metric counts people and not rows."""
    inner = metric.inner_metric if isinstance(metric, FrameDistance) else metric
    if not isinstance(inner, (SymmetricIdDistance, ChangeOneIdDistance)):
        return None
    from opendp_tree.trees.label_keys import column_name

    name = column_name(inner.identifier)
    if name is None:
        raise ValueError(f"unit: the identifier of input_metric ({metric}) must be a column of input_domain")
    return name


def unit_words(column: str | None, *, people: int | None = 1, rows: int | None = None) -> str:
    """What a budget protects, in words.

    Parameters
    ----------
    column
        The column that tells people apart; None where rows are protected.
    people
        How many people the budget protects together; None if that is not known.
    rows
        How many rows all of them have together at most; None to leave it out.

    Examples
    --------
    >>> unit_words(None, rows=2), unit_words("user"), unit_words("user", people=2, rows=6)
    ('2 rows', "one value of 'user'", "2 values of 'user', with at most 6 rows")

    """
    if column is None:
        return "one row" if rows in (None, 1) else f"{rows} rows"
    count = {1: "one value", None: "values"}.get(people, f"{people} values")
    most = "" if rows is None else f", with at most {rows} {'row' if rows == 1 else 'rows'}"
    return f"{count} of {column!r}{most}"


def protected_unit(metric: Metric, d_in: Any, rows: int) -> str:
    """What a budget at a distance protects, in words, where it comes to so many rows."""
    people = total_bound(d_in) if isinstance(metric, FrameDistance) else d_in
    return unit_words(identifier_of(metric), people=people, rows=rows)
