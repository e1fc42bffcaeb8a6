"""Differentially private counts for every node of a hierarchy, as parts for the OpenDP Library.

What is used often is here. The rest is in submodules: `opendp_tree.paper`, `.bounds`, `.planning`,
`.mechanisms`, `.trees`, `.releases`, `.plots`, `.data`, `.context`, and the modules `.error_measures`, `.ledger`,
`.prepare`.
"""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from opendp_tree.context import frame_context, register, tree_counts
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger
from opendp_tree.mechanisms.consistent import make_consistent, then_consistent
from opendp_tree.mechanisms.sparse_vector import make_sparse_vector, then_sparse_vector
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator, then_tree_estimator
from opendp_tree.mechanisms.tree_noise import (
    make_tree_gaussian,
    make_tree_laplace,
    then_tree_gaussian,
    then_tree_laplace,
)
from opendp_tree.mechanisms.tree_partition import make_tree_partition, then_tree_partition
from opendp_tree.mechanisms.tree_sum import make_tree_sum, then_tree_sum
from opendp_tree.mechanisms.truncated_laplace import make_truncated_laplace, then_truncated_laplace
from opendp_tree.paper.estimation import make_multiplicative_estimator, then_multiplicative_estimator
from opendp_tree.planning.methods import Auto, PrunedDescent, TreeEstimator, TreeNoise
from opendp_tree.planning.plan import plan
from opendp_tree.plots.plan import plot_plan
from opendp_tree.plots.rows import plot_level
from opendp_tree.plots.tree import plot_tree
from opendp_tree.prepare import bound_report, release_tree, release_trees
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.domains import frame_domain, read_source
from opendp_tree.rows.leaf_counts import make_leaf_counts, then_leaf_counts
from opendp_tree.rows.period import Period
from opendp_tree.rows.unit import Unit, Value
from opendp_tree.series import Series
from opendp_tree.trees.domains import leaf_domain
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__version__ = "0.1.0"

__all__ = [
    "Auto", "Key", "Ledger", "OpenTree", "Period", "PrunedDescent", "Series", "Tree", "TreeEstimator", "TreeNoise",
    "TreeRelease", "Unit", "Value", "bound_report", "frame_context", "frame_domain", "leaf_domain", "make_consistent",
    "make_leaf_counts", "make_multiplicative_estimator", "make_sparse_vector", "make_tree_estimator",
    "make_tree_gaussian", "make_tree_laplace", "make_tree_partition", "make_tree_sum", "make_truncated_laplace", "plan",
    "plot_level", "plot_plan", "plot_tree", "read_source", "register", "release_tree", "release_trees",
    "then_consistent", "then_leaf_counts", "then_multiplicative_estimator", "then_sparse_vector", "then_tree_estimator",
    "then_tree_gaussian", "then_tree_laplace", "then_tree_partition", "then_tree_sum", "then_truncated_laplace",
    "tree_counts",
]  # fmt: skip

_SUBMODULES = (
    "bounds", "context", "data", "engines", "error_measures", "ledger", "mechanisms", "paper", "planning", "plots",
    "prepare", "releases", "trees",
)  # fmt: skip
"""The submodules that hold further public names."""


def __getattr__(name: str) -> _ModuleType:
    if name in _SUBMODULES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is meant for use, and none of the modules that it comes from."""
    return sorted([*__all__, "__version__"])
