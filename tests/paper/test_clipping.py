import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

from opendp_tree import Tree, leaf_domain, make_multiplicative_estimator, make_truncated_laplace
from opendp_tree._opendp import make_measurement
from opendp_tree.paper import make_clipped_estimator
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.interval import sqrt_up

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=2, depth=3)
LEAVES = leaf_domain(TREE), L1
COUNTS = np.array([500, 20, 0, 3])
TRUTH = TREE.sum(COUNTS)
PAIR = dp.approximate(dp.max_divergence())


def releasing(values, space=LEAVES, loss=(0.25, 1e-7)):
    """An estimator that releases these values."""
    return make_measurement(*space, PAIR, lambda _: values, lambda d_in: (loss[0] * d_in, min(1.0, loss[1] * d_in)))


def test_estimates_are_never_further_off_and_never_by_more_than_two_radii():
    for offset in (-(10**6), -70, -3, 0, 5, 100, 10**9):
        estimates = TRUTH + offset
        clipped = make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(estimates), radius=40)
        for _ in range(50):
            error = np.abs(clipped(COUNTS).estimates - TRUTH)
            assert (error <= abs(offset)).all()
            assert (error <= 80).all()


def test_estimates_may_be_floats_and_anything_else_is_brought_inside():
    estimates = np.array([math.nan, math.inf, -math.inf, 500.4, 19.6, 1e300, 0.0])
    clipped = make_clipped_estimator(*LEAVES, 2.0, estimator=releasing(estimates), radius=30)
    for _ in range(50):
        released = clipped(COUNTS).estimates
        assert (released == np.rint(released)).all()
        assert (np.abs(released - TRUTH) <= 60).all()
        assert abs(released[3] - 500) <= 1


def test_the_map_adds_the_levels_to_the_estimators_own():
    clipped = make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(TRUTH), radius=40)
    tail = make_truncated_laplace(*LEAVES, 6.0, radius=40)
    for k in (1, 2, 5):
        epsilon, delta = clipped.map(k)
        assert epsilon == pytest.approx(0.25 * k + 3 * k / 6)
        assert Fraction(epsilon) >= Fraction(0.25 * k) + Fraction(k, 2)
        one = tail.map(k)[1]
        assert delta == pytest.approx(1e-7 * k + 1 - (1 - one) ** 3, rel=1e-9)
    assert clipped.map(0) == (0.0, 0.0)
    assert make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(TRUTH, loss=(math.inf, 1.0)), radius=4).map(1) == (
        math.inf,
        1.0,
    )


def test_delta_names_the_smallest_radius():
    clipped = make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(TRUTH), delta=1e-6)
    assert clipped.map(1)[1] <= 1.1e-6 * (1 + 1e-12)
    far = make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(TRUTH + 10**9), delta=1e-6)
    errors = np.array([np.abs(far(COUNTS).estimates - TRUTH).max() for _ in range(300)])
    assert 80 < errors.max() <= 2 * 83


def test_it_turns_the_papers_estimator_into_one_of_bounded_error():
    estimator = make_multiplicative_estimator(*LEAVES, alpha=0.5, epsilon=1.0, delta=1e-6, eta=0.01, mass_bound=10**7)
    clipped = make_clipped_estimator(*LEAVES, 3.0, estimator=estimator, delta=1e-6)
    assert clipped.map(1)[0] <= 2.0
    assert clipped.map(1)[1] <= 2e-6
    counts = np.array([10**6, 0, 50, 10**5])
    assert (np.abs(clipped(counts).estimates - TREE.sum(counts)) <= 100).all()
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=4), L1
    lists = make_clipped_estimator(*space, 3.0, estimator=releasing(TRUTH.tolist(), space), radius=9, tree=TREE)
    assert lists(COUNTS.tolist()).estimates.size == 7


def test_the_bound_on_the_mean_square_holds_for_the_worst_estimator():
    """One that is off by as much as accuracy allows, and with probability eta by everything."""
    alpha, tau, eta, radius = Fraction(1, 10), Fraction(200), Fraction(1, 5), 40
    bound = sqrt_up((alpha * tau) ** 2 + eta * 4 * radius**2)
    rng = np.random.default_rng(3)

    def estimate(_):
        lost = rng.random() < eta
        return TRUTH + (10**6 if lost else (alpha * np.maximum(TRUTH, int(tau))).astype(np.int64))

    wild = make_measurement(*LEAVES, PAIR, estimate, lambda _: (1.0, 0.0))
    clipped = make_clipped_estimator(*LEAVES, 6.0, estimator=wild, radius=radius)
    errors = np.array(
        [np.maximum(np.abs(clipped(COUNTS).estimates - TRUTH) - float(alpha) * TRUTH, 0) for _ in range(400)]
    )
    # Squares are at most (2 * radius)**2, so their mean over 400 runs exceeds its bound by 1600 with probability 1e-9.
    assert (errors**2).mean(axis=0).max() <= bound**2 + (2 * radius) ** 2 * math.sqrt(math.log(1e9) / 800)


def test_estimators_must_release_one_number_for_each_node():
    for wrong in (TRUTH[:3], "text", TRUTH.astype(str), None):
        clipped = make_clipped_estimator(*LEAVES, 1.0, estimator=releasing(wrong), radius=5)
        with pytest.raises(OpenDPException, match="estimator must release one number for each of the 7 nodes"):
            clipped(COUNTS)


def test_intervals_hold_always_and_reach_two_radii():
    clipped = make_clipped_estimator(*LEAVES, 6.0, estimator=releasing(TRUTH + 7), radius=40)
    for counts in (COUNTS, np.array([LIMIT, 0, 1, 0]), np.zeros(4, dtype=np.int64)):
        truth = TREE.sum(counts)
        for _ in range(50):
            release = clipped(counts)
            assert (release.lower <= truth).all()
            assert (truth <= release.upper).all()
            assert release.confidence == 1
    release = clipped(COUNTS)
    assert (release.upper - release.lower <= 80).all()
    assert release.statement.mechanism == "clipped_estimator"
    assert release.statement.loss == dict(zip(("epsilon", "delta"), clipped.map(1), strict=True))


def test_a_scale_of_zero_promises_nothing_and_a_given_delta_is_reported():
    """As OpenDP's searches for a scale need it."""
    none = make_clipped_estimator(*LEAVES, 0.0, estimator=releasing(TRUTH), delta=1e-7)
    assert none.map(1) == (math.inf, 1.0)
    assert none.map(0) == (0.0, 0.0)
    assert none(COUNTS).estimates.tolist() == TRUTH.tolist()
    found = dp.binary_search_chain(
        lambda scale: make_clipped_estimator(*LEAVES, scale, estimator=releasing(TRUTH), delta=1e-7),
        d_in=1,
        d_out=(1.0, 2e-7),
    )
    assert found.map(1) == (1.0, 2e-7)
