"""The one place that registers with OpenDP: this package's constructors as methods of the Context's queries."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

from opendp.mod import Measurement

from opendp_tree._opendp import to_then
from opendp_tree.context.queries import at_leaf_counts, leaf_counts, share_of, then, tree_counts
from opendp_tree.mechanisms.chosen_quantiles import make_chosen_quantiles
from opendp_tree.mechanisms.curve import make_bin_curve, make_segment_curve
from opendp_tree.mechanisms.means import make_tree_means
from opendp_tree.mechanisms.people import make_people_estimator
from opendp_tree.mechanisms.pruned_descent import make_pruned_descent
from opendp_tree.mechanisms.sparse_vector import make_above_threshold, make_sparse_vector
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_noise import make_tree_gaussian, make_tree_laplace
from opendp_tree.mechanisms.tree_partition import make_tree_partition
from opendp_tree.mechanisms.tree_sum import make_tree_sum
from opendp_tree.mechanisms.truncated_laplace import make_truncated_laplace, make_truncated_laplace_profile
from opendp_tree.paper.classification import make_tree_classifier
from opendp_tree.paper.clipping import make_clipped_estimator
from opendp_tree.paper.estimation import make_multiplicative_estimator
from opendp_tree.paper.reduction import make_ladder_estimator
from opendp_tree.rows.leaf_counts import make_leaf_counts
from opendp_tree.rows.people import make_people_records

if TYPE_CHECKING:
    from opendp.context import Query

__all__ = ["register"]

_CONSTRUCTORS = (
    make_above_threshold,
    make_bin_curve,
    make_chosen_quantiles,
    make_segment_curve,
    make_leaf_counts,
    make_tree_estimator,
    make_people_estimator,
    make_people_records,
    make_sparse_vector,
    make_tree_partition,
    make_clipped_estimator,
    make_ladder_estimator,
    make_multiplicative_estimator,
    make_tree_classifier,
    make_pruned_descent,
    make_tree_gaussian,
    make_tree_laplace,
    make_tree_means,
    make_tree_sum,
    make_truncated_laplace,
    make_truncated_laplace_profile,
)


def _with_share(make: Callable[..., Measurement]) -> Callable[..., Query]:
    """A constructor that takes epsilon and delta at distance 1, as a method of queries: by default, their share."""
    name, partial = make.__name__.removeprefix("make_"), to_then(make)

    def method(query: Any, **options: Any) -> Query:
        chain = at_leaf_counts(query)._chain
        if options.get("epsilon") is None and options.get("delta") is None:
            options = {**options, **_share_of_one(query, name)}
        return then(query, chain >> partial(**options))

    method.__name__ = name
    method.__doc__ = f"`then_{name}` after this query; epsilon and delta are by default its share of the budget."
    return method


def _share_of_one(query: Any, name: str) -> dict[str, float]:
    """What a query may spend at distance 1, so that group privacy keeps it within its share at its own distance."""
    chain = query._chain
    most = query._d_in if isinstance(chain, tuple) else chain.map(query._d_in)
    budget = share_of(query).at(most)
    if budget.one_person is None:
        raise ValueError(f"{name} must have a share of epsilon and delta. Hint: dp.loss_of(epsilon=1.0, delta=1e-6)")
    return dict(zip(("epsilon", "delta"), budget.one_person, strict=True))


def register() -> None:
    """Make this package's constructors methods of OpenDP's Context queries. Calling it again changes nothing.

    `tree_counts` becomes a method of all queries, and `leaf_counts` one of those of Polars frames, after which all
    others are there. What takes an epsilon and a delta takes by default the query's share of the budget.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import opendp_tree
    >>> opendp_tree.register()
    >>> dp.enable_features("contrib")
    >>> context = dp.Context.compositor(
    ...     data=[40, 2, 1, 0],
    ...     domain=dp.vector_domain(dp.atom_domain(T="i64"), size=4),
    ...     privacy_unit=dp.unit_of(l1=1, U="i64"),
    ...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    ...     split_evenly_over=1,
    ... )
    >>> tree = opendp_tree.Tree.balanced(branching=2, depth=3)
    >>> len(context.query().tree_sum(tree=tree).truncated_laplace(delta=1e-6, d_in=3).release())
    7

    """
    from opendp.context import Query, constructors
    from opendp.context import register as register_with_opendp
    from opendp.extras.polars import LazyFrameQuery

    for queries in (Query, LazyFrameQuery):
        setattr(queries, "tree_counts", tree_counts)  # noqa: B010 - mypy knows no such method
    setattr(LazyFrameQuery, "leaf_counts", leaf_counts)  # noqa: B010
    for constructor in _CONSTRUCTORS:
        if constructor.__name__.removeprefix("make_") not in constructors:
            register_with_opendp(constructor)
        if {"epsilon", "delta"} <= signature(constructor).parameters.keys():
            shared = _with_share(constructor)
            setattr(Query, shared.__name__, shared)
