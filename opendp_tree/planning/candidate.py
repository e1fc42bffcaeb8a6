"""One way to count a tree: the error that is predicted for it, and how to make it. What a planner knows of the tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._arguments import check_choice, check_integer
from opendp_tree._opendp import make_function
from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.keys.key import Key
from opendp_tree.mechanisms.consistent import polished
from opendp_tree.planning.methods import Auto, Method
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.known_nodes import KnownNodes
from opendp_tree.trees.level_weights import balanced_level_weights, level_variances
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["Candidate"]

Weights = tuple[float, ...] | None
"""One for each level, or None for equal ones."""

DEEPEST = 2**20
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
    known: KnownNodes | None = None
    """Public nodes of an open tree; None where none are."""
    solved: dict[str, tuple[Weights, float]] = field(default_factory=dict, compare=False, repr=False)
    """What `least_squares` has come to, by noise, for plans of other budgets."""

    @classmethod
    def of(
        cls,
        tree_or_depth: Tree | OpenTree | Key | int,
        *,
        nodes: str | None = None,
        levels: Iterable[int] | None = None,
        known: KnownNodes | None = None,
    ) -> TreeFacts:
        """What a hierarchy is, from the arguments of `plan`, checked."""
        if isinstance(tree_or_depth, Key):
            key, tree_or_depth = tree_or_depth, tree_or_depth.hierarchy
            known, levels = key.known, key.shown_levels if levels is None and key.show is not None else levels
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
        return cls(depth, public, tree if public else None, check_levels(levels, depth), known)

    @property
    def closed(self) -> bool:
        """Whether known nodes have no children but known ones, so that nothing needs to be found."""
        return self.public or (self.known is not None and all(self.known.closed))

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
        if weights is not None:
            return weights, self._worst(weights, noise)
        self.solved[noise] = self._best(noise)
        return self.solved[noise]

    def _worst(self, weights: Sequence[float], noise: str) -> float:
        assert self.tree is not None
        wanted = slice(None) if self.levels is None else np.isin(self.tree.node_levels, self.levels)
        return math.sqrt(float(level_variances(self.tree, weights, noise=noise)[wanted].max()))

    def _best(self, noise: str) -> tuple[Weights, float]:
        """The best weights of several, and the worst deviation."""
        tree, base = self.tree, self.base_weights
        assert tree is not None
        equal = (1.0,) * tree.depth
        if base is not None or tree.depth == 1:
            return base, self._worst(base or equal, noise)
        balanced, variance = balanced_level_weights(tree, noise=noise)
        tries: list[tuple[Weights, float]] = [(None, self._worst(equal, noise)), (balanced, math.sqrt(variance))]
        if noise == "laplace" and tree.levels[-1].size == tree.leaf_count:
            # A shallow tree may do best with sums of its leaves alone, which weights above 0 never come to.
            leaves = (*[0.0] * (tree.depth - 1), float(tree.depth))
            tries.append((leaves, self._worst(leaves, noise)))
        return min(tries, key=lambda each: each[1])


class LevelError(NamedTuple):
    """What is predicted for the nodes of one level."""

    level: int
    error: float
    """The root of the mean square error of the worst node, or of a typical one, as the plan says."""
    quantity: str = "count"
    nodes: int | None = None
    """How many nodes the level has, if that is stated."""
    shown: float | None = None
    """How many of them are expected to be shown."""


class InfeasibleError(ValueError):
    """No mechanism, or not the one asked for, can do this with this budget."""


class Setting(NamedTuple):
    """What every method is asked about."""

    facts: TreeFacts
    """The hierarchy."""
    budget: Budget
    """What may be spent on how many rows or people."""
    alpha: float
    """The share of a count that an error may have and be forgiven."""


@dataclass(frozen=True)
class Space:
    """What a measurement is made on: leaf counts, and what the caller knows of them."""

    domain: Domain
    metric: Metric
    tree: Tree | None
    confidence: float


@dataclass(frozen=True)
class Candidate:
    """A mechanism with all its parameters, or the reason why there is none.

    `name` is that of its method. `error` is the worst alpha-RMSE of any node for any counts, predicted from the law
    of the noise; `bound` says that it is an upper bound of it. For `tree_estimator` of unknown nodes it is that of a
    node by itself: among thousands of nodes near the threshold it may err by a third more. `shown_from` is the weight
    from which a node is shown with a probability of at least 95 %, if its ancestors weigh no more; 0 if all nodes are
    shown. `nonnegative` and `integers` say what its estimates always are.
    """

    name: str
    reason: str
    """Why it is possible, or why not."""
    needs: str
    feasible: bool = True
    error: float = math.inf
    bound: bool = False
    guarantee: str = ""
    parameters: Mapping[str, int | float | str] = field(default_factory=dict)
    shown_from: float = math.inf
    nonnegative: bool = False
    integers: bool = False
    polishes: bool = False
    """Whether estimates can be made so afterwards."""
    polish: tuple[bool, bool] | None = None
    """Whether estimates are made non-negative, and whole."""
    curve: Callable[[Floats], Floats] | None = field(default=None, repr=False, compare=False)
    by_level: Callable[[], Sequence[LevelError]] | None = field(default=None, repr=False, compare=False)
    """Predicts errors by level, where these are known; nothing is computed before somebody asks."""
    builder: Callable[[Space], Priced] | None = field(default=None, repr=False, compare=False)
    budget: Budget | None = field(default=None, repr=False, compare=False)
    method: Method | None = field(default=None, repr=False, compare=False)
    """The method with all of its options."""

    def error_at(self, weights: Sequence[float] | Floats) -> Floats:
        """The predicted alpha-RMSE of a node of each weight: of the worst such node.

        Parameters
        ----------
        weights
            True counts of nodes.

        Examples
        --------
        >>> from opendp_tree import plan
        >>> laplace = plan(3, epsilon=1.0, alpha=0.1, nodes="public").best
        >>> laplace.error_at([0, 10, 100]).round(1).tolist()
        [4.2, 3.5, 0.3]

        """
        at = np.asarray(weights, dtype=np.float64)
        if self.curve is None:
            return np.full(at.shape, math.inf)
        return self.curve(at)

    def make(
        self,
        input_domain: Domain,
        input_metric: Metric | None = None,
        *,
        tree: Tree | None = None,
        confidence: float = 0.95,
        unit: str | None = None,
        counted: str | None = None,
    ) -> Measurement:
        """The measurement, from leaf counts to a `TreeRelease`; its loss stays within the budget of the plan.

        Parameters
        ----------
        input_domain
            `leaf_domain(tree)`, or OpenDP's vectors of i64 for a public tree.
        input_metric
            How far leaf counts are apart. By default `l1_distance(T="i64")`, the only one that is possible.
        tree
            The tree, where the domain does not carry it: for vectors. By default the domain's.
        confidence
            The probability with which each interval holds its node's true count, node by node. By default 0.95, as
            is usual.
        unit
            What the budget protects, in words, for the statement. By default None: nobody says.
        counted
            What the figures are counts of, in words. By default None: nobody says.

        Examples
        --------
        >>> import opendp.prelude as dp
        >>> from opendp_tree import OpenTree, leaf_domain, plan
        >>> dp.enable_features("contrib")
        >>> tree = OpenTree.columns(3)
        >>> counts = plan(tree, epsilon=1.0, delta=1e-6, alpha=0.1).best.make(leaf_domain(tree))
        >>> counts.map(1) <= (1.0, 1e-6)
        True

        """
        if self.builder is None or self.budget is None:
            raise InfeasibleError(f"{self.name} is not possible here: {self.reason}")
        metric = l1_distance(T="i64") if input_metric is None else input_metric
        priced = self.builder(Space(input_domain, metric, tree, confidence))
        if not self.budget.covers(priced.loss):
            raise InfeasibleError(f"{self.name} would spend {priced.loss}, more than {self.budget.loss}")
        measure, loss = self.budget.statement(priced.loss)
        d_in = self.budget.d_in

        def told(release: TreeRelease) -> TreeRelease:
            """The release with its cost in the terms that were asked for."""
            if self.polish is not None:
                release = polished(release, nonnegative=self.polish[0], integers=self.polish[1])
            assert release.statement is not None
            statement = replace(release.statement, measure=measure, d_in=d_in, loss=loss, unit=unit, counted=counted)
            return replace(release, statement=statement)

        return priced.measurement >> make_function(told)


def suited(candidate: Candidate, auto: Auto) -> Candidate:
    """The candidate, if its estimates are what they must be; else why it is not possible."""
    if candidate.polishes and (auto.nonnegative or auto.integers):
        kept = candidate.nonnegative or auto.nonnegative, candidate.integers or auto.integers
        return replace(candidate, nonnegative=kept[0], integers=kept[1], polish=kept)
    for name in ("nonnegative", "integers"):
        if candidate.feasible and getattr(auto, name) and not getattr(candidate, name):
            return Candidate(candidate.name, f"it cannot promise {name}", f"{name}=False", feasible=False)
    return candidate


def check_levels(levels: Iterable[int] | None, depth: int) -> tuple[int, ...] | None:
    """Levels of a tree of this depth, ascending."""
    if levels is None:
        return None
    wanted = tuple(sorted({check_integer(level, name="levels", least=0) for level in levels}))
    if not wanted or wanted[-1] >= depth:
        raise ValueError(f"levels ({list(wanted)}) must be some of 0 to {depth - 1}; the root's level is 0")
    return wanted
