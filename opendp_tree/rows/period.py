"""The public rule that gives every row its period, from that row alone, and the rows of one period."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, timedelta
from typing import Any

import polars as pl

from opendp_tree._arguments import check_choice, check_column, is_text
from opendp_tree.keys.key import Key
from opendp_tree.rows.dtypes import is_total_cast, step_kind
from opendp_tree.rows.grouping import guarded, may_read_again, narrowed, read_again_like
from opendp_tree.rows.tables import Table

__all__ = ["Period"]

_FORMS = {
    "day": (r"(\d{4})-(\d\d)-(\d\d)", "2026-03-09"),
    "week": (r"(\d{4})-W(\d\d)", "2026-W10"),
    "month": (r"(\d{4})-(\d\d)", "2026-03"),
    "quarter": (r"(\d{4})-Q([1-4])", "2026-Q1"),
    "year": (r"(\d{4})", "2026"),
}
_AT_LEAST = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
"""So many days after the first day of a period lies a day of the next one."""
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Period:
    """The rule that gives a row its period, by one of its own columns. Every row has one period, or none.

    A row without a value there is in no release; so is one that arrives after its period was released. Use a time that
    is written once: when something happened, or when the row was inserted. A time that changes ("last modified", a
    status) puts a row into two periods, and what is promised is then wrong. A list of who is a member at the end of
    each week has no period per row: count those who come and go.

    Parameters
    ----------
    column
        The column. Without `every`, its values are the names of the periods: that each was given to its row by that
        row alone, and not by its rank, by other rows or by a window, is then your word.
    every
        For a column of dates or times, the part of the calendar: "day", "week" (of ISO 8601), "month", "quarter" or
        "year", by the clock of the column's own time zone. By default None: the column holds names of periods.

    Examples
    --------
    >>> from datetime import date
    >>> week = Period("day", every="week")
    >>> week.name(date(2026, 3, 9)), week.next("2026-W53"), week.year_before("2026-W10")
    ('2026-W11', '2027-W01', '2025-W10')

    """

    column: str
    _: KW_ONLY
    every: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            kind = type(self.column).__name__
            raise TypeError(f"period: column ({kind}) must be a column's name. Hint: Period('day', every='week')")
        check_column(self.column)
        if self.every is not None:
            check_choice(self.every, name="period: every", choices=tuple(_FORMS))

    def name(self, period: Any) -> str:
        """What a period is called: that of a day, or a name once it is sure to be one.

        Parameters
        ----------
        period
            A name, or for a calendar a date within the period.
        """
        if self.every is None:
            if isinstance(period, bool) or not isinstance(period, (str, int)) or not is_text(str(period) or "\ud800"):
                raise ValueError(f"period ({period!r}) must be a value of {self.column!r}. Hint: '2026-W10'")
            return str(period)
        if isinstance(period, date):
            return self._name_of(period)
        try:
            if self._name_of(self.first_day(str(period))) == str(period):
                return str(period)
        except (ValueError, OverflowError):
            pass
        raise ValueError(f"period ({period!r}) must be a {self.every}. Hint: {_FORMS[self.every][1]!r}")

    def _name_of(self, day: date) -> str:
        week = day.isocalendar()
        return {
            "day": f"{day.year:04}-{day.month:02}-{day.day:02}",
            "week": f"{week.year:04}-W{week.week:02}",
            "month": f"{day.year:04}-{day.month:02}",
            "quarter": f"{day.year:04}-Q{(day.month + 2) // 3}",
            "year": f"{day.year:04}",
        }[self._calendar()]

    def first_day(self, name: str) -> date:
        """The first day of a period.

        Parameters
        ----------
        name
            The period.
        """
        every = self._calendar()
        found = re.fullmatch(_FORMS[every][0], name, re.ASCII)
        if found is None:
            raise ValueError(f"period ({name!r}) must be a {every}. Hint: {_FORMS[every][1]!r}")
        year, *rest = map(int, found.groups())
        if every == "week":
            return date.fromisocalendar(year, rest[0], 1)
        if every == "quarter":
            return date(year, 3 * rest[0] - 2, 1)
        return date(year, *rest, *(1,) * (2 - len(rest)))

    def next(self, name: str) -> str:
        """The period after this one.

        Parameters
        ----------
        name
            The period.
        """
        try:
            return self._name_of(self.first_day(name) + timedelta(days=_AT_LEAST[self._calendar()]))
        except OverflowError:
            raise ValueError(f"period ({name!r}) must be before the calendar's last. Hint: years end at 9999") from None

    def year_before(self, name: str) -> str | None:
        """The period a year before this one; None where that year has no such week or day.

        Parameters
        ----------
        name
            The period.
        """
        self._calendar()
        before = f"{int(name[:4]) - 1:04}{name[4:]}"
        try:
            return self.name(before)
        except ValueError:
            return None

    def due(self, first: str, *, today: date, wait: int = 0) -> list[str]:
        """The periods from the first on that ended before today, and so many further days ago.

        Parameters
        ----------
        first
            The first period.
        today
            The day that it is.
        wait
            For how many days after a period's end rows of it may still arrive. By default none.
        """
        names, name = [], self.name(first)
        while self.first_day(self.next(name)) + timedelta(days=wait) <= today:
            names.append(name)
            name = self.next(name)
        return names

    def sorted(self, names: Sequence[str]) -> list[str]:
        """Periods in their order: that of the calendar, or the one that they were released in.

        Parameters
        ----------
        names
            The periods, in the order of their releases.
        """
        return list(names) if self.every is None else sorted(names)

    def _calendar(self) -> str:
        if self.every is None:
            raise ValueError(
                f"period: the column {self.column!r} has no calendar, so that no period is known to be before or after "
                "another. Hint: Period('day', every='week')"
            )
        return self.every

    def rows(self, frame: Any, name: str, columns: Sequence[str]) -> pl.LazyFrame:
        """The rows of one period with some columns: chosen by each row's own value, before anything else is done.

        Parameters
        ----------
        frame
            The rows, as `read_source` gives them.
        name
            The period.
        columns
            The columns that are needed of them.
        """
        if isinstance(frame, Table):
            raise TypeError(
                "the data of a series must not be an engine's table: a series chooses the rows of a period itself. "
                "Hint: read_source of a query's Arrow table"
            )
        if not isinstance(frame, pl.DataFrame) and not may_read_again(frame):
            raise TypeError(
                "the data of a series must not be a lazy frame, whose plan may join, rank or limit rows before the "
                "period is chosen: a row of one period then decides about another. Hint: the path of files, or "
                "collect() where every step looks at single rows"
            )
        types = guarded(frame.collect_schema)
        for column in (self.column, *columns):
            if column not in types:
                what = "period" if column == self.column else "by"
                raise ValueError(f"{what}: there is no column {column!r}. Hint: check the name")
        narrow = narrowed(frame, list(dict.fromkeys((*columns, self.column))))
        return read_again_like(narrow.filter(self._holds(types[self.column], name)), frame)

    def _holds(self, dtype: pl.DataType, name: str) -> pl.Expr:
        """Whether a row is in a period. Row-wise and total: the expressions of calendar keys, or a total cast."""
        kind = step_kind(dtype)
        if self.every is not None:
            if kind not in ("date", "datetime"):
                raise ValueError(
                    f"period: column {self.column!r} ({kind}) must hold dates or times. "
                    "Hint: declare its type in read_source"
                )
            days = Key.calendar(self.column, levels=["day"]).expression(self.column, dtype).to_physical()
            first, after = ((self.first_day(each) - _EPOCH).days for each in (name, self.next(name)))
            return days.is_between(first, after - 1).fill_null(False)
        if kind not in ("text", "categorical", "enum", "integer") or not is_total_cast(dtype, pl.String()):
            raise ValueError(
                f"period: column {self.column!r} ({kind}) must hold names of periods, texts or integers. "
                "Hint: Period('day', every='day') for dates"
            )
        return (pl.col(self.column).cast(pl.String, strict=False) == pl.lit(name)).fill_null(False)

    def words(self) -> str:
        """The rule in words.

        Examples
        --------
        >>> Period("day", every="week").words(), Period("batch").words()
        ("the ISO week of 'day'", "the value of 'batch', which was given to each row by that row alone: your word")

        """
        if self.every is None:
            return f"the value of {self.column!r}, which was given to each row by that row alone: your word"
        return f"the {'ISO week' if self.every == 'week' else self.every} of {self.column!r}"
