import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import OpenTree, Tree, TreeRelease, leaf_domain, make_tree_gaussian, plan, plan_depths, plot_plan
from opendp_tree.measurements.level_noise import gaussian_variance, laplace_variance
from opendp_tree.planning.plan import Plan

NAMES = {
    "laplace",
    "laplace, least squares",
    "gaussian",
    "gaussian, least squares",
    "pruned laplace",
    "pruned gaussian",
    "partition",
    "paper",
}
L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(3)
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])


def data_of(tree):
    if isinstance(tree, Tree):
        return np.full(tree.leaf_count, 40)
    return tree.count([("a", "b", "c")] * 500 + [("a", "d", "e")] * 3)


BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 0.3, "delta": 1e-9, "d_in": 4},
    {"epsilon": 2.0},
    {"rho": 0.2},
    {"rho": 0.2, "delta": 1e-6, "d_in": 2},
]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("tree", [PUBLIC, OPEN, RAGGED], ids=["public", "open", "ragged"])
def test_every_candidate_is_there_and_what_is_possible_stays_within_the_budget(tree, budget):
    found = plan(tree, alpha=0.25, **budget)
    assert {candidate.name for candidate in found.candidates} == NAMES
    for candidate in found.candidates:
        if not candidate.feasible:
            assert candidate.reason
            assert candidate.error == math.inf
            with pytest.raises(ValueError, match=candidate.name):
                candidate.make(leaf_domain(tree))
            continue
        made = candidate.make(leaf_domain(tree), L1)
        assert made.output_measure == found.budget.measure
        assert found.budget.covers(made)
        release = made(data_of(tree))
        assert isinstance(release, TreeRelease)
        assert (release.lower <= release.upper).all()
        spent = made.map(found.budget.d_in)
        assert tuple(release.statement.loss.values()) == (spent if isinstance(spent, tuple) else (spent,))
        assert release.statement.d_in == found.budget.d_in


def test_candidates_are_ranked_by_error_and_impossible_ones_come_last():
    found = plan(PUBLIC, epsilon=1.0, alpha=0.1)
    errors = [candidate.error for candidate in found.candidates]
    assert errors == sorted(errors)
    assert found.best.name == "laplace, least squares"
    assert {c.name for c in found.candidates if not c.feasible} == NAMES - {"laplace", "laplace, least squares"}
    assert "delta" in found.candidate("partition").reason


def test_nothing_possible_is_a_result():
    found = plan(5, epsilon=1.0, nodes="open")
    assert not found.best.feasible
    assert "Nothing is possible" in found.describe()
    assert found.curves().height == 0
    assert found.to_frame()["feasible"].sum() == 0


def test_errors_of_noise_are_those_of_its_law():
    found = plan(7, epsilon=0.5, delta=1e-6, nodes="public", d_in=3)
    assert found.candidate("laplace").error == pytest.approx(math.sqrt(laplace_variance(7 * 3 / 0.5)))
    gaussian = found.candidate("gaussian")
    assert gaussian.error == pytest.approx(math.sqrt(gaussian_variance(gaussian.parameters["scale"])))
    # For a mere depth least squares is only known to be no worse, and comes first.
    bounded = found.candidate("gaussian, least squares")
    assert (bounded.error, bounded.bound, gaussian.bound) == (gaussian.error, True, False)
    order = [candidate.name for candidate in found.candidates]
    assert order.index("gaussian, least squares") < order.index("gaussian")


