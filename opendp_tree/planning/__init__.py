"""Choosing a mechanism before anything is spent."""

from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.methods import Curve, MultiplicativeEstimator, PeopleLayers, Quantiles
from opendp_tree.planning.plan import (
    Plan,
    make_tree_counts,
    plan_dial,
    plan_line,
    plan_means,
    smallest_epsilon,
    then_tree_counts,
)

__all__ = [
    "Candidate",
    "Curve",
    "MultiplicativeEstimator",
    "PeopleLayers",
    "Plan",
    "Quantiles",
    "make_tree_counts",
    "plan_dial",
    "plan_line",
    "plan_means",
    "smallest_epsilon",
    "then_tree_counts",
]
