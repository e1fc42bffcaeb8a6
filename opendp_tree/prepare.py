"""Rows to a release: everything is checked, planned and costed before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from opendp.combinators import make_composition
from opendp.metrics import symmetric_distance, symmetric_id_distance
from opendp.mod import Measurement, Transformation, assert_features

from opendp_tree._arguments import check_positive, check_type
from opendp_tree._interrupts import deferred_interrupts
from opendp_tree._opendp import measure_name
from opendp_tree._show import Cell, html_table, progress, table
from opendp_tree.budget import Budget, PrivacyStatement, amounts_of_loss, cost_words
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, spend
from opendp_tree.mechanisms.bound_report import make_bound_report
from opendp_tree.planning.methods import (
    Auto,
    Method,
    PeopleLayers,
    Setting,
    Space,
    make_planned,
    method_of_key,
    read_method,
)
from opendp_tree.planning.plan import Plan, plan_for
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.counting import make_counting
from opendp_tree.rows.domains import frame_domain, read_source, snapshot_of
from opendp_tree.rows.unit import Unit, Value, protected_unit, read_values, unit_words, values_counted
from opendp_tree.theorems.interval import round_up

__all__ = ["TreeReleases", "bound_report", "release_tree", "release_trees"]


@deferred_interrupts()
@progress("counting")
def release_tree(
    data: Any,
    *,
    by: Key | str | Sequence[str],
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    unit: Unit | None = None,
    method: Method | str = "auto",
    confidence: float = 0.95,
    value: Value | Sequence[Value] | None = None,
    ledger: Ledger | str | Path | None = None,
    memory: int | str | None = None,
) -> TreeRelease:
    """A private count of every node of a hierarchy, from the rows of a frame of any library, or of files.

    Everything is checked before a row is counted. Each call is one release, which knows nothing of others. To account
    for several, give each the same `ledger`, or use OpenDP's Context and `tree_counts`.

    :param data: The rows: a frame of Polars or of any library, a list of rows, files, or a table of an engine, as
        `read_source` takes them. A Polars frame, lazy or not, is passed by reference, never copied.
    :param by: Where a row belongs: the names of columns from the coarsest to the finest, or a `Key`, which also
        carries a public tree and further options.
    :param epsilon: The privacy loss. Give either this or `rho`.
    :param delta: The probability of a larger loss. By default 0. Finding nodes of open trees requires one above 0.
    :param rho: The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    :param alpha: Predicted errors ignore this share of a node's count, from 0 to below 1. By default a tenth.
    :param unit: Who is protected, and what is counted per person: `Unit("user", rows=5)` for rows, those of each user
        limited to a weight of 5 in all; `Unit("user", count="people", nodes=5)` for people; `count="shares"` for shares
        of people. With `leaves`, or a method for leaf counts, rows are kept up to the bounds instead. By default
        None: one row.
    :param method: How the release is made: "auto" (the default: the first of `plan`, which uses public facts only),
        another method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    :param confidence: The probability with which each interval holds its node's true count. By default 0.95.
    :param value: What is summed, `Value("amount", bounds=(0, 500))`, or a list of several: sums and means at every node
        that is shown, of numbers clipped to the bounds. Rows without a number are then left out of counts, too. By
        default None: only counts.
    :param ledger: A `Ledger`, or the path of an existing one. What it cannot pay is refused before a row is read. The
        finished release and its cost are committed together: one that fails or is interrupted before the commit costs
        nothing, and after it `ledger.stored(number)` has it. By default None: the cost is not recorded.
    :param memory: How much memory people's rows may take while they are weighed or cut to bounds: bytes, or a text such
        as "2GiB". By default None: an eighth of the machine's memory, and at most 2 GiB. Where there are more rows, the
        data are read several times, if they are in memory or in files that `read_source` opened.

    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> release = release_tree(visits, by=["country", "city"], epsilon=1.0, delta=1e-6)
    >>> release.to_frame(other=False).select("level", "country").rows()[:3]
    [(0, None), (1, 'be'), (1, 'lu')]
    """
    assert_features("contrib")
    options: dict[str, Any] = {"unit": unit, "method": method, "value": value, "memory": memory}
    question = Question.of(by, alpha=alpha, confidence=confidence, **options)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    measurement = question.measurement(frame, account.budget)
    release: TreeRelease = account.release(measurement, frame, {"columns": question.columns})
    return release


@dataclass(frozen=True, repr=False)
class TreeReleases(Mapping[str, TreeRelease]):
    """Releases by the names of their hierarchies, and what all of them cost together.

    :param releases: Each hierarchy's release, with a statement of its own share.
    :param statement: What all of them cost: the map of their composition.
    """

    releases: Mapping[str, TreeRelease]
    statement: PrivacyStatement

    def __getitem__(self, name: str) -> TreeRelease:
        return self.releases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def to_json(self) -> str:
        """A JSON object with the text of each release, as its own `to_json` gives it, by its hierarchy's name."""
        return json.dumps({name: release.to_json() for name, release in self.releases.items()})

    def __repr__(self) -> str:
        """A line for each hierarchy, and what all of them cost."""
        heads, rows = self._rows()
        return f"{table(heads, rows)}\n\n{cost_words(self.statement)}"

    def _repr_html_(self) -> str:
        heads, rows = self._rows()
        return html_table(heads, rows, title="Releases of one frame", below=[cost_words(self.statement)])

    def _rows(self) -> tuple[list[str], list[list[Cell]]]:
        rows: list[list[Cell]] = []
        for name, release in self.releases.items():
            statement = _statement(release)
            loss = ", ".join(f"{part} {amount:.6g}" for part, amount in statement.loss.items())
            rows.append([name, release.to_frame(other=False).height, statement.mechanism, loss])
        return ["hierarchy", "nodes shown", "mechanism", "its share"], rows


