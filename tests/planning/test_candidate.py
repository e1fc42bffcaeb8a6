import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import (
    OpenTree,
    Tree,
    TreeRelease,
    leaf_domain,
    plan,
)
from opendp_tree.planning.candidate import Candidate
from opendp_tree.planning.laws import shown_from
from opendp_tree.planning.methods import MECHANISMS
from tests.thoroughness import thinned

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
NAMES = {method.name for method in MECHANISMS}


def data_of(tree):
    if isinstance(tree, Tree):
        return np.full(tree.leaf_count, 40)
    return tree.count([("a", "b", "c")] * 500 + [("a", "d", "e")] * 3)


BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 0.3, "delta": 1e-9, "d_in": 4},
    {"epsilon": 2.0},
    {"rho": 0.2},
    {"rho": 0.2, "delta": 1e-6, "d_in": 2},
]


@pytest.mark.parametrize("budget", thinned(BUDGETS, 2), ids=str)
@pytest.mark.parametrize("tree", [PUBLIC, OPEN, RAGGED], ids=["public", "open", "ragged"])
def test_every_candidate_is_there_and_what_is_possible_stays_within_the_budget(tree, budget):
    found = plan(tree, alpha=0.25, **budget)
    assert {candidate.name for candidate in found.candidates} == NAMES
    for candidate in found.candidates:
        if not candidate.feasible:
            assert candidate.reason
            assert candidate.error == math.inf
            with pytest.raises(ValueError, match=candidate.name):
                candidate.make(leaf_domain(tree))
            continue
        made = candidate.make(leaf_domain(tree), L1)
        assert made.output_measure == found.budget.measure
        assert found.budget.covers(made.map(found.budget.d_in))
        release = made(data_of(tree))
        assert isinstance(release, TreeRelease)
        assert (release.lower <= release.upper).all()
        spent = made.map(found.budget.d_in)
        assert tuple(release.statement.loss.values()) == (spent if isinstance(spent, tuple) else (spent,))
        assert release.statement.d_in == found.budget.d_in


@pytest.mark.parametrize("name", ["tree_estimator", "pruned_laplace", "pruned_gaussian"])
def test_nodes_are_shown_from_the_weight_that_is_said(name):
    found = plan(OPEN, epsilon=1.0, delta=1e-6).candidate(name)
    made = found.make(leaf_domain(OPEN))
    weight, trials = int(found.shown_from), 400
    keys = [(f"{place}", "b", "c") for place in range(trials) for _ in range(weight)]
    shown = (made(OPEN.count(keys)).to_frame(other=False)["level"] == 3).sum()
    assert shown >= 0.95 * trials - 4 * math.sqrt(trials * 0.05 * 0.95)


def test_what_is_not_possible_is_not_made():
    broken = Candidate("tree_laplace", feasible=False, reason="no nodes", needs="nodes")
    assert broken.error_at([1.0]).tolist() == [math.inf]
    with pytest.raises(ValueError, match="tree_laplace is not possible here: no nodes"):
        broken.make(leaf_domain(PUBLIC))


def test_the_weight_from_which_nodes_are_shown_is_the_least():
    assert shown_from(lambda weights: (weights >= 30) * 1.0, 30.0) in (30.0, 31.0)
    assert shown_from(lambda weights: weights * 0.0, 30.0) == math.inf
