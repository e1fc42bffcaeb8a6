import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain, then_tree_estimator, then_tree_gaussian, then_tree_laplace
from opendp_tree.budget import Budget, report_scale, zcdp_epsilon, zcdp_rho

TREE = Tree.balanced(branching=2, depth=4)
SPACE = leaf_domain(TREE), dp.l1_distance(T="i64")


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("scale", [0.7, 4.0, 100.0])
def test_rho_is_converted_as_opendp_does(scale, delta):
    gaussian = SPACE >> then_tree_gaussian(scale)
    converted = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), delta=delta)
    assert converted.map(1)[0] == pytest.approx(zcdp_epsilon(gaussian.map(1), delta), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_largest_rho_spends_all_of_epsilon(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert zcdp_epsilon(rho * 1.01, delta) > epsilon


BUDGETS = [
    Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1),
    Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=3),
    Budget.of(epsilon=None, delta=0.0, rho=0.5, d_in=1),
    Budget.of(epsilon=None, delta=1e-6, rho=0.5, d_in=2),
]


@pytest.mark.parametrize("budget", BUDGETS)
def test_pure_noise_fits_every_budget(budget):
    scale = TREE.depth * budget.d_in / budget.pure_epsilon
    made = budget.convert(SPACE >> then_tree_laplace(scale * (1 + 1e-12)))
    assert made.output_measure == budget.measure
    assert budget.covers(made.map(budget.d_in))
    assert not budget.covers(budget.priced(SPACE >> then_tree_laplace(scale * 0.999)).loss)
    measure, loss = budget.statement(made.map(budget.d_in))
    assert measure.startswith("approximate") == (budget.delta > 0)
    assert set(loss) == {"epsilon" if budget.rho is None else "rho"} | ({"delta"} if budget.delta else set())


@pytest.mark.parametrize("budget", BUDGETS[1:])
def test_gaussian_noise_fits_every_budget_but_a_pure_one(budget):
    scale = budget.d_in * math.sqrt(TREE.depth / (2 * budget.gaussian_rho(budget.delta)))
    made = budget.convert(SPACE >> then_tree_gaussian(scale * (1 + 1e-9)))
    assert made.output_measure == budget.measure
    assert budget.covers(made.map(budget.d_in))
    assert not budget.covers(budget.priced(SPACE >> then_tree_gaussian(scale * 0.999)).loss)


@pytest.mark.parametrize("d_in", [1, 2, 7])
def test_what_one_person_may_spend_is_enough_for_the_group(d_in):
    budget = Budget.of(epsilon=0.7, delta=1e-6, rho=None, d_in=d_in)
    epsilon, delta = budget.one_person
    made = SPACE >> then_tree_estimator(epsilon=epsilon, delta=delta)
    assert budget.covers(made.map(budget.d_in))
    more = SPACE >> then_tree_estimator(epsilon=epsilon * 1.01, delta=delta)
    assert not budget.covers(more.map(budget.d_in))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": None, "rho": None}, "epsilon and rho"),
        ({"epsilon": 1.0, "rho": 1.0}, "epsilon and rho"),
        ({"epsilon": 0.0, "rho": None}, "epsilon"),
        ({"epsilon": None, "rho": -1.0}, "rho"),
        ({"epsilon": math.inf, "rho": None}, "epsilon"),
        ({"epsilon": 1.0, "rho": None, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "rho": None, "delta": -1e-9}, "delta"),
        ({"epsilon": 1.0, "rho": None, "d_in": 0}, "d_in"),
    ],
)
def test_bad_budgets_are_refused_by_name(arguments, named):
    with pytest.raises(ValueError, match=named):
        Budget.of(**{"delta": 1e-6, "d_in": 1, **arguments})


def test_the_least_scale_that_fits_is_taken_and_its_loss_told():
    budget = BUDGETS[1]
    scale = budget.noise_scale("laplace", TREE.depth)
    asked = []

    def made(at):
        asked.append(at)
        return SPACE >> then_tree_laplace(at)

    priced = budget.fit(made, scale)
    assert budget.covers(priced.loss)
    assert priced.loss == priced.measurement.map(budget.d_in)
    assert asked[-1] <= scale * (1 + 1e-9)
    with pytest.raises(ValueError, match="budget"):
        budget.fit(lambda _: SPACE >> then_tree_laplace(scale / 4), scale)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_scale_of_noise_spends_the_budget(noise):
    for budget in BUDGETS[1:]:
        make = then_tree_laplace if noise == "laplace" else then_tree_gaussian
        scale = budget.noise_scale(noise, TREE.depth)
        assert budget.covers(budget.priced(SPACE >> make(scale * (1 + 1e-9))).loss)
        assert not budget.covers(budget.priced(SPACE >> make(scale * (1 - 1e-3))).loss)


def test_the_scale_of_a_report_is_the_least_that_the_budget_allows():
    for epsilon in (0.05, 0.1, 1 / 3, 1e-9, 7.3, 1000):
        scale = report_scale(epsilon)
        assert 1 / Fraction(scale) <= Fraction(epsilon) < 1 / Fraction(np.nextafter(scale, 0))
