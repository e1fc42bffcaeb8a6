"""How small an error can be at all: lower bounds for every private mechanism.

A search in floats finds where the theorems' bounds are largest; what is returned is the theorem's own number there,
rounded down. So a poor search costs sharpness and never truth.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypedDict

import numpy as np

from opendp_tree._arguments import check_integer, check_positive, check_probability, check_scale, computable, is_zero
from opendp_tree._types import Floats
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import least_whole, round_down
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
"""Children of which a packing makes use; with more of them a bound on each child's own error says less."""
_DEEPEST = 2**40


class _Budget(TypedDict):
    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None


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
    children at each inner node. Ragged trees are easier than their depth says: give the tree. The budget is `epsilon`,
    with `delta` if there is one, or `rho` (zCDP). "Worst case" is over all leaf counts from 0 on, and over all nodes.
    Proof: docs/proofs/packing.md.

    Parameters
    ----------
    tree
        The tree, or a number of levels with the root's.
    epsilon
        The privacy loss. Give either this or `rho`.
    delta
        The chance of a larger loss than epsilon. By default 0: none.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that an error may have and be forgiven; below 1. By default 0: none.
    d_in
        The distance at which the budget is spent. By default 1: one row.
    branching
        For a depth, how many children each inner node has. By default 2, the fewest that branch.

    Examples
    --------
    >>> round(error_lower_bound(33, epsilon=1.0), 2), round(error_lower_bound(33, epsilon=1.0, delta=1e-6), 2)
    (3.59, 3.37)
    >>> round(error_lower_bound(33, rho=0.5, alpha=0.1), 2)  # Gaussian noise on all nodes has 5.7
    1.33
    """
    budget = _check_budget(epsilon=epsilon, delta=delta, rho=rho)
    forgiven = check_scale(alpha, name="alpha")
    if forgiven >= 1:
        raise ValueError(f"alpha ({alpha}) must be below 1. Hint: with 1, the estimate 0 has no error")
    d_in = check_integer(d_in, name="d_in", least=1)
    best = 0.0
    for arity, depth in _packings(tree, check_integer(branching, name="branching", least=1)):
        # Heaps are counts, which end below 2**62.
        steps, near = _best_steps(budget, levels=depth - 1, branching=arity, most=LIMIT // d_in)
        if near * d_in * float(1 - forgiven) > best:
            exact = packing_rmse(steps, levels=depth - 1, branching=arity, alpha=forgiven, d_in=d_in, **budget)
            best = max(best, exact)
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
    probability 1 - `eta`; `eta` is below 1/2. Proof: docs/proofs/packing.md.

    Parameters
    ----------
    tree
        The tree, or a number of levels with the root's.
    alpha
        The relative error, above 0 and below 1.
    eta
        The chance with which a node may miss it, below 1/2.
    epsilon, delta, rho, d_in
        As in `error_lower_bound`.

    Examples
    --------
    >>> packing_bound(33, alpha=0.25, eta=0.1, epsilon=1.0)
    22.0
    """
    budget = _check_budget(epsilon=epsilon, delta=delta, rho=rho)
    allowed, failure = check_probability(alpha, name="alpha"), check_probability(eta, name="eta")
    if 2 * failure >= 1:
        raise ValueError(f"eta ({eta}) must be below 1/2. Hint: with 1/2, no answer need be right")
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
    pure (`epsilon`) or zCDP (`rho`): an (epsilon, delta) budget bounds no variance in this way. The bound is that of
    the hardest complete tree that the tree contains. For mechanisms that need not be unbiased: `error_lower_bound`.
    Proof: docs/proofs/factorization.md.

    Parameters
    ----------
    tree
        A public tree.
    epsilon, rho, d_in
        As in `error_lower_bound`.

    Examples
    --------
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
    """The depth of the largest complete tree, `branching` children each, that a tree has when nodes are left out."""
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
    """The complete trees that are there: children of each inner node, and depth."""
    if isinstance(tree, Tree):
        widest = _widest(tree)
        packings = [(2, complete_depth(tree))]
        for arity in _ARITIES[1:]:
            if arity > widest or packings[-1][1] <= 2:  # one level is too little to pack in
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


