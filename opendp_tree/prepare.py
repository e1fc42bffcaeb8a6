"""Rows to a release: everything is checked, planned and costed before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar

from opendp.combinators import make_composition
from opendp.metrics import symmetric_distance, symmetric_id_distance
from opendp.mod import Domain, ExtrinsicDomain, Measurement, Metric, Transformation, assert_features

from opendp_tree._arguments import check_positive, check_type
from opendp_tree._interrupts import interrupts_deferred
from opendp_tree._opendp import measure_name
from opendp_tree._show import Cell, html_table, progress, table
from opendp_tree.budget import Budget, report_scale
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, spend
from opendp_tree.mechanisms.bound_report import make_bound_report
from opendp_tree.planning.candidates import means_candidate, weighs_people
from opendp_tree.planning.laws import PEOPLE
from opendp_tree.planning.methods import Auto, Curve, Line, Method, PeopleLayers, Quantiles, TreeEstimator, read_method
from opendp_tree.planning.plan import Plan, check_alpha, plan, planned_candidate, planned_people
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.releases.words import cost_words
from opendp_tree.rows.domains import frame_domain
from opendp_tree.rows.leaf_counts import make_counting
from opendp_tree.rows.leaf_values import LeafValueSpace
from opendp_tree.rows.people import PeopleSpace
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.tables import snapshot_of
from opendp_tree.rows.unit import Unit, protected_unit, unit_words
from opendp_tree.rows.value import Value, read_values, values_counted
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.tree import Tree

__all__ = ["TreeReleases", "bound_report", "release_tree", "release_trees"]

Space = tuple[Domain, Metric]
Made = TypeVar("Made")


@interrupts_deferred
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

    Everything is checked before a row is counted. One call is one release: it knows nothing of others. To account for
    several, give each the same `ledger`, or use OpenDP's Context and `tree_counts`.

    Parameters
    ----------
    data
        The rows: a frame of Polars or of any library, a list of rows, or files, as `read_source` takes them. A Polars
        frame, lazy or not, in memory or on disk, is passed by reference, never copied. Where types would have to be
        guessed from rows, declare them: `read_source(rows, schema={"age": int})`.
    by
        Where a row belongs: the names of columns from the coarsest to the finest, or a `Key`, which carries a public
        tree and all else that there is to say.
    epsilon
        The privacy loss. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Without it nothing can be found in open trees.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that an error may have and be forgiven, when mechanisms are compared; from 0 to
        below 1. By default a tenth.
    unit
        Who is protected, and what of people is counted: `Unit("user", rows=5)` for rows, those of each user weighed
        down to 5 in all; `Unit("user", count="people", nodes=5)` for people; `Unit("user", count="shares")` for shares
        of people. Estimates and intervals are of that, as the statement's `counted` says. With `leaves`, or a method
        for leaf counts, rows are kept up to the bounds instead. By default None: one row.
    method
        How the release is made: "auto" (the default: the first of `plan`, which knows public facts alone), another
        method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.
    value
        What is summed, `Value("amount", bounds=(0, 500))`, or a list of several: sums and means at every node that is
        shown, of numbers clipped to the bounds, with intervals of their own. Rows without a number are then left out
        of counts, too. Several values share what is spent on sums. By default None: rows are counted alone.
    ledger
        A `Ledger`, or the path of one that is there; the command line keeps the same. What it cannot pay is refused
        before a row is read. The finished release and its cost are committed together before this call returns: one
        that fails or is interrupted costs nothing. By default None: nobody counts.
    memory
        How much memory people's rows may take while they are weighed, or cut to the unit's bounds: bytes, or a text
        such as "2GiB". By default None: an eighth of the machine's memory, and at most 2 GiB. Where there are more
        rows, the data are read several times, a part of the people each time. Frames in memory and files that
        `read_source` opened are read again; any other lazy frame is run once, and its rows are held in memory.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> release = release_tree(visits, by=["country", "city"], epsilon=1.0, delta=1e-6)
    >>> release.to_frame(other=False).select("level", "country").rows()[:3]
    [(0, None), (1, 'be'), (1, 'lu')]
    >>> release.statement.unit, release.statement.counted, release.statement.loss["epsilon"] <= 1.0
    ('one row', 'rows', True)
    >>> spent = visits.with_columns(amount=pl.when(pl.col("city") == "ghent").then(40.0).otherwise(90.0))
    >>> release = release_tree(spent, by="city", epsilon=1.0, delta=1e-6, value=Value("amount", bounds=(0, 100)))
    >>> release.to_frame(other=False).select("city", (pl.col("mean") / 10).round()).rows()
    [(None, 6.0), ('ghent', 4.0), ('liege', 9.0)]

    """
    assert_features("contrib")
    question = Question.of(by, unit=unit, method=method, value=value)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    options: dict[str, Any] = {"alpha": alpha, "confidence": confidence, "memory": memory}
    measurement = question.measurement(frame, account.budget, **options)
    release: TreeRelease = Prepared(measurement, frame, account, {"columns": question.columns}).release()
    return release


