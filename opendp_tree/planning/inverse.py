"""The other way round: what an error costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

from opendp_tree._arguments import check_positive
from opendp_tree._show import progress
from opendp_tree.budget import EPSILONS, Budget
from opendp_tree.planning.candidate import Setting
from opendp_tree.planning.plan import Plan, plan_for
from opendp_tree.planning.ranking import check_alpha
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.theorems.interval import bisect
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["smallest_epsilon"]

_DIGITS = 1e-3


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
    tree_or_depth
        The tree, or its number of levels with the root's.
    error
        The largest worst alpha-RMSE that will do.
    delta
        The chance of a larger loss than epsilon. By default 0: none. Without it nothing can be found in open trees.
    alpha
        The share of a node's own count that an error may have and be forgiven. By default a tenth.
    d_in
        The distance at which the budget is spent. By default 1: one row.
    nodes
        "public" or "open". By default what the tree says; a depth does not tell.
    levels
        The levels that are wanted, as for `plan`. By default all.

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
    return at(bisect(reached, max(low, high / 4), high, middle=_middle))


def _middle(low: float, high: float) -> float:
    """The geometric mean, until the two agree to a thousandth."""
    return math.sqrt(low * high) if high > low * (1 + _DIGITS) else high
