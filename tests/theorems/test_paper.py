"""The paper's classification, reduction and estimation."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.bounds import error_lower_bound
from opendp_tree.theorems.interval import exp
from opendp_tree.theorems.laplace import truncated_laplace_delta
from opendp_tree.theorems.packing import balanced_gamma_squared
from opendp_tree.theorems.paper import (
    Ladder,
    Round,
    classification_cutoff,
    classification_threshold,
    classifier,
    estimation_threshold,
    geometric_ladder,
    ladder_normaliser,
    ladder_ratio,
    ladder_slack,
    least_half_margin,
    least_radius,
    reduction_loss,
)

fractions = st.floats(0.01, 0.99).map(Fraction)
budgets = st.floats(1e-3, 30).map(Fraction)
deltas = st.floats(1e-15, 0.4).map(Fraction)


@given(budgets.map(lambda x: 2 / x), deltas)
def test_the_radius_is_the_smallest(scale, delta):
    radius, q = least_radius(scale, delta), exp(-1 / scale)
    assert truncated_laplace_delta(q, radius=radius, d_in=1).hi <= delta
    if radius > 1:
        assert truncated_laplace_delta(q, radius=radius - 1, d_in=1).hi > delta


@given(budgets.map(lambda x: 4 / x), fractions, st.integers(1, 10**6))
def test_the_margin_is_the_smallest(scale, eta, draws):
    half, q = least_half_margin(scale, eta, draws=draws), exp(-1 / scale)

    def fails(h):
        return draws * (2 * q ** (h + 1) / (1 + q))

    assert fails(half).lo <= eta
    if half > 0:
        assert fails(half - 1).hi > eta


@given(st.floats(1, 1e9).map(Fraction), st.floats(0.1, 100).map(Fraction), fractions)
def test_the_cutoff_is_what_fits_into_the_mass(threshold, times, alpha):
    wanted = Round(threshold * times, alpha, alpha, threshold, alpha, alpha)
    cutoff = classification_cutoff(wanted)
    lightest = (1 - min(alpha, Fraction(1, 2))) * threshold
    if times < 1:
        assert cutoff == 0
    else:
        assert cutoff >= 1
        assert cutoff * lightest <= wanted.mass < (cutoff + 1) * lightest


@given(st.floats(1, 1e6).map(Fraction), st.floats(1, 50).map(Fraction), fractions, budgets, deltas, st.integers(1, 99))
def test_what_is_run_never_costs_more_than_the_round_grants(threshold, times, alpha, epsilon, delta, depth):
    wanted = Round(threshold * times, Fraction(1, 10), alpha, threshold, epsilon, delta)
    spent_epsilon, spent_delta = classifier(wanted, depth=depth).loss()
    assert spent_epsilon <= epsilon
    assert spent_delta.hi <= delta
    assert spent_epsilon > epsilon * Fraction(999, 1000)


def test_half_of_the_papers_sparse_vector_noise_costs_the_same():
    """The paper's 4c/eps and 8c/eps cost eps/2 by the general theorem; 4c/eps twice does by the monotonic one."""
    from opendp_tree.theorems.sparse_vector import sparse_vector_epsilon

    for cutoff in (1, 3):
        paper = {"scale": Fraction(4 * cutoff), "query_scale": Fraction(8 * cutoff), "monotonic": False}
        ours = {"scale": Fraction(4 * cutoff), "query_scale": Fraction(4 * cutoff), "monotonic": True}
        for noise in (paper, ours):
            assert sparse_vector_epsilon(1, cutoff=cutoff, refreshed=True, **noise) == Fraction(1, 2)


STEPS = [
    Round(*map(Fraction, (2900, 0.05, 0.25, 2000, 0.5, 1e-7))),
    Round(*map(Fraction, (3400, 0.1, 0.25, 2300, 0.25, 1e-8))),
]


