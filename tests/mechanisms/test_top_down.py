from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Tree
from opendp_tree.mechanisms.top_down import nonnegative_descent, share_out, whole_counts
from opendp_tree.trees.least_squares import LeastSquares

NUMBERS = st.integers(-20, 20).map(float)
STAR = Tree.from_parents([-1, 0, 0, 0])


def best(total, wishes, variances):
    """The least squares over all choices of children that are zero: the same, by trying everything."""
    found = (np.inf, None)
    for choice in product([False, True], repeat=len(wishes)):
        kept = np.array(choice)
        if not kept.any():
            continue
        step = (total - wishes[kept].sum()) / variances[kept].sum()
        numbers = np.where(kept, wishes + variances * step, 0.0)
        if (numbers >= -1e-12).all():
            found = min(found, (((numbers - wishes) ** 2 / variances).sum(), numbers.tolist()))
    return found


@given(
    st.integers(0, 30).map(float),
    st.lists(NUMBERS, min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_sharing_out_is_the_least_squares_solution(total, wishes, variances):
    wishes, variances = np.array(wishes), np.array(variances, dtype=float)
    (level,) = STAR.level_order.inner_levels
    shared = share_out(level, np.array([total]), wishes, variances)
    assert (shared >= 0).all()
    assert shared.sum() == pytest.approx(total, abs=1e-9)
    cost, _ = best(total, wishes, variances)
    assert ((shared - wishes) ** 2 / variances).sum() == pytest.approx(cost, rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(-1e9, 1e9), min_size=13, max_size=13))
def test_no_count_is_negative_and_all_add_up(noisy):
    tree = Tree.balanced(branching=3, depth=3)
    fit = LeastSquares.of(tree, np.full(tree.node_count, 2.0))
    order = fit.order
    values = nonnegative_descent(fit, fit.ascend(fit.place(np.array(noisy)))[0])
    assert (values >= 0).all()
    for level in order.inner_levels:
        assert level.sums(values) == pytest.approx(values[level.inner], rel=1e-9, abs=1e-6)


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