@dataclass(frozen=True, repr=False)
class TreeReleases(Mapping[str, TreeRelease]):
    """Releases by the names of their hierarchies, and what all of them cost together.

    Parameters
    ----------
    releases
        Each hierarchy's release, with a statement of its own share.
    statement
        What all of them cost: the map of their composition.
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
        return f"{table(heads, rows)}\n\n{cost_words(self.statement.to_dict())}"

    def _repr_html_(self) -> str:
        heads, rows = self._rows()
        return html_table(heads, rows, title="Releases of one frame", below=[cost_words(self.statement.to_dict())])

    def _rows(self) -> tuple[list[str], list[list[Cell]]]:
        rows: list[list[Cell]] = []
        for name, release in self.releases.items():
            assert release.statement is not None
            loss = ", ".join(f"{part} {amount:.6g}" for part, amount in release.statement.loss.items())
            rows.append([name, release.to_frame(other=False).height, release.statement.mechanism, loss])
        return ["hierarchy", "nodes shown", "mechanism", "its share"], rows


@interrupts_deferred
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
    """The counts of several hierarchies of one frame, which share one budget; `release_tree` for each.

    Parameters
    ----------
    data
        The rows, as in `release_tree`.
    by
        For each hierarchy a name, and where a row belongs in it: a `Key`, or the names of columns.
    weights
        For each hierarchy its share of the budget, epsilon, rho and delta alike; only their ratios matter. By default
        all get the same.
    epsilon
        The privacy loss of all releases together. Give either this or `rho`.
    delta
        The chance of a larger loss, for all releases together. By default 0: none.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that is forgiven, as in `release_tree`. By default a tenth.
    unit
        Who is protected, in all hierarchies: as in `release_tree`. By default None: one row.
    method
        How each release is made, as in `release_tree`. By default "auto", which plans for each hierarchy.
    confidence
        The probability with which each interval holds its node's true count. By default 0.95.
    value
        What is summed at every node of all hierarchies, as in `release_tree`. By default None: rows are counted alone.
    ledger
        Where all releases and their whole cost are committed at once, as in `release_tree`. By default None: nobody
        counts.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "hour": [9] * 800 + [17] * 500})
    >>> releases = release_trees(visits, by={"place": "country", "time": "hour"}, epsilon=1.0, delta=1e-6)
    >>> releases["time"].to_frame(other=False)["path"].to_list(), releases.statement.loss["epsilon"] <= 1.0
    (['', '9', '17'], True)

    """
    assert_features("contrib")
    keys = _check_keys(by)
    questions = {name: Question.of(key, unit=unit, method=method, value=value) for name, key in keys.items()}
    shares = _check_weights(weights, keys)
    account = Account.of(ledger, unit, epsilon=epsilon, delta=delta, rho=rho)
    frame = read_source(data)
    parts = [
        question.measurement(
            frame, account.budget.part(shares[name], of=len(keys)), alpha=alpha, confidence=confidence, memory=None
        )
        for name, question in questions.items()
    ]
    composed = make_composition(parts)
    columns = list(dict.fromkeys(column for question in questions.values() for column in question.columns))
    prepared = Prepared(composed, frame, account, {"columns": columns}, lambda made: _together(composed, keys, made))
    releases: TreeReleases = prepared.release()
    return releases


def _together(composed: Measurement, names: Iterable[str], made: Sequence[TreeRelease]) -> TreeReleases:
    """The releases of a composition, and a statement of what all of them cost."""
    releases = dict(zip(names, made, strict=True))
    first = made[0].statement
    assert first is not None
    loss = composed.map(1)  # type: ignore[no-untyped-call]
    amounts = loss if isinstance(loss, tuple) else (loss,)
    mechanisms = {name: release.statement.mechanism for name, release in releases.items() if release.statement}
    statement = PrivacyStatement(
        "composition",
        measure_name(composed.output_measure),
        first.d_in,
        dict(zip(first.loss, amounts, strict=True)),
        mechanisms,
        first.unit,
        first.counted,
    )
    return TreeReleases(releases, statement)


@interrupts_deferred
def bound_report(
    data: Any,
    *,
    unit: str = "user",
    most: int,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    ledger: Ledger | str | Path | None = None,
) -> BoundReport:
    """What each bound on the rows of a person would keep, privately, before a release is made with one of them.

    A release for people counts at most so many rows of each. Too small a bound cuts data off, too large a one costs
    noise, and the data's own percentile is private. This report costs `epsilon`, which the release then lacks: give
    both the same `ledger`, since one call knows nothing of others. Everything is checked before a row is read.

    It is useful from about 30 * most / epsilon rows on: 120,000 for 200 rows a person and 0.05. Below, it comes all the
    same, with `useful` False and no recommendation. That is a result and no error: only the noisy histogram can tell
    that there are too few rows, so the budget is spent.

    Parameters
    ----------
    data
        The rows, as `release_tree` takes them: a frame of any library, files, or a table of an engine.
    unit
        The column that tells people apart; "user" by default. Rows where it is null are left out.
    most
        The largest bound of interest, from 2 to 2**20: a public number, which nobody has read off the data. Shares are
        of at most so many rows of each person.
    epsilon
        What the report costs for all rows of one person, from 1e-9 to 1000; 0.05 by default, a twentieth of what a
        release often has.
    confidence
        The probability, at least, with which all intervals hold at once; 0.95, as people expect.
    ledger
        A `Ledger`, or the path of one that is there, as in `release_tree`: report and cost are committed together, and
        a report that fails or is interrupted costs nothing. By default None: nobody counts.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [*range(40_000), *range(5_000), *range(5_000)]})
    >>> report = bound_report(visits, most=5)
    >>> report.useful, report.recommended, report.statement.loss["epsilon"] <= 0.05
    (True, 3, True)
    >>> bool(abs(report.shares[0] - 0.8) < 0.03)
    True

    """
    assert_features("contrib")
    check_type(unit, str, name="unit", hint="the name of the column that tells people apart")
    report_scale(epsilon)
    account = Account.of(ledger, Unit(unit, count="shares"), epsilon=epsilon, delta=0.0, rho=None)
    frame = read_source(data)
    measurement = make_report(frame, unit, account.budget, most=most, confidence=confidence)
    report: BoundReport = Prepared(measurement, frame, account, {"columns": [unit], "bounds": most}).release()
    return report


def make_report(frame: Any, unit: str, budget: Budget, *, most: int, confidence: float) -> Measurement:
    """From what `read_source` gives to a report within a budget for one person."""
    metric = symmetric_id_distance(identifier=unit)
    scale = report_scale(budget.pure_epsilon)
    return make_bound_report(frame_domain(frame), metric, scale, most=most, confidence=confidence)


@dataclass(frozen=True)
class Account:
    """What a release may cost, and the ledger that counts it, if there is one."""

    ledger: Ledger | None
    budget: Budget
    cost: Mapping[str, Fraction]
    disjoint: str | None = None
    """What releases of disjoint rows share, of which the dearest counts."""

    @classmethod
    def of(
        cls,
        ledger: Ledger | str | Path | None,
        unit: Unit | None,
        *,
        epsilon: float | None,
        delta: float,
        rho: float | None,
        disjoint: str | None = None,
    ) -> Account:
        """An account of checked arguments; what its ledger cannot pay is refused before anything is read."""
        budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho)
        book, person = Ledger.of(ledger), Unit.of(unit)
        if book is None:
            return cls(None, budget, {})
        cost, below = budget.written()
        book.check(cost, unit=unit_words(None if person is None else person.column), disjoint=disjoint)
        return cls(book, below, cost, disjoint)

    def spend(self, make: Callable[[], Made], *, note: Mapping[str, Any], name: str | None = None) -> Made:
        """Make the release, and commit it to the ledger with its cost before it is given away."""
        return spend(self.ledger, self.cost, make, note=note, name=name, disjoint=self.disjoint)


@dataclass(frozen=True)
class Question:
    """What is asked of rows: where they belong, whose they are, what is counted or summed, and how."""

    key: Key
    unit: Unit | None
    values: tuple[Value, ...]
    method: Method
    """For the levels that the key shows; a curve per group where a number is below groups."""
    kind: Literal["counts", "values", "records"]
    """What rows come to: leaf counts, counts and sums by leaf, or who has how many rows at which leaf."""

    @classmethod
    def of(
        cls,
        by: Key | str | Sequence[str],
        *,
        unit: Unit | None = None,
        method: Method | str = "auto",
        value: Value | Sequence[Value] | None = None,
    ) -> Question:
        """The question of checked arguments."""
        key, person, values, chosen = Key.of(by), Unit.of(unit), read_values(value), read_method(method)
        kind: Any = "values" if values else "records" if weighs_people(person, chosen) else "counts"
        return cls(key, person, values, _method_for(key, chosen, kind), kind)

    @property
    def columns(self) -> list[str]:
        """The columns of keys and values."""
        return [*self.key.columns_used, *(each.column for each in self.values)]

    def counting(self, memory: int | str | None = None) -> dict[str, Any]:
        """The arguments of `make_counting`."""
        return {
            "by": self.key,
            "unit": self.unit,
            "memory": memory,
            "records": self.kind == "records",
            "values": self.values,
        }

    def counted(self, of: str = "rows", *, kept: str = "") -> str:
        """What a release counts, in words; `kept` says what steps before keep of people."""
        rows = f"{self.key.counted(of)}{kept}"
        if self.unit is not None:
            rows = self.unit.counted(of=rows, weighed=self.kind == "records")
        return values_counted(rows, self.values) if self.values else rows

    def measurement(
        self, frame: Any, budget: Budget, *, alpha: float, confidence: float, memory: int | str | None = None
    ) -> Measurement:
        """From what `read_source` gives to a release within a budget for one row, or one person."""
        counts = self.transformation(frame, memory)
        return self.release_from(counts, 1, budget, alpha=alpha, confidence=confidence, counted=self.counted())

    def transformation(self, frame: Any, memory: int | str | None = None) -> Transformation:
        """From what `read_source` gives to what the method needs of it."""
        metric = symmetric_distance() if self.unit is None else symmetric_id_distance(identifier=self.unit.column)
        return make_counting(frame_domain(frame), metric, **self.counting(memory))

    def release_from(
        self, counts: Transformation, d_in: Any, budget: Budget, *, alpha: float, confidence: float, counted: str
    ) -> Measurement:
        """From the transformation of rows to a release."""
        return make_release(
            counts,
            d_in,
            method=self.method,
            budget=budget,
            alpha=alpha,
            confidence=confidence,
            counted=counted,
            person=self.unit,
            known=self.key.known,
        )

    def plan(self, frame: Any, budget: Budget, *, alpha: float) -> Plan:
        """What `measurement` chooses from, the best first, or the one method that was asked for. No row is read."""
        counts, tree, method = self.transformation(frame), self.key.hierarchy, self.method
        at = budget.at(counts.map(1))  # type: ignore[no-untyped-call]
        if isinstance(method, Line) or (isinstance(tree, Tree) and tree.ranges is not None and method == Auto()):
            candidate = planned_candidate(tree, at, alpha=alpha, method=method, known=self.key.known)
            measure = f"by how many rows a quantile is missed beyond its range, where {PEOPLE:,} are spread evenly"
            return Plan("A number in ranges", measure, at, (candidate,))
        options = (method.levels, method.aim) if isinstance(method, Auto) else (None, "error")
        every = plan(
            self.key,
            epsilon=at.epsilon,
            delta=at.delta,
            rho=at.rho,
            d_in=at.d_in,
            alpha=alpha,
            levels=options[0],
            aim=options[1],
            unit=self.unit if self.kind == "records" else None,
            value=self.values or None,
        )
        all_wanted = isinstance(method, Auto) or self.values
        return every if all_wanted else replace(every, candidates=(every.candidate(method.name),))


@dataclass(frozen=True)
class Prepared:
    """A release that is checked, planned and costed; nothing is spent yet."""

    measurement: Measurement
    frame: Any
    account: Account
    note: Mapping[str, Any]
    finish: Callable[[Any], Any] | None = None
    """What turns the measurement's answer into what is released."""

    def release(self, **entry: Any) -> Any:
        """Measure, and commit the finished release to the ledger with its cost before it is given away."""

        def make() -> Any:
            with snapshot_of(self.frame):
                answer = self.measurement(self.frame)
            return answer if self.finish is None else self.finish(answer)

        return self.account.spend(make, note=self.note, **entry)


