"""The other way round: what an error costs, and how deep a tree may be for it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from opendp_tree._arguments import check_positive
from opendp_tree.planning.budget import EPSILONS, Budget
from opendp_tree.planning.plan import Plan, check_alpha, plan, plan_for
from opendp_tree.planning.tree_facts import DEEPEST, TreeFacts
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["deepest_tree", "smallest_epsilon"]

_DIGITS = 1e-3


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

    None if no epsilon up to 1,000 does. The epsilon is `found.budget.epsilon`, to a thousandth of itself.

    >>> found = smallest_epsilon(4, error=10.0, alpha=0.1, nodes="public")
    >>> round(found.budget.epsilon, 3), found.best.name
    (0.566, 'laplace, least squares')
    """
    wanted, alpha = float(check_positive(error, name="error")), check_alpha(alpha)
    facts = TreeFacts.of(tree_or_depth, nodes=nodes, levels=levels)

    def at(epsilon: float) -> Plan:
        return plan_for(facts, Budget.of(epsilon=epsilon, delta=delta, rho=None, d_in=d_in), alpha, "error")

    low, high = 1.0, 1.0
    found = at(1.0)
    if found.best.error > wanted:
        while found.best.error > wanted:
            if high == EPSILONS[1]:
                return None
            low, high = high, min(4 * high, EPSILONS[1])
            found = at(high)
    else:
        while (tried := at(low / 4)).best.error <= wanted and low / 16 >= EPSILONS[0]:
            found, low, high = tried, low / 4, low / 4
        low /= 4
    while high > low * (1 + _DIGITS):
        middle = math.sqrt(low * high)
        tried = at(middle)
        if tried.best.error <= wanted:
            found, high = tried, middle
        else:
            low = middle
    return found


def deepest_tree(
    *,
    error: float,
    epsilon: float,
    delta: float = 0.0,
    alpha: float = 0.1,
    d_in: int = 1,
    nodes: str = "open",
) -> Plan | None:
    """The plan for the deepest tree, up to a depth of 2**20, that is predicted to err by at most `error`.

    None if even depth 1 is too deep. The depth is `found.facts.depth`.

    >>> deepest_tree(error=25.0, epsilon=1.0, delta=1e-6, nodes="open").best.name
    'partition'
    """
    wanted = float(check_positive(error, name="error"))

    def at(depth: int) -> Plan:
        return plan(depth, epsilon=epsilon, delta=delta, alpha=alpha, d_in=d_in, nodes=nodes)

    found, low, high = at(1), 1, 2
    if found.best.error > wanted:
        return None
    while high <= DEEPEST and (tried := at(high)).best.error <= wanted:
        found, low, high = tried, high, 2 * high
    high = min(high, DEEPEST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried.best.error <= wanted:
            found, low = tried, middle
        else:
            high = middle
    return found
