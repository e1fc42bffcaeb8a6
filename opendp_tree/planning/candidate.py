"""One way to count a tree, with the error that it is predicted to have, and how to make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._opendp import make_function
from opendp_tree._types import Floats
from opendp_tree.budget import Budget, Priced
from opendp_tree.mechanisms.consistent import polished
from opendp_tree.planning.methods import Auto
from opendp_tree.planning.tree_facts import TreeFacts
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.tree import Tree

__all__ = ["Candidate"]

_OFTEN = 0.95


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

    `name` is that of its method. `error` is the worst alpha-RMSE of any node for any counts, predicted from the law of
    the noise; `bound` says that it is an upper bound of it. `shown_from` is the weight from which a node is shown with
    a probability of at least 95 %, if its ancestors weigh no more; 0 if all nodes are shown. `nonnegative` and
    `integers` say what its estimates always are.
    """

    name: str
    feasible: bool
    reason: str
    """Why it is possible, or why not."""
    needs: str
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
    builder: Callable[[Space], Priced] | None = field(default=None, repr=False, compare=False)
    budget: Budget | None = field(default=None, repr=False, compare=False)

    @classmethod
    def infeasible(cls, name: str, *, reason: str, needs: str) -> Candidate:
        """A mechanism that this setting does not allow.

        Parameters
        ----------
        name
            The method's name.
        reason
            Why it is not possible, as the end of a sentence.
        needs
            What would make it possible.

        """
        return cls(name, False, reason, needs)

    def wanted(self, auto: Auto) -> Candidate:
        """The candidate, if its estimates are what they must be; else why it is not possible.

        Parameters
        ----------
        auto
            What estimates must be.

        """
        if self.polishes and (auto.nonnegative or auto.integers):
            kept = self.nonnegative or auto.nonnegative, self.integers or auto.integers
            return replace(self, nonnegative=kept[0], integers=kept[1], polish=kept)
        for name, asked, promised in (
            ("nonnegative", auto.nonnegative, self.nonnegative),
            ("integers", auto.integers, self.integers),
        ):
            if self.feasible and asked and not promised:
                return Candidate.infeasible(self.name, reason=f"it cannot promise {name}", needs=f"{name}=False")
        return self

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
            raise ValueError(f"{self.name} is not possible here: {self.reason}")
        metric = l1_distance(T="i64") if input_metric is None else input_metric
        priced = self.builder(Space(input_domain, metric, tree, confidence))
        if not self.budget.covers(priced.loss):
            raise ValueError(f"{self.name} would spend {priced.loss}, more than {self.budget.loss}")
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


def shown_from(chance: Callable[[Floats], Floats], threshold: float) -> float:
    """The least whole weight that is shown with a probability of at least 95 %, up to a hundred thresholds.

    Examples
    --------
    >>> shown_from(lambda weights: weights / 100, 50.0)
    96.0

    """
    weights: Floats = np.unique(np.floor(np.geomspace(1, 100 * max(2.0, float(threshold)), 400))).astype(np.float64)
    enough = np.flatnonzero(chance(weights) >= _OFTEN)
    return float(weights[enough[0]]) if enough.size else math.inf
