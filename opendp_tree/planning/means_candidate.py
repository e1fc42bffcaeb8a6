"""Sums and means: what a budget comes to, and what to expect of it before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opendp_tree._arguments import check_integer
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.means.prediction import choose_shares, predict_levels
from opendp_tree.mechanisms.means.tree_means import make_tree_means
from opendp_tree.planning.candidate import Candidate, Space
from opendp_tree.planning.methods import Auto, Method, Partition, TreeNoise, read_method
from opendp_tree.rows.leaf_values import LeafValueSpace
from opendp_tree.rows.value import Value, read_values, value_shares
from opendp_tree.trees.tree import Tree

__all__ = ["MeansError", "plan_means"]

NAME = "tree_means"


@dataclass(frozen=True)
class MeansError:
    """Standard deviations that are predicted for one value and the nodes of one level.

    `mean_sd` is that of a node with an even part of all rows, and a mean in the middle of the bounds.
    """

    value: str
    level: int
    nodes: int
    count_sd: float
    sum_sd: float
    mean_sd: float


def means_candidate(space: LeafValueSpace, budget: Budget, *, method: Method | str) -> Candidate:
    """Counts, sums and means of a tree within a budget; one that is possible."""
    chosen, public = read_method(method), isinstance(space.tree, Tree)
    levels = None if public else getattr(chosen, "levels", None)
    if chosen not in (Auto(levels=levels), TreeNoise() if public else Partition(levels=levels)):
        raise ValueError(
            f"method ({chosen.name}) must be left out, or say levels of an open tree alone, where there is a value. "
            "Hint: method='auto'"
        )
    if not public and (budget.delta == 0 or budget.rho is not None):
        raise ValueError(
            "epsilon and delta must both be given where nodes have to be found. Hint: delta=1e-6, or a public tree"
        )

    def build(given: Space) -> Priced:
        made = make_tree_means(
            given.domain,
            given.metric,
            epsilon=budget.pure_epsilon,
            delta=0.0 if public else budget.delta,
            confidence=given.confidence,
            levels=levels,
            d_in=budget.d_in,
        )
        return budget.priced(made)

    return Candidate(
        NAME,
        feasible=True,
        reason="pairs of sums tell counts and sums at the price of one, and gaps tell the counts of cells",
        needs="nothing but the depth and a delta; or public nodes, and then no delta",
        guarantee="pure epsilon" if public else "epsilon and delta",
        builder=build,
        budget=budget,
    )


def plan_means(
    sizes: Sequence[int],
    *,
    rows: int,
    epsilon: float,
    delta: float,
    value: Value | Sequence[Value],
    d_in: int = 1,
) -> tuple[MeansError, ...]:
    """What to expect of counts, sums and means by level, for a shape that somebody has in mind. No row is read.

    Cells are taken to be the leaves. The shares of epsilon are those that `release_tree` takes. `pl.DataFrame` makes a
    table of it.

    Parameters
    ----------
    sizes
        How many nodes of each level are shown, the root's 1 first.
    rows
        How many rows there are.
    epsilon, delta
        The budget at distance `d_in`.
    value
        What is summed, as in `release_tree`.
    d_in
        How many rows of one person are kept; by default 1.

    Examples
    --------
    >>> wanted = Value("amount", bounds=(0, 500))
    >>> levels = plan_means([1, 10, 200], rows=200_000, epsilon=1.0, delta=1e-6, value=wanted)
    >>> [round(level.mean_sd, 2) for level in levels]
    [0.02, 0.16, 1.18]

    """
    numbers = [check_integer(size, name="sizes", least=1) for size in sizes]
    if not numbers or numbers[0] != 1:
        raise ValueError("sizes must begin with 1, for the root. Hint: [1, 50, 1000]")
    check_integer(rows, name="rows", least=1)
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=None, d_in=d_in)
    values, found = read_values(value), []
    if not values:
        raise ValueError("value must be given. Hint: Value('amount', bounds=(0, 500))")
    shares = choose_shares(len(numbers), budget.pure_epsilon, budget.delta, d_in)
    errors = predict_levels(numbers, shares, epsilon=budget.pure_epsilon, delta=budget.delta, d_in=d_in)
    part = math.sqrt(sum(float(share) ** 2 for share in value_shares(values)))
    for each, share in zip(values, value_shares(values), strict=True):
        for error in errors:
            spread = error.sum_sd / float(share) * (each.high - each.low)
            mean = spread * error.nodes / rows
            found.append(MeansError(each.column, error.level, int(error.nodes), error.count_sd / part, spread, mean))
    return tuple(found)
