import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Auto, OpenTree, Tree, TreeNoise, leaf_domain, plan
from opendp_tree.budget import Budget
from opendp_tree.planning.candidate import Setting, TreeFacts
from opendp_tree.planning.methods import MECHANISMS
from opendp_tree.planning.plan import best_candidate, candidate_for, planned_candidate, ranked

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
NAMES = {method.name for method in MECHANISMS}
BUDGET = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=1)


def test_candidates_are_ranked_by_error_and_impossible_ones_come_last():
    found = plan(PUBLIC, epsilon=1.0, alpha=0.1)
    errors = [candidate.error for candidate in found.candidates]
    assert errors == sorted(errors)
    assert found.best.name == "tree_laplace"
    assert {c.name for c in found.candidates if not c.feasible} == NAMES - {
        "raw_laplace",
        "tree_laplace",
        "tree_estimator",
    }
    assert "delta" in found.candidate("pruned_laplace").reason


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1.0, "delta": 1e-50},
        {"epsilon": 1e-9, "delta": 1e-50, "d_in": 7},
        {"epsilon": 1e3, "delta": 0.5, "d_in": 10**6},
        {"epsilon": 1e3, "delta": 1e-50, "d_in": 2},
        {"epsilon": 1.0, "delta": 0.9999},
        {"epsilon": 203.33, "delta": 1e-12, "d_in": 1000},
        {"rho": 1e-15},
        {"rho": 1e5, "delta": 0.5},
    ],
    ids=str,
)
def test_extreme_budgets_are_planned_or_said_to_be_impossible(budget):
    tree = Tree.balanced(branching=2, depth=3)
    found = plan(tree, **budget)
    for candidate in found.candidates:
        assert candidate.reason
        if candidate.feasible and candidate.name != "multiplicative_estimator":
            try:
                made = candidate.make(leaf_domain(tree))
            except ValueError:
                continue
            assert found.budget.covers(made.map(found.budget.d_in))


@pytest.mark.parametrize("depth", [1, 4, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.5])
@pytest.mark.parametrize("nodes", ["public", "open"])
def test_what_auto_does_not_compute_never_wins(depth, alpha, nodes):
    facts = TreeFacts.of(depth, nodes=nodes)
    for budget in (
        BUDGET,
        Budget.of(epsilon=8.0, delta=1e-3, rho=None, d_in=3),
        Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1),
        Budget.of(epsilon=None, delta=1e-6, rho=0.1, d_in=1),
    ):
        for aim in ("error", "keys"):
            every = ranked(Auto(aim=aim), Setting(facts, budget, alpha))
            best = best_candidate(Auto(aim=aim), Setting(facts, budget, alpha))
            assert best.feasible == every[0].feasible
            assert not best.feasible or best == every[0]


def test_what_estimates_must_be_is_kept_or_not_possible():
    auto = Auto(nonnegative=True, integers=True)
    for tree in (PUBLIC, OPEN):
        for candidate in ranked(auto, Setting(TreeFacts.of(tree), BUDGET, 0.1)):
            if not candidate.feasible:
                continue
            counts = np.zeros(27, dtype=np.int64) if tree is PUBLIC else OPEN.count([("a", "b", "c")] * 300)
            estimates = candidate.make(leaf_domain(tree))(counts).estimates
            assert (estimates >= 0).all()
            assert (estimates == np.rint(estimates)).all()
    reasons = {
        each.name: each.reason for each in ranked(auto, Setting(TreeFacts.of(PUBLIC), BUDGET, 0.1)) if not each.feasible
    }
    assert "nonnegative" in reasons["multiplicative_estimator"]


def test_mistakes_in_options_are_not_taken_for_extreme_budgets():
    with pytest.raises(ValueError, match="weights"):
        candidate_for(TreeNoise(weights=(1, 2)), Setting(TreeFacts.of(PUBLIC), BUDGET, 0.1))


def test_levels_are_left_out_or_refused_where_nodes_are_unknown():
    found = plan(OPEN, epsilon=1.0, delta=1e-6, levels=[2])
    assert [candidate.name for candidate in found.candidates if candidate.feasible] == ["tree_estimator"]
    assert found.candidate("pruned_laplace").reason == "it cannot leave out levels"
    for levels in (None, [1, 2, 3], [0, 1, 2, 3]):  # nothing is left out: the root is always there
        assert plan(OPEN, epsilon=1.0, delta=1e-6, levels=levels).candidate("pruned_laplace").feasible
    budget = Budget.of(epsilon=None, delta=1e-6, rho=0.1, d_in=1)
    assert planned_candidate(OPEN, budget, alpha=0.1, method="auto").name == "pruned_gaussian"
    with pytest.raises(ValueError, match=r"levels must be left out with rho .* Hint"):
        planned_candidate(OPEN, budget, alpha=0.1, method=Auto(levels=[2]))


@pytest.mark.parametrize("method", ["auto", "tree_estimator", "pruned_laplace", "pruned_gaussian"])
def test_unknown_nodes_need_a_delta_and_are_told_so(method):
    for amounts in ({"epsilon": 1.0, "rho": None}, {"epsilon": None, "rho": 0.1}):
        budget = Budget.of(delta=0.0, d_in=1, **amounts)
        with pytest.raises(ValueError, match=r"delta must be above 0 where nodes are unknown.* Hint: delta=1e-6"):
            planned_candidate(OPEN, budget, alpha=0.1, method=method)


@pytest.mark.parametrize("method", ["tree_laplace", "raw_gaussian", "multiplicative_estimator"])
def test_methods_for_known_nodes_say_so(method):
    with pytest.raises(ValueError, match=rf"method \({method}\) must be one for unknown nodes.* Hint: method='auto'"):
        planned_candidate(OPEN, BUDGET, alpha=0.1, method=method)
