"""The public rule that assigns each row to a period, from that row alone, and the rows of one period."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from opendp_tree._arguments import check_choice, check_column, check_type, column_hint, is_text
from opendp_tree.keys.key import Key
from opendp_tree.rows.domains import Table, guarded, is_total_cast, may_read_again, narrowed, read_again_like, step_kind

_CALENDARS: dict[str, tuple[str, int, Callable[[date], str]]] = {
    "day": ("2026-03-09", 1, lambda day: day.isoformat()[:10]),
    "week": ("2026-W10", 7, lambda day: "{:04}-W{:02}".format(*day.isocalendar()[:2])),
    "month": ("2026-03", 31, lambda day: day.isoformat()[:7]),
    "quarter": ("2026-Q1", 92, lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}"),
    "year": ("2026", 366, lambda day: day.isoformat()[:4]),
}
"""An example of a name, days from a period's first day that always lead into the next period, and a day's name."""
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Period:
    """The rule that assigns a row to a period, by one of its columns. Every row is in one period, or in none.

    A row without a value there is in no release; nor is one that arrives after its period was released. Use a time that
    is written once: when something happened, or when the row was inserted. A time that changes ("last modified", a
    status) puts a row into two periods, and then the privacy statement is wrong. A list of the members at the end of
    each week has no period per row: count those who join and leave.

    :param column: The column. Without `every`, its values are the names of the periods: you then state that each value
        was derived from its row alone, not from its rank, from other rows or from a window.
    :param every: For a column of dates or times, the part of the calendar: "day", "week" (of ISO 8601), "month",
        "quarter" or "year", in the column's time zone, which must stay the same. By default None: the
        column holds names of periods.

    >>> from datetime import date
    >>> week = Period("day", every="week")
    >>> week.name(date(2026, 3, 9)), week.next("2026-W53"), week.year_before("2026-W10")
    ('2026-W11', '2027-W01', '2025-W10')
    """

    column: str
    _: KW_ONLY
    every: str | None = None

    def __post_init__(self) -> None:
        check_column(check_type(self.column, str, name="period: column", hint="Period('day', every='week')"))
        if self.every is not None:
            check_choice(self.every, name="period: every", choices=tuple(_CALENDARS))

    def name(self, period: Any) -> str:
        """The name of a period, from a day in it, or from a name, which is checked.

        :param period: A name, or for a calendar a date within the period.
        """
        if self.every is None:
            if isinstance(period, bool) or not isinstance(period, (str, int)) or not is_text(str(period) or "\ud800"):
                raise ValueError(f"period ({period!r}) must be a value of {self.column!r}. Hint: '2026-W10'")
            return str(period)
        example, _, name_of = self._calendar()
        with suppress(OverflowError):
            name = name_of(period if isinstance(period, date) else self.first_day(str(period)))
            if isinstance(period, date) or name == str(period):
                return name
        raise ValueError(f"period ({period!r}) must be a {self.every}. Hint: {example!r}")

    def first_day(self, name: str) -> date:
        """The first day of a period.

        :param name: The period.
        """
        example, *_ = self._calendar()
        try:
            if self.every in ("week", "quarter"):
                year, number = int(name[:4]), int(name[6:])
                return date.fromisocalendar(year, number, 1) if self.every == "week" else date(year, 3 * number - 2, 1)
            numbers = [int(part) for part in name.split("-")]
            return date(*numbers, *(1,) * (3 - len(numbers)))
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"period ({name!r}) must be a {self.every}. Hint: {example!r}") from None

    def next(self, name: str) -> str:
        """The period after this one.

        :param name: The period.
        """
        _, days, name_of = self._calendar()
        try:
            return name_of(self.first_day(name) + timedelta(days=days))
        except OverflowError:
            raise ValueError(f"period ({name!r}) must not be the calendar's last. Hint: years end at 9999") from None

    def year_before(self, name: str) -> str | None:
        """The period a year before this one; None where that year has no such week or day.

        :param name: The period.
        """
        self._calendar()
        try:
            return self.name(f"{int(name[:4]) - 1:04}{name[4:]}")
        except ValueError:
            return None

    def due(self, first: str, *, today: date, wait: int = 0) -> list[str]:
        """The periods from the first on that ended before today, and at least `wait` days ago.

        :param first: The first period.
        :param today: Today's date.
        :param wait: For how many days after a period's end its rows may still arrive. By default none.
        """
        names, name = [], self.name(first)
        while (today - self.first_day(self.next(name))).days >= wait:
            names.append(name)
            name = self.next(name)
        return names

    @staticmethod
    def today() -> date:
        """Today's date, by the clock and in the time zone of the machine."""
        return datetime.now().date()

    def words(self) -> str:
        """The rule in words."""
        if self.every is None:
            return f"the value of {self.column!r}, which you state was derived from each row alone"
        return f"the {'ISO week' if self.every == 'week' else self.every} of {self.column!r}"

    def _calendar(self) -> tuple[str, int, Callable[[date], str]]:
        if self.every is None:
            hint = "Period('day', every='week')"
            raise ValueError(f"period: {self.column!r} has no calendar, so periods have no order. Hint: {hint}")
        return _CALENDARS[self.every]

    def rows(self, frame: Any, name: str, columns: Sequence[str]) -> pl.LazyFrame:
        """The rows of one period, selected by each row's own value before anything else is done.

        :param frame: The rows, as `read_source` returns them.
        :param name: The period.
        :param columns: The columns to keep.
        """
        if isinstance(frame, Table):
            raise TypeError(
                "the data of a series must not be an engine's table: a series selects the rows of a period itself. "
                "Hint: a query's rows: in DuckDB connection.sql('SELECT ...'), elsewhere an Arrow table"
            )
        if not may_read_again(frame):
            raise TypeError(
                "the data of a series must not be a lazy frame: its plan may join, rank or limit rows before a period "
                "is selected, so that a row of one period affects another. Hint: the path of files, or collect() if "
                "every step is row by row"
            )
        types = guarded(frame.collect_schema)
        for column in (self.column, *columns):
            if column not in types:
                what = "period" if column == self.column else "by"
                raise ValueError(f"{what}: there is no column {column!r}. {column_hint(column, types)}")
        narrow = narrowed(frame, dict.fromkeys((*columns, self.column)))
        return read_again_like(narrow.filter(self._holds(types[self.column], name)), frame)

    def _holds(self, dtype: pl.DataType, name: str) -> pl.Expr:
        """Whether a row is in a period. Row-wise and total: the expressions of calendar keys, or a total cast."""
        kind = step_kind(dtype)
        if self.every is not None:
            if kind not in ("date", "datetime"):
                hint = f"read_source('rows.csv', schema={{{self.column!r}: pl.Date}}) declares it"
                raise ValueError(f"period: column {self.column!r} ({kind}) must hold dates or times. Hint: {hint}")
            days = Key.calendar(self.column, levels=["day"]).expression(self.column, dtype).to_physical()
            first, after = ((self.first_day(each) - _EPOCH).days for each in (name, self.next(name)))
            return days.is_between(first, after - 1).fill_null(False)
        if kind not in ("text", "categorical", "enum", "integer") or not is_total_cast(dtype, pl.String()):
            what, hint = "names of periods, as texts or integers", "Period('day', every='day') for dates"
            raise ValueError(f"period: column {self.column!r} ({kind}) must hold {what}. Hint: {hint}")
        return (pl.col(self.column).cast(pl.String, strict=False) == pl.lit(name)).fill_null(False)
