"""Counts of all nodes by whatever mechanism is planned to err least."""

from __future__ import annotations

from opendp.mod import Domain, Measurement, Metric, assert_features

from opendp_tree._opendp import to_then
from opendp_tree.budget import Budget
from opendp_tree.planning.methods import Method
from opendp_tree.planning.ranking import planned_candidate
from opendp_tree.trees.domains import tree_of_leaves
from opendp_tree.trees.tree import Tree

__all__ = ["make_tree_counts", "then_tree_counts"]


def make_tree_counts(
    input_domain: Domain,
    input_metric: Metric,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    alpha: float = 0.1,
    method: Method | str = "auto",
    d_in: int = 1,
    tree: Tree | None = None,
    confidence: float = 0.95,
) -> Measurement:
    """Counts of all nodes from leaf counts, by the mechanism that is planned to err least: a `TreeRelease`.

    The measure is `max_divergence()` for an epsilon alone, `zero_concentrated_divergence()` for a rho, and with a delta
    `approximate(...)` of these. The map is that of the mechanism, which each has a proof of its own:
    Proof: docs/proofs/tree_noise.md, docs/proofs/pruned_descent.md, docs/proofs/partition_estimator.md.

    Parameters
    ----------
    input_domain
        `leaf_domain(tree)`, or OpenDP's vectors of i64 for a public tree.
    input_metric
        `l1_distance(T="i64")`: how far leaf counts are apart.
    epsilon
        The privacy loss at distance `d_in`. Give either this or `rho`.
    delta
        The chance of a larger loss. By default 0: none. Without it nothing can be found in open trees.
    rho
        The privacy loss of zero-concentrated differential privacy, instead of `epsilon`.
    alpha
        The share of a node's own count that an error may have and be forgiven, when mechanisms are compared; from 0 to
        below 1. By default a tenth.
    method
        How the release is made: "auto" (the default: the first of `plan`, which knows public facts alone), another
        method's name, or a value with its own options, such as `TreeNoise("gaussian", nonnegative=True)`.
    d_in
        The distance at which the budget is spent: how many counts one person can change. By default 1: one row.
    tree
        The tree, where the domain does not carry it: for vectors. By default the domain's.
    confidence
        The probability with which each interval holds its node's true count, node by node. By default 0.95.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Tree, TreeNoise, leaf_domain
    >>> dp.enable_features("contrib")
    >>> tree = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
    >>> counts = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(epsilon=1.0)
    >>> 1 - 1e-9 < counts.map(1) <= 1.0
    True
    >>> release = counts(tree.count(["ghent"] * 700 + ["lu"] * 100))
    >>> release.statement.mechanism, release.statement.loss == {"epsilon": counts.map(1)}
    ('tree_laplace', True)
    >>> whole = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_counts(
    ...     epsilon=1.0, method=TreeNoise(integers=True)
    ... )
    >>> whole(tree.count(["ghent"] * 700)).estimates[0].is_integer()
    True

    """
    assert_features("contrib")
    budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, d_in=d_in)
    candidate = planned_candidate(tree_of_leaves(input_domain, tree), budget, alpha=alpha, method=method)
    return candidate.make(input_domain, input_metric, tree=tree, confidence=confidence)


then_tree_counts = to_then(make_tree_counts)
