import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, Partition, Tree, leaf_domain
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.partition_candidate import partition_candidate
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


def test_the_share_that_measures_is_honoured():
    facts = TreeFacts.of(OPEN)
    best = partition_candidate(Partition(), facts, BUDGET, 0.1)
    for share in (0.2, 0.5, 0.8):
        candidate = partition_candidate(Partition(measuring=share), facts, BUDGET, 0.1)
        # What whole thresholds leave of the partition's share, counts get.
        assert share * (1 - 1e-9) <= 1 / candidate.parameters["count_scale"] / BUDGET.epsilon <= share + 0.03
        assert candidate.error >= best.error * (1 - 1e-3)
        assert BUDGET.covers(candidate.make(leaf_domain(OPEN)).map(1))


def test_less_measuring_finds_smaller_nodes():
    shown = [
        partition_candidate(Partition(measuring=share), TreeFacts.of(OPEN), BUDGET, 0.1).shown_from
        for share in (0.1, 0.5, 0.8)
    ]
    assert shown == sorted(set(shown))


def test_people_with_more_rows_pay_by_group_privacy():
    budget = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=4)
    candidate = partition_candidate(Partition(), TreeFacts.of(OPEN), budget, 0.1)
    made = candidate.make(leaf_domain(OPEN))
    assert budget.covers(made.map(4))
    assert made(data_of(OPEN)).statement.d_in == 4


def test_without_forgiveness_the_number_of_cells_is_said():
    assert "at most" in partition_candidate(Partition(), TreeFacts.of(OPEN), BUDGET, 0.0).reason


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 0.0, "rho": None}, {"epsilon": None, "delta": 1e-6, "rho": 1.0}]
)
def test_a_delta_and_an_epsilon_are_needed(budget):
    candidate = partition_candidate(Partition(), TreeFacts.of(OPEN), Budget.of(**budget, d_in=1), 0.1)
    assert not candidate.feasible
    assert candidate.reason
