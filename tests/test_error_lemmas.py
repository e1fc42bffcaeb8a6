"""The lemmas between error measures, on exact laws: pairs of (mass, error) for one count."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import sqrt_up

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)


def failure_bound(*, mrmse, alpha, wider, tau):
    """The probability eta for which an alpha-mRMSE of `mrmse` implies (`wider`, eta)-accuracy above `tau`."""
    if mrmse == 0:
        return Fraction(0)
    slack = (wider - alpha) * tau
    return Fraction(1) if slack <= mrmse else (mrmse / slack) ** 2


def relative_error_bound(*, rmse, alpha, smoothing):
    """A bound on the smoothed relative error of an estimate with this alpha-RMSE."""
    return rmse / smoothing + alpha


def squared_rmse(law, count, alpha):
    return sum(mass * max(error - alpha * count, 0) ** 2 for mass, error in law)


def miss(law, count, wider, tau):
    return sum(mass for mass, error in law if error > wider * max(count, tau))


def mean_error(law):
    return sum(mass * error for mass, error in law)


FRACTIONS = st.fractions(min_value=0, max_value=1000, max_denominator=20)
ALPHAS = st.sampled_from([Fraction(0), TENTH, HALF])
LAWS = st.lists(st.tuples(st.integers(1, 1000), FRACTIONS), min_size=1, max_size=5).map(
    lambda pairs: [(Fraction(weight, sum(first for first, _ in pairs)), error) for weight, error in pairs]
)


@given(LAWS, FRACTIONS, ALPHAS, st.sampled_from([TENTH, 1]), FRACTIONS)
def test_accuracy_follows_from_rmse(law, count, alpha, more, tau):
    rmse = Fraction(sqrt_up(squared_rmse(law, count, alpha)))
    assert miss(law, count, alpha + more, tau) <= failure_bound(mrmse=rmse, alpha=alpha, wider=alpha + more, tau=tau)


@pytest.mark.parametrize("eta", [Fraction(1, 100), Fraction(1, 4)])
def test_it_is_nearly_met_and_a_mutant_with_the_wider_alpha_alone_is_rejected(eta):
    """The law of the proof page. The mutant takes alpha' * tau for the room for error, not (alpha' - alpha) * tau."""
    alpha, wider, tau = TENTH, Fraction(3, 10), Fraction(50)
    law = [(1 - eta, alpha * tau), (eta, wider * tau + Fraction(1, 1000))]
    rmse = Fraction(sqrt_up(squared_rmse(law, tau, alpha)))
    bound = failure_bound(mrmse=rmse, alpha=alpha, wider=wider, tau=tau)
    assert Fraction(99, 100) * bound < miss(law, tau, wider, tau) <= bound
    assert miss(law, tau, wider, tau) > squared_rmse(law, tau, alpha) / (wider * tau) ** 2


@given(LAWS, FRACTIONS, ALPHAS, st.fractions(Fraction(1, 50), 1000, max_denominator=50))
def test_relative_error_follows_from_rmse(law, count, alpha, smoothing):
    rmse = Fraction(sqrt_up(squared_rmse(law, count, alpha)))
    assert mean_error(law) / max(count, smoothing) <= relative_error_bound(rmse=rmse, alpha=alpha, smoothing=smoothing)


def test_relative_error_bound_is_met_where_the_printed_one_has_a_factor_too_much():
    """And a mutant without what alpha forgives is rejected."""
    law, smoothing, rmse = [(Fraction(1), Fraction(5))], Fraction(20), Fraction(3)
    assert squared_rmse(law, smoothing, TENTH) == rmse**2
    found = mean_error(law) / smoothing
    assert found == relative_error_bound(rmse=rmse, alpha=TENTH, smoothing=smoothing)
    assert found > relative_error_bound(rmse=rmse, alpha=0, smoothing=smoothing)
