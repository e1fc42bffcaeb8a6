"""Keys of one column of dates or times, by parts of the calendar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice, check_column
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KEY, Labels

PARTS = ("year", "quarter", "month", "week", "weekday", "day", "hour")
TEXT_PARTS = ("quarter", "week", "weekday")
FIRST_DAY, LAST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
_TICKS_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_LABELS: dict[str, Sequence[Any]] = {
    "year": range(1, 10_000),
    "quarter": ("Q1", "Q2", "Q3", "Q4"),
    "month": range(1, 13),
    "week": tuple(f"W{week:02}" for week in range(1, 54)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "day": range(1, 32),
    "hour": range(24),
}
_WEEKDAYS = pl.Enum(_LABELS["weekday"])


@dataclass(frozen=True, kw_only=True)
class CalendarKey(Key):
    """Dates or times."""

    kind = "calendar"
    takes = ("date", "datetime")
    is_ordered = True

    parts: tuple[str, ...]
    """The levels."""

    def __post_init__(self) -> None:
        check_column(self.columns_used[0])
        for part in self.parts:
            check_choice(part, name="levels", choices=PARTS)
        if not self.parts or list(self.parts) != sorted(set(self.parts), key=PARTS.index):
            raise ValueError(f"levels {self.parts} must be some of {PARTS}, in this order")
        if "week" in self.parts and {"quarter", "month"} & set(self.parts):
            raise ValueError(
                f"levels {self.parts} must not have weeks below quarters or months, which cut them. Hint: year"
            )
        super().__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """The parts of the calendar."""
        return self.parts

    @property
    def time_step(self) -> Literal["day", "hour"]:
        """Days, or hours where there is a level of hours."""
        return "hour" if "hour" in self.parts else "day"

    @property
    def text_form(self) -> Literal["date", "time"]:
        """Dates, or times where there is a level of hours."""
        return "time" if "hour" in self.parts else "date"

    def kinds_taken(self) -> tuple[str, ...]:
        """Dates have no hours."""
        return ("datetime",) if "hour" in self.parts else self.takes

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Texts such as Q1, W01 and Mon, else integers."""
        return tuple("text" if part in TEXT_PARTS else "integer" for part in self.parts)

    def is_label(self, level: int, label: Any, kind: str) -> bool:
        """Whether the part of the calendar has such a label."""
        return type(label) in (int, str) and label in _LABELS[self.parts[level - 1]]

    def expression(self, column: str, dtype: pl.DataType) -> pl.Expr:
        """Days, or hours."""
        if not isinstance(dtype, pl.Datetime):
            return pl.col(column)
        seconds = 3_600 if self.time_step == "hour" else 86_400
        return local_ticks(column, dtype) // (seconds * _TICKS_A_SECOND[dtype.time_unit])

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The parts of each day or hour; one label, null, outside the years 1 to 9999."""
        steps = groups[f"{KEY}_0"].to_physical().cast(pl.Int64)
        with_hours = self.time_step == "hour"
        days = steps // 24 if with_hours else steps
        inside = days.is_between(FIRST_DAY, LAST_DAY).fill_null(False)
        dates = pl.select(pl.when(inside).then(days).cast(pl.Int32).cast(pl.Date)).to_series()
        calendar = pl.lit(dates).dt
        number: dict[str, pl.Expr] = {
            "year": calendar.iso_year() if "week" in self.parts else calendar.year(),
            "quarter": "Q" + calendar.quarter().cast(pl.String),
            "month": calendar.month(),
            "week": "W" + calendar.week().cast(pl.String).str.zfill(2),
            "weekday": (calendar.weekday() - 1).cast(pl.UInt32).cast(_WEEKDAYS),
            "day": calendar.day(),
            "hour": pl.lit(steps % 24 if with_hours else steps),
        }
        whole = [number[part] if part in TEXT_PARTS else number[part].cast(pl.Int64) for part in self.parts]
        columns = tuple(pl.select(pl.when(inside).then(part)).to_series() for part in whole)
        return Labels(columns, np.where(inside.to_numpy(), self.depth - 1, 1))


def local_ticks(name: str, dtype: pl.Datetime) -> pl.Expr:
    """What a clock in the column's own zone shows, as the integers that stand for times."""
    ticks, second = pl.col(name).to_physical(), _TICKS_A_SECOND[dtype.time_unit]
    if dtype.time_zone is None:
        return ticks
    # With a time zone, Polars panics at instants that its calendar cannot hold, and at the ends of the 64-bit range:
    # null instead. They are clipped as well, because zones are applied to what is under a null.
    first = max((FIRST_DAY - 2) * 86_400 * second, -(2**63) + 10 * 86_400 * second)
    last = min((LAST_DAY + 2) * 86_400 * second, 2**63 - 1 - 10 * 86_400 * second)
    local = ticks.clip(first, last).cast(dtype).dt.replace_time_zone(None).to_physical()
    return pl.when(ticks.is_between(first, last)).then(local)
