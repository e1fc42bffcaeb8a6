from fractions import Fraction
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import Interval, exp, round_up
from opendp_tree.theorems.partition import (
    FirstReach,
    Fringe,
    addition_epsilon,
    estimator_loss,
    find_epsilon_delta,
    lost_chance,
    noise_tail,
    removal_delta,
    removal_epsilon,
    stay_ratio,
)
from tests.privacy.partition_claim import addition_ratio, removal_ratio

ratios = st.fractions(min_value=Fraction(1, 20), max_value=Fraction(19, 20), max_denominator=40)
scales = st.fractions(min_value=Fraction(1, 3), max_value=30, max_denominator=40)


def fringe_of(*levels, s=1, t=1, rest=(1, 1)):
    """A fringe of levels (threshold, radius, margin) from the top down."""
    thresholds, radii, margins = zip(*levels, strict=True) if levels else ((), (), ())
    rest = None if rest is None else (Fraction(rest[0]), Fraction(rest[1]))
    return Fringe(thresholds, radii, margins, Fraction(s), Fraction(t), rest)


@st.composite
def fringes(draw, least=0, most=5):
    """Levels of their own, with L rising towards the root."""
    levels, start = [], 1
    for _ in range(draw(st.integers(least, most))):
        start = draw(st.integers(start, start + 2))
        radius = draw(st.integers(1, 8))
        margin = draw(st.integers(max(0, radius + 1 - start), radius + 3))
        levels.append((start + margin, draw(st.sampled_from([radius, radius, None])), margin))
    rest = draw(st.none() | st.tuples(scales, scales))
    return fringe_of(*levels[::-1], s=draw(scales), t=draw(scales), rest=rest)


def ratios_of(fringe):
    """q, t and the ratios of the rest's tails as intervals; 1 for a silent node."""
    alpha, beta = (Interval.of(1),) * 2 if fringe.rest_scales is None else (exp(-1 / s) for s in fringe.rest_scales)
    return exp(-1 / fringe.test_scale), exp(-1 / fringe.token_scale), alpha, beta


def overlap(a, b):
    return a.lo <= b.hi and b.lo <= a.hi


@given(fringes())
def test_epsilons_are_the_logarithms_of_the_ratios(fringe):
    q, t, alpha, beta = ratios_of(fringe)
    assert overlap(removal_epsilon(fringe).exp(), removal_ratio(fringe, q=q, alpha=alpha))
    assert overlap(addition_epsilon(fringe).exp(), addition_ratio(fringe, q=q, t=t, beta=beta))
    for epsilon in (removal_epsilon(fringe), addition_epsilon(fringe)):
        assert epsilon.hi - epsilon.lo < 1e-50


@given(fringes(), st.integers(0, 10))
def test_delta_multiplies_over_levels(fringe, k):
    q, kept = Fraction(2, 3), Fraction(1)
    for radius in fringe.radii:
        if radius is not None:
            kept *= 1 - noise_tail(q, radius=radius, least=radius - k + 1)
    if k == 0:
        kept = Fraction(1)
    assert lost_chance(fringe, q=q, k=k) == 1 - kept
    assert overlap(removal_delta(fringe, k=k), lost_chance(fringe, q=ratios_of(fringe)[0], k=k))


@given(ratios, ratios, ratios, fringes(least=1))
def test_adding_a_person_costs_the_dearer_of_two_ways(q, t, beta, fringe):
    stays = [stay_ratio(q, threshold=T, radius=R, margin=A) for T, R, A in fringe.levels]
    below = reduce(lambda a, b: a * b, stays[1:], Fraction(1))
    assert addition_ratio(fringe, q=q, t=t, beta=beta) == max(below / t, below * stays[0] / beta)


@given(ratios, st.integers(1, 8), st.integers(-2, 12))
def test_tails_are_sums(q, radius, least):
    masses = [q**z for z in range(radius + 1)]
    assert noise_tail(q, radius=radius, least=least) == sum(masses[max(least, 0) :]) / sum(masses)


@given(ratios, st.integers(1, 8), st.integers(1, 6), st.data())
def test_stays_are_the_largest_ratio_of_no_cell_at_exact_counts(q, radius, above, data):
    threshold = radius + above
    margin = data.draw(st.integers(0, threshold - 1))

    def stays(x):
        return 1 - noise_tail(q, radius=radius, least=threshold - x)

    exact = [stays(x) / stays(x + 1) for x in range(threshold - margin - 1)]
    assert stay_ratio(q, threshold=threshold, radius=radius, margin=margin) == max(exact, default=1)