def make_release(
    counts: Transformation | Space,
    d_in: Any,
    *,
    method: Method | str,
    budget: Budget,
    alpha: float,
    confidence: float,
    tree: Tree | None = None,
    counted: str | None = None,
    person: Unit | None = None,
    known: KnownNodes | None = None,
) -> Measurement:
    """From where leaf counts come from to a release within a budget at distance `d_in`, with its whole statement."""
    space = counts if isinstance(counts, tuple) else (counts.output_domain, counts.output_metric)
    metric = counts[1] if isinstance(counts, tuple) else counts.input_metric
    most = d_in if isinstance(counts, tuple) else counts.map(d_in)  # type: ignore[no-untyped-call]
    amounts = budget.at(most)
    held = space[0].descriptor if isinstance(space[0], ExtrinsicDomain) else None
    unit = protected_unit(metric, d_in, None if isinstance(held, PeopleSpace) else most)
    if isinstance(held, PeopleSpace):
        assert person is not None
        candidate = planned_people(held.tree, person, amounts, alpha=check_alpha(alpha), method=method, known=known)
    elif isinstance(held, LeafValueSpace):
        candidate = means_candidate(held, amounts, method=method, known=known)
    else:
        candidate = planned_candidate(tree_of_leaves(space[0], tree), amounts, alpha=alpha, method=method, known=known)
    released = candidate.make(*space, tree=tree, confidence=confidence, unit=unit, counted=counted)
    return released if isinstance(counts, tuple) else counts >> released


