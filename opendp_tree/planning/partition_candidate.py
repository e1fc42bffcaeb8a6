"""The tree partition, which needs to know nothing but the depth: what it can promise for a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from opendp_tree._arguments import check_integer
from opendp_tree._types import Floats
from opendp_tree.measurements.partition.estimator import make_partition_estimator
from opendp_tree.measurements.partition.parameters import GapParameters, choose_parameters
from opendp_tree.measurements.partition.prediction import coarse, one_test, totals_alpha_rmse, worst_alpha_rmse
from opendp_tree.measurements.partition.shares import default_measuring
from opendp_tree.planning.budget import Budget, Priced
from opendp_tree.planning.candidate import Candidate, Space, shown_from
from opendp_tree.planning.methods import Partition
from opendp_tree.planning.tree_facts import TreeFacts

NEEDS = "nothing but the depth and a delta; or public nodes, and then no delta"
PUBLIC_SHARES = (0.1, 0.2, 0.3)
"""Shares of epsilon that measure, from which the one of least error is taken where nodes are public."""
_MOST_CELLS = 2**20
_NODES = 2**20
"""A public tree of which only the depth is known is taken to have so many nodes, as wide ones have."""
_SURE = 6
"""Beyond so many thresholds the law of a test does not change any more."""


@dataclass(frozen=True)
class _Choice:
    """One share of epsilon that measures, and what comes of it."""

    measuring: float
    parameters: GapParameters
    error: float


def partition_candidate(method: Partition, facts: TreeFacts, budget: Budget, alpha: float) -> Candidate:
    """The private tree partition, and noisy counts of what it finds.

    Where nodes are public it is pure if that is better, and always if there is no delta; a pure loss of epsilon is a
    rho of epsilon**2 / 2. Elsewhere it is approximate, which OpenDP does not convert into rho.

    Parameters
    ----------
    method
        The partition's options.
    facts
        The hierarchy.
    budget
        What may be spent.
    alpha
        The share of a count that an error may have and be forgiven.

    """
    no = partial(Candidate.infeasible, method.name, needs=NEEDS)
    if not facts.public and budget.delta == 0:
        return no(reason="which nodes there are cannot be found without a delta")
    if not facts.public and budget.rho is not None:
        return no(reason="OpenDP converts no (epsilon, delta) into rho, and without public nodes there is no pure one")
    levels = _levels(method, facts)
    deltas = _deltas(facts, budget)
    choices = [each for delta in deltas for each in _choices(method, facts, budget, levels, alpha, delta)]
    if not choices:
        return no(reason=f"epsilon and delta are too small for a partition of depth {facts.depth}")
    best, delta = min(choices, key=lambda each: each[0].error)
    shape = best.parameters.shape

    def build(space: Space) -> Priced:
        made = make_partition_estimator(
            space.domain,
            space.metric,
            epsilon=budget.pure_epsilon,
            delta=delta,
            alpha=alpha,
            tree=space.tree,
            confidence=space.confidence,
            measuring=best.measuring,
            weights=method.weights,
            levels=levels,
            d_in=budget.d_in,
        )
        return budget.priced(made)

    reason = "nodes are found at one price whatever their number, with their counts; what is left measures totals"
    if facts.public and facts.tree is None and delta == 0:
        reason += f"; this is for {_NODES:,} nodes"
    return Candidate(
        method.name,
        feasible=True,
        reason=reason,
        needs=NEEDS,
        error=best.error,
        bound=False,
        guarantee="pure epsilon" if delta == 0 else "epsilon and delta",
        parameters={
            "measuring": best.measuring,
            "scale": best.parameters.scale,
            "token_scale": best.parameters.token_scale,
            "threshold": shape.thresholds[0],
            "radius": "none" if shape.radii[0] is None else shape.radii[0],
            "margin": shape.margins[0],
            "levels": "all" if levels is None else ", ".join(map(str, levels)),
        },
        shown_from=0.0 if facts.public else shown_from(partial(shown_chance, best.parameters), shape.thresholds[0]),
        nonnegative=True,
        integers=False,
        curve=partial(_curve, best.parameters, budget.pure_epsilon / budget.d_in * best.measuring, alpha),
        builder=build,
        budget=budget,
    )


def _levels(method: Partition, facts: TreeFacts) -> tuple[int, ...] | None:
    """The levels that are shown, with the root's; None for all."""
    wanted = facts.levels if method.levels is None else method.levels
    if wanted is None:
        return None
    levels = {0, *(check_integer(level, name="levels", least=0) for level in wanted)}
    if max(levels) >= facts.depth:
        raise ValueError(f"levels ({list(wanted)}) must be some of 0 to {facts.depth - 1}; the root's level is 0")
    return None if len(levels) == facts.depth else tuple(sorted(levels))