def test_first_reaches_distribution_function():
    law = FirstReach(Fraction(2), 3, 2, span=5)
    edges = list(law.edges())
    assert len(edges) == 5
    for at, edge in enumerate(edges):
        assert edge.lo <= law.cdf(at).hi
        assert law.cdf(at).lo <= edge.hi
    assert law.cdf(5).lo == Interval.of(1).lo


def test_the_terms_that_a_fringe_has_not_are_absent():
    leaf = fringe_of(s=Fraction(1, 9), t=Fraction(1, 9), rest=(2, 5))
    assert (removal_epsilon(leaf).hi, round_up(addition_epsilon(leaf))) == (Fraction(1, 2), 0.2)
    silent_leaf = fringe_of(rest=None)
    assert removal_epsilon(silent_leaf).hi == addition_epsilon(silent_leaf).hi == 0
    assert removal_delta(leaf, k=3).hi == 0
    silent = fringe_of((5, 4, 0), s=2, t=10, rest=None)
    assert removal_epsilon(silent).hi == Fraction(1, 2)
    # The token costs less than an exact level: a silent node pays for the level.
    assert overlap(addition_epsilon(silent).exp(), stay_ratio(exp(Fraction(-1, 2)), threshold=5, radius=4, margin=0))


def test_epsilon_is_exact_where_it_can_be():
    """So a budget of 1 is spent by scales of 1, and not by a float above it."""
    fringe = fringe_of((16, 15, 15), (16, 15, 15), s=1, t=1, rest=(4, 2))
    for epsilon in (removal_epsilon(fringe), addition_epsilon(fringe), find_epsilon_delta([fringe], k=1)[0]):
        assert epsilon.lo == epsilon.hi == 1


@given(st.lists(fringes(), min_size=1, max_size=4), st.integers(0, 5), scales, scales)
def test_the_loss_is_the_dearer_direction_of_the_dearest_fringes(several, k, alphas, betas):
    epsilon, delta = estimator_loss(several, alphas=alphas, betas=betas, k=k)
    removed = max(removal_epsilon(fringe).hi for fringe in several)
    added = max(addition_epsilon(fringe).hi for fringe in several)
    expected = k * max(Fraction(removed) + alphas, Fraction(added) + betas)
    assert abs(Fraction(epsilon.hi) - expected) < Fraction(1, 10**50)
    assert Fraction(epsilon.hi) >= expected
    assert delta.hi == max(removal_delta(fringe, k=k).hi for fringe in several)
    assert find_epsilon_delta(several, k=k)[1].hi == delta.hi
    assert find_epsilon_delta(several, k=k)[0].hi <= epsilon.hi


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"radii": (4,)}, ValueError, r"one per tested level, not \(2, 1, 2\) numbers"),
        ({"radii": (4, 0)}, ValueError, r"radius \(0\) must be at least 1 and below the threshold \(5\)"),
        ({"radii": (5, 4)}, ValueError, r"radius \(5\) must be at least 1 and below the threshold \(5\)"),
        ({"margins": (1, -1)}, ValueError, r"margin \(-1\) must be at least 0 and below the threshold \(5\)"),
        ({"margins": (1, 5)}, ValueError, r"margin \(5\) must be at least 0 and below the threshold \(5\)"),
        ({"margins": (2, 1)}, ValueError, r"\(3, 4\) from the top down, must not fall towards the root"),
        ({"thresholds": (2**62, 5)}, ValueError, r"must be below 2\*\*62"),
        ({"thresholds": (5.0, 5)}, TypeError, "must be integers, not float"),
        ({"test_scale": Fraction(0)}, ValueError, r"scale \(0\) must be positive"),
        ({"rest_scales": (Fraction(1), Fraction(-1))}, ValueError, r"scale \(-1\) must be positive"),
        ({"token_scale": 1.5}, TypeError, "scales must be fractions, not float"),
    ],
)
def test_numbers_that_the_proof_does_not_cover_are_refused(change, error, message):
    numbers = {"thresholds": (5, 5), "radii": (4, 4), "margins": (1, 1), "test_scale": Fraction(1)}
    numbers |= {"token_scale": Fraction(1), "rest_scales": None}
    Fringe(**numbers)
    with pytest.raises(error, match=message):
        Fringe(**numbers | change)


def test_losses_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="must be at least one: the root is known"):
        find_epsilon_delta([], k=1)
    with pytest.raises(ValueError, match=r"alphas \(-1\) and betas \(0\) must not be negative"):
        estimator_loss([fringe_of()], alphas=Fraction(-1), betas=Fraction(0), k=1)
