"""The error of every mechanism, known before anything is spent, and the choice between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from opendp_tree._arguments import check_choice
from opendp_tree._show import Bar, Cell, html_table, progress, table
from opendp_tree._types import Floats
from opendp_tree.bounds import error_lower_bound
from opendp_tree.budget import Budget
from opendp_tree.planning.candidate import Candidate, Setting
from opendp_tree.planning.methods import Auto
from opendp_tree.planning.people_candidate import people_candidates
from opendp_tree.planning.ranking import check_alpha, ranked
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.rows.unit import Unit
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Plan", "plan"]

_ANY = Auto()


@dataclass(frozen=True)
class Plan:
    """Every mechanism that could count a tree, from the least predicted error up; impossible ones come last."""

    facts: TreeFacts
    budget: Budget
    alpha: float
    aim: str
    candidates: tuple[Candidate, ...]
    unit: Unit | None = None
    """Whose rows are weighed; None where rows are counted as they are."""

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
        budget = self.budget
        if self.unit is not None or self.facts.levels is not None or (budget.rho is not None and budget.delta > 0):
            return 0.0
        return error_lower_bound(
            self.facts.depth if self.facts.tree is None else self.facts.tree,
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=budget.rho,
            alpha=self.alpha,
            d_in=budget.d_in,
        )

    def __repr__(self) -> str:
        """What is asked, a table of all candidates, and what ranks them."""
        rows = [[each.name, _error_text(each), _shown_text(each), _reason(each)] for each in self.candidates]
        shown = table(["mechanism", "error", "shows from", ""], rows)
        return f"{self._question()}\n\n{shown}\n\n{self._ranking()}"

    def _repr_html_(self) -> str:
        top = 20 * self.best.error
        rows: list[list[Cell]] = [
            [each.name, _error_text(each), _bar(each, top), _shown_text(each), _reason(each)]
            for each in self.candidates
        ]
        return html_table(
            ["mechanism", "error", "", "shows from", ""],
            rows,
            title=self._question(),
            below=[self._ranking()],
            strong=0 if self.best.feasible else None,
        )

    def _question(self) -> str:
        known = "public nodes" if self.facts.public else "nodes that nobody has listed"
        said = f"A tree of depth {self.facts.depth} with {known}, {_budget_text(self.budget)}, alpha {self.alpha:g}."
        return said if self.unit is None else f"{said} Counted: {self.unit.counted(weighed=True)}."

    def _ranking(self) -> str:
        """What makes one candidate better than another."""
        by = "the fewest rows from which a node is shown" if self.aim == "keys" else "error"
        if self.unit is not None:
            return "Error: the standard deviation of the noise of the worst level, in what is counted."
        return (
            f"Ranked by {by}. Error: how far the worst node, of whatever count, is predicted to be off beyond "
            f"{100 * self.alpha:g} % of its count. For nodes of one count another may be better: plot_plan shows it."
        )

    def to_frame(self) -> pl.DataFrame:
        """One row a candidate: its error, what it guarantees and needs, and why it is possible or not.

        >>> plan(6, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open").to_frame()["mechanism"].to_list()[0]
        'partition_estimator'
        """
        from opendp_tree.trees.label_keys import record_frame

        return record_frame(
            {
                "mechanism": [each.name for each in self.candidates],
                "feasible": [each.feasible for each in self.candidates],
                "error": [each.error if each.feasible else None for each in self.candidates],
                "is_bound": [each.bound for each in self.candidates],
                "shown_from": [each.shown_from if each.feasible else None for each in self.candidates],
                "guarantee": [each.guarantee for each in self.candidates],
                "needs": [each.needs for each in self.candidates],
                "reason": [each.reason for each in self.candidates],
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
        from opendp_tree.trees.label_keys import record_frame

        possible = [each for each in self.candidates if each.feasible]
        at = self._weights(possible) if weights is None else np.asarray(weights, dtype=np.float64)
        return record_frame(
            {
                "mechanism": [each.name for each in possible for _ in at],
                "weight": np.tile(at, len(possible)).tolist(),
                "error": np.concatenate([each.error_at(at) for each in possible] or [np.empty(0)]).tolist(),
            }
        )

    def _weights(self, possible: Sequence[Candidate]) -> Floats:
        largest = max((each.error for each in possible if each.name != "multiplicative_estimator"), default=1.0)
        weights: Floats = np.geomspace(1.0, 30 * largest / max(self.alpha, 0.02), 200, dtype=np.float64)
        return weights

    def _meaning(self) -> str:
        """What "best" means, in a sentence."""
        if self.unit is not None:
            return "Ranked by the noise of the worst level: its standard deviation, in what is counted."
        if self.aim == "keys":
            return "Ranked by the weight from which a node is shown: who finds the smallest nodes is first."
        forgiven = f"{100 * self.alpha:g} % of its count" if self.alpha else "nothing"
        missed = "" if self.facts.public else ", and a node that is not found errs by all of its count"
        return f"Ranked by the error of the worst node, small or large: {forgiven} is forgiven{missed}."

    def describe(self) -> str:
        """The plan in words."""
        lines = [self._question(), self._meaning()]
        best = self.best
        if not best.feasible:
            lines.append("Nothing is possible:")
        else:
            what = "No node's alpha-RMSE" if self.unit is None else "No level's noise"
            lines.append(
                f"Best: {best.name}. {what} is predicted to exceed {best.error:.3g}"
                + (f"; a node of {best.shown_from:g} is shown with a chance of 95 %." if best.shown_from > 0 else ".")
            )
            if self.lower_bound > 0:
                lines.append(f"No mechanism at all goes below {self.lower_bound:.3g}.")
        for each in self.candidates:
            if each.feasible:
                lines.append(f"- {each.name}: {'at most ' if each.bound else ''}{each.error:.3g}; {each.reason}.")
            else:
                lines.append(f"- {each.name}: not possible; {each.reason}.")
        return "\n".join(lines)


@progress("planning")
def plan(
    tree_or_depth: Tree | OpenTree | int,
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
) -> Plan:
    """Ranks every mechanism by its worst error for this tree and budget, before any data is touched.

    The error is the alpha-mRMSE: for each node the root of the mean of `max(|estimate - count| - alpha * count, 0)**2`,
    and of these the worst over all nodes and all possible counts, computed from the law of the mechanism's noise. A
    mechanism that is not possible is listed with the reason.

    Parameters
    ----------
    tree_or_depth
        The tree, or its number of levels with the root's. With a `Tree`, least squares is computed on it; for a mere
        depth its error is bounded by that of noise as it is.
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

    Examples
    --------
    >>> plan(4, epsilon=1.0, delta=1e-6, nodes="open", unit=Unit("user", count="people", nodes=(6, 12, 20))).best.name
    'people_gaussian'
    >>> best = plan(12, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open").best
    >>> best.name, round(best.error)
    ('partition_estimator', 21)
    >>> print(plan(12, epsilon=1.0, delta=1e-6, nodes="open").describe().splitlines()[0])
    A tree of depth 12 with nodes that nobody has listed, epsilon 1 and delta 1e-06, alpha 0.1.

    """
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    setting = Setting(TreeFacts.of(tree_or_depth, nodes=nodes, levels=levels), budget, check_alpha(alpha))
    if Unit.of(unit) is not None and unit is not None and unit.weighs:
        return Plan(*setting, aim, people_candidates(Auto(aim=aim), unit, setting), unit)
    return plan_for(setting, Auto(aim=aim))


def plan_for(setting: Setting, auto: Auto = _ANY) -> Plan:
    """The plan for checked arguments."""
    return Plan(*setting, auto.aim, ranked(auto, setting))


def _bar(candidate: Candidate, top: float) -> Bar:
    """The error of a candidate; beyond `top` bars are all alike, so that the others can be told apart."""
    return Bar(min(candidate.error, top) if candidate.feasible else None)


def _error_text(candidate: Candidate) -> str:
    return ("at most " if candidate.bound else "") + f"{candidate.error:.3g}" if candidate.feasible else "-"


def _shown_text(candidate: Candidate) -> str:
    if not candidate.feasible:
        return "-"
    return "all nodes" if candidate.shown_from == 0 else f"{candidate.shown_from:,.0f} rows"


def _reason(candidate: Candidate) -> str:
    return candidate.reason if candidate.feasible else f"not possible: {candidate.reason}"


def _budget_text(budget: Budget) -> str:
    kind, spent = ("epsilon", budget.epsilon) if budget.rho is None else ("rho", budget.rho)
    text = f"{kind} {spent:g}" + (f" and delta {budget.delta:g}" if budget.delta else "")
    return text + (f" for {budget.d_in} rows" if budget.d_in > 1 else "")