def _method_for(key: Key, chosen: Method, kind: str) -> Method:
    """The method, for the levels that the key shows. Refused where a method would count the others all the same."""
    line = key.line_below
    if line is not None and isinstance(chosen, Quantiles):
        raise ValueError(
            f"method ({chosen.name}) must not be given where the number is below groups: there is a curve for each. "
            "Hint: method=Curve(), and release.quantiles([0.5])"
        )
    if line is not None and kind == "counts" and (chosen == Auto() or isinstance(chosen, Curve)):
        curve = chosen if isinstance(chosen, Curve) else Curve()
        chosen = replace(curve, groups=line[0], ranges=line[1])
    shown = key.shown_levels
    if len(shown) == key.hierarchy.depth:
        return chosen
    if not isinstance(chosen, (Auto, TreeEstimator, PeopleLayers)):
        raise ValueError(
            f"by: show cannot be honoured for method ({chosen.name}). Hint: leave show out and read those levels of "
            "the frame; a larger stride, or fewer columns, makes fewer levels"
        )
    if chosen.levels not in (None, shown):
        raise ValueError(f"method: levels {chosen.levels} must be those that the key shows, {shown}")
    return replace(chosen, levels=shown)


def _check_keys(by: Any) -> dict[str, Key]:
    if not isinstance(by, Mapping) or not by or not all(isinstance(name, str) for name in by):
        raise TypeError(
            "by must give a key for each hierarchy's name. Hint: by={'place': ['region', 'city'], 'time': 'day'}"
        )
    return {name: Key.of(key) for name, key in by.items()}


def _check_weights(weights: Any, keys: Mapping[str, Key]) -> dict[str, Fraction]:
    """Each hierarchy's share, exactly; they sum to 1."""
    if weights is None:
        return dict.fromkeys(keys, Fraction(1, len(keys)))
    if not isinstance(weights, Mapping) or weights.keys() != keys.keys():
        raise ValueError(f"weights must give one for each of {', '.join(map(repr, keys))}. Hint: leave them out")
    exact = {name: check_positive(weights[name], name=f"weights[{name!r}]") for name in keys}
    return {name: weight / sum(exact.values()) for name, weight in exact.items()}
