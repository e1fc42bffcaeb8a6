"""Methods as values, the rule of `Auto`, and measurements from leaf counts."""

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Auto, Key, OpenTree, PrunedDescent, Tree, TreeEstimator, TreeNoise, leaf_domain, plan
from opendp_tree.budget import Budget
from opendp_tree.planning import Curve, PeopleLayers, make_tree_counts, then_tree_counts
from opendp_tree.planning.methods import METHODS, Setting, choose_method, read_method
from tests.thoroughness import slow

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def test_a_name_is_a_method_with_its_defaults_and_methods_are_values():
    assert read_method("pruned_gaussian") == PrunedDescent("gaussian")
    assert read_method("people_laplace") == PeopleLayers("laplace")
    assert read_method(TreeEstimator(measuring=0.3)) == TreeEstimator(measuring=0.3)
    assert TreeNoise(weights=[1, 2]) == TreeNoise(weights=(1.0, 2.0))
    assert hash(Auto(levels=[2, 1, 1])) == hash(Auto(levels=(1, 2)))


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: read_method("laplace, least squares"), ValueError, "must be one of 'auto', 'tree_laplace'"),
        (lambda: read_method(3), TypeError, "method"),
        (lambda: read_method(TreeNoise), TypeError, "method"),
        (lambda: Auto(aim="fame"), ValueError, "aim"),
        (lambda: Auto(levels=[-1]), ValueError, "levels"),
        (lambda: Auto(nonnegative=1), TypeError, "nonnegative"),
        (lambda: TreeNoise("normal"), ValueError, "noise"),
        (lambda: TreeNoise(integers="yes"), TypeError, "integers"),
        (lambda: TreeNoise(weights=[0, 0]), ValueError, "weights"),
        (lambda: TreeNoise(weights=[1, -1]), ValueError, r"weights\[1\]"),
        (lambda: TreeNoise(weights="12"), TypeError, "weights"),
        (lambda: PrunedDescent(weights=[1, 0]), ValueError, r"weights\[1\]"),
        (lambda: PrunedDescent("normal"), ValueError, "noise"),
        (lambda: TreeEstimator(measuring=1.0), ValueError, "measuring"),
        (lambda: TreeEstimator(weights=[1, 0]), ValueError, "weights"),
        (lambda: TreeEstimator(levels=[-1]), ValueError, "levels"),
        (lambda: TreeEstimator(levels=3), TypeError, "levels"),
        (lambda: PrunedDescent(nonnegative=True), TypeError, "nonnegative"),
        (lambda: Curve(segments="yes"), TypeError, "segments"),
        (lambda: Curve(finding=0.0), ValueError, "finding"),
        (lambda: Curve(grouping=0.9999), ValueError, "grouping"),
        (lambda: Curve(public_groups="a"), TypeError, "public_groups"),
    ],
)
def test_what_a_method_does_not_take_is_refused_by_name(make, error, named):
    with pytest.raises(error, match=named):
        make()


DEPTHS = (2, 3, 6, 9, 10, 12, 33, 129)
BUDGETS = [{"epsilon": epsilon, "delta": delta} for epsilon in (0.1, 1.0, 10.0) for delta in (0.0, 1e-9, 1e-6)]
BUDGETS += [{"rho": 0.1}, {"rho": 0.1, "delta": 1e-6}]
TREES = [RAGGED, *(Tree.balanced(branching=b, depth=d) for b, d in ((50, 2), (10, 4), (2, 9), (2, 12)))]


def taken(setting):
    """What a release takes, or None."""
    try:
        return choose_method(Auto(levels=setting.levels), setting).name
    except ValueError:
        return None


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("alpha", [0.1, 0.5, *slow([0.0])])
def test_what_a_release_takes_is_the_first_of_its_plan(budget, alpha):
    shapes = [(tree, "public", None) for tree in TREES]
    shapes += [(depth, nodes, None) for depth in DEPTHS for nodes in ("open", "public")]
    shapes += [(6, nodes, [0, 2, 5]) for nodes in ("open", "public")]
    for tree, nodes, levels in shapes:
        asked = {"alpha": alpha, "nodes": nodes, "levels": levels}
        name = taken(Setting.of(tree, Budget.of(**budget), **asked))
        for aim in ("error", "keys"):
            best = plan(tree, **budget, **asked, aim=aim).best
            assert name == (best.name if best.feasible else None)


def test_open_trees_take_the_estimator_and_gaussian_noise_takes_over_in_deep_public_ones():
    def name(tree, **budget):
        return taken(Setting.of(tree, Budget.of(**budget), nodes="open" if tree is OPEN else "public"))

    deep = Tree.balanced(branching=2, depth=16)
    assert name(OPEN, **BUDGET) == name(PUBLIC, **BUDGET) == name(PUBLIC, epsilon=1.0) == "tree_estimator"
    assert name(OPEN, rho=0.1, delta=1e-6) == "pruned_gaussian"
    assert name(PUBLIC, rho=0.1) == name(deep, epsilon=0.3, delta=1e-6) == "tree_gaussian"
    assert name(deep, epsilon=0.3) == "tree_estimator"
    few = Setting.of(deep, Budget.of(epsilon=0.3, delta=1e-6), levels=[0, 8, 15])
    assert taken(few) == "tree_estimator"


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (4.0, 1e-9)])
def test_the_estimator_is_predicted_best_where_nodes_are_unknown(depth, epsilon, delta):
    """So that nothing is lost by a rule that does not rank."""
    for alpha in (0.0, 0.1, 0.5):
        found = plan(depth, epsilon=epsilon, delta=delta, alpha=alpha, nodes="open")
        for each in found.candidates[1:]:
            assert found.best.error <= each.error
            assert found.best.shown_from <= each.shown_from


