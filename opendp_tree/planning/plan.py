"""The error of every mechanism, known before anything is spent, and the choice between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_choice, check_scale, shortened
from opendp_tree.bounds.lower_bounds import error_lower_bound
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.noise_candidates import noise_candidate
from opendp_tree.planning.open_candidates import partition_candidate, pruned_candidate
from opendp_tree.planning.paper_candidate import paper_candidate
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Plan", "plan", "plan_depths"]

Floats = npt.NDArray[np.float64]
CANDIDATES: dict[str, Callable[[TreeFacts, Budget, float], Candidate]] = {
    "laplace": partial(noise_candidate, noise="laplace", consistent=False),
    "laplace, least squares": partial(noise_candidate, noise="laplace", consistent=True),
    "gaussian": partial(noise_candidate, noise="gaussian", consistent=False),
    "gaussian, least squares": partial(noise_candidate, noise="gaussian", consistent=True),
    "pruned laplace": partial(pruned_candidate, noise="laplace"),
    "pruned gaussian": partial(pruned_candidate, noise="gaussian"),
    "partition": partition_candidate,
    "paper": paper_candidate,
}


@dataclass(frozen=True)
class Plan:
    """Every mechanism that could count a tree, from the least predicted error up; impossible ones come last."""

    facts: TreeFacts
    budget: Budget
    alpha: float
    aim: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate:
        """The first candidate. If nothing is possible, its `feasible` is False and its `reason` says why."""
        return self.candidates[0]

    def candidate(self, name: str) -> Candidate:
        """The candidate of this name."""
        names = tuple(candidate.name for candidate in self.candidates)
        check_choice(name, name="name", choices=names)
        return self.candidates[names.index(name)]

    @property
    def lower_bound(self) -> float:
        """A worst alpha-RMSE that no mechanism at all goes below; 0 where none is known.

        For a depth without a tree it speaks of trees that branch everywhere.
        """
        budget = self.budget
        if self.facts.levels is not None or (budget.rho is not None and budget.delta > 0):
            return 0.0
        return error_lower_bound(
            self.facts.depth if self.facts.tree is None else self.facts.tree,
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=budget.rho,
            alpha=self.alpha,
            d_in=budget.d_in,
        )

    def to_frame(self) -> pl.DataFrame:
        """One row a candidate: its error, what it guarantees and needs, and why it is possible or not.

        >>> plan(6, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open").to_frame()["mechanism"].to_list()[0]
        'partition'
        """
        from opendp_tree.trees.label_codes import record_frame

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

        Without `weights`, from 1 to where even the worst mechanism's noise is forgiven.
        """
        from opendp_tree.trees.label_codes import record_frame

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
        largest = max((each.error for each in possible if each.name != "paper"), default=1.0)
        found: Floats = np.geomspace(1.0, 30 * largest / max(self.alpha, 0.02), 200, dtype=np.float64)
        return found

    def describe(self) -> str:
        """The plan in words."""
        known = "public nodes" if self.facts.public else "nodes that nobody has listed"
        spent = _budget_text(self.budget)
        lines = [f"A tree of depth {self.facts.depth} with {known}, {spent}, alpha {self.alpha:g}."]
        best = self.best
        if not best.feasible:
            lines.append("Nothing is possible:")
        else:
            lines.append(
                f"Best: {best.name}. No node's alpha-RMSE is predicted to exceed {best.error:.3g}"
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
    aim: str = "error",
) -> Plan:
    """Ranks every mechanism by its worst error for this tree and budget, before any data is touched.

    The error is the alpha-mRMSE: for each node the root of the mean of max(|estimate - count| - alpha * count, 0)**2,
    and of these the worst over all nodes and all possible counts, computed from the law of the mechanism's noise.

    The budget is (`epsilon`, `delta`) or (`rho`, `delta`), at distance `d_in`: the number of rows, or of rows a person
    may have. `nodes` says whether all nodes are "public" or "open"; a `Tree` or an `OpenTree` tells by itself. With a
    `Tree`, least squares is computed on it; for a mere depth its error is bounded by that of noise as it is. `levels`
    are those whose error counts: all, unless given. With `aim="keys"` mechanisms are ranked by the weight from which
    they show a node, instead of by error.

    A mechanism that is not possible is listed with the reason.

    >>> found = plan(12, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open")
    >>> found.best.name, round(found.best.error)
    ('partition', 23)
    >>> print(found.describe().splitlines()[0])
    A tree of depth 12 with nodes that nobody has listed, epsilon 1 and delta 1e-06, alpha 0.1.
    """
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    check_choice(aim, name="aim", choices=("error", "keys"))
    return plan_for(TreeFacts.of(tree_or_depth, nodes=nodes, levels=levels), budget, check_alpha(alpha), aim)


def plan_depths(
    depths: Iterable[int],
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    d_in: int = 1,
    nodes: str = "open",
) -> pl.DataFrame:
    """Every possible mechanism's error against the depth: `depth`, `mechanism`, `error`; `plot_depths` draws it.

    >>> plan_depths([3, 12], epsilon=1.0, nodes="public").filter(mechanism="laplace")["error"].round(1).to_list()
    [4.2, 17.0]
    """
    from opendp_tree.trees.label_codes import record_frame

    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    rows = [
        (depth, each.name, each.error)
        for depth in depths
        for each in plan_for(TreeFacts.of(depth, nodes=nodes), budget, check_alpha(alpha), "error").candidates
        if each.feasible
    ]
    return record_frame(
        {name: [row[place] for row in rows] for place, name in enumerate(("depth", "mechanism", "error"))}
    )


def check_alpha(alpha: float) -> float:
    """The relative error that is forgiven."""
    if check_scale(alpha, name="alpha") >= 1:
        raise ValueError(f"alpha ({shortened(alpha)}) must be at least 0 and below 1")
    return float(alpha)


def plan_for(facts: TreeFacts, budget: Budget, alpha: float, aim: str) -> Plan:
    """The plan for checked arguments. Facts may be used again for other budgets, which saves solving the tree anew."""
    found = [
        _guarded(name, lambda make=make: make(facts, budget, alpha))  # type: ignore[misc]
        for name, make in CANDIDATES.items()
    ]
    return Plan(facts, budget, alpha, aim, tuple(sorted(found, key=lambda each: _rank(each, aim))))


def _guarded(name: str, make: Callable[[], Candidate]) -> Candidate:
    try:
        with np.errstate(all="ignore"):
            found = make()
    except (ArithmeticError, MemoryError, ValueError):
        found = None
    if found is not None and (math.isfinite(found.error) or not found.feasible):
        return found
    return Candidate.infeasible(
        name, reason="this depth and budget are beyond what can be computed", needs="a budget that is less extreme"
    )


def _rank(candidate: Candidate, aim: str) -> tuple[bool, float, float, bool]:
    # Where least squares is only known to be no worse, it comes first.
    first, second = candidate.error, candidate.shown_from
    if aim == "keys":
        first, second = second, first
    plain = "least squares" not in candidate.name
    return not candidate.feasible, first, second, plain


def _budget_text(budget: Budget) -> str:
    kind, spent = ("epsilon", budget.epsilon) if budget.rho is None else ("rho", budget.rho)
    text = f"{kind} {spent:g}" + (f" and delta {budget.delta:g}" if budget.delta else "")
    return text + (f" for {budget.d_in} rows" if budget.d_in > 1 else "")
