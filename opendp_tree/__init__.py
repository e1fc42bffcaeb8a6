"""Differentially private counts for every node of a hierarchy, as parts for the OpenDP Library."""

from opendp_tree.bounds.factorization import FactorizationBound, factorization_bound, unbiased_error_lower_bound
from opendp_tree.bounds.lower_bounds import error_lower_bound, packing_bound
from opendp_tree.context import FrameContext, FrameQuery, frame_context, register, tree_counts
from opendp_tree.data.flights import example_flights
from opendp_tree.error_measures import (
    accuracy,
    is_accurate,
    l2_error,
    linf_error,
    mrmse_alpha,
    rmse_alpha,
    smoothed_relative_error,
)
from opendp_tree.ledger import BudgetError, Ledger, LedgerError
from opendp_tree.measurements.above_threshold import make_above_threshold, then_above_threshold
from opendp_tree.measurements.bound_report import make_bound_report, then_bound_report
from opendp_tree.measurements.partition_estimator import make_partition_estimator, then_partition_estimator
from opendp_tree.measurements.partition_plan import PartitionPlan, best_partition, plan_partition
from opendp_tree.measurements.pruned_descent import make_pruned_descent, then_pruned_descent
from opendp_tree.measurements.sparse_vector import make_sparse_vector, then_sparse_vector
from opendp_tree.measurements.tree_noise import (
    make_tree_gaussian,
    make_tree_laplace,
    then_tree_gaussian,
    then_tree_laplace,
)
from opendp_tree.measurements.tree_partition import make_tree_partition, then_tree_partition
from opendp_tree.measurements.tree_sum import make_tree_sum, then_tree_sum
from opendp_tree.measurements.truncated_laplace import (
    make_truncated_laplace,
    make_truncated_laplace_profile,
    then_truncated_laplace,
    then_truncated_laplace_profile,
    truncated_laplace_radius,
)
from opendp_tree.paper.clipped_estimator import make_clipped_estimator, then_clipped_estimator
from opendp_tree.paper.ladder_estimator import make_ladder_estimator, then_ladder_estimator
from opendp_tree.paper.multiplicative_estimator import (
    make_multiplicative_estimator,
    multiplicative_threshold,
    then_multiplicative_estimator,
)
from opendp_tree.paper.tree_classifier import (
    AccuracyWarning,
    NodeClasses,
    make_tree_classifier,
    then_tree_classifier,
)
from opendp_tree.pipeline import release_tree
from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.inverse import deepest_tree, smallest_epsilon
from opendp_tree.planning.methods import Auto, MultiplicativeEstimator, Partition, PrunedDescent, TreeNoise
from opendp_tree.planning.noise_errors import NoiseErrors, noise_errors
from opendp_tree.planning.plan import Plan, plan, plan_depths
from opendp_tree.planning.tree_counts import make_tree_counts, then_tree_counts
from opendp_tree.plots.bounds import plot_bounds
from opendp_tree.plots.level import plot_level
from opendp_tree.plots.page import write_html
from opendp_tree.plots.plan import plot_depths, plot_plan
from opendp_tree.plots.tree import plot_tree
from opendp_tree.postprocess.consistent import make_consistent, then_consistent
from opendp_tree.postprocess.linear import LinearCounts, linear_counts
from opendp_tree.postprocess.ranges import RangeCounts, prefix_counts, range_counts
from opendp_tree.releases.release import PrivacyStatement, TreeRelease
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.rows.leaf_counts import make_leaf_counts, then_leaf_counts
from opendp_tree.theorems.classification import Round
from opendp_tree.theorems.reduction import Ladder
from opendp_tree.trees.domains import leaf_domain, node_domain
from opendp_tree.trees.level_weights import choose_level_weights
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree
from opendp_tree.which_bound import bound_report

__version__ = "0.1.0"

__all__ = [
    "AccuracyWarning",
    "Auto",
    "BudgetError",
    "Candidate",
    "FactorizationBound",
    "FrameContext",
    "FrameQuery",
    "Key",
    "Ladder",
    "Ledger",
    "LedgerError",
    "LinearCounts",
    "MultiplicativeEstimator",
    "NodeClasses",
    "NoiseErrors",
    "OpenTree",
    "Partition",
    "PartitionPlan",
    "Plan",
    "PrivacyStatement",
    "PrunedDescent",
    "RangeCounts",
    "Round",
    "Tree",
    "TreeNoise",
    "TreeRelease",
    "accuracy",
    "best_partition",
    "bound_report",
    "choose_level_weights",
    "deepest_tree",
    "error_lower_bound",
    "example_flights",
    "factorization_bound",
    "frame_context",
    "frame_domain",
    "is_accurate",
    "l2_error",
    "leaf_domain",
    "linear_counts",
    "linf_error",
    "make_above_threshold",
    "make_bound_report",
    "make_clipped_estimator",
    "make_consistent",
    "make_ladder_estimator",
    "make_leaf_counts",
    "make_multiplicative_estimator",
    "make_partition_estimator",
    "make_pruned_descent",
    "make_sparse_vector",
    "make_tree_classifier",
    "make_tree_counts",
    "make_tree_gaussian",
    "make_tree_laplace",
    "make_tree_partition",
    "make_tree_sum",
    "make_truncated_laplace",
    "make_truncated_laplace_profile",
    "mrmse_alpha",
    "multiplicative_threshold",
    "node_domain",
    "noise_errors",
    "packing_bound",
    "plan",
    "plan_depths",
    "plan_partition",
    "plot_bounds",
    "plot_depths",
    "plot_level",
    "plot_plan",
    "plot_tree",
    "prefix_counts",
    "range_counts",
    "register",
    "release_tree",
    "rmse_alpha",
    "smallest_epsilon",
    "smoothed_relative_error",
    "then_above_threshold",
    "then_bound_report",
    "then_clipped_estimator",
    "then_consistent",
    "then_ladder_estimator",
    "then_leaf_counts",
    "then_multiplicative_estimator",
    "then_partition_estimator",
    "then_pruned_descent",
    "then_sparse_vector",
    "then_tree_classifier",
    "then_tree_counts",
    "then_tree_gaussian",
    "then_tree_laplace",
    "then_tree_partition",
    "then_tree_sum",
    "then_truncated_laplace",
    "then_truncated_laplace_profile",
    "tree_counts",
    "truncated_laplace_radius",
    "unbiased_error_lower_bound",
    "write_html",
]
