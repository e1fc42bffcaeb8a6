"""The predicted error of every mechanism, before anything is spent, and the choice between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import polars as pl
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_choice, check_integer, check_positive
from opendp_tree._opendp import to_then
from opendp_tree._show import Bar, Cell, html_table, number_text, progress, table
from opendp_tree._types import Floats
from opendp_tree.bounds import error_lower_bound
from opendp_tree.budget import EPSILONS, NO_DELTA, Budget
from opendp_tree.keys.key import Key
from opendp_tree.planning.laws import PEOPLE, LevelError
from opendp_tree.planning.methods import (
    MECHANISMS,
    PEOPLE_METHODS,
    Auto,
    Curve,
    InfeasibleError,
    Mechanism,
    Method,
    PeopleLayers,
    Setting,
    Space,
    choose_method,
    make_counts,
    make_planned,
    method_text,
    read_method,
    refusal,
)
from opendp_tree.rows.unit import Unit, Value, read_values
from opendp_tree.theorems.interval import bisect
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

_DIGITS = 1e-3  # the relative precision of an epsilon


@dataclass(frozen=True)
class Candidate:
    """A mechanism with all its parameters, or the reason why there is none.

    `name` is that of its method. `error` is the worst alpha-RMSE of any node for any counts, predicted from the law
    of the noise, for `tree_estimator` of public nodes that of any node below the root; `bound` says that it is an upper
    bound of it. `shown_from` is the weight from which a node is shown with a probability of at least 95 %, if its
    ancestors weigh no more; 0 if all nodes are shown.
    """

    name: str
    reason: str
    """Why it is possible, or why not."""
    needs: str
    feasible: bool = True
    error: float = math.inf
    bound: bool = False
    guarantee: str = ""
    parameters: Mapping[str, int | float | str] = field(default_factory=dict)
    shown_from: float = math.inf
    curve: Callable[[Floats], Floats] | None = field(default=None, repr=False, compare=False)
    by_level: Sequence[LevelError] = field(default=(), repr=False, compare=False)
    """Errors by level, where these are predicted."""
    method: Mechanism | None = field(default=None, repr=False, compare=False)
    """The method with all of its options."""
    setting: Setting | None = field(default=None, repr=False, compare=False)

    def error_at(self, weights: Sequence[float] | Floats) -> Floats:
        """The predicted alpha-RMSE of a node of each weight: of the worst such node.

        :param weights: True counts of nodes.

        >>> laplace = plan(3, epsilon=1.0, alpha=0.1, nodes="public").candidate("tree_laplace")
        >>> laplace.error_at([0, 10, 100]).round(1).tolist()
        [4.2, 3.5, 0.3]
        """
        at = np.asarray(weights, dtype=np.float64)
        return np.full(at.shape, math.inf) if self.curve is None else self.curve(at)

    def make(
        self,
        input_domain: Domain,
        input_metric: Metric | None = None,
        *,
        tree: Tree | None = None,
        confidence: float = 0.95,
        unit: str | None = None,
        counted: str | None = None,
    ) -> Measurement:
        """The measurement, from leaf counts to a `TreeRelease`; its loss stays within the budget of the plan.

        Other parameters: as for `make_tree_counts`. The only metric is `l1_distance(T="i64")`, the default.

        :param unit: What the budget protects, in words, for the statement. By default None: not stated.
        :param counted: What the figures are counts of, in words. By default None: not stated.
        """
        if self.method is None or self.setting is None:
            raise InfeasibleError(f"{self.name} is not possible here: {self.reason}")
        metric = l1_distance(T="i64") if input_metric is None else input_metric
        space = Space(input_domain, metric, tree, confidence)
        return make_planned(self.method, self.setting, space, unit=unit, counted=counted)


def predict(method: Mechanism, setting: Setting) -> Candidate:
    """The candidate of a method."""
    reason = refusal(method, setting)
    if reason is not None:
        return Candidate(method.name, reason.split(". Hint:")[0], method.needs, feasible=False)
    with np.errstate(all="ignore"):
        predicted = {"shown_from": 0.0, **method._predict(setting)}
    return Candidate(method.name, needs=method.needs, method=method, setting=setting, **predicted)


def guarded(method: Mechanism, setting: Setting) -> Candidate:
    """The same; not feasible where the computation over- or underflows."""
    try:
        candidate = predict(method, setting)
        if math.isfinite(candidate.error) or not candidate.feasible:
            return candidate
    except (ArithmeticError, MemoryError, ValueError):
        pass
    reason, needs = "this depth and budget are beyond what can be computed", "a budget that is less extreme"
    return Candidate(method.name, reason, needs, feasible=False)


@dataclass(frozen=True)
class Plan:
    """Every mechanism that could make a release. The first is the one that a release uses by default.

    The others follow by predicted error; impossible ones come last. `subject` says in words what the plan is for, and
    `measure` what the error is.
    """

    subject: str
    measure: str
    setting: Setting
    candidates: tuple[Candidate, ...]
    aim: str = "error"
    worst_case: bool = False
    """Whether the error is the worst over all possible counts: the alpha-RMSE."""

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        return self.setting.budget

    @property
    def alpha(self) -> float:
        """Errors up to this share of a count are ignored."""
        return self.setting.alpha

    @property
    def best(self) -> Candidate:
        """The first candidate. If nothing is possible, its `feasible` is False and its `reason` says why."""
        return self.candidates[0]

    def candidate(self, name: str) -> Candidate:
        """The candidate of this name.

        :param name: The name of a method, such as "tree_laplace".
        """
        by_name = {each.name: each for each in self.candidates}
        return by_name[check_choice(name, name="name", choices=tuple(by_name))]

    @property
    def lower_bound(self) -> float:
        """A lower bound on the worst alpha-RMSE of every mechanism; 0 where none is known.

        For a depth without a tree it holds for trees that branch everywhere.
        """
        setting, budget = self.setting, self.budget
        both = budget.rho is not None and budget.delta > 0
        if not self.worst_case or setting.levels is not None or setting.known or both:
            return 0.0
        tree: Any = setting.depth if setting.tree is None else setting.tree
        amounts: dict[str, Any] = budget.amounts
        return error_lower_bound(tree, **amounts, alpha=self.alpha, d_in=budget.d_in)

    def __repr__(self) -> str:
        """The question, all candidates, errors of the best one by level, and the ranking or how to give a delta."""
        tables = [table(["mechanism", *self._heads(), ""], [_row(each) for each in self.candidates])]
        tables += [table(heads, rows) for heads, rows in self._by_level()]
        return "\n\n".join([self._question(), *tables, self._ranking()])

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        for each in self.candidates:
            name, *rest = _row(each)
            # Bars end at 20 times the best error, so that the differences below stay visible.
            rows.append(
                [name, rest.pop(0), Bar(min(each.error, 20 * self.best.error) if each.feasible else None), *rest]
            )
        (error, shown), strong = self._heads(), 0 if self.best.feasible else None
        heads = ["mechanism", error, "", shown, ""]
        first = html_table(heads, rows, title=self._question(), below=[self._ranking()], strong=strong)
        return f"<div>{first}{''.join(html_table(*each) for each in self._by_level())}</div>"

    @property
    def _units(self) -> tuple[str, str]:
        """What errors are in, and what decides whether a node is shown: with a unit people, one drawn row of each."""
        unit = self.setting.unit
        return "rows" if unit is None or unit.count == "rows" else "people", "rows" if unit is None else "people"

    def _heads(self) -> tuple[str, str]:
        """What the columns of errors and of shown counts are called."""
        errors, found = self._units
        return f"error ({errors})", f"shown from ({found})"

    def _by_level(self) -> list[tuple[list[str], list[list[str]]]]:
        """The head and the rows of a table of the best candidate's errors by level, if it predicts them for a few."""
        errors = self.best.by_level
        said = {(each.level, each.quantity): number_text(each.error) for each in errors}
        levels, quantities = (sorted(set(each)) for each in zip(*said, strict=True)) if said else ([], [])
        rows = [[str(level), *(said[level, each] for each in quantities)] for level in levels]
        return [(["level", *(f"error of a {each}" for each in quantities)], rows)] if 0 < len(rows) <= 12 else []

    def _question(self) -> str:
        budget, unit = self.budget, self.setting.unit
        kind, spent = ("epsilon", budget.epsilon) if budget.rho is None else ("rho", budget.rho)
        said = f"{self.subject}, {kind} {spent:g}" + (f" and delta {budget.delta:g}" if budget.delta else "")
        said += f" for {budget.d_in} rows" if budget.d_in > 1 else ""
        said += f", alpha {self.alpha:g}." if self.worst_case else "."
        return said if unit is None else f"{said} Counted: {unit.counted(weighed=True)}."

    def _ranking(self) -> str:
        """How candidates are ranked; or that nothing is possible, and whether a delta would help."""
        if not self.best.feasible:
            lacks = any(NO_DELTA.startswith(each.reason) for each in self.candidates)
            return "Nothing is possible." + " Hint: delta=1e-6" * lacks
        by = "the fewest rows from which a node is shown" if self.aim == "keys" else "error"
        elsewhere = " At a given count another mechanism may be better: plot_plan shows it." if self.worst_case else ""
        return f"The default of a release comes first; the others are ranked by {by}. Error: {self.measure}.{elsewhere}"

    def to_frame(self) -> pl.DataFrame:
        """One row per candidate: its error, what it guarantees and needs, and why it is possible or not."""
        columns = ["mechanism", "feasible", "error", "is_bound", "shown_from", "guarantee", "needs", "reason", "method"]
        rows = []
        for each in self.candidates:
            error, shown_from = (each.error, each.shown_from) if each.feasible else (None, None)
            words = each.guarantee, each.needs, each.reason, each.method and method_text(each.method)
            rows.append((each.name, each.feasible, error, each.bound, shown_from, *words))
        return pl.DataFrame(rows, schema=columns, orient="row", strict=False)

    def levels(self) -> pl.DataFrame:
        """The predicted errors by level: `mechanism`, `method`, `level`, `quantity`, `error`, `nodes`.

        `quantity` is "count" or "sum of amount". `nodes` is how many nodes the level has, if that is known. Mechanisms
        whose error by level depends on the data have no rows.
        """
        rows = [
            (each.name, each.method and method_text(each.method), error.level, error.quantity, error.error, error.nodes)
            for each in self.candidates
            for error in each.by_level
        ]
        columns = ["mechanism", "method", "level", "quantity", "error", "nodes"]
        return pl.DataFrame(rows, schema=columns, orient="row", strict=False, infer_schema_length=None)

    def curves(self, weights: Sequence[float] | Floats | None = None) -> pl.DataFrame:
        """The predicted alpha-RMSE against the weight of a node: `mechanism`, `weight`, `error`.

        :param weights: True counts of nodes. By default from 1 to where alpha covers the noise of every mechanism.
        """
        possible = [each for each in self.candidates if each.feasible]
        if weights is None:
            largest = max((each.error for each in possible), default=1.0)
            weights = np.geomspace(1.0, 30 * largest / max(self.alpha, 0.02), 200)
        at = np.asarray(weights, dtype=np.float64)
        return pl.DataFrame(
            {
                "mechanism": [each.name for each in possible for _ in at],
                "weight": np.tile(at, len(possible)).tolist(),
                "error": np.concatenate([each.error_at(at) for each in possible] or [np.empty(0)]).tolist(),
            },
            strict=False,
        )

    def describe(self) -> str:
        """The plan as it is printed, and its conclusion in words."""
        best, (rows, found) = self.best, self._units
        if not best.feasible:
            return str(self)
        what = f"The error of every {_node(self.setting)} is" if self.worst_case else "The error is"
        error = f"{what} predicted to {'stay below' if self.worst_case else 'be'} {number_text(best.error)} {rows}"
        shown = f"; a node of {best.shown_from:,.0f} {found} is shown with probability 95 %" if best.shown_from else ""
        below = f" No mechanism can have an error below {number_text(self.lower_bound)}." if self.lower_bound else ""
        return f"{self}\nBest: {best.name}. {error}{shown}.{below}"


