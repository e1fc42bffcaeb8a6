"""Choosing a mechanism before anything is spent."""

from opendp_tree.planning.methods import Curve, PeopleLayers
from opendp_tree.planning.plan import Candidate, Plan, make_tree_counts, smallest_epsilon, then_tree_counts

__all__ = [
    "Candidate", "Curve", "PeopleLayers", "Plan", "make_tree_counts", "smallest_epsilon", "then_tree_counts",
]  # fmt: skip
