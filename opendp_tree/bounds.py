"""Lower bounds on the error of every private mechanism.

The theorem's bound holds for every number of steps, so a poor search for its maximum gives a weaker bound, never a
wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from opendp_tree._arguments import check_integer, check_positive, check_probability, check_scale, computable, is_zero
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import digits, least_whole, round_down
from opendp_tree.theorems.packing import (
    accuracy_is_impossible,
    balanced_gamma_squared,
    packing_rmse,
    packing_threshold,
    unbiased_rmse,
)
from opendp_tree.trees.tree import Tree, check_tree

__all__ = ["error_lower_bound", "packing_bound", "unbiased_error_lower_bound"]

_ARITIES = (2, 3, 4, 6, 8, 12)
"""Numbers of children that packings use. With more children, the bound on each child's error gets weaker."""
_DEEPEST = 2**40
_CLOSE = 1.02
Budget = dict[str, Fraction | None]
"""Epsilon and delta, or rho, exactly."""


def error_lower_bound(
    tree: Tree | int,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.0,
    d_in: int = 1,
    branching: int = 2,
) -> float:
    """The smallest worst-case alpha-mRMSE that any mechanism can have within a budget at distance `d_in`.

    For a given tree; or, with a depth, for every tree that contains a complete tree of that depth with `branching`
    children at each inner node. Give the tree if you have it: a ragged tree is easier than a complete one. The budget
    is `epsilon`, with or without `delta`, or `rho` (zCDP). "Worst case" is over all non-negative leaf counts and over
    all nodes. Proof: docs/proofs/bounds.md.

    :param tree: The tree, or a number of levels with the root's.
    :param epsilon: The privacy loss. Give either this or `rho`.
    :param delta: The probability that the loss exceeds epsilon. By default 0.
    :param rho: The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    :param alpha: Errors up to this share of the count are forgiven; below 1. By default 0.
    :param d_in: The distance at which the budget is spent. By default 1: one row.
    :param branching: For a depth, how many children each inner node has. By default 2, the fewest that branch.

    >>> round(error_lower_bound(33, epsilon=1.0), 2), round(error_lower_bound(33, epsilon=1.0, delta=1e-6), 2)
    (3.59, 3.37)
    >>> round(error_lower_bound(33, rho=0.5, alpha=0.1), 2)  # Gaussian noise on all nodes has 5.7
    1.33
    """
    budget = _check_budget(epsilon=epsilon, delta=delta, rho=rho)
    forgiven = check_scale(alpha, name="alpha")
    if forgiven >= 1:
        raise ValueError(f"alpha ({alpha}) must be below 1. Hint: with alpha 1, the estimate 0 has no error")
    d_in = check_integer(d_in, name="d_in", least=1)
    best = 0.0
    for arity, depth in _packings(tree, check_integer(branching, name="branching", least=1)):
        options: dict[str, Any] = {"levels": depth - 1, "branching": arity, "alpha": forgiven, "d_in": d_in, **budget}
        nats = (depth - 1) * math.log(arity) + 60.0  # beyond what a heap can hide
        top = math.sqrt(nats / float(budget["rho"])) if budget["rho"] else nats / float(budget["epsilon"] or 1)
        # Heaps are counts, which end below 2**62.
        with digits(20):
            best = max(best, _largest_rmse(partial(packing_rmse, **options), max(1, int(min(top, LIMIT // d_in)))))
    return best


def packing_bound(
    tree: Tree | int,
    *,
    alpha: float,
    eta: float,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    d_in: int = 1,
) -> float:
    """The smallest threshold tau with which any mechanism can be (alpha, eta)-accurate within a budget.

    For a given tree, or, with a depth, for every tree that contains a complete binary tree of that depth. Accurate
    means: for all leaf counts, each node's error is at most alpha times the larger of its count and tau, with
    probability 1 - `eta`; `eta` is below 1/2. Proof: docs/proofs/bounds.md.

    Other parameters: as for `error_lower_bound`.

    :param alpha: The relative error, above 0 and below 1.
    :param eta: The probability with which a node may miss it, below 1/2.

    >>> packing_bound(33, alpha=0.25, eta=0.1, epsilon=1.0)
    22.0
    """
    budget = _check_budget(epsilon=epsilon, delta=delta, rho=rho)
    allowed, failure = check_probability(alpha, name="alpha"), check_probability(eta, name="eta")
    if 2 * failure >= 1:
        raise ValueError(f"eta ({eta}) must be below 1/2. Hint: with eta 1/2, no answer needs to be right")
    d_in = check_integer(d_in, name="d_in", least=1)
    levels = _packings(tree, 2)[0][1] - 1
    possible = least_whole(
        lambda steps: not accuracy_is_impossible(steps, levels=levels, eta=failure, **budget), most=LIMIT // d_in
    )
    return round_down(packing_threshold(possible - 1, alpha=allowed, d_in=d_in))


def unbiased_error_lower_bound(
    tree: Tree, *, epsilon: float | None = None, rho: float | None = None, d_in: int = 1
) -> float:
    """The smallest RMSE of the worst node that any unbiased mechanism can have within a budget at distance `d_in`.

    Unbiased means that each node's estimate has its count as its mean, on every input; linear or not. The budget is
    pure (`epsilon`) or zCDP (`rho`): an (epsilon, delta) budget gives no such bound. The bound is that of the hardest
    complete tree that the tree contains. For other mechanisms: `error_lower_bound`. Proof: docs/proofs/bounds.md.

    Other parameters: as for `error_lower_bound`.

    :param tree: A public tree.

    >>> tree = Tree.balanced(branching=2, depth=10)
    >>> round(unbiased_error_lower_bound(tree, rho=0.01), 2), round(unbiased_error_lower_bound(tree, epsilon=0.1), 2)
    (14.07, 19.99)
    """
    check_tree(tree)
    budget = _check_budget(epsilon=epsilon, delta=0.0, rho=rho)
    d_in = check_integer(d_in, name="d_in", least=1)
    arities = {*(arity for arity in _ARITIES if arity <= _widest(tree)), 2, max(2, _widest(tree))}
    gamma_squared = max(
        balanced_gamma_squared(branching=arity, depth=complete_depth(tree, branching=arity)) for arity in arities
    )
    with computable("epsilon, rho and d_in"):
        return unbiased_rmse(gamma_squared, epsilon=budget["epsilon"], rho=budget["rho"], d_in=d_in)


def complete_depth(tree: Tree, *, branching: int = 2) -> int:
    """The depth of the largest complete tree, with `branching` children per node, that a tree contains."""
    depths = np.ones(tree.node_count, dtype=np.int64)
    for ids in reversed(tree.levels[1:]):
        order = ids[np.lexsort((-depths[ids], tree.parents[ids]))]
        parents, values = tree.parents[order], depths[order]
        starts = np.flatnonzero(np.concatenate(([True], parents[1:] != parents[:-1])))
        enough = np.diff(starts, append=order.size) >= branching
        deepest = values[starts]
        deepest[enough] = np.maximum(deepest[enough], 1 + values[starts[enough] + branching - 1])
        depths[parents[starts]] = deepest
    return int(depths[tree.root])


def _packings(tree: Tree | int, branching: int) -> list[tuple[int, int]]:
    """The complete trees contained in a tree: children per inner node, and depth."""
    if isinstance(tree, Tree):
        widest = _widest(tree)
        packings = [(2, complete_depth(tree))]
        for arity in _ARITIES[1:]:
            if arity > widest or packings[-1][1] <= 2:  # one level is not enough for a packing
                break
            packings.append((arity, complete_depth(tree, branching=arity)))
        return packings
    if isinstance(tree, bool) or not isinstance(tree, (int, np.integer)):
        raise TypeError(f"tree ({type(tree).__name__}) must be a Tree or a depth")
    if not 1 <= tree <= _DEEPEST:
        raise ValueError(f"tree ({tree}), as a depth, must be from 1 to 2**40")
    return [(arity, int(tree)) for arity in _ARITIES if arity <= branching] or [(2, 1)]


def _widest(tree: Tree) -> int:
    """The largest number of children of a node."""
    return int(np.bincount(tree.parents[tree.parents >= 0], minlength=1).max())


def _check_budget(*, epsilon: float | None, delta: float, rho: float | None) -> Budget:
    if (epsilon is None) == (rho is None):
        raise ValueError("either epsilon or rho must be given. Hint: epsilon, with delta or without, or rho for zCDP")
    if rho is not None:
        if not is_zero(delta):
            raise ValueError(f"delta ({delta}) goes with epsilon, not with rho")
        return {"epsilon": None, "delta": None, "rho": check_positive(rho, name="rho")}
    exact = None if is_zero(delta) else check_probability(delta, name="delta")
    return {"epsilon": check_positive(epsilon, name="epsilon"), "delta": exact, "rho": None}


def _largest_rmse(rmse: Callable[[int], float], top: int) -> float:
    """Nearly the largest of a theorem's bounds over the numbers of steps from 1 to `top`."""
    low, high, tries = 1, top, 12
    known: dict[int, float] = {}
    while True:
        steps = sorted({min(round(step), high) for step in np.geomspace(low, high, tries).tolist()})
        known.update({step: rmse(step) for step in steps if step not in known})
        best = max(steps, key=known.__getitem__)
        if high - low <= 2 or high <= _CLOSE * low:
            return known[best]
        place, tries = steps.index(best), 5
        low, high = steps[max(place - 1, 0)], steps[min(place + 1, len(steps) - 1)]