def _node(setting: Setting) -> str:
    """The nodes whose worst error is predicted: the root of a public tree has a small share on purpose."""
    below = " below the root" if setting.public and setting.depth > 1 else ""
    return f"node{below}, beyond {100 * setting.alpha:g} % of its count,"


def _row(candidate: Candidate) -> list[str]:
    """A candidate's name, its error, from which count it shows a node, and why."""
    if not candidate.feasible:
        return [candidate.name, "-", "-", f"not possible: {candidate.reason}"]
    shown = "all nodes" if candidate.shown_from == 0 else f"{candidate.shown_from:,.0f}"
    return [candidate.name, f"{'at most ' * candidate.bound}{number_text(candidate.error)}", shown, candidate.reason]


def _rank(candidate: Candidate, chosen: Mechanism, aim: str) -> tuple[bool, bool, float, float]:
    """The default of a release comes first."""
    first, second = candidate.error, candidate.shown_from
    if aim == "keys":
        first, second = second, first
    return not candidate.feasible, candidate.name != chosen.name, first, second


@progress("planning")
def plan(
    tree_or_depth: Tree | OpenTree | Key | str | Sequence[str] | int,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    d_in: int = 1,
    nodes: str | None = None,
    levels: Iterable[int] | None = None,
    aim: Literal["error", "keys"] = "error",
    method: Method | str = "auto",
    unit: Unit | None = None,
    value: Value | Sequence[Value] | None = None,
) -> Plan:
    """Ranks every mechanism by its worst error for this tree and budget, before any data is touched.

    The error is the alpha-mRMSE: for each node the root of the mean of `max(|estimate - count| - alpha * count, 0)**2`,
    and of these the worst over all nodes and all possible counts, computed from the law of the mechanism's noise. A
    mechanism that is not possible is listed with the reason. Other parameters: as for `release_tree`.

    :param tree_or_depth: The tree, names of columns or a `Key` as `by` of `release_tree` takes them, or a number of
        levels with the root's. For a depth alone, the error of least squares is bounded by that of the noise before it.
    :param d_in: How many counts one person can change, or how many people are protected. By default 1.
    :param nodes: "public" or "open": whether all nodes are public. By default as the tree says.
    :param levels: The levels of interest, 0 for the root's. By default all. `tree_estimator` shows only these, and the
        others cost nothing; other mechanisms release all levels, and are compared by the errors of these.
    :param aim: How mechanisms are ranked: by "error" (the default) or "keys", the weight from which they show a node.
    :param method: As for `release_tree`. Any but "auto" is planned alone, with its options.
    :param unit: As for `release_tree`; errors are then the noise of the worst level, of what is counted.
    :param value: As for `release_tree`. The error is the standard deviation of a count at the worst level; `levels()`
        has that of sums, too. It is that of known nodes, if no others are found; without known names, each node that
        must be found is taken to have 20 children.

    >>> plan(4, epsilon=1.0, delta=1e-6, nodes="open", unit=Unit("user", count="people", nodes=(6, 12, 20))).best.name
    'people_gaussian'
    """
    person, values, asked = Unit.of(unit), read_values(value), read_method(method)
    weighs = isinstance(asked, (Auto, PeopleLayers)) and not values
    weighed = person if weighs and person is not None and person.weighs else None
    kept = person.most_rows if person is not None and weighed is None else 1  # rows of one person that count
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=check_integer(d_in, name="d_in", least=1) * kept)
    options = {"nodes": nodes, "alpha": alpha, "levels": levels, "unit": weighed, "values": values}
    asked = replace(asked, aim=aim) if asked == Auto() else asked
    return plan_for(Setting.of(tree_or_depth, budget, **options), asked)  # type: ignore[arg-type]


