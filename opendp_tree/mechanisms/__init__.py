"""Private mechanisms, one per file, and the post-processing of what they release."""

from opendp_tree.mechanisms.bound_report import make_bound_report, then_bound_report
from opendp_tree.mechanisms.consistent import make_consistent, then_consistent
from opendp_tree.mechanisms.curve import (
    make_bin_curve,
    make_grouped_curves,
    make_segment_curve,
    then_bin_curve,
    then_grouped_curves,
    then_segment_curve,
)
from opendp_tree.mechanisms.means import make_tree_means, then_tree_means
from opendp_tree.mechanisms.people import make_people_estimator, then_people_estimator
from opendp_tree.mechanisms.pruned_descent import make_pruned_descent, then_pruned_descent
from opendp_tree.mechanisms.queries import LinearCounts, RangeCounts, linear_counts, prefix_counts, range_counts
from opendp_tree.mechanisms.sparse_vector import make_above_threshold, then_above_threshold
from opendp_tree.mechanisms.truncated_laplace import (
    make_truncated_laplace_profile,
    then_truncated_laplace_profile,
    truncated_laplace_radius,
)
from opendp_tree.rows.counting import LeafValues, leaf_values_domain
from opendp_tree.rows.leaf_counts import (
    make_leaf_values,
    make_people_records,
    then_leaf_values,
    then_people_records,
)
from opendp_tree.rows.people import people_domain

__all__ = [
    "LeafValues", "LinearCounts", "RangeCounts", "leaf_values_domain", "linear_counts", "make_above_threshold",
    "make_bin_curve", "make_bound_report", "make_consistent", "make_grouped_curves", "make_leaf_values",
    "make_people_estimator", "make_people_records", "make_pruned_descent", "make_segment_curve", "make_tree_means",
    "make_truncated_laplace_profile", "people_domain", "prefix_counts", "range_counts", "then_above_threshold",
    "then_bin_curve", "then_bound_report", "then_consistent", "then_grouped_curves", "then_leaf_values",
    "then_people_estimator", "then_people_records", "then_pruned_descent", "then_segment_curve", "then_tree_means",
    "then_truncated_laplace_profile", "truncated_laplace_radius",
]  # fmt: skip
