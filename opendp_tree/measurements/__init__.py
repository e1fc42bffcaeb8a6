"""Measurements: one private mechanism a file."""

from opendp_tree.measurements.above_threshold import make_above_threshold, then_above_threshold
from opendp_tree.measurements.bound_report import make_bound_report, then_bound_report
from opendp_tree.measurements.means.tree_means import make_tree_means, then_tree_means
from opendp_tree.measurements.pruned_descent import make_pruned_descent, then_pruned_descent
from opendp_tree.measurements.truncated_laplace import (
    make_truncated_laplace_profile,
    then_truncated_laplace_profile,
    truncated_laplace_radius,
)
from opendp_tree.rows.leaf_values import LeafValues, leaf_values_domain, make_leaf_values, then_leaf_values

__all__ = [
    "LeafValues",
    "leaf_values_domain",
    "make_above_threshold",
    "make_bound_report",
    "make_leaf_values",
    "make_pruned_descent",
    "make_tree_means",
    "make_truncated_laplace_profile",
    "then_above_threshold",
    "then_bound_report",
    "then_leaf_values",
    "then_pruned_descent",
    "then_tree_means",
    "then_truncated_laplace_profile",
    "truncated_laplace_radius",
]