@deferred_interrupts()
@progress("counting")
def release_trees(
    data: Any,
    *,
    by: Mapping[str, Key | str | Sequence[str]],
    weights: Mapping[str, float] | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    unit: Unit | None = None,
    method: Method | str = "auto",
    confidence: float = 0.95,
    value: Value | Sequence[Value] | None = None,
    ledger: Ledger | str | Path | None = None,
) -> TreeReleases:
    """The counts of several hierarchies of one frame with one budget; `release_tree` for each.

    Epsilon, delta and rho are those of all releases together, and a ledger commits them at once. Other parameters: as
    for `release_tree`.

    :param by: For each hierarchy a name, and where a row belongs in it: a `Key`, or the names of columns.
    :param weights: The share of each hierarchy in the budget, of epsilon, rho and delta alike; only ratios matter. By
        default all are equal.
    """
    assert_features("contrib")
    if not isinstance(by, Mapping) or not by or not all(isinstance(name, str) for name in by):
        hint = "by={'place': ['region', 'city'], 'time': 'day'}"
        raise TypeError(f"by must give a key for each hierarchy's name. Hint: {hint}")
    options: dict[str, Any] = {"unit": unit, "method": method, "value": value, "alpha": alpha, "confidence": confidence}
    questions = {name: Question.of(key, **options) for name, key in by.items()}
    shares = _check_weights(weights, by)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    budgets = {name: account.budget.part(share, of=len(by)) for name, share in shares.items()}
    composed = make_composition([each.measurement(frame, budgets[name]) for name, each in questions.items()])
    columns = list(dict.fromkeys(column for question in questions.values() for column in question.columns))
    finish = partial(_together, composed, by)
    releases: TreeReleases = account.release(composed, frame, {"columns": columns}, finish)
    return releases


def _together(composed: Measurement, names: Iterable[str], made: Sequence[TreeRelease]) -> TreeReleases:
    """The releases of a composition, and a statement of what all of them cost."""
    releases = dict(zip(names, made, strict=True))
    measure, mechanisms = composed.output_measure, {name: _statement(each).mechanism for name, each in releases.items()}
    loss = amounts_of_loss(measure, composed.map(1))  # type: ignore[no-untyped-call]
    shown: dict[str, Any] = {"measure": measure_name(measure), "loss": loss, "parameters": mechanisms}
    return TreeReleases(releases, replace(_statement(made[0]), mechanism="composition", **shown))


