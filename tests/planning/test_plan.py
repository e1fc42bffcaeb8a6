import re
from xml.etree import ElementTree

import numpy as np
import pytest

from opendp_tree import Key, OpenTree, Tree, TreeEstimator, Unit, Value, leaf_domain, plan
from opendp_tree.planning import Plan, smallest_epsilon
from opendp_tree.planning.methods import MECHANISMS, InfeasibleError

NAMES = {method.name for method in MECHANISMS}
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
AMOUNT = Value("amount", bounds=(0, 1))


@pytest.mark.parametrize("measuring", [0.2, 0.5])
def test_a_method_is_planned_alone_with_its_options(measuring):
    asked = TreeEstimator(measuring=measuring)
    found = plan(OPEN, epsilon=1.0, delta=1e-6, method=asked)
    usual = plan(OPEN, epsilon=1.0, delta=1e-6).best
    assert [each.method for each in found.candidates] == [asked]
    assert found.best.shown_from < usual.shown_from
    statement = found.best.make(leaf_domain(OPEN))(OPEN.count([])).statement
    assert statement.parameters["threshold"] == found.best.parameters["threshold"]
    with pytest.raises(InfeasibleError, match="requires public nodes"):
        plan(OPEN, epsilon=1.0, delta=1e-6, method="tree_laplace")


@pytest.mark.parametrize("shown", [repr, Plan._repr_html_, Plan.describe])
def test_a_plan_shows_the_errors_of_the_best_mechanism_by_level(shown):
    found = plan(PUBLIC, epsilon=1.0, value=AMOUNT)
    assert all(f"{error:.3g}" in shown(found) for error in found.levels()["error"])
    assert "error of a sum of amount" in shown(found)
    assert "error of a count" not in shown(plan(OPEN, epsilon=1.0, delta=1e-6))


def test_nothing_possible_is_a_result():
    found = plan(5, epsilon=1.0, nodes="open")
    assert not found.best.feasible
    assert found.describe().endswith("\nNothing is possible. Hint: delta=1e-6")
    assert repr(plan(5, epsilon=1.0, nodes="open", unit=Unit("user", rows=3))).endswith(". Hint: delta=1e-6")
    assert repr(plan(5, rho=1.0, nodes="open", unit=Unit("user", rows=3))).endswith("Nothing is possible.")
    assert found.curves().height == 0
    assert found.to_frame()["feasible"].sum() == 0


