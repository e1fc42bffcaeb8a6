"""The one place that registers with OpenDP's Context."""

from __future__ import annotations

from opendp_tree.measurements.above_threshold import make_above_threshold
from opendp_tree.measurements.clipped_estimator import make_clipped_estimator
from opendp_tree.measurements.ladder_estimator import make_ladder_estimator
from opendp_tree.measurements.multiplicative_estimator import make_multiplicative_estimator
from opendp_tree.measurements.partition_estimator import make_partition_estimator
from opendp_tree.measurements.pruned_descent import make_pruned_descent
from opendp_tree.measurements.sparse_vector import make_sparse_vector
from opendp_tree.measurements.tree_classifier import make_tree_classifier
from opendp_tree.measurements.tree_gaussian import make_tree_gaussian
from opendp_tree.measurements.tree_laplace import make_tree_laplace
from opendp_tree.measurements.tree_partition import make_tree_partition
from opendp_tree.measurements.truncated_laplace import make_truncated_laplace, make_truncated_laplace_profile
from opendp_tree.transformations.leaf_counts import make_leaf_counts
from opendp_tree.transformations.tree_sum import make_tree_sum

__all__ = ["register"]

_CONSTRUCTORS = (
    make_above_threshold,
    make_leaf_counts,
    make_partition_estimator,
    make_sparse_vector,
    make_tree_partition,
    make_clipped_estimator,
    make_ladder_estimator,
    make_multiplicative_estimator,
    make_tree_classifier,
    make_pruned_descent,
    make_tree_gaussian,
    make_tree_laplace,
    make_tree_sum,
    make_truncated_laplace,
    make_truncated_laplace_profile,
)


def register() -> None:
    """Make this package's constructors methods of OpenDP's Context queries. Calling it again changes nothing.

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
    from opendp.context import constructors
    from opendp.context import register as register_with_opendp

    for constructor in _CONSTRUCTORS:
        if constructor.__name__.removeprefix("make_") not in constructors:
            register_with_opendp(constructor)