def test_a_ladder_knows_its_promise():
    ladder = Ladder(Fraction(2500), tuple(STEPS))
    assert ladder.masses == (2500, 2900, 3400)
    assert ladder.eta == Fraction(0.05) + Fraction(0.1)
    assert ladder.alpha == max(Fraction(2900, 1500), Fraction(3400, 1725)) - 1
    assert ladder.is_connected()
    assert not Ladder(Fraction(2499), tuple(STEPS)).is_connected()
    assert not Ladder(Fraction(2500), tuple(reversed(STEPS))).is_connected()
    assert Ladder(Fraction(5), ()).alpha == 0


def test_losses_add_up():
    runs = [classifier(step, depth=9) for step in STEPS]
    epsilon, delta = reduction_loss(runs)
    assert epsilon == sum(run.loss()[0] for run in runs) <= Fraction(3, 4)
    assert max(run.loss()[1].lo for run in runs) < delta.lo <= delta.hi <= Fraction(1e-7) + Fraction(1e-8)


alphas = st.floats(0.05, 0.99).map(Fraction)


def ladder_for(alpha, tau_min=Fraction(10**5), mass=Fraction(10**8), **options):
    usual = {"epsilon": Fraction(1), "delta": Fraction(1e-6), "eta": Fraction(0.1), "largest_scale": Fraction(2**50)}
    return geometric_ladder(alpha=alpha, tau_min=tau_min, mass=mass, **{**usual, **options})


@given(alphas)
def test_the_papers_letters_fit_together(alpha):
    beta, ratio = ladder_slack(alpha), ladder_ratio(alpha)
    assert ratio == (1 + alpha) * (1 - beta) / (1 + beta) > 1
    assert ladder_normaliser(alpha) == 1 / (1 - 1 / ratio) ** 2


@given(alphas)
def test_the_normaliser_is_the_sum_of_the_whole_series(alpha):
    ratio = float(ladder_ratio(alpha))
    partial = sum(i * ratio ** (1 - i) for i in range(1, 5000))
    assert partial == pytest.approx(float(ladder_normaliser(alpha)), rel=1e-9)


@given(alphas)
def test_ladders_meet_every_condition_of_the_reduction(alpha):
    ladder = ladder_for(alpha)
    assert ladder.is_connected()
    assert ladder.alpha <= alpha
    assert ladder.eta <= Fraction(0.1)
    assert ladder.base == alpha * 10**5
    assert ladder.masses[-2] < 10**8 <= ladder.masses[-1]
    assert sum(step.epsilon for step in ladder.rounds) == 1
    assert sum(step.delta for step in ladder.rounds) == Fraction(1e-6)
    assert all(classification_cutoff(step) == 1 for step in ladder.rounds)


@given(alphas)
def test_a_shorter_ladder_is_the_lower_part_of_a_longer_one(alpha):
    """What the private count of the root relies on: the rounds that are run are the lowest of those paid for."""
    short, long = ladder_for(alpha, mass=Fraction(10**6)), ladder_for(alpha)
    assert long.masses[: len(short.masses)] == short.masses
    for low, same in zip(short.rounds, long.rounds, strict=False):
        assert low.threshold == same.threshold
        assert low.epsilon >= same.epsilon


def test_ladders_end_where_noise_would_be_too_large():
    short = ladder_for(Fraction(1, 2), tau_min=Fraction(10), mass=Fraction(2**62), largest_scale=Fraction(1000))
    assert short.masses[-1] < 2**62
    assert all(classifier(step, depth=5).scale <= 1000 for step in short.rounds)
    assert ladder_for(Fraction(1, 2), mass=Fraction(1)).rounds == ()


@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("depth", [1, 32, 2**20])
def test_at_the_threshold_every_round_meets_the_papers_condition(alpha, depth):
    budget = {"epsilon": Fraction(1), "delta": Fraction(1e-6), "eta": Fraction(0.1)}
    tau_min = Fraction(estimation_threshold(alpha=alpha, depth=depth, **budget))
    ladder = ladder_for(alpha, tau_min=tau_min, mass=1000 * tau_min)
    for step in ladder.rounds:
        run = classifier(step, depth=depth)
        assert run.error <= step.slack
        assert step.threshold >= Fraction(classification_threshold(step, depth=depth))
    low = ladder_for(alpha, tau_min=tau_min / 100, mass=tau_min)
    assert any(classifier(step, depth=depth).error > step.slack for step in low.rounds)


