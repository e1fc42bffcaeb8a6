"""The lemmas between error measures, on exact laws: pairs of (mass, error) for one count."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import sqrt_up


def failure_bound(*, mrmse, alpha, wider, tau):
    """The probability eta for which an alpha-mRMSE of `mrmse` implies (`wider`, eta)-accuracy above `tau`."""
    if mrmse == 0:
        return Fraction(0)
    slack = (wider - alpha) * tau
    return Fraction(1) if slack <= mrmse else (mrmse / slack) ** 2


def relative_error_bound(*, rmse, alpha, smoothing):
    """A bound on the smoothed relative error of an estimate with this alpha-RMSE."""
    return rmse / smoothing + alpha


HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
fractions = st.fractions(min_value=0, max_value=1000, max_denominator=20)


def squared_rmse(law, count, alpha):
    return sum(mass * max(error - alpha * count, 0) ** 2 for mass, error in law)


def miss(law, count, wider, tau):
    return sum(mass for mass, error in law if error > wider * max(count, tau))


def mean_error(law):
    return sum(mass * error for mass, error in law)


@st.composite
def laws(draw):
    weights = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=5))
    return [(Fraction(weight, sum(weights)), draw(fractions)) for weight in weights]


@given(laws(), fractions, st.sampled_from([0, TENTH, HALF]), st.sampled_from([TENTH, 1]), fractions)
def test_accuracy_follows_from_rmse(law, count, alpha, more, tau):
    rmse = Fraction(sqrt_up(squared_rmse(law, count, alpha)))
    bound = failure_bound(mrmse=rmse, alpha=Fraction(alpha), wider=Fraction(alpha + more), tau=tau)
    assert miss(law, count, alpha + more, tau) <= bound


@pytest.mark.parametrize("eta", [Fraction(1, 100), Fraction(1, 4)])
def test_it_is_nearly_met(eta):
    """The law of the proof page; a bound of 0.99 of ours is refuted."""
    alpha, wider, tau = TENTH, Fraction(3, 10), Fraction(50)
    law = [(1 - eta, alpha * tau), (eta, wider * tau + Fraction(1, 1000))]
    rmse = Fraction(sqrt_up(squared_rmse(law, tau, alpha)))
    bound = failure_bound(mrmse=rmse, alpha=alpha, wider=wider, tau=tau)
    assert Fraction(99, 100) * bound < miss(law, tau, wider, tau) <= bound


def test_mutant_with_the_wider_alpha_alone_is_rejected():
    """As if alpha' * tau were the room for error instead of (alpha' - alpha) * tau."""
    alpha, wider, tau, eta = TENTH, Fraction(3, 10), Fraction(50), Fraction(1, 4)
    law = [(1 - eta, alpha * tau), (eta, wider * tau + Fraction(1, 1000))]
    assert miss(law, tau, wider, tau) > squared_rmse(law, tau, alpha) / (wider * tau) ** 2


@given(laws(), fractions, st.sampled_from([0, TENTH, HALF]), st.fractions(Fraction(1, 50), 1000, max_denominator=50))
def test_relative_error_follows_from_rmse(law, count, alpha, smoothing):
    rmse = Fraction(sqrt_up(squared_rmse(law, count, alpha)))
    bound = relative_error_bound(rmse=rmse, alpha=Fraction(alpha), smoothing=smoothing)
    assert mean_error(law) / max(count, smoothing) <= bound


def test_relative_error_bound_is_met_where_the_printed_one_has_a_factor_too_much():
    alpha, smoothing = TENTH, Fraction(20)
    law = [(Fraction(1), Fraction(5))]
    rmse = 5 - alpha * smoothing
    assert squared_rmse(law, smoothing, alpha) == rmse**2
    assert mean_error(law) / smoothing == relative_error_bound(rmse=rmse, alpha=alpha, smoothing=smoothing)


def test_mutant_without_what_alpha_forgives_is_rejected():
    law, smoothing = [(Fraction(1), Fraction(5))], Fraction(20)
    assert mean_error(law) / smoothing > relative_error_bound(rmse=Fraction(3), alpha=Fraction(0), smoothing=smoothing)
