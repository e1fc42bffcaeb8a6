"""One way to count a tree, with the error that it is predicted to have, and how to make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from opendp.metrics import l1_distance
from opendp.mod import Domain, Measurement, Metric

from opendp_tree._opendp import make_function
from opendp_tree.planning.budget import Budget
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.tree import Tree

__all__ = ["Candidate"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReleaseOptions:
    """What a user may ask of a release, whatever makes it."""

    tree: Tree | None = None
    confidence: float = 0.95
    nonnegative: bool = False
    integers: bool = False


Builder = Callable[[Domain, Metric, ReleaseOptions], Measurement]


@dataclass(frozen=True)
class Candidate:
    """A mechanism with all its parameters, or the reason why there is none.

    `error` is the worst alpha-RMSE of any node for any counts, predicted from the law of the noise; `bound` says that
    it is an upper bound of it. `shown_from` is the weight from which a node is shown with a probability of at least
    95 %, if its ancestors weigh no more; 0 if all nodes are shown.
    """

    name: str
    feasible: bool
    reason: str
    """Why it is possible, or why not."""
    error: float = math.inf
    bound: bool = False
    guarantee: str = ""
    needs: str = ""
    parameters: Mapping[str, int | float | str] = field(default_factory=dict)
    shown_from: float = math.inf
    curve: Callable[[Floats], Floats] | None = field(default=None, repr=False, compare=False)
    builder: Builder | None = field(default=None, repr=False, compare=False)
    budget: Budget | None = field(default=None, repr=False, compare=False)

    @classmethod
    def infeasible(cls, name: str, *, reason: str, needs: str) -> Candidate:
        """A mechanism that this setting does not allow."""
        return cls(name, False, reason, needs=needs)

    def error_at(self, weights: Sequence[float] | Floats) -> Floats:
        """The predicted alpha-RMSE of a node of each weight: of the worst such node.

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
        nonnegative: bool = False,
        integers: bool = False,
    ) -> Measurement:
        """The measurement, from leaf counts to a `TreeRelease`; its loss stays within the budget of the plan.

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
        options = ReleaseOptions(tree, confidence, nonnegative, integers)
        metric = l1_distance(T="i64") if input_metric is None else input_metric
        made = self.budget.convert(self.builder(input_domain, metric, options))
        if not self.budget.covers(made):
            raise ValueError(f"{self.name} would spend {made.map(self.budget.d_in)}, more than {self.budget.loss}")  # type: ignore[no-untyped-call]
        measure, loss = self.budget.statement(made)
        d_in = self.budget.d_in

        def told(release: TreeRelease) -> TreeRelease:
            """The release with its cost in the terms that were asked for."""
            assert release.statement is not None
            statement = replace(release.statement, measure=measure, d_in=d_in, loss=loss)
            return replace(release, statement=statement)

        return made >> make_function(told)