def plan_for(setting: Setting, method: Method) -> Plan:
    """The plan of a release: all methods, its default first, or the one method that was asked for."""
    known, values, unit = setting.known, setting.values, setting.unit
    if setting.public and setting.tree is None and values:
        raise ValueError("tree_or_depth must be a Tree where nodes are public and there is a value. Hint: Tree(...)")
    auto = method if isinstance(method, Auto) else Auto()
    chosen = method._choose(setting) if isinstance(method, Auto) and not values else choose_method(method, setting)
    compared = MECHANISMS if unit is None else PEOPLE_METHODS
    if isinstance(chosen, Curve):
        compared = (Curve(segments=True), Curve(segments=False)) if setting.line is None else (chosen,)
    if not isinstance(method, Auto) or values:
        candidates: tuple[Candidate, ...] = (predict(chosen, setting),)
    else:
        # The chosen method keeps the options of the release.
        methods = (chosen if each.name == chosen.name else each for each in compared)
        ranked = sorted((guarded(each, setting) for each in methods), key=lambda each: _rank(each, chosen, auto.aim))
        candidates = tuple(ranked)
    nodes = "public nodes" if setting.public else "unknown nodes"
    if known is not None:
        others = "no others" if setting.closed else "unknown ones"
        nodes = f"{len(known.paths)} known nodes and {others}"
    subject = f"A tree of depth {setting.depth} with {nodes}"
    measure = "the standard deviation of a count at the worst level"
    if isinstance(chosen, Curve):
        subject, rows = "A number in ranges", "rows"
        if setting.line is not None:
            subject += f" below {'public' if chosen.public_groups else 'unknown'} groups"
            rows, name = "rows of its group", "grouped_curves"  # as in the statement of the release
            candidates = tuple(replace(each, name=name) for each in candidates)
        measure = f"by how many rows a quantile is off beyond its range, if {PEOPLE:,} {rows} are spread evenly"
    elif unit is not None:
        measure = "the standard deviation of the noise of the worst level, in what is counted"
    elif not values:
        measure = f"the predicted error of the worst {_node(setting)} for any counts"
    worst_case = not (isinstance(chosen, Curve) or unit or values)
    return Plan(subject, measure, setting, candidates, auto.aim, worst_case)


