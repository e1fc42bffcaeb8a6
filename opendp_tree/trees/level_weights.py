"""Level weights: how to share the privacy loss over the levels of a given tree, before any data is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opendp_tree._arguments import check_choice
from opendp_tree._types import Floats
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.tree import Tree, check_tree

__all__ = ["choose_level_weights"]


_FIRST_STEP, _LAST_STEP = 0.8, 0.02  # in the logarithm of a weight
_FURTHEST = 4.0  # no level gets less than a few thousandths of another: its noise would only be drawn in vain
_SHARPNESS = 64  # a power mean of this order stands for the worst node, because it has no kinks to get stuck at


def choose_level_weights(tree: Tree, *, noise: str = "gaussian", aim: str = "worst") -> tuple[float, ...]:
    """Weights for `make_tree_laplace` or `make_tree_gaussian` that lower the error after least squares.

    They sum to the depth, so that at the same scale they cost what equal weights cost. The tree is public, so this
    costs no privacy. A search that starts from equal weights and is never worse than they are. For Gaussian noise both
    aims are convex in the weights; for Laplace noise the result may be a local optimum. Takes some 60 solves for each
    level of the tree.

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
    power = 1 if noise == "gaussian" else 2

    def variances(logs: Floats) -> Floats:
        return LeastSquares.of(tree, (_weights_of(logs) ** -power)[tree.node_levels]).variances

    def smooth(logs: Floats) -> float:
        return float(variances(logs).mean()) if aim == "mean" else _power_mean(variances(logs))

    def exact(logs: Floats) -> float:
        return float(variances(logs).mean() if aim == "mean" else variances(logs).max())

    return _searched(smooth, exact, tree.depth)


def regular_level_weights(tree: Tree, *, noise: str) -> tuple[float, ...]:
    """Weights of least worst variance for a tree that branches at every level as this one does on average."""
    sizes = np.array([level.size for level in tree.levels], dtype=np.float64)
    inner = np.array([np.unique(tree.parents[level]).size for level in tree.levels[1:]], dtype=np.float64)
    branching = (sizes[1:] / inner).tolist()
    power = 1 if noise == "gaussian" else 2

    def variances(logs: Floats) -> Floats:
        return np.array(_regular_variances(branching, (_weights_of(logs) ** -power).tolist()))

    return _searched(lambda logs: _power_mean(variances(logs)), lambda logs: float(variances(logs).max()), tree.depth)


def _searched(smooth: Callable[[Floats], float], exact: Callable[[Floats], float], depth: int) -> tuple[float, ...]:
    """Weights that make `smooth` small; equal ones if these are not better in the `exact` sense."""
    equal = np.zeros(depth)
    best = _pattern_search(smooth, equal)
    return tuple(_weights_of(best if exact(best) < exact(equal) else equal).tolist())


def _power_mean(values: Floats) -> float:
    """Nearly the largest value."""
    top = values.max()
    return float(top * ((values / top) ** _SHARPNESS).mean() ** (1 / _SHARPNESS))


def _regular_variances(branching: Sequence[float], variances: Sequence[float]) -> list[float]:
    """The variances of `LeastSquares` by level, where all nodes of a level have as many children."""
    below = [variances[-1]]
    for number, variance in zip(reversed(branching), reversed(variances[:-1]), strict=True):
        below.append(1 / (1 / variance + 1 / (number * below[-1])))
    below.reverse()
    final = below[:1]
    for number, own in zip(branching, below[1:], strict=True):
        final.append(own * (1 - 1 / number) + final[-1] / number**2)
    return final


def _weights_of(logs: Floats) -> Floats:
    """Weights that sum to their number, from logarithms."""
    raw = np.exp(logs - logs.max())
    weights: Floats = raw / raw.sum() * raw.size
    return weights


def _pattern_search(objective: Callable[[Floats], float], start: Floats) -> Floats:
    """A local minimum: single coordinates are moved up and down by a step that is halved when nothing helps."""
    here, best, step = start.copy(), objective(start), _FIRST_STEP
    while step > _LAST_STEP:
        before = best
        for place in range(here.size):
            for move in (step, -step):
                there = here.copy()
                there[place] = np.clip(there[place] + move, -_FURTHEST, _FURTHEST)
                value = objective(there)
                if value < best * (1 - 1e-9):
                    here, best = there, value
                    break
        if best >= before * (1 - 1e-4):
            step /= 2
    return here
