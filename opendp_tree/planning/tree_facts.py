"""What a plan knows of a hierarchy: its depth, perhaps its nodes, and what least squares makes of noise on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree.trees.least_squares import LeastSquares, TreeLayout
from opendp_tree.trees.level_weights import choose_level_weights, regular_level_weights
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

Floats = npt.NDArray[np.float64]
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
    """The levels whose error counts; None for all."""
    found: dict[str, tuple[Weights, float]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, tree_or_depth: Tree | OpenTree | int, *, nodes: str | None = None, levels: Iterable[int] | None = None
    ) -> TreeFacts:
        """Checks the arguments of `plan`."""
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
    def wanted_weight(self) -> float:
        """The weight of a level that counts: equal ones, little for the others, and the depth in all."""
        if self.levels is None:
            return 1.0
        return self.depth / (len(self.levels) + _UNWANTED * (self.depth - len(self.levels)))

    @property
    def base_weights(self) -> tuple[float, ...] | None:
        """These weights by level; None if all are equal."""
        if self.levels is None or len(self.levels) == self.depth:
            return None
        little = np.full(self.depth, _UNWANTED * self.wanted_weight)
        little[list(self.levels)] = self.wanted_weight
        return tuple(little.tolist())

    def least_squares(self, noise: str) -> tuple[Weights, float] | None:
        """Level weights, and the worst standard deviation after least squares, as a multiple of that of weight 1.

        None if the nodes are not known. The worst is over the levels that count.
        """
        if self.tree is None:
            return None
        if noise not in self.found:
            self.found[noise] = self._solve(self.tree, noise)
        return self.found[noise]

    def _solve(self, tree: Tree, noise: str) -> tuple[Weights, float]:
        layout = TreeLayout.of(tree)
        wanted = slice(None) if self.levels is None else np.isin(tree.node_levels, self.levels)
        power = 1 if noise == "gaussian" else 2

        def solved(weights: Weights) -> Floats:
            by_level = np.ones(self.depth) if weights is None else np.array(weights) ** -power
            return LeastSquares.of(layout, by_level[tree.node_levels]).variances

        def worst(weights: Weights) -> float:
            return float(solved(weights)[wanted].max())

        tries: list[Weights] = [self.base_weights]
        if self.base_weights is None and self.depth > 1:
            tries.append(regular_level_weights(tree, noise=noise))
            if tree.node_count * tree.depth <= _SEARCHED:
                tries.append(choose_level_weights(tree, noise=noise))
        errors = [worst(weights) for weights in tries]
        error, best = min(zip(errors, range(len(tries)), strict=True))
        weights = tries[best]
        if self.base_weights is None and self.depth > 1 and tree.node_count <= _BALANCED:
            weights, error = _balance(tree, weights, error, solved)
        return weights, error**0.5


def _balance(tree: Tree, weights: Weights, error: float, solved: Callable[[Weights], Floats]) -> tuple[Weights, float]:
    """Weights moved from the levels that err least to those that err most, for as long as that helps."""
    here, best = weights or (1.0,) * tree.depth, weights
    firsts = np.cumsum([0, *(level.size for level in tree.levels[:-1])])
    order = np.concatenate(tree.levels)
    for _ in range(_ROUNDS):
        by_level = np.maximum.reduceat(solved(here)[order], firsts)
        if by_level.max() < error:
            best, error = here, float(by_level.max())
        raw = np.array(here) * (by_level / by_level.max()) ** _STEP
        here = tuple((raw * raw.size / raw.sum()).tolist())
    return best, error


def _check_levels(levels: Iterable[int] | None, depth: int) -> tuple[int, ...] | None:
    if levels is None:
        return None
    found = tuple(sorted({check_integer(level, name="levels", least=0) for level in levels}))
    if not found or found[-1] >= depth:
        raise ValueError(f"levels ({list(found)}) must be some of 0 to {depth - 1}; the root's level is 0")
    return found
