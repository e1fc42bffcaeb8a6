"""Choosing a mechanism before anything is spent."""

from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.dial import plan_dial
from opendp_tree.planning.inverse import deepest_tree, smallest_epsilon
from opendp_tree.planning.plan import Plan, plan_depths
from opendp_tree.planning.predicted_errors import NoiseErrors, noise_errors

__all__ = [
    "Candidate",
    "NoiseErrors",
    "Plan",
    "deepest_tree",
    "noise_errors",
    "plan_depths",
    "plan_dial",
    "smallest_epsilon",
]
