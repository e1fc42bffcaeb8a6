import numpy as np

from opendp_tree import Tree
from opendp_tree.measurements.partition.dense import find_cells_of_tree
from opendp_tree.measurements.partition.parameters import GapParameters
from opendp_tree.theorems.tree_partition import GapShape

TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b",)])


def cells(counts, *, threshold, radius):
    shape = GapShape.uniform(3, threshold=threshold, radius=radius, margin=2, every_node=True)
    return find_cells_of_tree(TREE, np.array(counts), GapParameters(1.0, 1.0, shape))


def test_heavy_leaves_are_cells_and_their_gaps_hold_their_people_less_a_token():
    """A token above 400 has a chance below e**-400."""
    found = cells([1000, 0, 1000], threshold=30, radius=20)
    assert set(TREE.leaves[[0, 2]]) <= set(found.nodes.tolist())
    assert (found.gaps[np.isin(found.nodes, TREE.leaves)] > 600).all()
    assert (np.diff(found.nodes) > 0).all()


def test_empty_nodes_are_tested_where_noise_may_reach_the_threshold():
    """With threshold 3 and noise of scale 1 an empty node is a cell with a chance of about e**-3: in 400 runs often."""
    shown = sum(cells([0, 0, 0], threshold=3, radius=None).nodes.size for _ in range(400))
    assert shown > 0
