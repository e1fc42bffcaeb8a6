"""The paper's classification, reduction and estimation."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import exp
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
    least_radius,
)
from opendp_tree.theorems.tails import noise_bound, truncated_laplace_delta

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
    half, q = noise_bound("laplace", scale, eta / draws), exp(-1 / scale)

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