@progress("searching")
def smallest_epsilon(
    tree_or_depth: Tree | OpenTree | int,
    *,
    error: float,
    delta: float = 0.0,
    alpha: float = 0.1,
    d_in: int = 1,
    nodes: str | None = None,
    levels: Iterable[int] | None = None,
) -> Plan | None:
    """The plan of the smallest epsilon whose best mechanism has a predicted error of at most `error`.

    None if there is none up to 1,000. The epsilon is the plan's `budget.epsilon`, to a thousandth of itself.

    Other parameters: as for `plan`.

    :param error: The largest acceptable worst alpha-RMSE.
    """
    limit = float(check_positive(error, name="error"))
    setting = Setting.of(tree_or_depth, Budget(1.0), nodes=nodes, alpha=alpha, levels=levels)

    @cache
    def at(epsilon: float) -> Plan:
        budget = Budget.of(epsilon=epsilon, delta=delta, d_in=d_in)
        return plan_for(replace(setting, budget=budget), Auto())

    def reached(epsilon: float) -> bool:
        return at(epsilon).best.error <= limit

    def middle(low: float, high: float) -> float:
        return math.sqrt(low * high) if high > low * (1 + _DIGITS) else high

    return at(bisect(reached, *EPSILONS, middle=middle)) if reached(EPSILONS[1]) else None


def make_tree_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    method: Method | str = "auto",
    d_in: int = 1,
    tree: Tree | None = None,
    confidence: float = 0.95,
) -> Measurement:
    """Counts of all nodes from leaf counts, by the mechanism that `plan` puts first: a `TreeRelease`.

    The measure is `max_divergence()` for an epsilon alone, `zero_concentrated_divergence()` for a rho, and with a delta
    `approximate(...)` of these. The map is that of the mechanism; each has its own proof:
    Proof: docs/proofs/tree_noise.md, docs/proofs/pruned_descent.md, docs/proofs/partition.md. Other parameters: as for
    `plan`.

    :param input_domain: `leaf_domain(tree)`, or OpenDP's vectors of i64 for a public tree.
    :param input_metric: `l1_distance(T="i64")`: how far leaf counts are apart.
    :param tree: The tree, where the domain does not carry it: for vectors. By default the domain's.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(epsilon=1.0)
    >>> 1 - 1e-9 < counts.map(1) <= 1.0
    True
    """
    assert_features("contrib")
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    return make_counts(Space(input_domain, input_metric, tree, confidence), budget, method=method, alpha=alpha)


then_tree_counts = to_then(make_tree_counts)
