"""Level weights: how to share the privacy loss over the levels of a given tree, before any data is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opendp_tree._arguments import check_choice
from opendp_tree._types import Floats
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import Tree, check_tree

_ROUNDS, _STEP, _GAIN, _PATIENCE, _LEAST = 60, 0.5, 1e-4, 8, 1e-3
_BALANCED = 50_000
"""Nodes up to which weights are balanced on the tree itself; beyond, on one that branches everywhere alike."""
_FIRST_STEP, _LAST_STEP, _FURTHEST = 0.8, 0.02, 4.0  # of a search, in the logarithm of a weight


def choose_level_weights(tree: Tree, *, noise: str = "gaussian", aim: str = "worst") -> tuple[float, ...]:
    """Weights for `make_tree_laplace` or `make_tree_gaussian` that lower the error after least squares.

    They sum to the depth, so that at the same scale they cost what equal weights cost. The tree is public, so this
    costs no privacy. A search that starts from equal weights and is never worse than they are.

    Parameters
    ----------
    tree
        The public tree.
    noise
        "gaussian" or "laplace". Gaussian by default: on a tree of several levels it needs less noise.
    aim
        What to lower: the largest variance of any node ("worst", the default, so that no node is left behind), or the
        mean variance over all nodes ("mean").

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


def balanced_level_weights(tree: Tree, *, noise: str) -> tuple[tuple[float, ...], float]:
    """Weights above 0 of nearly the least worst variance, and that variance."""
    order, firsts = np.concatenate(tree.levels), np.cumsum([0, *(level.size for level in tree.levels[:-1])])

    def by_level(weights: Floats) -> Floats:
        worst: Floats = np.maximum.reduceat(level_variances(tree, weights, noise=noise)[order], firsts)
        return worst

    rounds = min(_ROUNDS, 600_000 // tree.node_count) if tree.node_count <= _BALANCED else 1
    starts = ((1.0,) * tree.depth, regular_level_weights(tree, noise=noise))
    return min((_balanced(by_level, start, rounds) for start in starts), key=lambda found: found[1])


def regular_level_weights(tree: Tree, *, noise: str) -> tuple[float, ...]:
    """Weights of nearly least worst variance for a tree that branches at each level as this one does on average."""
    sizes = np.array([level.size for level in tree.levels], dtype=np.float64)
    inner = np.array([np.unique(tree.parents[level]).size for level in tree.levels[1:]], dtype=np.float64)
    branching, power = (sizes[1:] / inner).tolist(), -1.0 if noise == "gaussian" else -2.0
    return _balanced(
        lambda weights: _regular_variances(branching, (weights**power).tolist()), (1.0,) * tree.depth, _ROUNDS
    )[0]


def _balanced(
    by_level: Callable[[Floats], Floats], start: tuple[float, ...], rounds: int
) -> tuple[tuple[float, ...], float]:
    """Weight moved from the levels that err least to those that err most, for as long as that helps."""
    here, best, least, idle = np.array(start), start, np.inf, 0
    for _ in range(rounds):
        worst = by_level(here)
        idle = 0 if worst.max() < least * (1 - _GAIN) else idle + 1
        if worst.max() < least:
            best, least = tuple(here.tolist()), float(worst.max())
        if idle == _PATIENCE:
            break
        here = here * (worst / worst.max()) ** _STEP
        here = np.maximum(here, here.max() * _LEAST)  # noise of less weight would be drawn in vain
        here *= here.size / here.sum()
    return best, least


def _regular_variances(branching: Sequence[float], variances: Sequence[float]) -> Floats:
    """The variances of `LeastSquares` by level, where all nodes of a level have as many children."""
    below = [variances[-1]]
    for number, variance in zip(reversed(branching), reversed(variances[:-1]), strict=True):
        below.append(1 / (1 / variance + 1 / (number * below[-1])))
    below.reverse()
    final = below[:1]
    for number, own in zip(branching, below[1:], strict=True):
        final.append(own * (1 - 1 / number) + final[-1] / number**2)
    return np.array(final)


def _least_mean(mean: Callable[[Floats], float], depth: int) -> tuple[float, ...]:
    """A local minimum: single logarithms are moved up and down by a step that is halved when nothing helps."""

    def weights_of(logs: Floats) -> Floats:
        raw = np.exp(logs - logs.max())
        weights: Floats = raw / raw.sum() * raw.size
        return weights

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