def _deltas(facts: TreeFacts, budget: Budget) -> list[float]:
    """What of delta may be spent: none of it where nodes are public, or all."""
    spent = [budget.delta] if budget.delta > 0 and budget.rho is None else []
    return [0.0, *spent] if facts.public else spent


def _choices(
    method: Partition, facts: TreeFacts, budget: Budget, levels: Sequence[int] | None, alpha: float, delta: float
) -> list[tuple[_Choice, float]]:
    """What comes of each share that may measure; none of those that are too small."""
    depth = facts.depth if levels is None else len(levels)
    if method.measuring is not None:
        shares: Sequence[float] = (method.measuring,)
    else:
        shares = (*PUBLIC_SHARES, default_measuring(depth)) if facts.public else (default_measuring(depth),)
    nodes = None
    if facts.public and delta == 0:
        nodes = (_NODES if facts.depth > 1 else 1) if facts.tree is None else facts.tree.node_count
    most = _MOST_CELLS if facts.tree is None else min(_MOST_CELLS, facts.tree.leaf_count)
    cells: Floats = np.exp2(np.arange(most.bit_length(), dtype=np.float64))
    found = []
    for share in shares:
        try:
            chosen = choose_parameters(
                depth, (1 - share) * budget.pure_epsilon, delta, d_in=budget.d_in, public_nodes=nodes
            )
        except ValueError:
            continue
        left = share * budget.pure_epsilon / budget.d_in
        error = max(worst_alpha_rmse(chosen, alpha), float(totals_alpha_rmse(chosen, left, alpha, cells).max()))
        found.append((_Choice(share, chosen, error), delta))
    return found


def shown_chance(parameters: GapParameters, weights: Floats) -> Floats:
    """The chance that a leaf of each weight is a cell.

    Parameters
    ----------
    parameters
        Those of the cells.
    weights
        Counts of leaves.
    """
    rough, step = coarse(parameters)
    most = _SURE * rough.shape.thresholds[-1]
    chances = np.array([one_test(rough, people).shown for people in range(most + 1)])
    found: Floats = np.interp(weights / step, np.arange(most + 1), chances)
    return found


def _curve(parameters: GapParameters, epsilon: float, alpha: float, weights: Floats) -> Floats:
    """The alpha-RMSE of a leaf, or of a node with cells of about the threshold below it, whichever is larger."""
    rough, step = coarse(parameters)
    most = _SURE * rough.shape.thresholds[-1]
    # From there on a leaf's error has one law, of which alpha forgives more and more.
    at = np.minimum(np.rint(weights / step), most)
    by_count = {
        people: max(one_test(rough, people, alpha=alpha, is_leaf=leaf).mean_square for leaf in (True, False))
        for people in np.unique(at).astype(int).tolist()
    }
    leaf = step * np.sqrt(np.array([by_count[people] for people in at.astype(int).tolist()]))
    cells = np.append(np.maximum(weights / parameters.shape.thresholds[-1], 1.0), _MOST_CELLS)
    many = np.where(cells > 1, totals_alpha_rmse(parameters, epsilon, alpha, cells), 0.0)[:-1]
    found: Floats = np.maximum(np.where(at < most, leaf, 0.0), many)
    return found