@pytest.mark.parametrize("tree", TREES[:4])
def test_the_estimator_is_predicted_best_for_public_trees_of_nine_levels(tree):
    """Or within a twentieth: its shares balance the mean error of each level, not that of its worst node."""
    for budget in BUDGETS[:-2]:
        found = plan(tree, **budget)
        assert found.best.error <= 1.05 * min(each.error for each in found.candidates)


@pytest.mark.parametrize("method", ["auto", "tree_estimator", "pruned_laplace", "pruned_gaussian"])
def test_unknown_nodes_need_a_delta_and_are_told_so(method):
    for amounts in ({"epsilon": 1.0}, {"rho": 0.1}):
        with pytest.raises(ValueError, match=r"delta must be above 0 where nodes are unknown.* Hint: delta=1e-6"):
            make_tree_counts(leaf_domain(OPEN), L1, **amounts, method=method)


@pytest.mark.parametrize(
    ("method", "budget", "known", "says"),
    [
        ("tree_laplace", BUDGET, False, r"\(tree_laplace\) is not possible: noise on every node.* Hint: method='auto'"),
        (
            "tree_gaussian",
            BUDGET,
            False,
            r"\(tree_gaussian\) is not possible: noise on every node.* Hint: method='auto'",
        ),
        (Auto(levels=[2]), {"rho": 0.1, "delta": 1e-6}, False, r"OpenDP cannot convert .* Hint: .* leave levels"),
        ("pruned_laplace", {"rho": 0.1, "delta": 1e-6}, False, "OpenDP cannot convert .* Hint: PrunedDescent"),
        ("curve", BUDGET, False, "have no order.* Hint: for curves by group"),
        ("people_laplace", BUDGET, False, "it requires a unit with a bound per person"),
        ("pruned_laplace", BUDGET, True, "pruned_laplace cannot use known names"),
        ("auto", {"rho": 0.1, "delta": 1e-6}, True, "^finding nodes costs"),
    ],
)
def test_what_cannot_be_is_refused_with_a_way_out(method, budget, known, says):
    chosen, key = read_method(method), Key.columns("x", "y", "z", known=[("a", "b", "c")] if known else None)
    levels = chosen.levels if isinstance(chosen, Auto) else None
    with pytest.raises(ValueError, match=says):
        choose_method(chosen, Setting.of(key, Budget.of(**budget), levels=levels))


def test_every_method_can_be_asked_for():
    for method in METHODS:
        made = (leaf_domain(PUBLIC), L1) >> then_tree_counts(**BUDGET, method=method)
        assert made.output_measure == dp.approximate(dp.max_divergence())
        release = made(np.full(PUBLIC.leaf_count, 100))
        assert release.estimates.size == PUBLIC.node_count
        assert release.statement.loss["epsilon"] <= 1.0
        assert method in ("auto", "curve", release.statement.mechanism)
    with pytest.raises(ValueError, match="method"):
        make_tree_counts(leaf_domain(PUBLIC), L1, epsilon=1.0, method="magic")
    with pytest.raises(TypeError, match="nonnegative"):
        make_tree_counts(leaf_domain(PUBLIC), L1, epsilon=1.0, nonnegative=True)


@pytest.mark.parametrize("budget", [BUDGET, {"epsilon": 0.05}, {"rho": 0.01, "delta": 1e-6}], ids=str)
@pytest.mark.parametrize("tree", [PUBLIC, OPEN], ids=["public", "open"])
def test_estimates_are_whole_and_not_negative_where_auto_is_asked_for_it(tree, budget):
    if tree is OPEN and "delta" not in budget:
        return
    made = make_tree_counts(leaf_domain(tree), L1, **budget, method=Auto(nonnegative=True, integers=True))
    counts = np.zeros(27, dtype=np.int64) if tree is PUBLIC else OPEN.count([("a", "b", "c")] * 300)
    estimates = made(counts).estimates
    assert (estimates >= 0).all()
    assert (estimates == np.rint(estimates)).all()


def test_levels_that_are_wanted_change_what_is_released():
    for tree in (PUBLIC, OPEN):
        made = make_tree_counts(leaf_domain(tree), L1, **BUDGET, method=Auto(levels=[1, 3]))
        counts = np.full(27, 50) if tree is PUBLIC else tree.count([("a", "b", "c")] * 300)
        release = made(counts)
        assert release.statement.parameters["levels"] == "0, 1, 3"
    assert set(release.to_frame()["level"]) == {0, 1, 3}
    made = make_tree_counts(leaf_domain(PUBLIC), L1, rho=0.5, method=Auto(levels=[3]))
    scales = made(np.zeros(27, dtype=np.int64)).statement.parameters["level_scales"].split(", ")
    assert float(scales[0]) > 4 * float(scales[3])
    with pytest.raises(ValueError, match="levels"):
        make_tree_counts(leaf_domain(PUBLIC), L1, epsilon=1.0, method=Auto(levels=[4]))
