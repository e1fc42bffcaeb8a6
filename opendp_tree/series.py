"""Releases over time, in one file: every period's release, their cost, and the names that they showed.

Proof: docs/proofs/series.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from opendp.mod import Measurement, assert_features

from opendp_tree._arguments import check_choice, check_integer, check_probability, check_type
from opendp_tree._interrupts import deferred_interrupts
from opendp_tree._show import Bar, Cell, html_table, one_line, progress, table
from opendp_tree._types import Bools
from opendp_tree.budget import Budget, person_words
from opendp_tree.keys.key import Key
from opendp_tree.ledger import (
    Amount,
    Ledger,
    LedgerEntry,
    LedgerError,
    SettingsError,
    amounts_of,
    checked_file,
    damaged,
    show,
    spent,
)
from opendp_tree.planning.methods import Auto, Method, PeopleLayers, TreeEstimator, read_method
from opendp_tree.prepare import Account, Question
from opendp_tree.releases.json import write_tree
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.values import value_columns
from opendp_tree.rows.domains import kind_of, kinds_of, read_source
from opendp_tree.rows.period import Period
from opendp_tree.rows.unit import Unit, Value, read_values, unit_words
from opendp_tree.trees.nodes import contracted_parents
from opendp_tree.trees.tree import Tree

__all__ = ["Series"]

Kind = Literal["period", "quarter"]
_HEADS = ("period", "nodes shown", "all", "lower", "upper", "")
EXPLORE = (0.2, 0.2, 0.2, 0.2, 0.5)
"""The share of epsilon that measures, by the number of earlier releases: first most of it finds names."""
POOLED_MEASURING = 0.02
"""The share of a pooled find that measures: almost all of it finds names."""
MEMORY = 4
"""Whether a name is forgotten depends on the mean of this many consecutive estimates."""
QUIET = 1.5
"""A name is forgotten if that mean is below this many of its standard deviations."""
_FIGURES = ["estimate", "lower", "upper"]
_BY_DEFAULT = "total by default"
"""Whether the file's total follows its settings until the first release, beside these in the file."""