def _statement(release: TreeRelease) -> PrivacyStatement:
    assert release.statement is not None  # as of all releases of rows
    return release.statement


@deferred_interrupts()
def bound_report(
    data: Any,
    *,
    unit: str = "user",
    most: int,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    ledger: Ledger | str | Path | None = None,
) -> BoundReport:
    """The share of rows that each bound on the rows per person would keep, privately, before a release uses one.

    A release for people counts a bounded number of rows of each. A small bound drops data, a large one costs noise, and
    a percentile of the data is private. This report costs `epsilon`, which the release then lacks: give both the same
    `ledger`, because one call knows nothing of others. Everything is checked before a row is read.

    It is useful from about 30 * most / epsilon rows on: 120,000 for 200 rows per person and 0.05. With fewer, `useful`
    is False and there is no recommendation, but the budget is spent: only the noisy histogram shows it.

    :param data: The rows, as `release_tree` takes them.
    :param unit: The column that tells people apart; "user" by default. Rows where it is null are left out.
    :param most: The largest bound of interest, from 2 to 2**20: a public number, not read off the data. Shares are
        of at most this many rows of each person.
    :param epsilon: What the report costs for all rows of one person, from 1e-9 to 1000. By default 0.05.
    :param confidence: The probability, at least, with which all intervals hold at once. By default 0.95.
    :param ledger: As for `release_tree`. By default None: the cost is not recorded.
    """
    assert_features("contrib")
    check_type(unit, str, name="unit", hint="the name of the column that tells people apart")
    account = Account.of(ledger, Unit(unit, count="shares"), epsilon=epsilon)
    frame = read_source(data)
    measurement = make_report(frame, unit, account.budget, most=most, confidence=confidence)
    report: BoundReport = account.release(measurement, frame, {"columns": [unit], "bounds": most})
    return report


def make_report(frame: Any, unit: str, budget: Budget, *, most: int, confidence: float) -> Measurement:
    """The measurement from what `read_source` gives to a report within a budget for one person."""
    metric, scale = symmetric_id_distance(identifier=unit), round_up(1 / Fraction(budget.pure_epsilon))
    return make_bound_report(frame_domain(frame), metric, scale, most=most, confidence=confidence)


@dataclass(frozen=True)
class Account:
    """What a release may cost, and the ledger that records it, if there is one."""

    ledger: Ledger | None
    budget: Budget
    cost: Mapping[str, Fraction]
    disjoint: str | None = None
    """The name that releases of disjoint rows share; of these only the largest cost counts."""

    @classmethod
    def of(
        cls, ledger: Ledger | str | Path | None, unit: Unit | None, *, disjoint: str | None = None, **amounts: Any
    ) -> Account:
        """An account of checked arguments; what its ledger cannot pay is refused before anything is read."""
        budget = Budget.of(**amounts)
        if ledger is None:
            return cls(None, budget, {})
        book, person = Ledger.of(ledger), Unit.of(unit)
        assert book is not None
        cost, below = budget.written()
        book.check(cost, unit=unit_words(None if person is None else person.column), disjoint=disjoint)
        return cls(book, below, cost, disjoint)

    def release(
        self,
        measurement: Measurement,
        frame: Any,
        note: Mapping[str, Any],
        finish: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
    ) -> Any:
        """Measure, and commit the finished release and its cost to the ledger before it is returned."""

        def make() -> Any:
            with snapshot_of(frame):
                answer = measurement(frame)
            return answer if finish is None else finish(answer)

        if self.ledger is None:
            return make()
        return spend(self.ledger, self.cost, make, note=note, name=name, disjoint=self.disjoint)


