"""What each share of epsilon that measures would give, before anything is spent."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.mechanisms.find import choose_parameters
from opendp_tree.planning import plan_dial
from opendp_tree.planning.laws import _coprime, predict_levels, typical_counts

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def test_every_share_and_level_has_its_row():
    plan = plan_dial([5, 4], rows=10_000, **BUDGET, shares=[0.2, 0.5])
    found = plan.levels().sort("method", "level")
    assert found.select("method", "level", "nodes").rows() == [
        (f"TreeEstimator(measuring={share})", level, nodes)
        for share in (0.2, 0.5)
        for level, nodes in enumerate((1, 5, 20))
    ]
    assert plan.best.error == min(each.error for each in plan.candidates)
    assert (found["error"].to_numpy() > 0).all()
    assert (found["shown"] <= found["nodes"] + 1e-9).all()


def test_stated_counts_are_what_is_predicted_for():
    counts = np.arange(20) * 7
    found = plan_dial([5, 4], leaf_counts=counts, **BUDGET, shares=[0.3], d_in=2).levels()
    parameters = choose_parameters(3, Fraction(1), Fraction(1e-6), d_in=2, measuring=0.3)
    rmse, shown = predict_levels(parameters, counts, [5, 4])
    assert found["error"].to_list() == pytest.approx(rmse.tolist())
    assert found["shown"].to_list() == pytest.approx(shown.tolist())


def test_less_measuring_shows_more_and_more_measuring_knows_totals_better():
    found = plan_dial([50, 20, 10], rows=1_000_000, **BUDGET).levels().sort("method")
    shown = found.filter(level=3)["shown"].to_numpy()
    assert (np.diff(shown) < 0).all()
    states = found.filter(level=1)["error"].to_numpy()
    assert (np.diff(states) < 0).all()


@pytest.mark.parametrize("sizes", [[3], [50, 20, 10], [7, 11], [2, 2, 2, 2]])
def test_typical_counts_sum_to_the_rows_and_are_spread_evenly(sizes):
    leaves = math.prod(sizes)
    counts = typical_counts(sizes, 1000 * leaves, None)
    assert counts.sum() == pytest.approx(1000 * leaves, rel=0.01)
    assert counts.size == leaves
    if leaves >= 1000:
        states = counts.reshape(sizes[0], -1).sum(axis=1)
        assert states.max() < 2 * states.min()


@pytest.mark.parametrize("number", [1, 2, 3, 10, 97, 1024, 10_000])
def test_a_step_visits_every_place_once(number):
    assert sorted((np.arange(number) * _coprime(number)) % number) == list(range(number))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"children": []}, "children must be one number or more"),
        ({"children": [2**11, 2**11]}, "at most 1,048,576 leaves"),
        ({"children": [0]}, "children"),
        ({"rows": None}, "give either rows or leaf_counts"),
        ({"leaf_counts": [1]}, "give either rows or leaf_counts"),
        ({"rows": None, "leaf_counts": [1.5, 2.5]}, "leaf_counts must be 2 whole numbers"),
        ({"rows": None, "leaf_counts": [1, -1]}, "leaf_counts must be 2 whole numbers"),
        ({"shares": [1.0]}, "shares"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, says):
    with pytest.raises(ValueError, match=says):
        plan_dial(**{"children": [2], "rows": 100, **BUDGET, **change})
