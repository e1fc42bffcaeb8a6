"""Level weights: shares of the privacy loss for the levels of a public tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from opendp_tree._arguments import check_choice
from opendp_tree._types import Floats
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import Tree, check_tree

_ROUNDS, _STEP, _GAIN, _PATIENCE, _LEAST = 60, 0.5, 1e-4, 8, 1e-3
ROOT_EVEN, ROOT_BALANCED = 0.005, 0.02
"""The root's share, if the shares below are even or balanced. It is small: the root is the sum of its children."""
_BALANCED = 50_000
"""Up to this many nodes, weights are balanced on the tree itself; beyond, on a regular tree like it."""
_FIRST_STEP, _LAST_STEP, _FURTHEST = 0.8, 0.02, 4.0  # of a search, in the logarithm of a weight


def choose_level_weights(tree: Tree, *, noise: str = "gaussian", aim: str = "worst") -> tuple[float, ...]:
    """Weights for `make_tree_laplace` or `make_tree_gaussian` that lower the error after least squares.

    They sum to the depth, so at the same scale they cost as much as equal weights, and they are never worse. The tree
    is public, so choosing them costs no privacy.

    :param tree: The public tree.
    :param noise: "gaussian" or "laplace". Gaussian by default: on a tree of several levels it needs less noise.
    :param aim: What to lower: the largest variance of a node below the root ("worst", the default), or the mean over
        all nodes ("mean").

    >>> tree = Tree.balanced(branching=10, depth=4)
    >>> [round(weight, 1) for weight in choose_level_weights(tree, aim="mean")]
    [0.1, 0.2, 0.7, 3.0]
    """
    check_tree(tree)
    check_choice(noise, name="noise", choices=("gaussian", "laplace"))
    check_choice(aim, name="aim", choices=("worst", "mean"))
    if aim == "worst":
        return balanced_level_weights(tree, noise=noise)[0]
    return _least_mean(lambda weights: float(level_variances(tree, weights, noise=noise).mean()), tree.depth)


def level_variances(tree: Tree, weights: Sequence[float] | Floats, *, noise: str) -> Floats:
    """The variance of each node after least squares, where that of a level of weight 1 is 1; a weight may be 0."""
    with np.errstate(divide="ignore"):
        by_level = np.asarray(weights, dtype=np.float64) ** (-1.0 if noise == "gaussian" else -2.0)
    return LeastSquares.of(tree, by_level[tree.node_levels]).variances


@lru_cache(maxsize=8)  # the same for all budgets
def balanced_level_weights(tree: Tree, *, noise: str) -> tuple[tuple[float, ...], float]:
    """Weights above 0 of nearly the least worst variance of a node below the root, and that variance."""
    if tree.depth == 1:
        return (1.0,), 1.0
    order, firsts = np.concatenate(tree.levels[1:]), np.cumsum([0, *(level.size for level in tree.levels[1:-1])])

    def worst(shares: Floats) -> Floats:
        variances = level_variances(tree, shares * tree.depth, noise=noise)
        return np.asarray(np.maximum.reduceat(variances[order], firsts))

    rounds = min(_ROUNDS, 600_000 // tree.node_count) if tree.node_count <= _BALANCED else 1
    regular = np.array(regular_level_weights(tree, noise=noise))[1:]
    tries = [share_below_root(worst, start, rounds=rounds, power=_STEP) for start in (np.ones_like(regular), regular)]
    equal = np.full(tree.depth, 1 / tree.depth)
    shares, least = min([*tries, (equal, float(worst(equal).max()))], key=lambda each: each[1])
    return tuple((shares * tree.depth).tolist()), least


def share_below_root(
    errors: Callable[[Floats], Floats], start: Floats, *, root: float | None = None, rounds: int, power: float
) -> tuple[Floats, float]:
    """Shares of the levels, and the largest error below the root.

    The root gets `root`, or a small share. Below it, the best of three: the shares `start`, balanced ones, or nearly
    everything for the deepest level.
    """

    def attempt(usual: float, below: Floats, number: int) -> tuple[Floats, float]:
        top = root or usual
        first = below / below.sum() * (1 - top)
        shares, error = balance(
            lambda each: errors(np.append(top, each)), first, rounds=number, power=power, floor=_LEAST
        )
        return np.append(top, shares), error

    deepest = np.append(np.full(start.size - 1, _LEAST), 1.0)
    tries = [attempt(ROOT_EVEN, start, 1), attempt(ROOT_BALANCED, start, rounds), attempt(ROOT_EVEN, deepest, 1)]
    return min(tries, key=lambda each: each[1])


def regular_level_weights(tree: Tree, *, noise: str) -> tuple[float, ...]:
    """Weights of nearly least worst variance for a tree that branches at each level as this one does on average."""
    sizes = np.array([level.size for level in tree.levels], dtype=np.float64)
    inner = np.array([np.unique(tree.parents[level]).size for level in tree.levels[1:]], dtype=np.float64)
    branching, power = (sizes[1:] / inner).tolist(), -1.0 if noise == "gaussian" else -2.0

    def by_level(weights: Floats) -> Floats:
        return _regular_variances(branching, (weights**power).tolist())

    weights, _ = balance(by_level, np.ones(tree.depth), rounds=_ROUNDS, power=_STEP, floor=_LEAST)
    return tuple(weights.tolist())


def balance(
    errors: Callable[[Floats], Floats], start: Floats, *, rounds: int, power: float = 1.0, floor: float = 1e-4
) -> tuple[Floats, float]:
    """Shares moved from small to large errors for as long as that helps: the best shares, and their largest error.

    No share falls below `floor` times the largest: a smaller one would have no use.
    """
    here, best, least, idle = start, start, np.inf, 0
    for _ in range(rounds):
        each = errors(here)
        largest = float(each.max())
        idle = 0 if largest < least * (1 - _GAIN) else idle + 1
        if largest < least:
            best, least = here, largest
        if idle == _PATIENCE or least == 0:
            break
        here = here * (each / largest) ** power
        here = np.maximum(here, here.max() * floor)
        here = here * (start.sum() / here.sum())
    return best, least


def _regular_variances(branching: Sequence[float], variances: Sequence[float]) -> Floats:
    """The variances of `LeastSquares` by level, where all nodes of a level have equally many children."""
    below = [variances[-1]]
    for number, variance in zip(reversed(branching), reversed(variances[:-1]), strict=True):
        below.append(1 / (1 / variance + 1 / (number * below[-1])))
    below.reverse()
    final = below[:1]
    for number, own in zip(branching, below[1:], strict=True):
        final.append(own * (1 - 1 / number) + final[-1] / number**2)
    return np.array(final)


def _least_mean(mean: Callable[[Floats], float], depth: int) -> tuple[float, ...]:
    """A local minimum by coordinate descent on logarithms; the step is halved when no move helps."""

    def weights_of(logs: Floats) -> Floats:
        raw = np.exp(logs - logs.max())
        return np.asarray(raw / raw.sum() * raw.size)

    here, best, step = np.zeros(depth), mean(np.ones(depth)), _FIRST_STEP
    while step > _LAST_STEP:
        before = best
        for level in range(depth):
            for move in (step, -step):
                there = here.copy()
                there[level] = np.clip(there[level] + move, -_FURTHEST, _FURTHEST)
                value = mean(weights_of(there))
                if value < best * (1 - 1e-9):
                    here, best = there, value
                    break
        if best >= before * (1 - _GAIN):
            step /= 2
    return tuple(weights_of(here).tolist())