@dataclass(frozen=True)
class Question:
    """A requested release: the key of rows, the unit, what is counted or summed, and how."""

    key: Key
    unit: Unit | None
    values: tuple[Value, ...]
    method: Method
    """For the levels that the key shows; a curve per group where a number is below groups."""
    weighs: bool
    """Whether people are weighed; otherwise rows are counted, or summed, by leaf."""
    alpha: float = 0.1
    confidence: float = 0.95
    memory: int | str | None = None

    @classmethod
    def of(
        cls,
        by: Key | str | Sequence[str],
        *,
        unit: Unit | None = None,
        method: Method | str = "auto",
        value: Value | Sequence[Value] | None = None,
        **options: Any,
    ) -> Question:
        """The question of checked arguments; options are `alpha`, `confidence` and `memory`."""
        key, person, chosen, values = Key.of(by), Unit.of(unit), read_method(method), read_values(value)
        weighs = person is not None and person.weighs
        if isinstance(chosen, PeopleLayers) and not weighs:
            raise ValueError(
                f"method ({chosen.name}) requires a unit with a bound per person. Hint: Unit('user', rows=5)"
            )
        weighs = weighs and not values and isinstance(chosen, (Auto, PeopleLayers))
        return cls(key, person, values, method_of_key(key, chosen), weighs, **options)

    @property
    def columns(self) -> list[str]:
        """The columns of keys and values."""
        return [*self.key.columns_used, *(each.column for each in self.values)]

    def counting(self) -> dict[str, Any]:
        """The arguments of `make_counting`."""
        asked = {"by": self.key, "unit": self.unit, "memory": self.memory}
        return {**asked, "records": self.weighs, "values": self.values}

    def counted(self, of: str = "rows", *, kept: str = "") -> str:
        """What a release counts, in words; `kept` says what earlier steps keep of people."""
        rows = f"{self.key.counted(of)}{kept}"
        if self.unit is not None:
            rows = self.unit.counted(of=rows, weighed=self.weighs)
        return values_counted(rows, self.values) if self.values else rows

    def transformation(self, frame: Any) -> Transformation:
        """From what `read_source` gives to what the method needs of it."""
        metric = symmetric_distance() if self.unit is None else symmetric_id_distance(identifier=self.unit.column)
        return make_counting(frame_domain(frame), metric, **self.counting())

    def setting(self, counts: Transformation, d_in: Any, budget: Budget) -> Setting:
        """The setting of the method, with the budget at the distance of its input."""
        levels = self.method.levels if isinstance(self.method, Auto) else None
        asked: dict[str, Any] = {"unit": self.unit if self.weighs else None, "values": self.values}
        distance = counts.map(d_in)  # type: ignore[no-untyped-call]
        return Setting.of(self.key, budget.at(distance), alpha=self.alpha, levels=levels, **asked)

    def release_from(self, counts: Transformation, d_in: Any, budget: Budget, counted: str) -> Measurement:
        """From the transformation of rows to a release."""
        setting = self.setting(counts, d_in, budget)
        unit = protected_unit(counts.input_metric, d_in)
        space = Space(counts.output_domain, counts.output_metric, None, self.confidence)
        return counts >> make_planned(self.method, setting, space, unit=unit, counted=counted)

    def measurement(self, frame: Any, budget: Budget) -> Measurement:
        """From what `read_source` gives to a release within a budget for one row, or one person."""
        return self.release_from(self.transformation(frame), 1, budget, self.counted())

    def plan(self, frame: Any, budget: Budget) -> Plan:
        """The plan of `measurement`. No row is read."""
        return plan_for(self.setting(self.transformation(frame), 1, budget), self.method)


def _check_weights(weights: Any, keys: Mapping[str, Any]) -> dict[str, Fraction]:
    """Each hierarchy's share, exactly; they sum to 1."""
    if weights is None:
        return dict.fromkeys(keys, Fraction(1, len(keys)))
    if not isinstance(weights, Mapping) or weights.keys() != keys.keys():
        raise ValueError(f"weights must give one for each of {', '.join(map(repr, keys))}. Hint: leave them out")
    exact = {name: check_positive(weights[name], name=f"weights[{name!r}]") for name in keys}
    return {name: weight / sum(exact.values()) for name, weight in exact.items()}
