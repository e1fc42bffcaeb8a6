"""What a plan knows of a hierarchy: its depth, perhaps its nodes, and what least squares makes of noise on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree._types import Floats
from opendp_tree.trees.least_squares import LeastSquares
from opendp_tree.trees.level_weights import choose_level_weights, regular_level_weights
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

Weights = tuple[float, ...] | None
"""One for each level, or None for equal ones."""

DEEPEST = 2**20
_SEARCHED = 1_000  # nodes times levels up to which weights are searched for on the tree itself
_BALANCED, _ROUNDS, _STEP = 50_000, 12, 0.25  # nodes up to which weights are balanced, how often, how boldly
_UNWANTED = 0.05  # the weight of a level whose error does not count: it is released all the same


@dataclass(frozen=True)
class TreeFacts:
    """A hierarchy as a planner sees it."""

    depth: int
    public: bool
    tree: Tree | None
    """The nodes, if they are known to the planner."""
    levels: tuple[int, ...] | None
    """The levels whose error counts, and of open nodes those that are shown; None for all."""
    solved: dict[str, tuple[Weights, float]] = field(default_factory=dict, compare=False, repr=False)
    """What `least_squares` has come to, by noise, for plans of other budgets."""

    @classmethod
    def of(
        cls, tree_or_depth: Tree | OpenTree | int, *, nodes: str | None = None, levels: Iterable[int] | None = None
    ) -> TreeFacts:
        """What a hierarchy is, from the arguments of `plan`, checked."""
        if nodes is not None:
            check_choice(nodes, name="nodes", choices=("public", "open"))
        tree = tree_or_depth if isinstance(tree_or_depth, Tree) else None
        if isinstance(tree_or_depth, (Tree, OpenTree)):
            depth = tree_or_depth.depth
            if isinstance(tree_or_depth, OpenTree) and nodes == "public":
                raise ValueError("nodes ('public') must be 'open' for an OpenTree. Hint: pass a Tree, or a depth")
        else:
            depth = check_integer(tree_or_depth, name="tree_or_depth", least=1)
            if depth > DEEPEST:
                raise ValueError(f"tree_or_depth ({depth}) must be at most 2**20")
            if nodes is None:
                raise ValueError("nodes must be 'public' or 'open', because a depth alone does not tell")
        public = nodes == "public" or (nodes is None and tree is not None)
        return cls(depth, public, tree if public else None, _check_levels(levels, depth))

    @property
    def leaves_out(self) -> bool:
        """Whether some level is not wanted. The root's always is."""
        return self.levels is not None and not set(range(1, self.depth)) <= set(self.levels)

    @property
    def base_weights(self) -> Weights:
        """The weights of levels by whether they count: equal ones, little for the others, and the depth in all."""
        if self.levels is None or len(self.levels) == self.depth:
            return None
        little = np.full(self.depth, _UNWANTED)
        little[list(self.levels)] = 1.0
        return self.normal_weights(little.tolist())

    def normal_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights that sum to the depth, in the ratios of these."""
        if len(weights) != self.depth:
            raise ValueError(f"weights must hold one number for each of the {self.depth} levels, from the root's down")
        total = sum(weights)
        return tuple(weight * self.depth / total for weight in weights)

    def least_weight(self, weights: Weights) -> float:
        """The least weight of a level that counts."""
        if weights is None:
            return 1.0
        return min(weights) if self.levels is None else min(weights[level] for level in self.levels)

    def least_squares(self, noise: str, weights: Weights = None) -> tuple[Weights, float]:
        """Level weights, and the worst standard deviation after least squares, as a multiple of that of weight 1."""
        if self.tree is None:
            raise ValueError("least squares needs the tree itself")
        if weights is None and noise in self.solved:
            return self.solved[noise]
        fit = _LevelFit(self.tree, self.levels, 1 if noise == "gaussian" else 2)
        if weights is not None:
            return weights, fit.worst(weights) ** 0.5
        best, error = _best_weights(fit, noise, self.base_weights)
        self.solved[noise] = best, error**0.5
        return self.solved[noise]


@dataclass(frozen=True)
class _LevelFit:
    """Least squares on one tree, for any weights of its levels."""

    tree: Tree
    levels: tuple[int, ...] | None
    power: int
    """A weight's share in the loss is this power's root of what it does to variances."""

    def variances(self, weights: Weights) -> Floats:
        if weights is None:
            by_level = np.ones(self.tree.depth)
        else:
            with np.errstate(divide="ignore"):
                by_level = np.array(weights) ** -float(self.power)
        return LeastSquares.of(self.tree, by_level[self.tree.node_levels]).variances

    def worst(self, weights: Weights) -> float:
        wanted = slice(None) if self.levels is None else np.isin(self.tree.node_levels, self.levels)
        return float(self.variances(weights)[wanted].max())


def _best_weights(fit: _LevelFit, noise: str, base: Weights) -> tuple[Weights, float]:
    """The best weights of several searches, and their worst variance."""
    tree = fit.tree
    tries: list[Weights] = [base]
    if base is None and tree.depth > 1:
        tries.append(regular_level_weights(tree, noise=noise))
        if tree.node_count * tree.depth <= _SEARCHED:
            tries.append(choose_level_weights(tree, noise=noise))
        if noise == "laplace" and tree.levels[-1].size == tree.leaf_count:
            # A shallow tree may do best with sums of its leaves alone, which a search of weights above 0 never tries.
            tries.append((*[0.0] * (tree.depth - 1), float(tree.depth)))
    errors = [fit.worst(weights) for weights in tries]
    error, best = min(zip(errors, range(len(tries)), strict=True))
    if base is None and tree.depth > 1 and tree.node_count <= _BALANCED:
        return _balance(fit, tries[best], error)
    return tries[best], error


def _balance(fit: _LevelFit, weights: Weights, error: float) -> tuple[Weights, float]:
    """Weights moved from the levels that err least to those that err most, for as long as that helps."""
    tree = fit.tree
    here, best = weights or (1.0,) * tree.depth, weights
    firsts = np.cumsum([0, *(level.size for level in tree.levels[:-1])])
    order = np.concatenate(tree.levels)
    for _ in range(_ROUNDS):
        by_level = np.maximum.reduceat(fit.variances(here)[order], firsts)
        if by_level.max() < error:
            best, error = here, float(by_level.max())
        raw = np.array(here) * (by_level / by_level.max()) ** _STEP
        here = tuple((raw * raw.size / raw.sum()).tolist())
    return best, error


def _check_levels(levels: Iterable[int] | None, depth: int) -> tuple[int, ...] | None:
    if levels is None:
        return None
    wanted = tuple(sorted({check_integer(level, name="levels", least=0) for level in levels}))
    if not wanted or wanted[-1] >= depth:
        raise ValueError(f"levels ({list(wanted)}) must be some of 0 to {depth - 1}; the root's level is 0")
    return wanted
