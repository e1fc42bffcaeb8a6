"""Who is protected: one row, or all rows of one person; and what of people is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from opendp.mod import ChangeOneIdDistance, FrameDistance, Metric, SymmetricIdDistance

from opendp_tree._arguments import check_choice, check_column, check_integer
from opendp_tree._opendp import total_bound
from opendp_tree.theorems.distances import per_person

__all__ = ["Unit"]


COUNTS = ("rows", "people", "shares")
"""What of people may be counted."""
LARGEST_BOUND = 2**20
"""More rows or nodes of one person than this nobody would count."""


@dataclass(frozen=True)
class Unit:
    """One person, all rows that share a value of a column, and what is counted of people.

    Rows without a value there are left out, because nothing bounds how many of them one person has. Bounds are public
    numbers: one that was read off the data would be private and unpaid; `bound_report` pays for it.

    Parameters
    ----------
    column
        The column that tells people apart.
    count
        What is counted. "rows", the default, because rows are what frames have: those of a person with more than `rows`
        weigh less, so that they weigh `rows` together. "people": how many people are at each node; who is at more than
        `nodes` nodes of a level weighs less at each. That does not add up: one person may be at several nodes.
        "shares": all rows of a person weigh 1 together, which adds up to people and needs no bound.
    rows
        For "rows", what all rows of one person weigh at most: one number, or one for each level that is shown, from
        the root's down; levels then do not add up. By default as many as `leaves` allows.
    leaves
        Instead of weighing, the most leaves at which one person's rows are kept, drawn at random. By default any
        number, up to `rows`. For "rows" only.
    rows_per_leaf
        The most rows of one person that are kept at one leaf; with `leaves` only. By default 1, because with it
        leaf counts are of people.
    nodes
        For "people", what one person weighs at all nodes of a level at most: one number, or one for each shown level
        below the root's, which is one node. A good one is what hardly anybody exceeds.

    Examples
    --------
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
        if not isinstance(self.column, str):
            raise TypeError(f"unit: column ({type(self.column).__name__}) must be a column's name. Hint: 'user'")
        check_column(self.column)
        check_choice(self.count, name="unit: count", choices=COUNTS)
        for name in ("leaves", "rows_per_leaf"):
            bound = getattr(self, name)
            if bound is not None or name == "rows_per_leaf":
                object.__setattr__(self, name, check_integer(bound, name=f"unit: {name}", least=1))
        for name in ("rows", "nodes"):
            object.__setattr__(self, name, _check_bound(getattr(self, name), name=name))
        self._check_together()

    def _check_together(self) -> None:
        """That the bounds are those of what is counted."""
        given = [name for name in ("rows", "leaves", "nodes") if getattr(self, name) is not None]
        wanted: tuple[str, ...] = {"rows": ("rows", "leaves"), "people": ("nodes",), "shares": ()}[self.count]
        wrong = [name for name in given if name not in wanted]
        if wrong:
            raise ValueError(f"unit: {wrong[0]} must not be given for count={self.count!r}. Hint: {_HINTS[self.count]}")
        if wanted and not given:
            raise ValueError(_unbounded(self.column, self.count))
        if self.rows_per_leaf != 1 and self.leaves is None:
            raise ValueError("unit: rows_per_leaf needs leaves. Hint: Unit('user', leaves=3, rows_per_leaf=2)")
        if self.leaves is not None and isinstance(self.rows, tuple):
            raise ValueError("unit: rows must be one number where leaves are bounded. Hint: rows=5")

    @classmethod
    def of(cls, unit: Unit | str | None) -> Unit | None:
        """A unit as it is, or None for one row. A column's name alone says too little, and is refused.

        Parameters
        ----------
        unit
            What was given.

        Examples
        --------
        >>> Unit.of(Unit("user", rows=5)).rows
        5

        """
        if isinstance(unit, str):
            raise ValueError(_unbounded(unit))
        if unit is not None and not isinstance(unit, Unit):
            raise TypeError(f"unit ({type(unit).__name__}) must be a Unit. Hint: Unit('user', rows=5)")
        return unit

    @property
    def weighs(self) -> bool:
        """Whether rows are weighed; not where so many leaves of each person are kept."""
        return self.leaves is None

    @property
    def most_rows(self) -> int:
        """The most rows of one person that are kept, where rows are kept."""
        if self.count != "rows" or isinstance(self.rows, tuple):
            raise ValueError(
                f"unit: count={self.count!r} must be 'rows', with one bound, where rows are kept and not weighed. "
                "Hint: Unit('user', rows=5)"
            )
        return per_person(rows=self.rows, leaves=self.leaves, rows_per_leaf=self.rows_per_leaf)  # type: ignore[arg-type]

    def bounds(self, levels: int) -> tuple[int, ...]:
        """What one person weighs at most at each of so many shown levels, from the root's down.

        Parameters
        ----------
        levels
            How many levels are shown, with the root's.
        """
        return level_bounds(self.count, levels, rows=self.rows, nodes=self.nodes)

    def counted(self, *, of: str = "rows", weighed: bool = False) -> str:
        """What is counted, in words.

        Parameters
        ----------
        of
            What is counted where nothing is cut; by default rows.
        weighed
            Whether rows are weighed down; by default they are kept, up to the bounds.

        Examples
        --------
        >>> Unit("user", rows=5).counted()
        'rows after keeping at most 5 of each user, and none without a user'
        >>> Unit("user", rows=5).counted(weighed=True)
        'rows, those of each user weighed down to 5 in all, and none without a user'
        >>> Unit("user", count="shares").counted(weighed=True)
        'shares of people (all rows of one user weigh 1 together), and none without a user'
        """
        who = self.column if self.column.replace(" ", "_").isidentifier() else repr(self.column)
        if weighed:
            inside = "" if of == "rows" else f", {of}"
            what = weighed_words(self.count, who, rows=self.rows, nodes=self.nodes, of=of)
            return f"{what}{inside if self.count != 'rows' else ''}, and none without a {who}"
        leaves = "1 leaf" if self.leaves == 1 else f"{self.leaves} leaves"
        bounds = [] if self.leaves is None else [f"{self.rows_per_leaf} in each of at most {leaves}"]
        if self.rows is not None:
            bounds.append(f"{self.rows} in all" if bounds else f"{self.rows}")
        return f"{of} after keeping at most {' and '.join(bounds)} of each {who}, and none without a {who}"


