import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.planning import MultiplicativeEstimator
from opendp_tree.planning.budget import Budget
from opendp_tree.planning.paper_candidate import paper_candidate
from opendp_tree.planning.tree_facts import TreeFacts

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
BUDGET = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=1)


def test_the_estimates_are_within_two_radii_always():
    candidate = paper_candidate(MultiplicativeEstimator(), TreeFacts.of(PUBLIC), BUDGET, 0.5)
    counts = np.arange(27) * 100
    release = candidate.make(leaf_domain(PUBLIC))(counts)
    truth = PUBLIC.sum(counts)
    assert (abs(release.estimates - truth) <= 2 * candidate.parameters["radius"]).all()
    assert ((release.lower <= truth) & (truth <= release.upper)).all()
    assert release.statement.mechanism == candidate.name


def test_the_chance_of_failure_may_be_given():
    facts = TreeFacts.of(PUBLIC)
    best = paper_candidate(MultiplicativeEstimator(), facts, BUDGET, 0.5)
    for eta in (0.3, 1e-9):
        candidate = paper_candidate(MultiplicativeEstimator(eta=eta), facts, BUDGET, 0.5)
        assert candidate.parameters["eta"] == eta
        assert (candidate.error > best.error) == (eta < 1e-6)


@pytest.mark.parametrize(
    ("facts", "budget", "alpha", "reason"),
    [
        (TreeFacts.of(OPEN), BUDGET, 0.1, "every node"),
        (TreeFacts.of(PUBLIC), Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1), 0.1, "delta"),
        (TreeFacts.of(PUBLIC), Budget.of(epsilon=None, delta=1e-6, rho=1.0, d_in=1), 0.1, "rho"),
        (TreeFacts.of(PUBLIC), BUDGET, 0.0, "alpha"),
    ],
)
def test_what_it_needs_is_said(facts, budget, alpha, reason):
    candidate = paper_candidate(MultiplicativeEstimator(), facts, budget, alpha)
    assert not candidate.feasible
    assert reason in candidate.reason


@pytest.mark.parametrize("counts", [[5000, -5000, -(10**9), 40], [2**61 + 77, 2**53 + 1, 5, 0]])
def test_intervals_hold_always(counts):
    """For leaf counts below zero taken as zero, and beyond the integers that floats hold."""
    tree = Tree.balanced(branching=2, depth=3)
    candidate = paper_candidate(MultiplicativeEstimator(), TreeFacts.of(tree), BUDGET, 0.5)
    made, truth = candidate.make(leaf_domain(tree)), tree.sum(np.array(counts).clip(0)).tolist()
    for _ in range(2):
        release = made(np.array(counts))
        assert release.confidence == 1
        ends = zip(release.lower, truth, release.upper, strict=True)
        assert all(int(low) <= count <= int(high) for low, count, high in ends)
