import math

import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain, then_tree_estimator, then_tree_gaussian, then_tree_laplace
from opendp_tree.budget import Budget, zcdp_rho

TREE = Tree.balanced(branching=2, depth=4)
SPACE = leaf_domain(TREE), dp.l1_distance(T="i64")


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_the_largest_rho_spends_all_of_epsilon_as_opendp_converts_it(epsilon, delta):
    scale = math.sqrt(TREE.depth / (2 * zcdp_rho(epsilon, delta)))
    converted = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(SPACE >> then_tree_gaussian(scale)), delta=delta)
    assert converted.map(1)[0] == pytest.approx(epsilon, rel=1e-6)


BUDGETS = [
    Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1),
    Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=3),
    Budget.of(epsilon=None, delta=0.0, rho=0.5, d_in=1),
    Budget.of(epsilon=None, delta=1e-6, rho=0.5, d_in=2),
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_fits_every_budget_but_gaussian_noise_a_pure_one(noise, budget):
    if noise == "gaussian" and budget.measure == dp.max_divergence():
        return
    make = then_tree_laplace if noise == "laplace" else then_tree_gaussian
    scale = budget.noise_scale(noise, TREE.depth)
    made, loss = budget.priced(SPACE >> make(scale * (1 + 1e-9)))
    assert made.output_measure == budget.measure
    assert loss == made.map(budget.d_in)
    assert budget.covers(loss)
    assert not budget.covers(budget.priced(SPACE >> make(scale * 0.999))[1])


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

    measurement, loss = budget.fit(made, scale)
    assert budget.covers(loss)
    assert loss == measurement.map(budget.d_in)
    assert asked[-1] <= scale * (1 + 1e-9)
    with pytest.raises(ValueError, match="budget"):
        budget.fit(lambda _: SPACE >> then_tree_laplace(scale / 4), scale)
