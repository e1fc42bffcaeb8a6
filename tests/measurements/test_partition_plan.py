import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_tree.measurements.partition_plan import best_partition, plan_partition, unmarked_chance
from opendp_tree.theorems.group_privacy import group_delta
from opendp_tree.theorems.interval import exp
from opendp_tree.theorems.tree_partition import (
    PartitionShape,
    partition_delta,
    partition_epsilon,
    top_chance,
)


def test_unmarked_chance_is_the_theorems():
    shape = PartitionShape(depth=3, threshold=9, radius=5, margin=2)
    for residual in range(4, 9):
        exact = 1 - top_chance(exp(Fraction(-1, 2)), radius=5, missing=9 - residual)
        assert unmarked_chance(2.0, shape, np.array([float(residual)]))[0] == pytest.approx(float(exact.hi), rel=1e-12)


@settings(max_examples=25)
@given(
    st.sampled_from([1, 2, 5, 33, 200, 2000]),
    st.floats(0.01, 20),
    st.floats(-12, -0.5).map(lambda x: 10.0**x),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.booleans(),
    st.sampled_from(["rmse", "largest"]),
)
def test_fitted_plans_keep_to_their_budget(depth, epsilon, delta, alpha, public, minimise):
    plan = plan_partition(depth=depth, epsilon=epsilon, delta=delta, alpha=alpha, public=public, minimise=minimise)
    budget = Fraction(epsilon), Fraction(delta)
    fitted = plan.fitted(epsilon=budget[0], delta=budget[1])
    spent = Fraction(partition_epsilon(Fraction(fitted.scale), fitted.shape).hi) + 1 / Fraction(fitted.count_scale)
    assert spent <= budget[0]
    assert partition_delta(exp(-1 / Fraction(fitted.scale)), fitted.shape).hi <= delta
    assert fitted.shape.threshold - plan.shape.threshold <= 2


@pytest.mark.parametrize(("depth", "error"), [(3, 20), (6, 22), (12, 23), (33, 25), (129, 28), (1025, 32)])
def test_predicted_errors_of_open_trees_are_as_small_as_is_known(depth, error):
    """Worst alpha-RMSE at epsilon 1, delta 1e-6, alpha 0.1, as coarse optimisation found it before."""
    plan = plan_partition(depth=depth, epsilon=1.0, delta=1e-6, alpha=0.1, public=False)
    assert round(plan.error) <= error
    assert plan_partition(depth=depth, epsilon=1.0, delta=1e-6, alpha=0.1, public=True).error < 0.6 * plan.error


def test_errors_fall_with_budget():
    errors = [
        plan_partition(depth=20, epsilon=epsilon, delta=1e-6, alpha=0.1, public=False).error
        for epsilon in (0.1, 0.5, 1.0, 3.0)
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("d_in", [1, 2, 5])
def test_best_partition_keeps_to_its_budget(d_in):
    scale, shape = best_partition(depth=33, epsilon=1.0, delta=1e-6, d_in=d_in)
    epsilon = partition_epsilon(Fraction(scale), shape)
    assert epsilon.hi * d_in <= 1
    delta = group_delta(partition_delta(exp(-1 / Fraction(scale)), shape), ratio=epsilon.exp(), k=d_in)
    assert delta.hi <= Fraction(1e-6)
    assert epsilon.hi * d_in > 0.999999
    assert math.isfinite(scale)


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-9, 0.999])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e3])
def test_extreme_wishes_have_plans(alpha, epsilon):
    for public in (False, True):
        plan = plan_partition(depth=5, epsilon=epsilon, delta=1e-6, alpha=alpha, public=public)
        assert 0 <= plan.error < math.inf


def test_what_is_to_be_least_is_one_of_two():
    with pytest.raises(ValueError, match="minimise"):
        plan_partition(depth=3, epsilon=1.0, delta=1e-6, alpha=0.1, public=False, minimise="nonsense")
