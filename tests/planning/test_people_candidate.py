import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Auto, Key, OpenTree, Tree, Unit, plan, release_tree
from opendp_tree.budget import Budget
from opendp_tree.mechanisms import people_domain
from opendp_tree.planning.candidate import Setting, TreeFacts, suited
from opendp_tree.planning.candidates import (
    people_candidate,
    people_candidates,
    weighs_people,
)
from opendp_tree.planning.methods import PeopleLayers, read_method
from tests.thoroughness import thinned

OPEN, PUBLIC = OpenTree.columns(["state", "county", "city"]), Tree.balanced(branching=3, depth=4)
UNITS = [
    Unit("user", rows=5),
    Unit("user", rows=(200, 200, 200, 50)),
    Unit("user", count="people", nodes=(6, 12, 20)),
    Unit("user", count="shares"),
]
BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-6, "rho": None},
    {"epsilon": 1.0, "delta": 0.0, "rho": None},
    {"epsilon": None, "delta": 0.0, "rho": 0.5},
    {"epsilon": None, "delta": 1e-6, "rho": 0.5},
]


@pytest.mark.parametrize("people", thinned([1, 2], 2))
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("tree", [OPEN, PUBLIC], ids=["open", "public"])
def test_what_is_possible_keeps_the_budget(tree, unit, budget, people):
    amounts = Budget.of(**budget, d_in=people)
    for each in people_candidates(Auto(), unit, Setting(TreeFacts.of(tree), amounts, 0.1)):
        possible = tree is PUBLIC or (budget["epsilon"] is not None and budget["delta"] > 0)
        if each.name == "people_gaussian":
            possible &= budget["rho"] is not None or budget["delta"] > 0
        assert each.feasible == possible, each.reason
        if possible:
            made = each.make(people_domain(tree), dp.symmetric_distance())
            assert amounts.covers(made.map(people))


def test_the_better_noise_comes_first():
    for unit, best in zip(UNITS, ("laplace", "laplace", "gaussian", "laplace"), strict=True):
        found = plan(OPEN, epsilon=1.0, delta=1e-6, unit=unit)
        assert found.best.name == f"people_{best}"
        assert found.best.error == min(each.error for each in found.candidates if each.feasible)
        assert unit.counted(weighed=True) in found.describe()
        assert found.best.reason.startswith("noise of a count, by level from the root's: ")
        assert found.lower_bound == 0
        assert repr(found)


def test_leaves_are_kept_and_planned_for_as_rows():
    kept = plan(OPEN, epsilon=1.0, delta=1e-6, unit=Unit("user", leaves=3))
    assert kept.worst_case


def test_which_releases_weigh_people():
    assert weighs_people(UNITS[0], "auto")
    assert weighs_people(UNITS[2], "people_gaussian")
    assert not weighs_people(UNITS[0], "tree_laplace")
    assert not weighs_people(Unit("user", leaves=2), "auto")
    assert not weighs_people(None, "auto")
    for unit in (None, Unit("user", leaves=2)):
        with pytest.raises(ValueError, match=r"method \(people_laplace\) needs a unit whose rows are weighed"):
            weighs_people(unit, "people_laplace")


def test_a_method_has_its_own_options():
    facts, budget = TreeFacts.of(OPEN), Budget.of(**BUDGETS[0], d_in=1)
    assert read_method("people_laplace") == PeopleLayers("laplace")
    few, many = (
        people_candidate(PeopleLayers("laplace", measuring=share), UNITS[2], Setting(facts, budget, 0.1))
        for share in (0.2, 0.8)
    )
    assert few.error > many.error
    assert few.shown_from < many.shown_from
    shown = people_candidate(PeopleLayers(levels=[3]), Unit("user", rows=5), Setting(facts, budget, 0.1))
    assert shown.parameters["most"] == "5, 5"
    assert (shown.error_at([0, 1000]) >= 0).all()


def test_estimates_are_made_what_they_must_be():
    facts, budget = TreeFacts.of(PUBLIC), Budget.of(**BUDGETS[0], d_in=1)
    signed = people_candidate(PeopleLayers("laplace"), UNITS[0], Setting(facts, budget, 0.1))
    made = suited(signed, Auto(nonnegative=True, integers=True))
    assert (signed.nonnegative, made.nonnegative, made.integers) == (False, True, True)
    assert suited(signed, Auto()) == signed


def test_rho_for_unknown_nodes_is_refused_with_a_way_out():
    rows = pl.DataFrame({"user": [1, 2], "city": ["ghent", "liege"]})
    ask = {"by": "city", "unit": Unit("user", rows=2), "rho": 0.1, "delta": 1e-6}
    with pytest.raises(ValueError, match=r"Hint: .*method='pruned_gaussian', which keeps rows of each"):
        release_tree(rows, **ask)
    assert "keeping at most 2" in release_tree(rows, **ask, method="pruned_gaussian").statement.counted


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("unit", UNITS[:1] + UNITS[2:], ids=str)
def test_known_names_are_shown_with_units(unit, closed):
    rows = pl.DataFrame({"user": range(400), "state": ["be"] * 400, "county": ["a"] * 400, "city": ["x"] * 400})
    names = [("lu", "b", "y"), ("be", "a", "z")]
    key = Key.columns("state", "county", "city", known=names, closed=closed or None)
    spent = {"epsilon": 1.0} if closed else {"epsilon": 1.0, "delta": 1e-6}
    frame = release_tree(rows, by=key, unit=unit, **spent).to_frame(other=False)
    assert set(names) <= set(frame.select("state", "county", "city").rows())
    assert (("be", "a", "x") in frame.select("state", "county", "city").rows()) is not closed