@pytest.mark.parametrize("tree", [PUBLIC, RAGGED, Tree.balanced(branching=2, depth=9)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_of_least_squares_is_the_largest_deviation_of_its_release(tree, noise):
    found = plan(tree, epsilon=0.1, delta=1e-6).candidate(f"{noise}, least squares")
    release = found.make(leaf_domain(tree))(np.zeros(tree.leaf_count, dtype=np.int64))
    assert found.error == pytest.approx(math.sqrt(release.fit.estimator.variances.max()), rel=1e-3)
    raw = plan(tree, epsilon=0.1, delta=1e-6).candidate(noise)
    assert found.error <= raw.error


def test_levels_that_do_not_count_get_little_of_the_budget():
    everything = plan(PUBLIC, epsilon=1.0, delta=1e-6)
    some = plan(PUBLIC, epsilon=1.0, delta=1e-6, levels=[1, 3])
    for name in ("laplace", "laplace, least squares", "gaussian", "gaussian, least squares"):
        assert some.candidate(name).error < everything.candidate(name).error
    release = some.candidate("gaussian, least squares").make(leaf_domain(PUBLIC))(np.zeros(27, dtype=np.int64))
    deviations = np.sqrt(release.fit.estimator.variances)
    wanted = np.isin(PUBLIC.node_levels, [1, 3])
    assert some.candidate("gaussian, least squares").error == pytest.approx(deviations[wanted].max(), rel=1e-6)


def test_aims():
    error = plan(3, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open")
    keys = plan(3, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="open", aim="keys")
    possible = [c for c in keys.candidates if c.feasible]
    assert [c.shown_from for c in possible] == sorted(c.shown_from for c in possible)
    assert {c.name for c in error.candidates} == {c.name for c in keys.candidates}


@pytest.mark.parametrize("name", ["partition", "pruned laplace", "pruned gaussian"])
def test_nodes_are_shown_from_the_weight_that_is_said(name):
    found = plan(OPEN, epsilon=1.0, delta=1e-6).candidate(name)
    made = found.make(leaf_domain(OPEN))
    weight, trials = int(found.shown_from), 400
    keys = [(f"{place}", "b", "c") for place in range(trials) for _ in range(weight)]
    shown = (made(OPEN.count(keys)).to_frame(other=False)["level"] == 3).sum()
    assert shown >= 0.95 * trials - 4 * math.sqrt(trials * 0.05 * 0.95)


def test_curves_peak_at_the_error_and_fall_for_heavy_nodes():
    found = plan(6, epsilon=1.0, delta=1e-6, alpha=0.1, nodes="public")
    weights = np.concatenate([[0.0], np.geomspace(1, 1e7, 3000)])
    for candidate in found.candidates:
        curve = candidate.error_at(weights)
        assert curve.max() <= candidate.error * 1.02, candidate.name
        if candidate.name != "paper":
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


def test_a_plan_uses_the_tree_only_if_nodes_are_public():
    assert plan(PUBLIC, epsilon=1.0, delta=1e-6, nodes="open").best.name in ("partition", "pruned laplace")


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
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, named):
    with pytest.raises(ValueError, match=named):
        plan(**{"epsilon": 1.0, **arguments})


def test_a_plan_describes_itself():
    found = plan(PUBLIC, epsilon=1.0, delta=1e-6)
    assert isinstance(found, Plan)
    text = found.describe()
    assert found.best.name in text
    assert all(name in text for name in NAMES)
    with pytest.raises(ValueError, match="name"):
        found.candidate("magic")


def test_raw_noise_is_released_as_it_is():
    made = make_tree_gaussian(leaf_domain(PUBLIC), L1, 5.0, consistent=False)
    release = made(np.full(PUBLIC.leaf_count, 100))
    assert (release.estimates == np.rint(release.estimates)).all()
    assert release.fit is None
    sums = PUBLIC.sum_nodes(np.where(np.isin(np.arange(PUBLIC.node_count), PUBLIC.leaves), release.estimates, 0))
    assert (sums != release.estimates).any()


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
        if candidate.feasible and candidate.name != "paper":
            try:
                made = candidate.make(leaf_domain(tree))
            except ValueError:
                continue
            assert found.budget.covers(made)


def test_errors_by_depth_are_those_of_the_plans():
    frame = plan_depths([2, 9], epsilon=1.0, delta=1e-6, nodes="public")
    found = plan(9, epsilon=1.0, delta=1e-6, nodes="public")
    assert dict(frame.filter(depth=9).select("mechanism", "error").rows()) == {
        c.name: c.error for c in found.candidates
    }
    with pytest.raises(ValueError, match="alpha"):
        plan_depths([2], epsilon=1.0, alpha=2.0)


def test_a_plan_is_drawn_with_the_best_first():
    found = plan(PUBLIC, epsilon=1.0, delta=1e-6)
    figure = plot_plan(found)
    assert figure.data[0].name == f"{found.best.name} (best)"
    assert {line.name.removesuffix(" (best)") for line in figure.data} == NAMES - {"paper"}  # far off: named below
    for line in figure.data:
        assert max(line.y) <= found.candidate(line.name.removesuffix(" (best)")).error * 1.02


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 0.2, "delta": 1e-9, "d_in": 3}], ids=str
)
def test_predicted_thresholds_are_those_that_are_made(noise, budget):
    found = plan(OPEN, **budget).candidate(f"pruned {noise}")
    made = found.make(leaf_domain(OPEN))(data_of(OPEN))
    assert abs(int(made.statement.parameters["thresholds"]) - found.parameters["threshold"]) <= 1


@pytest.mark.parametrize("counts", [[5000, -5000, -(10**9), 40], [2**61 + 77, 2**53 + 1, 5, 0]])
def test_intervals_of_the_papers_estimator_hold_always(counts):
    """For leaf counts below zero taken as zero, and beyond the integers that floats hold."""
    tree = Tree.balanced(branching=2, depth=3)
    made = plan(tree, epsilon=1.0, delta=1e-6, alpha=0.1).candidate("paper").make(leaf_domain(tree))
    truth = tree.sum(np.array(counts).clip(0)).tolist()
    for _ in range(20):
        found = made(np.array(counts))
        assert found.confidence == 1
        assert all(
            int(low) <= count <= int(high) for low, count, high in zip(found.lower, truth, found.upper, strict=True)
        )
