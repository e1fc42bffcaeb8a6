"""The error of every mechanism, known before anything is spent, and the choice between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import (
    check_choice,
    check_integer,
    check_positive,
    check_probability,
    check_scale,
    shortened,
)
from opendp_tree._opendp import to_then
from opendp_tree._show import Bar, Cell, html_table, progress, table
from opendp_tree._types import Floats, Ints
from opendp_tree.bounds import error_lower_bound
from opendp_tree.budget import EPSILONS, Budget
from opendp_tree.keys.key import Key
from opendp_tree.mechanisms.find import choose_parameters
from opendp_tree.planning.candidate import Candidate, InfeasibleError, LevelError, Setting, TreeFacts, suited
from opendp_tree.planning.candidates import (
    estimator_candidate,
    line_candidate,
    means_candidate,
    noise_candidate,
    paper_candidate,
    people_candidate,
    people_candidates,
    priced_line,
    pruned_candidate,
)
from opendp_tree.planning.laws import (
    MOST_CELLS,
    PEOPLE,
    means_errors,
    predict_levels,
    typical_counts,
)
from opendp_tree.planning.methods import (
    MECHANISMS,
    REFERENCES,
    Auto,
    Curve,
    Line,
    Mechanism,
    Method,
    MultiplicativeEstimator,
    PeopleLayers,
    PrunedDescent,
    Quantiles,
    TreeEstimator,
    TreeNoise,
    method_text,
    read_method,
)
from opendp_tree.rows.leaf_values import LeafValueSpace
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value, read_values
from opendp_tree.theorems.interval import bisect
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.label_keys import record_frame
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Plan", "make_tree_counts", "plan", "plan_dial", "plan_line", "plan_means", "smallest_epsilon"]

_DIGITS = 1e-3  # an epsilon is found to a thousandth of itself
_DIAL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_NODE_ERROR = "how far the worst node, of whatever count, is predicted to be off beyond {:g} % of its count"


@dataclass(frozen=True)
class Plan:
    """Every mechanism that could make a release, from the least predicted error up; impossible ones come last.

    All plans have this shape, of `plan`, `plan_means`, `plan_line` and `plan_dial`. `subject` says what is planned for,
    and `measure` what an error is, in words.
    """

    subject: str
    measure: str
    budget: Budget
    candidates: tuple[Candidate, ...]
    alpha: float = 0.0
    aim: str = "error"
    facts: TreeFacts | None = None
    """The hierarchy; None for a line."""
    worst_case: bool = False
    """Whether the error is the worst over all possible counts: the alpha-RMSE."""
    counted: str | None = None
    """What of people is counted; None where rows are."""

    @property
    def best(self) -> Candidate:
        """The first candidate. If nothing is possible, its `feasible` is False and its `reason` says why."""
        return self.candidates[0]

    def candidate(self, name: str) -> Candidate:
        """The candidate of this name.

        Parameters
        ----------
        name
            The name of a method, such as "tree_laplace".

        """
        names = tuple(candidate.name for candidate in self.candidates)
        check_choice(name, name="name", choices=names)
        return self.candidates[names.index(name)]

    @property
    def lower_bound(self) -> float:
        """A worst alpha-RMSE that no mechanism at all goes below; 0 where none is known.

        For a depth without a tree it speaks of trees that branch everywhere.
        """
        budget, facts = self.budget, self.facts
        both = budget.rho is not None and budget.delta > 0
        if not self.worst_case or facts is None or facts.levels is not None or facts.known or both:
            return 0.0
        return error_lower_bound(
            facts.depth if facts.tree is None else facts.tree,
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=budget.rho,
            alpha=self.alpha,
            d_in=budget.d_in,
        )

    def __repr__(self) -> str:
        """What is asked, a table of all candidates, and what ranks them."""
        shown = table(["mechanism", "error", "shows from", ""], [_row(each) for each in self.candidates])
        return f"{self._question()}\n\n{shown}\n\n{self._ranking()}"

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        for each in self.candidates:
            name, error, *rest = _row(each)
            # Beyond 20 times the best, bars are all alike, so that the others can be told apart.
            rows.append([name, error, Bar(min(each.error, 20 * self.best.error) if each.feasible else None), *rest])
        heads, strong = ["mechanism", "error", "", "shows from", ""], 0 if self.best.feasible else None
        return html_table(heads, rows, title=self._question(), below=[self._ranking()], strong=strong)

    def _question(self) -> str:
        said = f"{self.subject}, {_budget_text(self.budget)}{f', alpha {self.alpha:g}' if self.worst_case else ''}."
        return said if self.counted is None else f"{said} Counted: {self.counted}."

    def _ranking(self) -> str:
        """What makes one candidate better than another."""
        by = "the fewest rows from which a node is shown" if self.aim == "keys" else "error"
        elsewhere = " For nodes of one count another may be better: plot_plan shows it." if self.worst_case else ""
        return f"Ranked by {by}. Error: {self.measure}.{elsewhere}"

    def to_frame(self) -> pl.DataFrame:
        """One row per candidate: its error, what it guarantees and needs, and why it is possible or not.

        >>> plan(6, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open").to_frame()["mechanism"].to_list()[0]
        'tree_estimator'
        """
        every = self.candidates
        return record_frame(
            {
                "mechanism": [each.name for each in every],
                "feasible": [each.feasible for each in every],
                "error": [each.error if each.feasible else None for each in every],
                "is_bound": [each.bound for each in every],
                "shown_from": [each.shown_from if each.feasible else None for each in every],
                **{name: [getattr(each, name) for each in every] for name in ("guarantee", "needs", "reason")},
                "method": [None if each.method is None else method_text(each.method) for each in every],
            }
        )

    def levels(self) -> pl.DataFrame:
        """The predicted errors by level: `mechanism`, `method`, `level`, `quantity`, `error`, `nodes`, `shown`.

        `quantity` is "count", "sum of amount" or "mean of amount". `nodes` is how many nodes the level has, and `shown`
        how many of them are expected to be shown, where that is stated. Mechanisms whose error by level depends on the
        data have no rows.

        >>> frame = plan(Tree.balanced(branching=10, depth=3), epsilon=1.0).levels()
        >>> frame.filter(mechanism="tree_laplace")["error"].round(1).to_list()
        [4.0, 4.0, 4.0]
        """
        rows = [(each, error) for each in self.candidates if each.by_level is not None for error in each.by_level()]
        columns = ("level", "quantity", "error", "nodes", "shown")
        return record_frame(
            {
                "mechanism": [each.name for each, _ in rows],
                "method": [None if each.method is None else method_text(each.method) for each, _ in rows],
                **{name: [getattr(error, name) for _, error in rows] for name in columns},
            }
        )

    def curves(self, weights: Sequence[float] | Floats | None = None) -> pl.DataFrame:
        """The predicted alpha-RMSE against the weight of a node: `mechanism`, `weight`, `error`.

        Parameters
        ----------
        weights
            True counts of nodes. By default from 1 to where even the worst mechanism's noise is forgiven, but for the
            references.

        """
        possible = [each for each in self.candidates if each.feasible]
        if weights is None:
            largest = max((each.error for each in possible if each.name != "multiplicative_estimator"), default=1.0)
            weights = np.geomspace(1.0, 30 * largest / max(self.alpha, 0.02), 200)
        at = np.asarray(weights, dtype=np.float64)
        return record_frame(
            {
                "mechanism": [each.name for each in possible for _ in at],
                "weight": np.tile(at, len(possible)).tolist(),
                "error": np.concatenate([each.error_at(at) for each in possible] or [np.empty(0)]).tolist(),
            }
        )

    def describe(self) -> str:
        """The plan in words."""
        best, lines = self.best, [self._question(), self._ranking()]
        if not best.feasible:
            lines.append("Nothing is possible:")
        else:
            what = "No node's alpha-RMSE" if self.worst_case else "The error"
            lines.append(
                f"Best: {best.name}. {what} is predicted to {'exceed' if self.worst_case else 'be'} {best.error:.3g}"
                + (f"; a node of {best.shown_from:g} is shown with a chance of 95 %." if best.shown_from > 0 else ".")
            )
            if self.lower_bound > 0:
                lines.append(f"No mechanism at all goes below {self.lower_bound:.3g}.")
        for name, error, _, reason in map(_row, self.candidates):
            lines.append(f"- {name}: {reason}." if error == "-" else f"- {name}: {error}; {reason}.")
        return "\n".join(lines)


def _row(candidate: Candidate) -> list[str]:
    """A candidate's name, its error, from which count it shows a node, and why."""
    if not candidate.feasible:
        return [candidate.name, "-", "-", f"not possible: {candidate.reason}"]
    shown = "all nodes" if candidate.shown_from == 0 else f"{candidate.shown_from:,.0f} rows"
    return [candidate.name, f"{'at most ' * candidate.bound}{candidate.error:.3g}", shown, candidate.reason]


def _budget_text(budget: Budget) -> str:
    kind, spent = ("epsilon", budget.epsilon) if budget.rho is None else ("rho", budget.rho)
    text = f"{kind} {spent:g}" + (f" and delta {budget.delta:g}" if budget.delta else "")
    return text + (f" for {budget.d_in} rows" if budget.d_in > 1 else "")


@progress("planning")
def plan(
    tree_or_depth: Tree | OpenTree | Key | int,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    d_in: int = 1,
    nodes: str | None = None,
    levels: Iterable[int] | None = None,
    aim: Literal["error", "keys"] = "error",
    unit: Unit | None = None,
    value: Value | Sequence[Value] | None = None,
) -> Plan:
    """Ranks every mechanism by its worst error for this tree and budget, before any data is touched.

    The error is the alpha-mRMSE: for each node the root of the mean of `max(|estimate - count| - alpha * count, 0)**2`,
    and of these the worst over all nodes and all possible counts, computed from the law of the mechanism's noise. A
    mechanism that is not possible is listed with the reason.

    Parameters
    ----------
    tree_or_depth
        The tree, a `Key` with its known names and levels, or a number of levels with the root's. With a `Tree`, least
        squares is computed on it; for a mere depth its error is bounded by that of noise as it is. With known names,
        `levels()` has about the deviation of a known node's count.
    epsilon
        The privacy loss. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Without it nothing can be found in open trees.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that an error may have and be forgiven; from 0 to below 1. By default a tenth.
    d_in
        The distance at which the budget is spent: how many counts one person can change. By default 1: one row.
    nodes
        "public" or "open": whether everybody knows all nodes. By default what the tree says; a depth does not tell.
    levels
        The levels that are wanted, 0 for the root's. By default all. Where nodes are public, these are the levels whose
        error counts; where they must be found, the partition shows these alone, and the others cost nothing.
    aim
        What mechanisms are ranked by: "error" (the default), or "keys", the weight from which they show a node.
    unit
        Who is protected and what of people is counted, as `release_tree` takes it; `d_in` is then how many people.
        Errors are the noise of the worst level, of what is counted. By default None: rows are counted.
    value
        What is summed, as `release_tree` takes it: `Value("amount", bounds=(0, 500))`, or a list. The error is the
        standard deviation of a count at the worst level; `levels()` has that of sums, too. Where nodes must be found,
        each is taken to have 20 children. By default None: rows are counted alone.

    Examples
    --------
    >>> plan(4, epsilon=1.0, delta=1e-6, nodes="open", unit=Unit("user", count="people", nodes=(6, 12, 20))).best.name
    'people_gaussian'
    >>> best = plan(12, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open").best
    >>> best.name, round(best.error)
    ('tree_estimator', 21)
    >>> print(plan(12, epsilon=1.0, delta=1e-6, nodes="open").describe().splitlines()[0])
    A tree of depth 12 with nodes that nobody has listed, epsilon 1 and delta 1e-06, alpha 0.1.

    """
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    setting = Setting(TreeFacts.of(tree_or_depth, nodes=nodes, levels=levels), budget, check_alpha(alpha))
    auto, person, values = Auto(aim=aim), Unit.of(unit), read_values(value)
    if setting.facts.known is not None and values:
        raise ValueError("known names must be left out where there is a value. Hint: a public tree")
    if values:
        tree, depth = setting.facts.tree, setting.facts.depth
        shape = [min(20**level, 10**6) for level in range(depth)] if tree is None else [at.size for at in tree.levels]
        return _plan_values(setting, values, shape)
    if person is not None and person.weighs:
        found, counted = people_candidates(auto, person, setting), person.counted(weighed=True)
        measure = "the standard deviation of the noise of the worst level, in what is counted"
        return Plan(_subject(setting.facts), measure, budget, found, aim=aim, facts=setting.facts, counted=counted)
    return plan_for(setting, auto)


def plan_for(setting: Setting, auto: Auto | None = None) -> Plan:
    """The plan for checked arguments."""
    (facts, budget, alpha), auto = setting, auto or Auto()
    found, measure = ranked(auto, setting), _NODE_ERROR.format(100 * alpha)
    return Plan(_subject(facts), measure, budget, found, alpha, auto.aim, facts, worst_case=True)


def _subject(facts: TreeFacts) -> str:
    if facts.known is not None:
        others = "and no others" if facts.closed else "and others that nobody has listed"
        return f"A tree of depth {facts.depth} with {len(facts.known.paths)} known nodes {others}"
    return f"A tree of depth {facts.depth} with {'public nodes' if facts.public else 'nodes that nobody has listed'}"


def plan_means(
    sizes: Sequence[int],
    *,
    rows: int,
    epsilon: float,
    delta: float,
    value: Value | Sequence[Value],
    d_in: int = 1,
) -> Plan:
    """What to expect of counts, sums and means by level, for a shape that somebody has in mind. No row is read.

    Cells are taken to be the leaves. The shares of epsilon are those that `release_tree` takes.

    Parameters
    ----------
    sizes
        How many nodes of each level are shown, the root's 1 first.
    rows
        How many rows there are.
    epsilon, delta, d_in, value
        As for `plan`.

    Examples
    --------
    >>> wanted = Value("amount", bounds=(0, 500))
    >>> levels = plan_means([1, 10, 200], rows=200_000, epsilon=1.0, delta=1e-6, value=wanted).levels()
    >>> levels.filter(quantity="mean of amount")["error"].round(2).to_list()
    [0.02, 0.14, 1.18]

    """
    numbers = [check_integer(size, name="sizes", least=1) for size in sizes]
    if not numbers or numbers[0] != 1:
        raise ValueError("sizes must begin with 1, for the root. Hint: [1, 50, 1000]")
    values = read_values(value)
    if not values:
        raise ValueError("value must be given. Hint: Value('amount', bounds=(0, 500))")
    budget = Budget.of(epsilon=epsilon, delta=delta, d_in=d_in)
    setting = Setting(TreeFacts.of(len(numbers), nodes="open"), budget, 0.0)
    return _plan_values(setting, values, numbers, rows=check_integer(rows, name="rows", least=1))


def _plan_values(setting: Setting, values: tuple[Value, ...], sizes: Sequence[int], *, rows: int | None = None) -> Plan:
    """Counts, sums and means for nodes of these numbers by level."""
    facts, budget, _ = setting
    if facts.public and facts.tree is None:
        raise ValueError("tree_or_depth must be a Tree where nodes are public and there is a value. Hint: Tree(...)")
    tree = OpenTree.columns(facts.depth - 1) if facts.tree is None else facts.tree
    candidate = means_candidate(LeafValueSpace(tree, values), budget, method="auto")
    errors = means_errors(sizes, budget, values, rows=rows, tree=facts.tree)
    worst = max(each.error for each in errors if each.quantity == "count")
    found = replace(candidate, error=worst, shown_from=0.0, by_level=lambda: errors)
    shape = f"{_subject(facts)}, by level {', '.join(f'{size:,}' for size in sizes)}"
    said = shape if rows is None else f"{shape}, and {rows:,} rows"
    return Plan(said, "the standard deviation of a count at the worst level", budget, (found,), facts=facts)


def plan_line(
    bins: int,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    d_in: int = 1,
    quantiles: Sequence[float] = (0.5,),
    people: int = PEOPLE,
) -> Plan:
    """What curves and chosen quantiles of a number are expected to err by, in people, the best first.

    The error of a quantile is the number of people by which its estimate misses it, its rank error. It is predicted
    from the law of the noise for people who are spread evenly over the bins; where many share a value it is smaller.

    Parameters
    ----------
    bins
        How many bins the line has.
    epsilon, rho, d_in
        The budget, as for `plan`.
    quantiles
        Those that are wanted. By default the median. A curve has all of them.
    people
        About how many rows there are, for the prediction alone; 100,000 by default.

    Examples
    --------
    >>> [each.name for each in plan_line(2**16, epsilon=0.1).candidates]
    ['chosen_quantiles', 'segment_curve', 'bin_curve']
    >>> plan_line(2**16, epsilon=0.1, quantiles=[i / 20 for i in range(1, 20)]).best.name
    'segment_curve'

    """
    size, rows = check_integer(bins, name="bins", least=1), check_integer(people, name="people", least=1)
    budget = Budget.of(epsilon=epsilon, rho=rho, d_in=d_in)
    methods = (Curve(segments=True), Curve(segments=False), Quantiles(quantiles))
    found = [priced_line(method, size, budget, people=rows) for method in methods]
    measure = f"by how many people a quantile is missed in the mean, where {rows:,} are spread evenly"
    return Plan(f"A line of {size:,} bins", measure, budget, tuple(sorted(found, key=lambda each: each.error)))


def plan_dial(
    children: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    rows: int | None = None,
    leaf_counts: Any = None,
    shares: Sequence[float] = _DIAL,
    d_in: int = 1,
) -> Plan:
    """Errors and shown nodes by level, for each share of epsilon that `TreeEstimator(measuring=...)` may take.

    The rest of epsilon finds nodes: a small share shows more of them, a large one measures totals better. Predicted for
    a shape that is stated, not from data. Nodes that are not shown count as 0. At leaves the law is exact, above them
    it is that of layers and least squares.

    Parameters
    ----------
    children
        How many children each node has, from the root down: `[50, 20, 10]` for states, counties and cities.
    epsilon, delta, d_in
        The budget, as for `plan`; unknown nodes need a delta.
    rows
        About how many rows there are. By default None: `leaf_counts` say it. Their sizes are then taken to be
        log-normal, as those of places and categories often are, spread evenly over the tree.
    leaf_counts
        Instead of `rows`: a typical count of each leaf, children of one node together. By default None.
    shares
        The shares of epsilon to compare. By default a tenth to seven tenths.

    Examples
    --------
    >>> found = plan_dial([50, 20, 10], rows=1_000_000, epsilon=1.0, delta=1e-6, shares=[0.2, 0.6])
    >>> levels = found.levels().sort("method")
    >>> keys, totals = levels.filter(level=3)["shown"]
    >>> keys > totals  # more cities are found if less measures
    True
    >>> keys, totals = levels.filter(level=1)["error"]
    >>> keys > totals  # and states are better if more does
    True

    """
    sizes = [check_integer(each, name="children", least=1) for each in children]
    if not sizes or math.prod(sizes) > MOST_CELLS:
        raise ValueError(f"children must be one number or more, with at most {MOST_CELLS:,} leaves in all")
    budget = Budget.of(epsilon=epsilon, delta=float(check_probability(delta, name="delta")), d_in=d_in)
    counts = typical_counts(sizes, rows, leaf_counts)
    found = [_dial_candidate(float(check_probability(share, name="shares")), budget, counts, sizes) for share in shares]
    numbers = ", ".join(f"{math.prod(sizes[:level]):,}" for level in range(len(sizes) + 1))
    subject = f"A tree of depth {len(sizes) + 1} with {numbers} nodes by level and {int(counts.sum()):,} rows"
    measure = "the root mean square error of the nodes of the worst level, where those that are not shown count as 0"
    return Plan(subject, measure, budget, tuple(sorted(found, key=lambda each: each.error)))


def _dial_candidate(share: float, budget: Budget, counts: Ints, sizes: Sequence[int]) -> Candidate:
    """What comes of one share of epsilon that measures."""
    parameters = choose_parameters(len(sizes) + 1, *budget.exact, d_in=budget.d_in, measuring=share)
    rmse, shown = (each.tolist() for each in predict_levels(parameters, counts, sizes))
    errors = [
        LevelError(level, rmse[level], nodes=math.prod(sizes[:level]), shown=shown[level]) for level in range(len(rmse))
    ]
    return Candidate(
        TreeEstimator.name,
        reason=f"{share:g} of epsilon measures totals, and the rest finds nodes",
        needs="epsilon and delta",
        error=max(rmse),
        guarantee="epsilon and delta",
        parameters={"measuring": share},
        shown_from=float(parameters.fringes[0].thresholds[-1]),
        by_level=lambda: errors,
        budget=budget,
        method=TreeEstimator(measuring=share),
    )


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
    """The plan of the smallest epsilon whose best mechanism is predicted to err by at most `error`.

    None if no epsilon up to 1,000 does. The epsilon is the plan's `budget.epsilon`, to a thousandth of itself.

    Parameters
    ----------
    error
        The largest worst alpha-RMSE that will do.
    tree_or_depth, delta, alpha, d_in, nodes, levels
        As for `plan`.

    Examples
    --------
    >>> enough = smallest_epsilon(4, error=10.0, alpha=0.1, nodes="public")
    >>> round(enough.budget.epsilon, 3), enough.best.name
    (0.566, 'tree_laplace')

    """
    wanted, alpha = float(check_positive(error, name="error")), check_alpha(alpha)
    facts = TreeFacts.of(tree_or_depth, nodes=nodes, levels=levels)

    @cache
    def at(epsilon: float) -> Plan:
        return plan_for(Setting(facts, Budget.of(epsilon=epsilon, delta=delta, rho=None, d_in=d_in), alpha))

    def reached(epsilon: float) -> bool:
        return at(epsilon).best.error <= wanted

    low, high = EPSILONS[0], 1.0
    while not reached(high):
        if high == EPSILONS[1]:
            return None
        low, high = high, min(4 * high, EPSILONS[1])
    while low < high / 4 and reached(high / 4):
        high /= 4

    def middle(low: float, high: float) -> float:
        return math.sqrt(low * high) if high > low * (1 + _DIGITS) else high

    return at(bisect(reached, max(low, high / 4), high, middle=middle))


def check_alpha(alpha: float) -> float:
    """A share of a count, from 0 to below 1."""
    if check_scale(alpha, name="alpha") >= 1:
        raise ValueError(f"alpha ({shortened(alpha)}) must be at least 0 and below 1")
    return float(alpha)


def ranked(auto: Auto, setting: Setting, mechanisms: Sequence[Mechanism] = MECHANISMS) -> tuple[Candidate, ...]:
    """Candidates, the best first and impossible ones last."""
    candidates = [suited(_of_levels(_guarded(each, setting, auto), setting.facts), auto) for each in mechanisms]
    return tuple(sorted(candidates, key=lambda each: _rank(each, auto.aim)))


def best_candidate(auto: Auto, setting: Setting) -> Candidate:
    """The best of a plan. What cannot be is not computed: references, and noise on nodes that nobody knows."""
    public = setting.facts.public
    able = [each for each in MECHANISMS if each.name not in REFERENCES and (public or not isinstance(each, TreeNoise))]
    return ranked(auto, setting, able)[0]


def candidate_for(method: Mechanism, setting: Setting) -> Candidate:
    """What one method promises."""
    with np.errstate(all="ignore"):
        if isinstance(method, TreeNoise):
            return noise_candidate(method, setting)
        if isinstance(method, PrunedDescent):
            return pruned_candidate(method, setting)
        if isinstance(method, TreeEstimator):
            return estimator_candidate(method, setting)
        return paper_candidate(method, setting)


def _guarded(method: Mechanism, setting: Setting, auto: Auto) -> Candidate:
    """A candidate for what is asked of the release; not feasible where numbers give out."""
    if isinstance(method, TreeNoise):
        method = replace(method, nonnegative=auto.nonnegative, integers=auto.integers)
    try:
        candidate = candidate_for(method, setting)
    except (ArithmeticError, MemoryError, ValueError):
        candidate = None
    if candidate is not None and (math.isfinite(candidate.error) or not candidate.feasible):
        return candidate
    reason, needs = "this depth and budget are beyond what can be computed", "a budget that is less extreme"
    return Candidate(method.name, reason, needs, feasible=False)


def _of_levels(candidate: Candidate, facts: TreeFacts) -> Candidate:
    """The candidate, if it counts no other levels than are wanted."""
    if not candidate.feasible or candidate.name == TreeEstimator.name:
        return candidate
    if facts.known is not None:
        return Candidate(candidate.name, "it cannot make use of known names", "known=None", feasible=False)
    if facts.leaves_out and not facts.public:
        return Candidate(candidate.name, "it cannot leave out levels", "levels=None", feasible=False)
    return candidate


def _rank(candidate: Candidate, aim: str) -> tuple[bool, float, float, bool]:
    # Where least squares is only known to be no worse, it comes first.
    first, second = candidate.error, candidate.shown_from
    if aim == "keys":
        first, second = second, first
    return not candidate.feasible, first, second, candidate.name in REFERENCES


def planned_candidate(
    tree: Tree | OpenTree, budget: Budget, *, alpha: float, method: Method | str, known: KnownNodes | None = None
) -> Candidate:
    """The method's own candidate, or the best of all; one that is possible."""
    chosen = read_method(method)
    if known is not None and not isinstance(chosen, Auto | TreeEstimator):
        raise ValueError(
            f"by: known names cannot be honoured for method ({chosen.name}). Hint: method='auto', or leave known out"
        )
    if isinstance(tree, Tree) and tree.ranges is not None and chosen == Auto():
        chosen = Curve()
    if isinstance(chosen, Line):
        return line_candidate(
            chosen, tree, budget, group=lambda groups, part: planned_candidate(groups, part, alpha=alpha, method="auto")
        )
    facts = TreeFacts.of(tree, levels=chosen.levels if isinstance(chosen, Auto) else None, known=known)
    setting = Setting(facts, budget, check_alpha(alpha))
    if isinstance(chosen, PeopleLayers):
        raise InfeasibleError(f"method ({chosen.name}) is for records of people. Hint: unit=Unit('user', rows=5)")
    candidate = best_candidate(chosen, setting) if isinstance(chosen, Auto) else candidate_for(chosen, setting)
    if candidate.feasible:
        return candidate
    if isinstance(chosen, TreeNoise | MultiplicativeEstimator) and not facts.public:
        raise InfeasibleError(
            f"method ({chosen.name}) must be one for unknown nodes, or all nodes must be known: {candidate.reason}. "
            "Hint: method='auto', or Key.columns(..., tree=Tree.from_paths(...))"
        )
    if not facts.closed and budget.delta == 0:
        raise InfeasibleError(
            "delta must be above 0 where nodes are unknown: without a chance of a larger loss, none can be found. "
            "Hint: delta=1e-6, or a public tree: Key.columns(..., tree=Tree.from_paths(...))"
        )
    if facts.leaves_out and not facts.public and budget.rho is not None:
        raise InfeasibleError(
            "levels must be left out with rho where nodes are unknown: only the partition leaves levels out, and it "
            "spends epsilon and delta. Hint: epsilon=1.0, delta=1e-6"
        )
    what = "nothing is possible" if isinstance(chosen, Auto) else f"method ({chosen.name}) is not possible"
    raise InfeasibleError(f"{what}: {candidate.reason}. It needs {candidate.needs}. Hint: plan(...).describe()")


def planned_people(
    tree: Tree | OpenTree,
    unit: Unit,
    budget: Budget,
    *,
    alpha: float,
    method: Method | str,
    known: KnownNodes | None = None,
) -> Candidate:
    """The method's own candidate, or the better of both noises; one that is possible."""
    chosen = read_method(method)
    levels = chosen.levels if isinstance(chosen, (Auto, PeopleLayers)) else None
    facts = TreeFacts.of(tree, levels=levels, known=known)
    setting = Setting(facts, budget, alpha)
    if isinstance(chosen, PeopleLayers):
        candidate = people_candidate(chosen, unit, setting)
    else:
        assert isinstance(chosen, Auto)
        candidate = people_candidates(chosen, unit, setting)[0]
    if not candidate.feasible:
        if not facts.closed and budget.rho is not None and isinstance(unit.rows, int):
            raise InfeasibleError(
                "rho must be epsilon and delta where nodes are unknown and people are weighed: finding nodes spends "
                "these. Hint: epsilon=1.0, delta=1e-6, or method='pruned_gaussian', which keeps rows of each"
            )
        raise InfeasibleError(
            f"method ({chosen.name}) is not possible for this unit: {candidate.reason}. It needs {candidate.needs}. "
            "Hint: plan(..., unit=...).describe()"
        )
    return candidate


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
    """Counts of all nodes from leaf counts, by the mechanism that is planned to err least: a `TreeRelease`.

    The measure is `max_divergence()` for an epsilon alone, `zero_concentrated_divergence()` for a rho, and with a delta
    `approximate(...)` of these. The map is that of the mechanism, which each has a proof of its own:
    Proof: docs/proofs/tree_noise.md, docs/proofs/pruned_descent.md, docs/proofs/partition.md.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or OpenDP's vectors of i64 for a public tree.
    input_metric
        `l1_distance(T="i64")`: how far leaf counts are apart.
    epsilon, delta, rho, alpha, d_in
        The budget and the distance at which it is spent, and what mechanisms are compared by: as for `plan`.
    method
        How the release is made: "auto" (the default: the first of `plan`, which knows public facts alone), another
        method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    tree
        The tree, where the domain does not carry it: for vectors. By default the domain's.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, TreeNoise, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(epsilon=1.0)
    >>> 1 - 1e-9 < counts.map(1) <= 1.0
    True
    >>> release = counts(tree.count(["ghent"] * 700 + ["lu"] * 100))
    >>> release.statement.mechanism, release.statement.loss == {"epsilon": counts.map(1)}
    ('tree_estimator', True)
    >>> whole = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(
    ...     epsilon=1.0, method=TreeNoise(integers=True)
    ... )
    >>> whole(tree.count(["ghent"] * 700)).estimates[0].is_integer()
    True

    """
    assert_features("contrib")
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    candidate = planned_candidate(tree_of_leaves(input_domain, tree), budget, alpha=alpha, method=method)
    return candidate.make(input_domain, input_metric, tree=tree, confidence=confidence)


then_tree_counts = to_then(make_tree_counts)