def test_thresholds_fall_with_the_budget_and_grow_with_the_depth():
    usual = {"alpha": Fraction(1, 2), "epsilon": Fraction(1), "delta": Fraction(1e-6), "eta": Fraction(0.1), "depth": 9}
    here = estimation_threshold(**usual)
    assert estimation_threshold(**{**usual, "epsilon": Fraction(2)}) < here
    assert estimation_threshold(**{**usual, "depth": 10}) > here
    assert estimation_threshold(**{**usual, "alpha": Fraction(3, 4)}) < here
    assert estimation_threshold(**{**usual, "delta": Fraction(1e-300)}) > here
    assert estimation_threshold(**{**usual, "epsilon": Fraction(10**9)}) > 0


def additive(alpha, depth=33, epsilon=Fraction(1), delta=Fraction(1e-6), eta=Fraction(0.01)):
    """alpha * tau_min: the additive error that the theorem bounds."""
    return float(alpha) * estimation_threshold(alpha=alpha, epsilon=epsilon, delta=delta, eta=eta, depth=depth)


def test_the_additive_error_grows_as_the_third_power_of_one_over_alpha():
    """27/alpha**3 in the limit, with 48 ln(4d/eta)/epsilon; at most eleven times that for every alpha below 1."""
    limit = 27 * 48 * math.log(4 * 33 / 0.01)
    assert additive(Fraction(1, 10**6)) * 1e-18 == pytest.approx(limit, rel=1e-4)
    for low in (Fraction(1, 10**6), Fraction(1, 10**4)):
        assert math.log(additive(low) / additive(2 * low), 2) == pytest.approx(3, rel=1e-3)
    shares = [additive(alpha) * float(alpha) ** 3 / limit for alpha in (Fraction(k, 100) for k in range(1, 100))]
    assert shares == sorted(shares)
    assert 1 < shares[0] < shares[-1] < 11


@given(alphas, st.integers(5, 40), st.integers(1, 20))
def test_the_additive_error_grows_with_the_logarithm_of_the_depth(alpha, power, times):
    """From the depth on at which levels decide, doubling it adds the same, whatever the depth."""
    step = additive(alpha, depth=2 ** (power + 1)) - additive(alpha, depth=2**power)
    assert additive(alpha, depth=2 ** (power + times)) - additive(alpha, depth=2**power) == pytest.approx(
        times * step, rel=1e-6
    )


def test_the_additive_error_falls_as_one_over_epsilon_and_grows_with_the_logarithm_of_one_over_delta():
    half = Fraction(1, 2)
    assert additive(half, epsilon=Fraction(1, 100)) == pytest.approx(100 * additive(half), rel=1e-9)
    low, high, higher = (additive(half, delta=Fraction(1, 10**power)) for power in (100, 200, 300))
    assert higher - high == pytest.approx(high - low, rel=1e-6)


def test_lower_bounds_have_the_slopes_of_their_theorems():
    """Pure: linear in depth and 1 - alpha. Gaussian: the root of the depth. With a delta: at most log(1/delta)."""
    pure = [error_lower_bound(depth, epsilon=1.0) for depth in (2**12, 2**13)]
    assert pure[1] / pure[0] == pytest.approx(2, rel=0.02)
    assert error_lower_bound(2**12, epsilon=1.0, alpha=0.9) == pytest.approx(0.1 * pure[0], rel=1e-9)
    gamma = [balanced_gamma_squared(branching=2, depth=depth) for depth in (2**12, 2**14)]
    assert float(gamma[1] / gamma[0]) == pytest.approx(4, rel=0.01)
    assert error_lower_bound(2**20, epsilon=1.0, delta=1e-6) < math.log(1e6)
