from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import exp
from opendp_tree.theorems.laplace import truncated_laplace_delta
from opendp_tree.theorems.paper import Round, classification_cutoff, classifier, least_half_margin, least_radius

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
