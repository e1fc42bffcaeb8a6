"""The algorithms of the paper, complete and corrected."""

from opendp_tree.paper.classification import AccuracyWarning, NodeClasses, make_tree_classifier, then_tree_classifier
from opendp_tree.paper.clipping import make_clipped_estimator, then_clipped_estimator
from opendp_tree.paper.estimation import (
    make_ladder_estimator,
    make_multiplicative_estimator,
    multiplicative_threshold,
    then_ladder_estimator,
    then_multiplicative_estimator,
)
from opendp_tree.theorems.paper import Ladder, Round

__all__ = [
    "AccuracyWarning", "Ladder", "NodeClasses", "Round", "make_clipped_estimator", "make_ladder_estimator",
    "make_multiplicative_estimator", "make_tree_classifier", "multiplicative_threshold", "then_clipped_estimator",
    "then_ladder_estimator", "then_multiplicative_estimator", "then_tree_classifier",
]  # fmt: skip
