"""Choosing a mechanism before anything is spent."""

from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.dial import plan_dial
from opendp_tree.planning.inverse import smallest_epsilon
from opendp_tree.planning.line_candidates import plan_line
from opendp_tree.planning.means_candidate import MeansError, plan_means
from opendp_tree.planning.methods import Curve, MultiplicativeEstimator, PeopleLayers, Quantiles
from opendp_tree.planning.plan import Plan
from opendp_tree.planning.predicted_errors import NoiseErrors, noise_errors
from opendp_tree.planning.tree_counts import make_tree_counts, then_tree_counts

__all__ = [
    "Candidate",
    "Curve",
    "MeansError",
    "MultiplicativeEstimator",
    "NoiseErrors",
    "PeopleLayers",
    "Plan",
    "Quantiles",
    "make_tree_counts",
    "noise_errors",
    "plan_dial",
    "plan_line",
    "plan_means",
    "smallest_epsilon",
    "then_tree_counts",
]