def _check_budget(*, epsilon: float | None, delta: float, rho: float | None) -> _Budget:
    if (epsilon is None) == (rho is None):
        raise ValueError("either epsilon or rho must be given. Hint: epsilon, with delta or without, or rho for zCDP")
    if rho is not None:
        if not is_zero(delta):
            raise ValueError(f"delta ({delta}) goes with epsilon, not with rho")
        return _Budget(epsilon=None, delta=Fraction(0), rho=check_positive(rho, name="rho"))
    exact = Fraction(0) if is_zero(delta) else check_probability(delta, name="delta")
    return _Budget(epsilon=check_positive(epsilon or 0.0, name="epsilon"), delta=exact, rho=None)


def _best_steps(budget: _Budget, *, levels: int, branching: int, most: int) -> tuple[int, float]:
    """The number of steps whose bound is largest, nearly, and that bound at distance 1 and alpha 0, in floats."""
    room = levels * math.log(branching) + 60.0
    if budget["rho"] is not None:
        top = math.sqrt(room / max(float(budget["rho"]), 1e-300))
    else:
        top = room / max(float(budget["epsilon"] or 0), 1e-300)
    steps: Floats = np.unique(np.floor(np.geomspace(1.0, max(1.0, min(top, float(most))), 300, dtype=np.float64)))
    best = int(np.argmax(_float_errors(steps, budget, levels=levels, branching=branching)))
    low, high = float(steps[max(best - 1, 0)]), float(steps[min(best + 1, steps.size - 1)])
    near: Floats = np.unique(np.floor(np.linspace(low, high, 100)))
    errors = _float_errors(near, budget, levels=levels, branching=branching)
    return min(int(near[np.argmax(errors)]), most), float(errors.max())


def _float_errors(steps: Floats, budget: _Budget, *, levels: int, branching: int) -> Floats:
    """The theorem's bound for many numbers of steps at once, in floats."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        if budget["rho"] is not None:
            nats, lost = float(budget["rho"]) * steps**2, np.zeros_like(steps)
            two_point = np.exp(-nats) / 4
        else:
            epsilon, delta = float(budget["epsilon"] or 0), float(budget["delta"])
            y = epsilon * steps
            lost = delta * np.expm1(y) / math.expm1(min(epsilon, 700.0)) if delta else np.zeros_like(steps)
            lost = np.minimum(np.nan_to_num(lost, nan=1.0), 1.0)
            nats = y if delta else y * np.tanh(y / 2)
            two_point = (1 - lost) * np.exp(-y) / (1 + np.exp(-y)) ** 2
        risk = two_point
        if levels:
            left = (1 - lost) * (levels * math.log(branching) + np.log1p(-lost) - nats) / levels
            entropy = np.maximum(np.nan_to_num(left, nan=0.0, neginf=0.0), 0)
            risk = np.maximum(risk, _float_risks(entropy, branching))
    errors: Floats = steps * np.sqrt(risk)
    return errors


def _float_risks(entropy: Floats, branching: int) -> Floats:
    failures: Floats = np.geomspace(1e-12, 1 / branching, 4000, dtype=np.float64)
    entropies = failures * (math.log(branching - 1) - np.log(failures)) - (1 - failures) * np.log1p(-failures)
    eta = np.interp(entropy, entropies, failures, left=0.0)
    risk: Floats = (1 - (1 - eta) ** 2 - eta**2 / (branching - 1)) / branching
    if branching == 2:
        return risk
    slope = (branching - 1) * math.log(branching - 1) / (branching - 2)
    return np.maximum(risk, (1 - 1 / branching - (math.log(branching) - entropy) / slope) / branching)
