import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Tree
from opendp_tree.postprocess.integers import whole_counts

TREES = [Tree.balanced(branching=3, depth=3), Tree.from_parents([-1, 0, 0, 1, 1, 1, 2]), Tree.from_parents([-1])]


def summed(tree, leaves):
    values = np.zeros(tree.node_count)
    values[tree.leaves] = leaves
    for node in range(tree.node_count - 1, 0, -1):
        values[tree.parents[node]] += values[node]
    return values


@given(st.sampled_from(TREES), st.data())
def test_counts_become_floor_or_ceiling_and_still_add_up(tree, data):
    numbers = st.floats(-1e6, 1e6, allow_nan=False)
    leaves = data.draw(st.lists(numbers, min_size=tree.leaf_count, max_size=tree.leaf_count))
    values = summed(tree, leaves)
    order = tree.level_order
    whole = order.by_node(whole_counts(order, order.place(values)))
    assert (whole == np.rint(whole)).all()
    assert (np.abs(whole - values) <= 1 + 1e-6).all()
    for node in range(tree.node_count):
        children = np.flatnonzero(tree.parents == node)
        if children.size:
            assert whole[children].sum() == whole[node]


def test_whole_counts_stay_as_they_are():
    tree = TREES[0]
    values = summed(tree, np.arange(9.0))
    order = tree.level_order
    assert order.by_node(whole_counts(order, order.place(values))).tolist() == values.tolist()
