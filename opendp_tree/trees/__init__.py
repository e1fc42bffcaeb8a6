"""Public and open trees, where their people are, and least squares on them."""

from opendp_tree.trees.domains import leaf_domain, node_domain
from opendp_tree.trees.level_weights import choose_level_weights
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

__all__ = ["OpenTree", "Tree", "choose_level_weights", "leaf_domain", "node_domain"]