def test_the_aim_ranks_and_leaves_nothing_out():
    error = plan(3, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open")
    keys = plan(3, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open", aim="keys")
    possible = [c for c in keys.candidates[1:] if c.feasible]
    assert [c.shown_from for c in possible] == sorted(c.shown_from for c in possible)
    assert {c.name for c in error.candidates} == {c.name for c in keys.candidates}


def test_curves_peak_at_the_error_and_fall_for_heavy_nodes():
    found = plan(6, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="public")
    weights = np.concatenate([[0.0], np.geomspace(1, 1e7, 3000)])
    for candidate in found.candidates:
        curve = candidate.error_at(weights)
        assert curve.max() <= candidate.error * 1.02, candidate.name
        assert curve.max() >= candidate.error * 0.9, candidate.name
        assert curve[-1] < candidate.error / 20
    frame = found.curves([1.0, 10.0])
    assert frame.columns == ["mechanism", "weight", "error"]
    assert frame.height == 2 * len(NAMES)


def test_a_better_budget_never_raises_the_least_error():
    for nodes in ("public", "open"):
        errors = [plan(9, epsilon=e, delta=1e-6, nodes=nodes).best.error for e in (0.1, 0.3, 1.0, 3.0)]
        assert errors == sorted(errors, reverse=True)
        errors = [plan(9, epsilon=1.0, delta=d, nodes=nodes).best.error for d in (1e-12, 1e-9, 1e-6, 1e-3)]
        assert errors == sorted(errors, reverse=True)


def test_the_lower_bound_is_below_every_candidate():
    for depth in (1, 5, 40):
        for epsilon in (0.1, 1.0, 8.0):
            found = plan(depth, epsilon=epsilon, delta=1e-6, alpha=0.1, nodes="public")
            assert 0 <= found.lower_bound <= found.best.error


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tree_or_depth": 0}, "tree_or_depth"),
        ({"tree_or_depth": 3}, "nodes"),
        ({"tree_or_depth": 3, "nodes": "hidden"}, "nodes"),
        ({"tree_or_depth": OPEN, "nodes": "public"}, "nodes"),
        ({"tree_or_depth": PUBLIC, "alpha": 1.0}, "alpha"),
        ({"tree_or_depth": PUBLIC, "alpha": -0.1}, "alpha"),
        ({"tree_or_depth": PUBLIC, "levels": []}, "levels"),
        ({"tree_or_depth": PUBLIC, "levels": [4]}, "levels"),
        ({"tree_or_depth": PUBLIC, "aim": "fame"}, "aim"),
        ({"tree_or_depth": PUBLIC, "epsilon": 1e300}, "epsilon"),
        ({"tree_or_depth": PUBLIC, "delta": 1e-300}, "delta"),
        ({"tree_or_depth": PUBLIC, "d_in": 10**9}, "d_in"),
        ({"tree_or_depth": 10**12, "nodes": "open"}, "tree_or_depth"),
        ({"tree_or_depth": 3, "nodes": "public", "value": AMOUNT}, "tree_or_depth must be a Tree"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, named):
    with pytest.raises(ValueError, match=named):
        plan(**{"epsilon": 1.0, **arguments})


def test_a_plan_prints_as_a_table_that_says_what_ranks_it():
    found = plan(6, epsilon=1.0, delta=1e-6, nodes="open")
    assert all(name in found.describe() for name in NAMES)
    with pytest.raises(ValueError, match="name"):
        found.candidate("magic")
    shown, page = repr(found), ElementTree.fromstring(found._repr_html_())
    assert shown == str(found)
    assert len(shown.splitlines()) < 20
    for each in found.candidates:
        assert each.name in shown
        assert each.reason in shown
    rows = page.findall("./div[1]/table/tbody/tr")
    assert [row.find("td").text for row in rows] == [each.name for each in found.candidates]
    assert [row.get("class") for row in rows] == ["opendp-tree-strong", *[None] * (len(rows) - 1)]
    assert shown.splitlines()[-1].startswith(
        "The default of a release comes first; the others are ranked by error. Error: the predicted"
    )
    keys = plan(6, epsilon=1.0, delta=1e-6, nodes="open", aim="keys")
    assert "the others are ranked by the fewest rows from which a node is shown." in repr(keys)
    nothing = plan(6, epsilon=1.0, nodes="open")
    assert "not possible" in repr(nothing)
    assert "not possible" in nothing._repr_html_()


def test_names_of_columns_are_planned_as_a_release_takes_them():
    budget = {"epsilon": 1.0, "delta": 1e-6}
    for by in (["region", "city"], ("region", "city")):
        assert repr(plan(by, **budget)) == repr(plan(Key.columns("region", "city"), **budget))
    assert plan("city", **budget).setting.depth == 2
    with pytest.raises(TypeError, match=r"a column's name \(1\) must be a text"):
        plan([1], **budget)


@pytest.mark.parametrize(
    ("asked", "heads", "concluded"),
    [
        ({}, "mechanism  error (rows)  shown from (rows)", "The error of every node, beyond 10 % of its count,"),
        ({"unit": Unit("u", rows=9)}, "error (rows)  shown from (people)", "The error is predicted to be"),
        ({"unit": Unit("u", count="shares")}, "error (people)  shown from (people)", "The error is predicted to be"),
    ],
)
def test_a_plan_says_in_what_its_errors_are_and_writes_numbers_out(asked, heads, concluded):
    found = plan(OPEN, epsilon=0.005, delta=1e-6, **asked)
    words = found.describe()
    assert " ".join(heads.split()) in " ".join(words.split())
    kind = "people" if "error (people)" in heads else "rows"
    assert re.search(rf"{re.escape(concluded)}.* {found.best.error:,.0f} {kind}; a node of", words)
    assert found.best.error > 1000
    assert "e+0" not in words
    public = plan(PUBLIC, epsilon=1.0).describe()
    assert "the predicted error of the worst node below the root, beyond 10 % of its count, for any counts" in public
    assert "The error of every node below the root, beyond 10 % of its count, is predicted to stay below" in public


def test_candidates_are_ranked_by_error_and_impossible_ones_come_last():
    found = plan(PUBLIC, epsilon=1.0, alpha=0.1)
    errors = [candidate.error for candidate in found.candidates]
    assert errors == sorted(errors)
    assert found.best.name == "tree_estimator"
    assert {c.name for c in found.candidates if not c.feasible} == NAMES - {"tree_laplace", "tree_estimator"}
    assert "delta" in found.candidate("pruned_laplace").reason


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1.0, "delta": 1e-50},
        {"epsilon": 1e-9, "delta": 1e-50, "d_in": 7},
        {"epsilon": 1e3, "delta": 0.5, "d_in": 10**6},
        {"epsilon": 1e3, "delta": 1e-50, "d_in": 2},
        {"epsilon": 1.0, "delta": 0.9999},
        {"epsilon": 203.33, "delta": 1e-12, "d_in": 1000},
        {"rho": 1e-15},
        {"rho": 1e5, "delta": 0.5},
    ],
    ids=str,
)
def test_extreme_budgets_are_planned_or_said_to_be_impossible(budget):
    tree = Tree.balanced(branching=2, depth=3)
    found = plan(tree, **budget)
    for candidate in found.candidates:
        assert candidate.reason
        if candidate.feasible:
            try:
                made = candidate.make(leaf_domain(tree))
            except ValueError:
                continue
            assert found.budget.covers(made.map(found.budget.d_in))