@dataclass(frozen=True, repr=False)
class Series(Mapping[str, TreeRelease]):
    """The releases of a hierarchy over time, in one file, from `Series.open`; a mapping from periods to releases.

    `release(data, period)` selects the rows of that period, and shows again the names that earlier releases have shown,
    which cost nothing to find. A second call for a period returns the stored release, whatever the data, at no cost:
    rows that arrive late are in no release.

    With rows as the unit, a series of any length costs one row as much as one period does, because a row is in one
    period; somebody with many rows loses privacy with each of them. With a `Unit`, the costs of periods add up.

    :param ledger: The file, which is a ledger and counts what periods cost.
    :param period: The rule that assigns rows to periods.
    :param settings: How releases are made, as the file stores it; the other fields are the arguments of `open`.
    :param key: The node of each row; None if the series was opened only to be read.
    """

    ledger: Ledger
    period: Period
    settings: Mapping[str, Any]
    key: Key | None = None
    unit: Unit | None = None
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
        """The series at a path; begun with these settings if there is none yet, and refused if it has other settings.

        Other parameters: as for `release_tree`. `epsilon`, `delta` and `rho` are what each period may cost.

        :param path: The file, on a local disk. An existing series can be opened by its path alone, to be read.
        :param by: The node of each row, as in `release_tree`.
        :param period: The rule that assigns rows to periods.
        :param total: What the file may cost in all, as in `Ledger.open`. By default, for rows, the cost of one period;
            with a unit it must be given: the number of periods times epsilon.
        :param measuring: The share of epsilon that measures, for the first release, the second, and so on; the last
            share applies to all later ones. It must not depend on data. By default a fifth in four releases, which find
            more names, and a half in later ones; the method's own share if it has one, or if there is a public tree, a
            unit or a value.
        :param pooled: The share of epsilon and delta that finds names in all rows of a calendar quarter at once, by
            `pool`; periods get the rest. A name then needs to reach its threshold per quarter, not per period; totals
            have more noise. 0.15 is a good share. By default None: nothing is pooled.
        """
        file, is_new = checked_file(path)
        if by is None and period is None:
            kept = None if is_new else (ledger := Ledger.open(file)).settings()
            if kept is None:
                raise LedgerError(f"there is no series at {file} yet. Hint: by=..., period=..., epsilon=...")
            try:
                texts = [kept[name] for name in ("epsilon", "delta", "rho", "pooled")] + list(kept["public"] or ())
                if not all(isinstance(text, str | None) for text in texts):
                    raise TypeError
                return cls(ledger, Period(**kept["period"]), kept)
            except (KeyError, TypeError, ValueError):
                raise damaged(ledger.path) from None
        period = check_type(period, Period, name="period", hint="Period('day', every='week')")
        key = Key.of(by)  # type: ignore[arg-type]  # which refuses None
        values, person, chosen = read_values(value), Unit.of(unit), read_method(method)
        Budget.of(epsilon=epsilon, delta=delta, rho=rho)
        check_probability(confidence, name="confidence")
        if taken := {"period", "new"} & set(key.names):
            raise ValueError(f"by: a level must not be called {taken.pop()!r} in a series. Hint: rename the column")
        finds = key.tree is None and person is None and rho is None and isinstance(chosen, Auto | TreeEstimator)
        has_share = isinstance(chosen, TreeEstimator) and chosen.measuring is not None
        shares = _measuring_shares(measuring, allowed=finds and not has_share and not values)
        if pooled is not None:
            pooled = float(check_probability(pooled, name="pooled"))
            _check_pooled(period, allowed=finds)
        budget = {"epsilon": epsilon, "delta": delta, "rho": rho}
        amounts = {name: None if amount is None else repr(float(amount)) for name, amount in budget.items()}
        settings = {
            "by": _key_text(key),
            "period": {"column": period.column, "every": period.every},
            "unit": repr(person),
            **amounts,
            "method": repr(chosen),
            "confidence": repr(float(confidence)),
            "value": repr(values),
            "measuring": repr(shares),
            "pooled": None if pooled is None else repr(pooled),
            "public": None if key.known is None else sorted(map(path_text, key.known.paths)),
        }
        whose = unit_words(None if person is None else person.column)
        by_default = total is None
        if total is None and is_new:
            total = _one_period(amounts)
            if person is not None:
                hint = "total={'epsilon': '52', 'delta': '1e-4'}"
                raise ValueError(f"total must be given with a unit, whose costs add up over periods. Hint: {hint}")
        ledger = Ledger.open(file, total=total, unit=whose)
        if ledger.unit != whose:  # without a unit it cannot tell whether costs add up
            raise SettingsError(f"{ledger.path} is for unit {ledger.unit!r}, not {whose!r}. Hint: begin another file")
        before = ledger.settings()
        by_default = by_default and (is_new if before is None else before.get(_BY_DEFAULT) is True)
        if by_default:  # what was never used may be corrected
            ledger = replace(ledger, total=_one_period(amounts))
        kept = ledger.settings({**settings, _BY_DEFAULT: by_default}) or {}
        if differ := [name for name, text in settings.items() if kept.get(name) != text]:
            first, hint = differ[0], "use the settings of the file, or begin another file with another budget"
            was, now = _short(kept.get(first)), _short(settings[first])
            others = f"another {' and another '.join(differ)}: {first} is {was}, not {now}"
            raise SettingsError(f"{ledger.path} is a series with {others}. Hint: {hint}")
        return cls(ledger, period, settings, key, person, chosen, float(confidence), values, shares, pooled)

    def release(self, data: Any, period: Any) -> TreeRelease:
        """The release of a period: the stored one if there is one, or a new one, from the rows of that period.

        :param data: The rows, of any periods, as in `release_tree`, but not tables of engines, nor lazy frames other
            than scans of files.
        :param period: Its name, such as "2026-W10", or for a calendar a day in it. Release every period once it is
            over, whatever is in it: a schedule that depends on data reveals something about them. A calendar's period
            that is not over on the machine's date is refused, because its later rows would be in no release.
        """
        return self._release(data, self.period.name(period), "period")

    def pool(self, data: Any, quarter: Any) -> TreeRelease:
        """The pooled find of a quarter: the stored one if there is one, or a new one, from all rows of that quarter.

        It costs the share `pooled` of the budget, finds names, and hardly measures them. The next period knows them.
        It includes rows that came too late for the release of their period.

        :param data: The rows, as in `release`.
        :param quarter: Its name, such as "2026-Q1", or a day in it. Pool every quarter once it is over, whatever is in
            it; before, it is refused.
        """
        return self._release(data, self.quarter.name(quarter), "quarter")

    def check(self, data: Any, period: Any) -> None:
        """Refuse what `release` would refuse before it counts rows. Nothing is spent or written.

        :param data: The rows, as in `release`.
        :param period: Its name, or a day in it.
        """
        self._prepared(data, self.period.name(period), "period")

    @deferred_interrupts()
    @progress("counting")
    def _release(self, data: Any, name: str, kind: Kind) -> TreeRelease:
        """The stored or new release of a period, or the pooled find of a quarter."""
        assert_features("contrib")
        if name in (entries := self._entries(kind)):
            return self._stored(entries[name])
        account, measurement, rows, note = self._prepared(data, name, kind)
        finish = partial(self._with_statement, name=name, kind=kind)
        try:
            return account.release(measurement, rows, note, finish, name=name)  # type: ignore[no-any-return]
        except LedgerError:
            if name not in (entries := self._entries(kind)):
                raise
            return self._stored(entries[name])  # another process was faster: this release is thrown away unseen

    def _prepared(self, data: Any, name: str, kind: Kind) -> tuple[Account, Measurement, pl.LazyFrame, dict[str, Any]]:
        """What a release takes, after all checks: the account, the measurement, the rows, and the ledger's note."""
        if self.key is None or (kind == "quarter" and self.pooled is None):
            how, more = ("", "") if kind == "period" else ("without a pooled find, or ", ", pooled=0.15")
            hint = f"Series.open(path, by=..., period=..., epsilon=...{more})"
            raise ValueError(f"{self.ledger.path} is open {how}for reading only. Hint: {hint}")
        rule, values = (self.period, self.value) if kind == "period" else (self.quarter, ())
        if rule.every is not None and (day := rule.first_day(rule.next(name))) > (today := rule.today()):
            problem = f"must be over: it ends before {day}, today is {today}, and later rows would be in no release"
            raise ValueError(f"period ({name!r}) {problem}. Hint: release it from {day} on")
        columns = [*self.key.columns_used, *(each.column for each in values)]
        needed = columns if self.unit is None else [*columns, self.unit.column]
        rows = rule.rows(read_source(data), name, needed)
        clock = self._checked_clock(rows.collect_schema()[rule.column])
        # A release by another rule that is committed meanwhile forms another group, whose cost is added.
        disjoint = f"{kind}s ({rule.every or 'value'} of {rule.column!r}, {clock})" if self._is_disjoint else None
        account = Account.of(self.ledger, self.unit, **self._amounts(kind), disjoint=disjoint)
        key, finds = self.key, isinstance(self.method, Auto | TreeEstimator | PeopleLayers)
        if key.tree is None and finds and self.settings["rho"] is None:
            kinds = kinds_of(rows.collect_schema())
            labels = [level.column for level in key.levels if level.column is not None]
            if times := [column for column in labels if kinds[column] in ("datetime", "time")]:
                what, hint = f"{times[0]!r} ({kinds[times[0]]})", "Key.calendar, or cast them to dates or texts"
                raise ValueError(f"by: labels of {what} cannot be known to later periods. Hint: {hint}")
            key = _key_with_known(key, self._recent(), list(self._recent_pools().values()))
        method = self._method(len(self._entries()) if kind == "period" else None)
        options: dict[str, Any] = {"unit": self.unit, "method": method, "value": values or None}
        measurement = Question.of(key, **options, confidence=self.confidence).measurement(rows, account.budget)
        return account, measurement, rows, {kind: name, "columns": columns, "clock": clock}

    @property
    def quarter(self) -> Period:
        """The rule that assigns rows to quarters, by the same column as periods."""
        return Period(self.period.column, every="quarter")

    def _amounts(self, kind: Kind) -> dict[str, Any]:
        """What a period, or the pooled find of a quarter, may cost: together at most the budget."""
        texts = {name: self.settings[name] for name in ("epsilon", "delta", "rho")}
        if self.pooled is None:
            return {name: text and float(text) for name, text in texts.items()}
        share = Decimal(repr(self.pooled))
        share = share if kind == "quarter" else 1 - share
        down = Context(prec=15, rounding=ROUND_FLOOR)  # every float keeps 15 digits
        return {name: text and float(down.multiply(Decimal(text), share)) for name, text in texts.items()}

    def _method(self, number: int | None) -> Method:
        """The method of the release after this number of earlier ones; None for a pooled find."""
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

    def _with_statement(self, release: TreeRelease, name: str, kind: Kind) -> TreeRelease:
        """The release with a statement that names the period, and says how the cost adds up over periods."""
        if kind == "quarter":
            unit, counted = "in all quarters together, beside periods", f"{name} ({self.quarter.words()})"
        else:
            unit = "in all periods together" if self._is_disjoint else "in each period"
            unit += "" if self.pooled is None else ", beside pooled finds of quarters"
            counted = f"the period {name} ({self.period.words()})"
        if isinstance(self.method, Auto) and self.measuring is not None:  # then `_method` is another one
            release = self.method._polish(TreeEstimator(), release)
        statement = release.statement
        assert statement is not None
        rows, mark, bounds = str(statement.counted).partition(". ")
        unit, counted = f"{statement.unit}, {unit}", f"{rows}, of {counted}{mark}{bounds}"
        return replace(release, statement=replace(statement, unit=unit, counted=counted))

    @property
    def _is_disjoint(self) -> bool:
        """Whether no two periods, and no two quarters, count the same unit: only if it is one row."""
        return self.ledger.unit == unit_words(None)

    def _checked_clock(self, dtype: pl.DataType) -> str:
        """The time zone or kind of the period's column, which is that of all earlier releases."""
        column, zone = self.period.column, getattr(dtype, "time_zone", None)
        clock = zone or kind_of(dtype)
        for before in {str(entry.note["clock"]) for entry in self.ledger.entries() if "clock" in entry.note} - {clock}:
            hint = f"pl.col({column!r}).dt.convert_time_zone({before!r})" if zone else f"a column of {before}"
            is_now = f"is in {zone}" if zone else f"holds {clock}"
            raise ValueError(
                f"period: column {column!r} {is_now}, but earlier releases of this file used {before}. Hint: {hint}"
            )
        return clock

    def _entries(self, kind: Kind = "period") -> dict[str, LedgerEntry]:
        """The entries of periods, or of pooled finds, by name, in the order of their releases."""
        return {str(entry.name): entry for entry in self.ledger.entries() if entry.name and kind in entry.note}

    def _stored(self, entry: LedgerEntry) -> TreeRelease:
        try:
            return TreeRelease.from_json(self.ledger.stored(entry.number) or "")
        except ValueError:
            problem, hint = f"the release of {entry.name} is damaged", "restore the file from a copy"
            raise LedgerError(f"{self.ledger.path}: {problem}. Hint: {hint}") from None

    def _recent(self) -> list[TreeRelease]:
        """The last releases of periods, which determine what the next one knows."""
        return [self._stored(entry) for entry in [*self._entries().values()][-MEMORY:]]

    def _recent_pools(self) -> dict[str, TreeRelease]:
        """The pooled finds since the last period, by quarter: the next period shows what they found."""
        last = max((entry.number for entry in self._entries().values()), default=0)
        return {name: self._stored(entry) for name, entry in self._entries("quarter").items() if entry.number > last}

    @property
    def periods(self) -> list[str]:
        """The released periods, in the order of the calendar, or without a calendar in the order of their releases."""
        names = list(self._entries())
        return names if self.period.every is None else sorted(names)

    @property
    def quarters(self) -> list[str]:
        """The quarters that were pooled, in the order of the calendar."""
        return sorted(self._entries("quarter"))

    def __getitem__(self, period: Any) -> TreeRelease:
        return self._stored(self._entries()[self.period.name(period)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.periods)

    def __len__(self) -> int:
        return len(self._entries())

    def to_frame(self) -> pl.DataFrame:
        """One long table: `period`, `path`, `level`, labels, `estimate`, `lower`, `upper`, and whether it is `new`.

        A name is new in a period if no release before it showed it, or if it was forgotten since. The root and names
        that are public in the key are never new.
        """
        entries = self._entries()
        if not entries:
            raise ValueError("a series without releases has no table. Hint: series.release(data, period)")
        frames: list[pl.DataFrame] = []
        known: pl.DataFrame | None = None
        recent: list[TreeRelease] = []
        for name, entry in entries.items():
            release = self._stored(entry)
            recent = [*recent[1 - MEMORY :], release]
            frame, seen = node_frame(release), pl.lit(pl.Series(public_nodes(release, self._public)))
            nodes = frame.columns[:-3]
            if known is not None:
                frame = frame.join(known, on=nodes, how="left", nulls_equal=True, maintain_order="left")
                seen = seen | pl.col("known").fill_null(False)
            frames.append(frame.select(pl.lit(name).alias("period"), *nodes, *_FIGURES, (~seen).alias("new")))
            known = frame.select(nodes).filter(remembered(recent, self._public)).with_columns(known=pl.lit(True))
        table = pl.concat(frames, how="vertical_relaxed")
        order = {name: number for number, name in enumerate(self.periods)}
        return table.sort(table["period"].replace_strict(order), maintain_order=True)

    def _last(self) -> tuple[TreeRelease, Bools]:
        """The last release, and which of its nodes the next one will know."""
        recent = self._recent()
        if not recent:
            raise ValueError("a series without releases knows no names. Hint: series.release(data, period)")
        return recent[-1], remembered(recent, self._public)

    @property
    def _public(self) -> frozenset[str]:
        """The names that are public in the key."""
        return frozenset(self.settings["public"] or ())

    @property
    def known(self) -> pl.DataFrame:
        """What the next release will know: each name, the period that `first` showed it, and its last `estimate`.

        Names that only a pooled find has shown have its quarter, and no estimate.
        """
        release, kept = self._last()
        rows = node_frame(release).filter(kept)
        nodes = rows.columns[:-3]
        first = self.to_frame().group_by(nodes, maintain_order=True).agg(pl.col("period").first().alias("first"))
        joined = rows.join(first, on=nodes, how="left", nulls_equal=True, maintain_order="left")
        frames = [joined.select(*nodes, "first", "estimate")]
        for name, pool in self._recent_pools().items():
            columns = pl.lit(name).alias("first"), pl.lit(None, pl.Float64).alias("estimate")
            frames.append(node_frame(pool).select(*nodes, *columns))
        return pl.concat(frames, how="vertical_relaxed").unique(nodes, keep="first", maintain_order=True)

    def new(self, period: Any = None) -> pl.DataFrame:
        """The rows of the long table that are new in a period.

        :param period: The period. By default the last one.
        """
        frame = self.to_frame()
        name = self.periods[-1] if period is None else self.period.name(period)
        return frame.filter((frame["period"] == name) & frame["new"])

    def quiet(self) -> pl.DataFrame:
        """The names of the last release that the next one will not know, with their last estimates.

        A name is forgotten when the mean of its last four estimates is below 1.5 standard deviations of that mean, and
        no name below it is known. It comes back when it is found again. Names that are public in the key stay.
        """
        release, kept = self._last()
        names = node_frame(release).filter(~kept)
        for pool in self._recent_pools().values():
            nodes = names.columns[:-3]
            names = names.join(node_frame(pool), on=nodes, how="anti", nulls_equal=True, maintain_order="left")
        return names

    def changes(self, against: str = "previous") -> pl.DataFrame:
        """Each node's change from another period: `before`, `change`, `lower`, `upper`, and their `confidence`.

        An interval fails only if that of one of the two periods fails: intervals at 0.975 give changes at 0.95,
        whatever the noise. Nodes that one of the two periods does not show are left out.

        :param against: "previous", the default, is the previous period in the calendar, or without a calendar the
            previous release; "year" is the same week, month or day of the year before.
        """
        check_choice(against, name="against", choices=("previous", "year"))
        names, frame = self.periods, self.to_frame()
        before: Mapping[str, str | None]
        if against == "year":
            before = {name: self.period.year_before(name) for name in names}
        elif self.period.every is None:
            before = dict(zip(names[1:], names, strict=False))
        else:
            before = {self.period.next(name): name for name in names}
        nodes = frame.columns[1:-4]
        both = [(name, other) for name, other in before.items() if other is not None]
        pairs = pl.DataFrame(both, schema={"period": pl.String, "against": pl.String}, orient="row")
        other = frame.select(pl.col("period").alias("against"), *nodes, pl.col(_FIGURES).name.suffix("_before"))
        joined = frame.join(pairs, on="period", how="inner", maintain_order="left")
        joined = joined.join(other, on=["against", *nodes], how="inner", nulls_equal=True, maintain_order="left")
        return joined.select(
            *("period", "against", *nodes, "estimate"),
            before=pl.col("estimate_before"),
            change=pl.col("estimate") - pl.col("estimate_before"),
            lower=pl.col("lower") - pl.col("upper_before"),
            upper=pl.col("upper") - pl.col("lower_before"),
            confidence=pl.lit(self._at_least(2)),
        )

    def moving_sums(self, n: int) -> pl.DataFrame:
        """For each period the sums over it and the `n - 1` periods just before it, with intervals that add up.

        An interval fails only if one of the `n` fails, as `confidence` says. Use this, not releases of overlapping
        windows, where one row is in several.

        :param n: The number of periods.
        """
        check_integer(n, name="n", least=1)
        frame, names = self.to_frame(), self.periods
        follows = {name: None if self.period.every is None else self.period.next(name) for name in names}
        windows = [names[start : start + n] for start in range(len(names) - n + 1)]
        runs = [run for run in windows if all(follows[first] in (None, second) for first, second in pairwise(run))]
        pairs = [(name, run[-1]) for run in runs for name in run]
        ends = pl.DataFrame(pairs, schema={"period": pl.String, "end": pl.String}, orient="row")
        joined, nodes = ends.join(frame, on="period", how="inner", maintain_order="left"), frame.columns[1:-4]
        sums = joined.group_by("end", *nodes, maintain_order=True).agg(pl.len(), pl.col(_FIGURES).sum())
        confidence = pl.lit(self._at_least(n)).alias("confidence")
        return sums.filter(pl.col("len") == n).select(pl.col("end").alias("period"), *nodes, *_FIGURES, confidence)

    def _at_least(self, n: int) -> float:
        """A lower bound of the probability that `n` intervals hold together."""
        return round(max(0.0, 1 - n * (1 - self._recent()[-1].confidence)), 12)

    def describe(self) -> str:
        """What the series promises, and what it cost, in a few lines."""
        names, total = self.periods, self.ledger.total
        which = f"{names[0]} to {names[-1]}" if names else "none yet"
        each = ", ".join(f"{name} {self.settings[name]}" for name in ("epsilon", "rho", "delta") if self.settings[name])
        share = self.settings["pooled"]
        pooled = "" if share is None else f", and in one quarter, whose pooled search has {share} of that"
        if self._is_disjoint:
            privacy = [
                f"Privacy: {each} for adding or removing one row, for all periods together: a row is in one of them"
                f"{pooled}.",
                "A person with k rows loses up to k times that, with a larger delta. "
                "Changing a row, which may move it to another period, costs twice as much as adding one.",
            ]
        else:
            privacy = [
                f"Privacy: {each} for adding or removing {person_words(str(self.ledger.unit))}, in each period.",
                "A person with rows in m periods loses m times that.",
            ]
        first = f"Series {self.ledger.path.name}: {len(names)} periods ({which}). A row's period is "
        cost = f"Spent: {show(spent(total, self.ledger.left()))} of {show(total)}."
        return "\n".join([f"{first}{self.period.words()}.", *privacy, cost])

    def _rows(self) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        for name, release in self.items():
            root = [float(part[0]) for part in (release.estimates, release.lower, release.upper)]
            rows.append([name, int(shown_nodes(release).sum()), *root, Bar(*root)])
        return rows

    def __repr__(self) -> str:
        """What the series promises, and a line per period."""
        return "\n".join([*map(one_line, self.describe().splitlines()), "", table(_HEADS, self._rows())])

    def _repr_html_(self) -> str:
        title, *words = self.describe().splitlines()
        return html_table(_HEADS, self._rows(), title=title, below=words)


def _one_period(amounts: Mapping[str, str | None]) -> dict[str, Fraction]:
    """The total of a series of rows, unless one is given: what one period may cost."""
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    return amounts_of(given, name="total", rounding=ROUND_FLOOR)


def expected_entries(series: Series, periods: Sequence[str], quarters: Sequence[str]) -> list[LedgerEntry]:
    """The entries that these periods and quarters would add to the file, without those that it has."""
    entries: list[LedgerEntry] = []
    due: dict[Kind, Sequence[str]] = {"period": periods, "quarter": quarters}
    for kind, names in due.items():
        kept = series._entries(kind)
        if new := [name for name in names if name not in kept]:
            cost, _ = Budget.of(**series._amounts(kind)).written()
            group = next((entry.disjoint for entry in kept.values()), kind) if series._is_disjoint else None
            entries += [LedgerEntry(0, "", cost, {}, {}, name, group) for name in new]
    return entries


def shown_nodes(release: TreeRelease) -> Bools:
    """Which nodes of a release are shown."""
    return np.ones(release.estimates.size, dtype=np.bool_) if release.shown is None else release.shown.copy()


def node_frame(release: TreeRelease) -> pl.DataFrame:
    """One row per shown node: its path, level and labels, and then its estimate and interval."""
    frame = release.to_frame(other=False).filter("shown").drop(value_columns(release.values))
    return frame.select(pl.exclude(*_FIGURES, "cells", "shown", "counted"), *_FIGURES)


def path_text(path: Sequence[Any]) -> str:
    """A path as text; different paths of one key have different texts."""
    return json.dumps(list(path), default=str)


def public_nodes(release: TreeRelease, public: AbstractSet[str]) -> Bools:
    """Which rows of a release's `node_frame` were public before it; the root is."""
    if isinstance(release.tree, Tree):
        return np.ones(node_frame(release).height, dtype=np.bool_)
    assert release.nodes is not None
    known: Bools = release.levels == 0
    if public:
        known |= [path_text(path) in public for path in release.nodes.paths()]
    return known[shown_nodes(release)]


def remembered(releases: Sequence[TreeRelease], public: AbstractSet[str] = frozenset()) -> Bools:
    """Which rows of the last release's `node_frame` the next release knows: all but the quiet ones."""
    last = releases[-1]
    frame = node_frame(last)
    if len(releases) < MEMORY or isinstance(last.tree, Tree):
        return np.ones(frame.height, dtype=np.bool_)
    nodes = frame.columns[:-3]
    # Noise is taken for that of Laplace, whose interval extends ln(1/beta)/sqrt(2) standard deviations.
    reach = math.log(1 / max(1 - last.confidence, 1e-300)) / math.sqrt(2)
    variance = ((pl.col("upper") - pl.col("lower")) / (2 * reach)).pow(2)
    recent = pl.concat([node_frame(each) for each in releases[-MEMORY:]], how="vertical_relaxed")
    deviation = variance.sum().sqrt() / MEMORY
    is_quiet = (pl.len() == MEMORY) & (pl.col("estimate").mean() < QUIET * deviation)
    quiet = recent.group_by(nodes).agg(is_quiet.alias("quiet"))
    joined = frame.join(quiet, on=nodes, how="left", nulls_equal=True, maintain_order="left")
    kept = ~joined["quiet"].to_numpy() | public_nodes(last, public)
    shown = shown_nodes(last)
    parents, levels = contracted_parents(last.parents, shown), last.levels[shown]
    for level in range(int(levels.max(initial=0)), 0, -1):
        kept[parents[kept & (levels == level)]] = True
    return kept


def _measuring_shares(measuring: Any, *, allowed: bool) -> tuple[float, ...] | None:
    """The shares that measure, by the number of earlier releases; None if the method's own share applies."""
    if measuring is None:
        return EXPLORE if allowed else None
    if isinstance(measuring, str) or not isinstance(measuring, Sequence) or not measuring:
        kind = type(measuring).__name__
        raise TypeError(f"measuring ({kind}) must be shares, fixed before any data, one per release. Hint: {EXPLORE}")
    if not allowed:
        others = "a public tree, a unit, a value, rho, or a method that has its own share"
        raise ValueError(f"measuring must not be given with {others}. Hint: leave it out")
    return tuple(float(check_probability(share, name="measuring")) for share in measuring)


def _check_pooled(period: Period, *, allowed: bool) -> None:
    """Every row must be in one period and in one quarter, and some names unknown."""
    if period.every not in ("day", "week", "month"):
        raise ValueError("pooled requires periods shorter than a quarter. Hint: Period('day', every='week')")
    if not allowed:
        others = f"a public tree, a unit, rho, or a method other than {TreeEstimator.name}"
        raise ValueError(f"pooled must not be given with {others}. Hint: leave it out")


def _key_with_known(key: Key, releases: Sequence[TreeRelease], pools: Sequence[TreeRelease] = ()) -> Key:
    """The key with the names of pooled finds, and those of the last release that are not forgotten."""
    names: list[Any] = [] if key.known is None else [key.known]
    if releases:
        shown = shown_nodes(releases[-1])
        shown[shown] = remembered(releases)
        names.append(replace(releases[-1], shown=shown))
    return replace(key, known=[*names, *pools]) if releases or pools else key


def _key_text(key: Key) -> str:
    """A key as text, with a digest of its public tree or known names."""
    public: list[Any] = [] if key.tree is None else [write_tree(key.tree)]
    public += [] if key.known is None else [repr((key.known.paths, key.known.closed))]
    digest = hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()[:16]
    return f"{key!r}, names {digest}" if public else repr(key)


def _short(setting: Any) -> str:
    """A stored setting in few words: a key about as `--by` has it, and nothing that is not set."""
    text = re.sub(r", \w+=None", "", str(setting))
    text = re.sub(r"ColumnKey\(columns_used=\(([^()]*?),?\), depth=\d+\)", r"\1", text)
    return re.sub(r"(\w+)Key\(columns_used=\(([^()]*?),?\)", lambda key: f"{key[1].lower()}({key[2]}", text)
