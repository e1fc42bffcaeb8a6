"""Releases over time: one file that keeps every period's release, what all of them cost, and the names they showed.

A period is released once, and each release knows the names that earlier ones have shown. Proof: docs/proofs/series.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from opendp.mod import assert_features

from opendp_tree._arguments import check_integer, check_probability, check_type
from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._show import Bar, Cell, html_table, one_line, progress, table
from opendp_tree._types import Bools
from opendp_tree.budget import Budget
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Amount, Ledger, LedgerEntry, LedgerError, LockedError, show
from opendp_tree.planning.methods import Auto, Method, PeopleLayers, Quantiles, TreeEstimator, read_method
from opendp_tree.prepare import Account, Prepared, Question
from opendp_tree.releases.json import write_tree
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.series_frames import (
    MEMORY,
    changes,
    long_frame,
    moving_sums,
    node_frame,
    path_text,
    remembered,
)
from opendp_tree.rows.dtypes import kinds_of
from opendp_tree.rows.period import Period
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.unit import Unit, unit_words
from opendp_tree.rows.value import Value, read_values

__all__ = ["Series"]

_TIMES = ("datetime", "time")
EXPLORE = (0.2, 0.2, 0.2, 0.2, 0.5)
"""The share of epsilon that measures, by the number of earlier releases: names are found first, and measured later."""
POOLED_MEASURING = 0.02
"""Of a pooled find: almost all of it finds."""


@dataclass(frozen=True, repr=False)
class Series(Mapping[str, TreeRelease]):
    """The releases of a hierarchy over time, in one file, by `Series.open`; a mapping from periods to releases.

    `release(data, period)` chooses the rows of that period itself, before anything else is done with them. What earlier
    releases have shown is known to it: those names are shown again, and cost nothing to find. The finished release and
    its cost are committed together. A second call for a period gives the stored release, whatever the data, at no cost:
    rows that come late are in no release. Empty periods are released like all others.

    With rows as the unit, a series of any length costs one row what one period costs, because a row is in one period;
    somebody with many rows has less privacy with every one of them. With a `Unit`, costs of periods add up.

    Parameters
    ----------
    ledger
        The file, which is a ledger and counts what periods cost.
    period
        The rule that gives a row its period.
    settings
        How releases are made, as the file says it.
    key
        Where a row belongs; None where the series was opened only to be read.
    unit
        Who is protected; None is one row.
    budget
        What one period may cost.
    method
        How each release is made.
    confidence
        Of each interval.
    value
        What is summed.
    measuring
        The dial by the number of earlier releases; its last share is kept. None leaves it to the method.
    pooled
        The share of the budget that finds names in all rows of a quarter; None: nothing is pooled.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> from tempfile import TemporaryDirectory
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"week": ["W1"] * 900 + ["W2"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> with TemporaryDirectory() as folder:
    ...     series = Series.open(folder + "/visits.db", by="city", period=Period("week"), epsilon=1.0, delta=1e-6)
    ...     for week in ("W1", "W2", "W2"):
    ...         release = series.release(visits, week)
    ...     series.periods, series.ledger.left()["epsilon"], series.to_frame()["path"].unique().sort().to_list()
    (['W1', 'W2'], Fraction(0, 1), ['', 'ghent', 'liege'])

    """

    ledger: Ledger
    period: Period
    settings: Mapping[str, Any]
    key: Key | None = None
    unit: Unit | None = None
    budget: Mapping[str, Any] | None = None
    method: Method | None = None
    confidence: float = 0.95
    value: tuple[Value, ...] = ()
    measuring: tuple[float, ...] | None = None
    pooled: float | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        by: Key | str | Sequence[str] | None = None,
        period: Period | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        total: Mapping[str, Amount] | None = None,
        unit: Unit | None = None,
        method: Method | str = "auto",
        confidence: float = 0.95,
        value: Value | Sequence[Value] | None = None,
        measuring: Sequence[float] | None = None,
        pooled: float | None = None,
    ) -> Series:
        """The series at a path; begun with these settings if there is none yet, and refused if it has others.

        Parameters
        ----------
        path
            The file, on a local disk. A series that is there can be opened by its path alone, to be read.
        by
            Where a row belongs, as in `release_tree`.
        period
            The rule that gives a row its period.
        epsilon, delta, rho
            What each period may cost, as in `release_tree`.
        total
            What the file may cost in all, as in `Ledger.open`. By default, for rows, what one period costs, because
            that is what all cost together; with a unit it must be given: so many periods, so many times epsilon.
        unit
            Who is protected, in all periods: as in `release_tree`. By default None: one row.
        method, confidence, value
            As in `release_tree`, for every period.
        measuring
            The share of epsilon that measures, for the first release, the second, and so on; the last is kept. It must
            not depend on data. By default a fifth in four releases, which find more names, and a half in later ones;
            where the method has a dial of its own, or the tree is public, or there is a unit or a value, its own.
        pooled
            The share of epsilon and delta that finds names in all rows of a calendar quarter at once, by `pool`;
            periods have the rest. A name then needs its threshold per quarter, and not per period; totals have more
            noise. 0.15 is a good share. By default None: nothing is pooled.
        """
        if by is None or period is None:
            return cls._opened(path, by, period)
        key, values, person = Key.of(by), read_values(value), Unit.of(unit)
        check_type(period, Period, name="period", hint="Period('day', every='week')")
        Budget.of(epsilon=epsilon, delta=delta, rho=rho)
        check_probability(confidence, name="confidence")
        if taken := {"period", "new"} & set(key.names):
            raise ValueError(f"by: a level must not be called {taken.pop()!r} in a series. Hint: rename the column")
        chosen = read_method(method)
        if isinstance(chosen, Quantiles):
            raise ValueError(f"method ({chosen.name}) must give counts in a series. Hint: Curve() has all quantiles")
        shares = _dial(measuring, key, chosen, person, values, rho)
        if pooled is not None:
            pooled = float(check_probability(pooled, name="pooled"))
            _check_pooled(period, key, chosen, person, rho)
        budget = {"epsilon": epsilon, "delta": delta, "rho": rho}
        cost = {name: repr(amount) for name, amount in budget.items() if amount is not None}
        if total is None and person is not None and not Path(path).exists():
            raise ValueError(
                f"total must be given with a unit: every period costs {', '.join(f'{k} {v}' for k, v in cost.items())} "
                f"more for somebody who is in all of them. Hint: total={{'epsilon': '52', 'delta': '1e-4'}}"
            )
        settings = {
            "by": _key_text(key),
            "period": {"column": period.column, "every": period.every},
            "unit": repr(person),
            **{name: None if amount is None else repr(float(amount)) for name, amount in budget.items()},
            "method": repr(chosen),
            "confidence": repr(float(confidence)),
            "value": repr(values),
            "measuring": repr(shares),
            "pooled": None if pooled is None else repr(pooled),
            "public": None if key.known is None else sorted(map(path_text, key.known.paths)),
        }
        whose = unit_words(None if person is None else person.column)
        ledger = _ledger(path, total or (cost if person is None else None), whose, stated=total is not None)
        _check_unit(ledger, whose)
        kept = json.loads(ledger.settings() or ledger.settings(json.dumps(settings)) or "{}")
        if differ := [name for name, text in settings.items() if kept.get(name) != text]:
            first = differ[0]
            raise LedgerError(
                f"{ledger.path} is a series with another {' and another '.join(differ)}: {first} is {kept.get(first)}, "
                f"not {settings[first]}. Hint: open it with its own settings, or begin another file with another budget"
            )
        return cls(ledger, period, settings, key, person, budget, chosen, float(confidence), values, shares, pooled)

    @classmethod
    def _opened(cls, path: str | Path, by: Any, period: Any) -> Series:
        """A series that is there, to be read."""
        if by is not None or period is not None:
            raise TypeError("by and period must be given together. Hint: period=Period('day', every='week')")
        ledger = Ledger.open(path)
        text = ledger.settings()
        if text is None:
            raise LedgerError(f"{path} keeps no series. Hint: by=..., period=Period(...) and epsilon=... begin one")
        settings = json.loads(text)
        return cls(ledger, Period(settings["period"]["column"], every=settings["period"]["every"]), settings)

    @interrupts_deferred
    @progress("counting")
    def release(self, data: Any, period: Any) -> TreeRelease:
        """The release of a period: the stored one if there is one, or a new one, from the rows of that period.

        Parameters
        ----------
        data
            The rows, of any periods, as in `release_tree`; no lazy frames but those of files, and no engine's tables.
        period
            Its name, such as "2026-W10", or for a calendar a day in it. Release every period once it is over, whatever
            is in it: a schedule that looks at data reveals them.
        """
        assert_features("contrib")
        name = self.period.name(period)
        if name in self.periods:
            return self[name]
        if self.key is None or self.budget is None or self.method is None:
            raise ValueError(
                f"{self.ledger.path} was opened to be read. Hint: Series.open(path, by=..., period=..., epsilon=...)"
            )
        return self._release(data, name, pooling=False)

    @interrupts_deferred
    @progress("counting")
    def pool(self, data: Any, quarter: Any) -> TreeRelease:
        """The pooled find of a quarter: the stored one if there is one, or a new one, from all rows of that quarter.

        It costs the share `pooled` of the budget, finds names, and hardly measures them. The next period knows them.
        Rows that came late for their own period are in it.

        Parameters
        ----------
        data
            The rows, as in `release`.
        quarter
            Its name, such as "2026-Q1", or a day in it. Pool every quarter once it is over, whatever is in it.
        """
        assert_features("contrib")
        name = self.quarter.name(quarter)
        if (entry := self._pooled().get(name)) is not None:
            return self._stored(entry)
        if self.pooled is None or self.key is None:
            raise ValueError(
                f"{self.ledger.path} was opened without a pooled find, or to be read. "
                "Hint: Series.open(path, by=..., period=..., epsilon=..., pooled=0.15)"
            )
        return self._release(data, name, pooling=True)

    def _release(self, data: Any, name: str, *, pooling: bool) -> TreeRelease:
        """A new release of a period, or the pooled find of a quarter."""
        assert self.key is not None
        rule, values = (self.quarter, ()) if pooling else (self.period, self.value)
        columns = [*self.key.columns_used, *(each.column for each in values)]
        needed = columns if self.unit is None else [*columns, self.unit.column]
        group = self._disjoint if not pooling else "quarters"
        account = Account.of(self.ledger, self.unit, **self._amounts(pooling=pooling), disjoint=group)
        rows = rule.rows(read_source(data), name, needed)
        kinds = kinds_of(rows.collect_schema())
        if self._has_known and (times := [name for name in self.key.label_columns if kinds[name] in _TIMES]):
            raise ValueError(
                f"by: labels of {times[0]!r} ({kinds[times[0]]}) cannot be known to later periods. Hint: Key.calendar, "
                "or cast them to dates or texts"
            )
        method = self._method(None if pooling else len(self._entries()))
        question = Question.of(self._key_now(), unit=self.unit, method=method, value=values or None)
        measurement = question.measurement(rows, account.budget, alpha=0.1, confidence=self.confidence)
        note = {"quarter" if pooling else "period": name, "columns": columns}
        try:
            said = self._said_of_quarter if pooling else self._said
            prepared = Prepared(measurement, rows, account, note, lambda release: said(release, name))
            released: TreeRelease = prepared.release(name=name)
            return released
        except LedgerError:
            made = {entry.name: entry for entry in (*self._entries(), *self._pooled().values())}
            if name not in made:
                raise
            return self._stored(made[name])  # another process was faster: this one's release is thrown away unseen

    @property
    def quarter(self) -> Period:
        """The rule that gives a row its quarter: by the same column as its period."""
        return Period(self.period.column, every="quarter")

    def _amounts(self, *, pooling: bool) -> dict[str, Any]:
        """What a period, or the pooled find of a quarter, may cost: both add up to no more than the budget."""
        assert self.budget is not None
        if self.pooled is None:
            return dict(self.budget)
        share = Decimal(repr(self.pooled))
        share = share if pooling else 1 - share
        down = Context(prec=15, rounding=ROUND_FLOOR)  # as many digits as every float keeps
        amounts = {name: amount for name, amount in self.budget.items() if amount is not None}
        parts = {name: float(down.multiply(Decimal(repr(float(each))), share)) for name, each in amounts.items()}
        return {**self.budget, **parts}

    def _pooled(self) -> dict[str, LedgerEntry]:
        """The entries of pooled finds by their quarters, in the order of their releases."""
        return {str(entry.name): entry for entry in self.ledger.entries() if "quarter" in entry.note}

    @property
    def quarters(self) -> list[str]:
        """The quarters whose names were found by `pool`, in the order of the calendar."""
        return sorted(self._pooled())

    def _key_now(self) -> Key:
        """The key with the names that earlier periods, and pooled finds since the last of them, have shown."""
        assert self.key is not None
        if not self._has_known:
            return self.key
        recent = [self._stored(entry) for entry in self._entries()[-MEMORY:]]
        return _key_with_known(self.key, recent, list(self._recent_pools().values()))

    def _recent_pools(self) -> dict[str, TreeRelease]:
        """The pooled finds since the last period, by their quarters: later periods show what they found."""
        last = max((entry.number for entry in self._entries()), default=0)
        return {name: self._stored(entry) for name, entry in self._pooled().items() if entry.number > last}

    @property
    def _has_known(self) -> bool:
        """Whether a release can know names: some must be unknown, and the method find them."""
        assert self.key is not None
        finds = (
            isinstance(self.method, Auto | TreeEstimator | PeopleLayers)
            and self.budget is not None
            and self.budget["rho"] is None
        )
        return finds and self.key.tree is None

    def _method(self, number: int | None) -> Method:
        """The method of a release after so many earlier ones; None for a pooled find."""
        assert self.method is not None
        if number is None:
            share = POOLED_MEASURING
        elif self.measuring is None:
            return self.method
        else:
            share = self.measuring[min(number, len(self.measuring) - 1)]
        levels = self.method.levels if isinstance(self.method, Auto) else None
        plain = self.method if isinstance(self.method, TreeEstimator) else TreeEstimator(levels=levels)
        return replace(plain, measuring=share)

    def _said(self, release: TreeRelease, name: str) -> TreeRelease:
        """A release whose statement says what it is of, and whose privacy it costs in which periods."""
        together = "in all periods together" if self._disjoint else "in each period"
        beside = "" if self.pooled is None else ", beside pooled finds of quarters"
        return _with_words(release, f"{together}{beside}", f"of the period {name} ({self.period.words()})")

    def _said_of_quarter(self, release: TreeRelease, name: str) -> TreeRelease:
        """The same for a pooled find."""
        unit, counted = "in all quarters together, beside periods", f"of {name} ({self.quarter.words()})"
        return _with_words(release, unit, counted)

    @property
    def _disjoint(self) -> str | None:
        """What entries share of which the dearest counts: with rows as the unit, all periods."""
        return "periods" if self.ledger.unit == unit_words(None) else None

    def _entries(self) -> list[LedgerEntry]:
        """The entries of the periods, in the order of their releases."""
        return [entry for entry in self.ledger.entries() if entry.name is not None and "period" in entry.note]

    def _stored(self, entry: LedgerEntry) -> TreeRelease:
        text = self.ledger.stored(entry.number)
        if text is None:
            raise LedgerError(f"{self.ledger.path} has lost the release of {entry.name}. Hint: restore it from a copy")
        return TreeRelease.from_json(text)

    @property
    def periods(self) -> list[str]:
        """The periods that were released, in the order of the calendar, or without one in that of their releases."""
        return self.period.sorted([str(entry.name) for entry in self._entries()])

    def __getitem__(self, period: Any) -> TreeRelease:
        name = self.period.name(period)
        for entry in self._entries():
            if entry.name == name:
                return self._stored(entry)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.periods)

    def __len__(self) -> int:
        return len(self._entries())

    def to_frame(self) -> pl.DataFrame:
        """One long table: `period`, `path`, `level`, labels, `estimate`, `lower`, `upper`, and whether it is `new`.

        A name is new in a period if no release before it showed it, or if it was forgotten since. Names that are public
        in the key, and the root, are never new.
        """
        entries = self._entries()
        if not entries:
            raise ValueError("a series without releases has no table. Hint: series.release(data, period)")
        frame = long_frame({str(entry.name): self._stored(entry) for entry in entries}, self._public)
        order = {name: number for number, name in enumerate(self.periods)}
        return frame.sort(frame["period"].replace_strict(order), maintain_order=True)

    def _last(self) -> tuple[TreeRelease, Bools]:
        """The release that was made last, and which of its nodes the next one will know."""
        entries = self._entries()
        if not entries:
            raise ValueError("a series without releases knows no names. Hint: series.release(data, period)")
        recent = [self._stored(entry) for entry in entries[-MEMORY:]]
        return recent[-1], remembered(recent, self._public)

    @property
    def _public(self) -> frozenset[str]:
        """The names that the key has always known."""
        return frozenset(self.settings["public"] or ())

    @property
    def known(self) -> pl.DataFrame:
        """What the next release will know: each name, the period that `first` showed it, and its last `estimate`.

        Names that a pooled find has shown since have the quarter, and no estimate.
        """
        release, kept = self._last()
        frame = self.to_frame()
        places = frame.columns[1:-4]
        first = frame.group_by(places, maintain_order=True).first().select(*places, "period")
        rows = node_frame(release).filter(kept).select(*places, "estimate")
        joined = rows.join(first, on=places, how="left", nulls_equal=True, maintain_order="left")
        frames = [joined.rename({"period": "first"}).select(*places, "first", "estimate")]
        for name, pool in self._recent_pools().items():
            found = node_frame(pool).select(
                *places, pl.lit(name).alias("first"), pl.lit(None, pl.Float64).alias("estimate")
            )
            frames.append(found)
        return pl.concat(frames, how="vertical_relaxed").unique(places, keep="first", maintain_order=True)

    def new(self, period: Any = None) -> pl.DataFrame:
        """The rows of the long table that are new in a period.

        Parameters
        ----------
        period
            The period. By default the last one.
        """
        frame = self.to_frame()
        name = self.periods[-1] if period is None else self.period.name(period)
        return frame.filter((frame["period"] == name) & frame["new"])

    def quiet(self) -> pl.DataFrame:
        """The names of the last release that the next one will not know, with their last estimates.

        A name is forgotten when the mean of its last four estimates is below 1.5 standard deviations of that mean, and
        no name below it is known: it is then hard to tell from nobody. It comes back when it is found again. Names that
        are public in the key are never forgotten.
        """
        release, kept = self._last()
        names = node_frame(release).filter(~kept)
        for pool in self._recent_pools().values():
            places = names.columns[:-3]
            names = names.join(node_frame(pool), on=places, how="anti", nulls_equal=True, maintain_order="left")
        return names

    def changes(self, against: str = "previous") -> pl.DataFrame:
        """Each node's change against another period: `before`, `change`, `lower`, `upper`, and their `confidence`.

        The interval reaches from the lower end less the other's upper end to the upper end less the other's lower end:
        it fails only if one of both does, so its chance to fail is at most twice theirs, whatever the noise.
        Intervals at 0.975 make changes at 0.95. Nodes that one of both periods does not show are left out.

        Parameters
        ----------
        against
            "previous", the default, is the period before in the calendar, or without one the release before; "year"
            the same week, month or day of the year before.
        """
        names = self.periods
        if against == "year":
            before = {name: self.period.year_before(name) for name in names}
        elif against == "previous" and self.period.every is None:
            before = dict(zip(names[1:], names, strict=False))
        elif against == "previous":
            before = {self.period.next(name): name for name in names}
        else:
            raise ValueError(f"against ({against!r}) must be 'previous' or 'year'")
        frame = self.to_frame()
        return changes(frame, before, confidence=self[names[-1]].confidence)

    def moving_sums(self, n: int) -> pl.DataFrame:
        """For each period the sums over the last `n` periods that follow one another, with intervals that add up.

        An interval fails only if one of `n` does, so its chance to fail is at most `n` times theirs, which `confidence`
        says. Use these, not releases of overlapping windows: in those, a row is in several.

        Parameters
        ----------
        n
            How many periods.
        """
        check_integer(n, name="n", least=1)
        frame, names = self.to_frame(), self.periods
        runs = [names[:1]]
        for name in names[1:]:
            if self.period.every is None or self.period.next(runs[-1][-1]) == name:
                runs[-1].append(name)
            else:
                runs.append([name])
        return moving_sums(frame, runs, n, confidence=self[names[-1]].confidence)

    def describe(self) -> str:
        """What the series promises, and what it cost, in a few lines."""
        names, left = self.periods, self.ledger.left()
        spent = {name: total - left[name] for name, total in self.ledger.total.items()}
        which = f"{names[0]} to {names[-1]}" if names else "none yet"
        each = ", ".join(f"{name} {self.settings[name]}" for name in ("epsilon", "rho", "delta") if self.settings[name])
        share = self.settings["pooled"]
        lines = [
            f"Series {self.ledger.path.name}: {len(names)} periods ({which}). A row's period is {self.period.words()}."
        ]
        if self._disjoint:
            lines += [
                f"Privacy: {each} for adding or removing one row, for all periods together: a row is in one of them"
                + ("." if share is None else f", and in one quarter, whose pooled find has {share} of that."),
                "Somebody with k rows: k times that, in as many periods as they are in, and a larger delta. "
                "A row that is changed, and may move to another period, costs twice as much as one that is added.",
            ]
        else:
            lines += [
                f"Privacy: {each} for adding or removing {self.ledger.unit}, in each period.",
                "Somebody who is in m periods: m times that.",
            ]
        return "\n".join([*lines, f"Spent: {show(spent)} of {show(self.ledger.total)}."])

    def _rows(self) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        for name, release in self.items():
            shown = release.estimates.size if release.shown is None else int(release.shown.sum())
            rows.append([name, shown, *(float(part[0]) for part in (release.estimates, release.lower, release.upper))])
        return rows

    def __repr__(self) -> str:
        """What the series promises, and a line per period."""
        heads = ["period", "nodes shown", "all", "lower", "upper"]
        return "\n".join([*map(one_line, self.describe().splitlines()), "", table(heads, self._rows())])

    def _repr_html_(self) -> str:
        title, *words = self.describe().splitlines()
        heads = ["period", "nodes shown", "all", "lower", "upper", ""]
        rows = [[*row, Bar(*row[2:])] for row in self._rows()]  # type: ignore[arg-type]
        return html_table(heads, rows, title=title, below=words)


def _dial(
    measuring: Any, key: Key, method: Method, unit: Unit | None, values: tuple[Value, ...], rho: float | None
) -> tuple[float, ...] | None:
    """The dial by the number of earlier releases; None where the method has its own."""
    has_dial = key.tree is None and unit is None and not values and rho is None
    has_dial &= isinstance(method, Auto) or (isinstance(method, TreeEstimator) and method.measuring is None)
    if measuring is None:
        return EXPLORE if has_dial else None
    if callable(measuring) or isinstance(measuring, str) or not isinstance(measuring, Sequence) or not measuring:
        raise TypeError(
            f"measuring ({type(measuring).__name__}) must be shares, fixed before any data: one for the first release, "
            f"one for the second, and so on. Hint: {EXPLORE}"
        )
    if not has_dial:
        raise ValueError(
            "measuring must not be given for a public tree, a unit, a value or rho, or where the method has its own. "
            "Hint: leave it out, or method=TreeEstimator()"
        )
    return tuple(float(check_probability(share, name="measuring")) for share in measuring)


def _with_words(release: TreeRelease, unit: str, counted: str) -> TreeRelease:
    """A release whose statement says more of whose privacy it costs, and of what it counts."""
    statement = release.statement
    assert statement is not None
    words = replace(statement, unit=f"{statement.unit}, {unit}", counted=f"{statement.counted}, {counted}")
    return replace(release, statement=words)


def _check_pooled(period: Period, key: Key, method: Method, unit: Unit | None, rho: float | None) -> None:
    """Every row must be in one period and in one quarter, and some names unknown."""
    if period.every not in ("day", "week", "month"):
        raise ValueError(
            f"pooled must come with periods of a calendar that are shorter than a quarter, not {period.every!r}. "
            "Hint: Period('day', every='week')"
        )
    if key.tree is not None or unit is not None or rho is not None or not isinstance(method, Auto | TreeEstimator):
        raise ValueError(
            "pooled must not be given for a public tree, a unit or rho, nor for another method than "
            f"{TreeEstimator.name}. Hint: leave it out"
        )


def _key_with_known(key: Key, releases: Sequence[TreeRelease], pools: Sequence[TreeRelease] = ()) -> Key:
    """The key with the names of pooled finds, and those of the last of some releases that are not forgotten."""
    names: list[Any] = [] if key.known is None else [key.known]
    if releases:
        last = releases[-1]
        shown = np.ones(last.estimates.size, dtype=np.bool_) if last.shown is None else last.shown.copy()
        shown[shown] = remembered(releases)
        names.append(replace(last, shown=shown))
    names += pools
    return replace(key, known=names) if releases or pools else key


def _key_text(key: Key) -> str:
    """A key as text; of a public tree, or of known names, a digest."""
    public: list[Any] = [] if key.tree is None else [write_tree(key.tree)]
    public += [] if key.known is None else [repr((key.known.paths, key.known.closed))]
    digest = hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()[:16]
    return f"{key!r}, names {digest}" if public else repr(key)


def _ledger(path: str | Path, total: Mapping[str, Amount] | None, whose: str, *, stated: bool) -> Ledger:
    """The file of a series, begun if need be; a file that others begin at this moment is waited for."""
    try:
        return Ledger.open(path, total=total, unit=whose)
    except LockedError:
        raise
    except LedgerError:
        if stated or total is None:
            raise
    return Ledger.open(path, unit=whose)  # it may have a larger total, for other releases too


def _check_unit(ledger: Ledger, whose: str) -> None:
    """One unit per series: a ledger that names nobody cannot tell whether costs add up."""
    if ledger.unit != whose:
        raise LedgerError(
            f"{ledger.path} must be for unit {whose!r}; it is for {ledger.unit!r}. Hint: begin another file"
        )