Bound = int | Sequence[int] | None
_HINTS = {
    "rows": "Unit('user', rows=5)",
    "people": "Unit('user', count='people', nodes=5)",
    "shares": "Unit('user', count='shares')",
}


def _check_bound(bound: Any, *, name: str) -> int | tuple[int, ...] | None:
    """One number, or one for each level."""
    if bound is None:
        return None
    if isinstance(bound, (list, tuple)):
        if not bound:
            raise ValueError(f"unit: {name} must be a number, or one for each level. Hint: {name}=5")
        return tuple(_check_one(each, name=name) for each in bound)
    return _check_one(bound, name=name)


def _check_one(bound: Any, *, name: str) -> int:
    if check_integer(bound, name=f"unit: {name}", least=1) > LARGEST_BOUND:
        raise ValueError(f"unit: {name} ({bound}) must be at most {LARGEST_BOUND}. Hint: count='shares' needs no bound")
    return int(bound)


def level_bounds(count: str, levels: int, *, rows: Bound = None, nodes: Bound = None) -> tuple[int, ...]:
    """What one person weighs at most at each of so many shown levels, from the root's down."""
    if count == "shares":
        return (1,) * levels
    given, name, needed = (rows, "rows", levels) if count == "rows" else (nodes, "nodes", levels - 1)
    checked = _check_bound(given, name=name)
    if checked is None:
        raise ValueError(f"unit: {name} must be given for count={count!r}. Hint: {_HINTS[count]}")
    each = (checked,) * needed if isinstance(checked, int) else checked
    if len(each) != needed:
        which = "from the root's down" if count == "rows" else "below the root's"
        raise ValueError(f"unit: {name} ({len(each)} numbers) must be one, or {needed}: one a shown level {which}")
    return each if count == "rows" else (1, *each)


def weighed_words(count: str, who: str, *, rows: Bound = None, nodes: Bound = None, of: str = "rows") -> str:
    """What is counted where people are weighed."""
    if count == "shares":
        return f"shares of people (all rows of one {who} weigh 1 together)"
    given = rows if count == "rows" else nodes
    several = isinstance(given, (list, tuple))
    most = ", ".join(map(str, given)) if isinstance(given, (list, tuple)) else str(given)
    if count == "rows":
        return f"{of}, those of each {who} weighed down to {most} in all" + (" (by level)" if several else "")
    by = "by level below the root" if several else "of a level"
    return f"people (each {who} once at a node, weighed down to {most} nodes {by} in all)"


def _unbounded(column: str, count: str = "rows") -> str:
    if count == "people":
        return (
            f"unit ({column!r}) must say at how many nodes of a level one person counts. "
            f"Hint: Unit({column!r}, count='people', nodes=5)"
        )
    return (
        f"unit ({column!r}) must say how much of one person is counted. "
        f"Hint: Unit({column!r}, rows=5), or Unit({column!r}, count='shares'), or count='people' with nodes=5"
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

    Examples
    --------
    >>> unit_words(None, rows=2), unit_words("user"), unit_words("user", people=2)
    ('2 rows', "one value of 'user'", "2 values of 'user'")

    """
    if column is None:
        return "one row" if rows in (None, 1) else f"{rows} rows"
    count = {1: "one value", None: "values"}.get(people, f"{people} values")
    return f"{count} of {column!r}"


def protected_unit(metric: Metric, d_in: Any, rows: int | None) -> str:
    """What a budget at a distance protects, in words: so many rows, or people with all their rows, kept or not."""
    people = total_bound(d_in) if isinstance(metric, FrameDistance) else d_in
    return unit_words(identifier_of(metric), people=people, rows=rows)
