import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, PrunedDescent, Tree, leaf_domain, plan
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.pruned_candidates import lowest_threshold, pruned_candidate
from opendp_tree.planning.tree_facts import TreeFacts

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
BUDGET = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=1)


def data_of(tree):
    if isinstance(tree, Tree):
        return np.full(tree.leaf_count, 40)
    return tree.count([("a", "b", "c")] * 500 + [("a", "d", "e")] * 3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 0.2, "delta": 1e-9, "d_in": 3}], ids=str
)
def test_predicted_thresholds_are_those_that_are_made(noise, budget):
    found = plan(OPEN, **budget).candidate(f"pruned_{noise}")
    made = found.make(leaf_domain(OPEN))(data_of(OPEN))
    assert abs(int(made.statement.parameters["thresholds"]) - found.parameters["threshold"]) <= 1


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_that_are_given_are_taken_in_their_ratios(noise):
    weights = (1, 1, 1, 4)
    candidate = pruned_candidate(PrunedDescent(noise, weights=weights), TreeFacts.of(OPEN), BUDGET, 0.1)
    made = candidate.make(leaf_domain(OPEN))
    assert BUDGET.covers(made.map(1))
    thresholds = [int(value) for value in made(data_of(OPEN)).statement.parameters["thresholds"].split(", ")]
    assert thresholds[0] == thresholds[1] == thresholds[2] > thresholds[3]
    assert abs(thresholds[0] - candidate.parameters["threshold"]) <= 1


def test_with_weights_the_worst_level_counts():
    facts = TreeFacts.of(OPEN)
    equal, last = (
        pruned_candidate(PrunedDescent(weights=weights), facts, BUDGET, 0.1)
        for weights in ((1, 1, 1, 1), (1, 1, 1, 40))
    )
    plain = pruned_candidate(PrunedDescent(), facts, BUDGET, 0.1)
    assert equal.error == pytest.approx(plain.error)
    assert last.error > plain.error  # the first levels pay for the last
    weights = np.arange(1.0, 3000.0)
    assert last.error_at(weights).max() == pytest.approx(last.error)


def test_a_threshold_is_the_lowest_that_keeps_to_delta():
    for noise in ("laplace", "gaussian"):
        thresholds = [lowest_threshold(noise, 5.0, delta, 1) for delta in (1e-3, 1e-6, 1e-9)]
        assert thresholds == sorted(set(thresholds))
        assert lowest_threshold(noise, 5.0, 1e-6, 3) > thresholds[1]


def test_laplace_noise_makes_no_rho():
    budget = Budget.of(epsilon=None, delta=1e-6, rho=0.5, d_in=1)
    assert not pruned_candidate(PrunedDescent("laplace"), TreeFacts.of(OPEN), budget, 0.1).feasible
    assert pruned_candidate(PrunedDescent("gaussian"), TreeFacts.of(OPEN), budget, 0.1).feasible


def test_nothing_is_found_without_delta():
    budget = Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1)
    assert "delta" in pruned_candidate(PrunedDescent(), TreeFacts.of(OPEN), budget, 0.1).reason
