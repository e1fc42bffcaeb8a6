import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import (
    OpenTree,
    Tree,
    TreeNoise,
    leaf_domain,
    make_tree_gaussian,
    plan,
)
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance
from opendp_tree.planning import MultiplicativeEstimator
from opendp_tree.planning.candidate import Setting, TreeFacts
from opendp_tree.planning.candidates import noise_candidate, paper_candidate

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
BUDGET = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=1)


def test_errors_of_noise_are_those_of_its_law():
    found = plan(7, epsilon=0.5, delta=1e-6, nodes="public", d_in=3)
    assert found.candidate("raw_laplace").error == pytest.approx(math.sqrt(laplace_variance(7 * 3 / 0.5)))
    gaussian = found.candidate("raw_gaussian")
    assert gaussian.error == pytest.approx(math.sqrt(gaussian_variance(gaussian.parameters["scale"])))
    # For a mere depth least squares is only known to be no worse, and comes first.
    bounded = found.candidate("tree_gaussian")
    assert (bounded.error, bounded.bound, gaussian.bound) == (gaussian.error, True, False)
    order = [candidate.name for candidate in found.candidates]
    assert order.index("tree_gaussian") < order.index("raw_gaussian")


@pytest.mark.parametrize("tree", [PUBLIC, RAGGED, Tree.balanced(branching=2, depth=9)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_of_least_squares_is_the_largest_deviation_of_its_release(tree, noise):
    found = plan(tree, epsilon=0.1, delta=1e-6).candidate(f"tree_{noise}")
    release = found.make(leaf_domain(tree))(np.zeros(tree.leaf_count, dtype=np.int64))
    assert found.error == pytest.approx(math.sqrt(release.fit.estimator.variances.max()), rel=1e-3)
    raw = plan(tree, epsilon=0.1, delta=1e-6).candidate(f"raw_{noise}")
    assert found.error <= raw.error


def test_levels_that_do_not_count_get_little_of_the_budget():
    everything = plan(PUBLIC, epsilon=1.0, delta=1e-6)
    some = plan(PUBLIC, epsilon=1.0, delta=1e-6, levels=[1, 3])
    for name in ("raw_laplace", "tree_laplace", "raw_gaussian", "tree_gaussian"):
        assert some.candidate(name).error < everything.candidate(name).error
    release = some.candidate("tree_gaussian").make(leaf_domain(PUBLIC))(np.zeros(27, dtype=np.int64))
    deviations = np.sqrt(release.fit.estimator.variances)
    wanted = np.isin(PUBLIC.node_levels, [1, 3])
    assert some.candidate("tree_gaussian").error == pytest.approx(deviations[wanted].max(), rel=1e-6)


def test_raw_noise_is_released_as_it_is():
    made = make_tree_gaussian(leaf_domain(PUBLIC), L1, 5.0, consistent=False)
    release = made(np.full(PUBLIC.leaf_count, 100))
    assert (release.estimates == np.rint(release.estimates)).all()
    assert release.fit is None
    sums = PUBLIC.sum_nodes(np.where(np.isin(np.arange(PUBLIC.node_count), PUBLIC.leaves), release.estimates, 0))
    assert (sums != release.estimates).any()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_that_are_given_are_taken_in_their_ratios(noise):
    facts = TreeFacts.of(PUBLIC)
    budget = Budget.of(epsilon=0.05, delta=1e-6, rho=None, d_in=1)
    for weights in ((1, 1, 1, 1), (0.05, 1, 1, 1), (0, 0, 3, 1)):
        candidate = noise_candidate(TreeNoise(noise, weights=weights), Setting(facts, budget, 0.1))
        made = candidate.make(leaf_domain(PUBLIC))
        release = made(np.zeros(27, dtype=np.int64))
        assert budget.covers(made.map(1))
        scales = [float(scale) for scale in release.statement.parameters["level_scales"].split(", ")] * 4
        power = 1 if noise == "laplace" else 2
        ratios = [(scales[3] / scale) ** power for scale in scales[:4]]  # infinite where nothing is measured
        assert ratios == pytest.approx([weight / weights[3] for weight in weights])
        assert candidate.error == pytest.approx(math.sqrt(release.fit.estimator.variances.max()), rel=1e-3)


def test_chosen_weights_err_no_more_than_equal_ones():
    facts = TreeFacts.of(PUBLIC)
    chosen, equal = (
        noise_candidate(TreeNoise(weights=w), Setting(facts, BUDGET, 0.0)).error for w in (None, (1, 1, 1, 1))
    )
    assert chosen < equal


def test_options_are_honoured():
    facts = TreeFacts.of(PUBLIC)
    for noise in ("laplace", "gaussian"):
        method = TreeNoise(noise, nonnegative=True, integers=True)
        release = noise_candidate(method, Setting(facts, BUDGET, 0.1)).make(leaf_domain(PUBLIC))(
            np.zeros(27, dtype=np.int64)
        )
        assert (release.estimates >= 0).all()
        assert (release.estimates == np.rint(release.estimates)).all()


def test_a_weight_for_each_level_is_needed():
    with pytest.raises(ValueError, match="weights must hold one number for each of the 4 levels"):
        noise_candidate(TreeNoise(weights=(1, 2)), Setting(TreeFacts.of(PUBLIC), BUDGET, 0.1))


def test_the_estimates_are_within_two_radii_always():
    candidate = paper_candidate(MultiplicativeEstimator(), Setting(TreeFacts.of(PUBLIC), BUDGET, 0.5))
    counts = np.arange(27) * 100
    release = candidate.make(leaf_domain(PUBLIC))(counts)
    truth = PUBLIC.sum(counts)
    assert (abs(release.estimates - truth) <= 2 * candidate.parameters["radius"]).all()
    assert ((release.lower <= truth) & (truth <= release.upper)).all()
    assert release.statement.mechanism == candidate.name


def test_the_chance_of_failure_may_be_given():
    facts = TreeFacts.of(PUBLIC)
    best = paper_candidate(MultiplicativeEstimator(), Setting(facts, BUDGET, 0.5))
    for eta in (0.3, 1e-9):
        candidate = paper_candidate(MultiplicativeEstimator(eta=eta), Setting(facts, BUDGET, 0.5))
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
    candidate = paper_candidate(MultiplicativeEstimator(), Setting(facts, budget, alpha))
    assert not candidate.feasible
    assert reason in candidate.reason


@pytest.mark.parametrize("counts", [[5000, -5000, -(10**9), 40], [2**61 + 77, 2**53 + 1, 5, 0]])
def test_intervals_hold_always(counts):
    """For leaf counts below zero taken as zero, and beyond the integers that floats hold."""
    tree = Tree.balanced(branching=2, depth=3)
    candidate = paper_candidate(MultiplicativeEstimator(), Setting(TreeFacts.of(tree), BUDGET, 0.5))
    made, truth = candidate.make(leaf_domain(tree)), tree.sum(np.array(counts).clip(0)).tolist()
    for _ in range(2):
        release = made(np.array(counts))
        assert release.confidence == 1
        ends = zip(release.lower, truth, release.upper, strict=True)
        assert all(int(low) <= count <= int(high) for low, count, high in ends)
