"""Counts of all nodes by whatever mechanism is planned to err least."""

from __future__ import annotations

from collections.abc import Iterable

from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._arguments import check_choice
from opendp_tree._opendp import to_then
from opendp_tree.planning.plan import CANDIDATES, plan
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_counts", "then_tree_counts"]

METHODS = ("auto", *CANDIDATES)


def make_tree_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    method: str = "auto",
    d_in: int = 1,
    tree: Tree | None = None,
    levels: Iterable[int] | None = None,
    aim: str = "error",
    confidence: float = 0.95,
    nonnegative: bool = False,
    integers: bool = False,
) -> Measurement:
    """Counts of all nodes from leaf counts, by the mechanism that is planned to err least: a `TreeRelease`.

    `plan` ranks the mechanisms for the tree and the budget, which is (`epsilon`, `delta`) or (`rho`, `delta`) at
    distance `d_in`; "auto" takes the first, any other `method` is a candidate's name. The choice depends on public
    facts alone. `levels` and `aim` are those of `plan`; `nonnegative` and `integers` those of `make_consistent`, where
    the mechanism is noise on every node.

    The measure is `max_divergence()` for an epsilon alone, `approximate(max_divergence())` with a delta, and
    `zero_concentrated_divergence()` for a rho. The map is that of the mechanism, which each has a proof of its own:
    Proof: docs/proofs/tree_noise.md, docs/proofs/pruned_descent.md, docs/proofs/partition_estimator.md.

    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(epsilon=1.0)
    >>> 1 - 1e-9 < counts.map(1) <= 1.0
    True
    >>> release = counts(tree.count(["ghent"] * 700 + ["lu"] * 100))
    >>> release.statement.mechanism, release.statement.loss == {"epsilon": counts.map(1)}
    ('tree_laplace', True)
    """
    assert_features("contrib")
    check_choice(method, name="method", choices=METHODS)
    found = plan(
        tree_of_leaves(input_domain, tree),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        alpha=alpha,
        d_in=d_in,
        levels=levels,
        aim=aim,
    )
    chosen = found.best if method == "auto" else found.candidate(method)
    if not chosen.feasible:
        what = "nothing is possible" if method == "auto" else f"method ({method!r}) is not possible"
        raise ValueError(f"{what}: {chosen.reason}. It needs {chosen.needs}. Hint: plan(...).describe()")
    return chosen.make(
        input_domain,
        input_metric,
        tree=tree,
        confidence=confidence,
        nonnegative=nonnegative,
        integers=integers,
    )


then_tree_counts = to_then(make_tree_counts)