def test_levels_are_left_out_or_refused_where_nodes_are_unknown():
    found = plan(OPEN, epsilon=1.0, delta=1e-6, levels=[2])
    assert [candidate.name for candidate in found.candidates if candidate.feasible] == ["tree_estimator"]
    assert found.candidate("pruned_laplace").reason == "it cannot leave out levels"
    for levels in (None, [1, 2, 3], [0, 1, 2, 3]):  # nothing is left out: the root is always there
        assert plan(OPEN, epsilon=1.0, delta=1e-6, levels=levels).candidate("pruned_laplace").feasible


@pytest.mark.parametrize(
    ("tree", "options", "error"),
    [
        (4, {"nodes": "public"}, 50.0),
        (4, {"nodes": "public", "delta": 1e-6}, 3.0),
        (OpenTree.columns(5), {"delta": 1e-6}, 40.0),
        (Tree.balanced(branching=2, depth=6), {"delta": 1e-6, "d_in": 2}, 5.0),
    ],
)
def test_the_smallest_epsilon_reaches_the_error_and_a_smaller_one_does_not(tree, options, error):
    found = smallest_epsilon(tree, error=error, **options)
    assert found.best.error <= error
    less = plan(tree, epsilon=found.budget.epsilon / 1.002, **options)
    assert less.best.error > error


def test_errors_must_be_positive_and_open_nodes_need_a_delta():
    assert smallest_epsilon(3, error=100.0, nodes="open") is None
    for error in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="error"):
            smallest_epsilon(3, error=error, nodes="public")


@pytest.mark.parametrize("unit", [Unit("user", rows=8), Unit("user", leaves=4, rows_per_leaf=2)])
def test_where_rows_of_a_person_are_kept_the_plan_is_that_of_as_many_rows(unit):
    budget, value = {"epsilon": 1.0, "delta": 1e-6}, None if unit.leaves else Value("amount", bounds=(0, 60))
    rows = plan(3, nodes="open", value=value, d_in=8, **budget)
    found = plan(3, nodes="open", value=value, unit=unit, **budget)
    assert found.best.error == rows.best.error > plan(3, nodes="open", value=value, **budget).best.error
    assert found.best.shown_from == rows.best.shown_from > 100
    one = plan(3, nodes="open", unit=unit, method=TreeEstimator(), **budget).best
    assert one.error == plan(3, nodes="open", d_in=8, **budget).candidate("tree_estimator").error
