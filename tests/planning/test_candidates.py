"""What each method promises: its errors are those of its law, its measurement keeps the budget."""

import math

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import (
    Auto,
    Key,
    OpenTree,
    PrunedDescent,
    Tree,
    TreeEstimator,
    TreeNoise,
    TreeRelease,
    Unit,
    Value,
    leaf_domain,
    plan,
    release_tree,
)
from opendp_tree.budget import Budget
from opendp_tree.mechanisms import leaf_values_domain, people_domain
from opendp_tree.mechanisms.curve import MeasuredLine
from opendp_tree.mechanisms.tree_noise import gaussian_variance, laplace_variance
from opendp_tree.planning import Curve, PeopleLayers
from opendp_tree.planning.laws import curve_rank_error
from opendp_tree.planning.methods import MECHANISMS, PEOPLE_METHODS, InfeasibleError, Setting, Space, make_planned
from opendp_tree.planning.plan import predict
from opendp_tree.rows.counting import LeafValues
from opendp_tree.theorems.sums import STEPS
from tests.thoroughness import slow

L1 = dp.l1_distance(T="i64")
PUBLIC = Tree.balanced(branching=3, depth=4)
OPEN = OpenTree.columns(["state", "county", "city"])
RAGGED = Tree.from_paths([("a", "x", "1"), ("a", "y"), ("b",), ("c", "z"), ("c", "w", "2", "3")])
BUDGET = Budget.of(epsilon=1.0, delta=1e-6)


def data_of(tree):
    if isinstance(tree, Tree):
        return np.full(tree.leaf_count, 40)
    return tree.count([("a", "b", "c")] * 500 + [("a", "d", "e")] * 3)


def candidate(method, tree, budget=BUDGET, **options):
    return predict(method, Setting.of(tree, budget, **options))


BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 0.3, "delta": 1e-9, "d_in": 4},
    {"epsilon": 2.0},
    {"rho": 0.2},
    {"rho": 0.2, "delta": 1e-6, "d_in": 2},
]


@pytest.mark.parametrize("budget", [*BUDGETS[::2], *slow(BUDGETS[1::2])], ids=str)
@pytest.mark.parametrize("tree", [PUBLIC, OPEN, RAGGED], ids=["public", "open", "ragged"])
def test_every_candidate_is_there_and_what_is_possible_stays_within_the_budget(tree, budget):
    found = plan(tree, alpha=0.25, **budget)
    assert {each.name for each in found.candidates} == {method.name for method in MECHANISMS}
    for each in found.candidates:
        if not each.feasible:
            assert each.reason
            assert each.error == math.inf
            with pytest.raises(ValueError, match=each.name):
                each.make(leaf_domain(tree))
            continue
        made = each.make(leaf_domain(tree), L1)
        assert made.output_measure == found.budget.measure
        spent = made.map(found.budget.d_in)
        assert found.budget.covers(spent)
        release = made(data_of(tree))
        assert isinstance(release, TreeRelease)
        assert (release.lower <= release.upper).all()
        assert tuple(release.statement.loss.values()) == (spent if isinstance(spent, tuple) else (spent,))
        assert (release.statement.d_in, release.statement.mechanism) == (found.budget.d_in, each.name)


@pytest.mark.parametrize("name", ["tree_estimator", "pruned_laplace", "pruned_gaussian"])
def test_nodes_are_shown_from_the_weight_that_is_said(name):
    found = plan(OPEN, epsilon=1.0, delta=1e-6).candidate(name)
    made = found.make(leaf_domain(OPEN))
    weight, trials = int(found.shown_from), 400
    keys = [(f"{place}", "b", "c") for place in range(trials) for _ in range(weight)]
    shown = (made(OPEN.count(keys)).to_frame(other=False)["level"] == 3).sum()
    assert shown >= 0.95 * trials - 4 * math.sqrt(trials * 0.05 * 0.95)


def measured(release):
    found = release.statement.parameters
    return (found["measuring_removal"] + found["measuring_addition"]) / 2


def test_the_share_that_measures_is_honoured_and_less_finds_smaller_nodes():
    shown = []
    for share in (0.2, 0.5, 0.8):
        found = candidate(TreeEstimator(measuring=share), OPEN)
        made = found.make(leaf_domain(OPEN))
        assert measured(made(data_of(OPEN))) == pytest.approx(share, abs=0.02)  # scales are of three digits
        assert BUDGET.covers(made.map(1))
        shown.append(found.shown_from)
    assert shown == sorted(set(shown))
    usual = candidate(TreeEstimator(), OPEN)
    share = measured(usual.make(leaf_domain(OPEN))(data_of(OPEN)))
    assert share == pytest.approx(usual.parameters["measuring"], abs=1e-3)


def test_weights_reach_the_estimator():
    assert candidate(TreeEstimator(weights=(1, 4, 1)), OPEN).make(leaf_domain(OPEN))(data_of(OPEN)).estimates.size
    with pytest.raises(ValueError, match="one for each level above the deepest"):
        candidate(TreeEstimator(weights=(1, 4)), OPEN).make(leaf_domain(OPEN))


@pytest.mark.parametrize("tree", [OPEN, PUBLIC])
@pytest.mark.parametrize("d_in", [2, 4, 30])
def test_people_with_more_rows_pay_by_the_direct_bound(tree, d_in):
    """Less than group privacy would ask: a lower threshold than that of its epsilon and delta for one row."""
    budget = Budget.of(epsilon=1.0, delta=1e-6, d_in=d_in)
    found = candidate(TreeEstimator(), tree, budget)
    made = found.make(leaf_domain(tree))
    assert budget.covers(made.map(d_in))
    assert made.map(d_in)[0] > 0.999
    if tree is OPEN:
        epsilon, delta = budget.one_person
        one = candidate(TreeEstimator(), tree, Budget.of(epsilon=epsilon, delta=delta))
        assert found.parameters["threshold"] <= one.parameters["threshold"]


def test_a_depth_alone_bounds_the_error_of_every_public_tree():
    for tree in (PUBLIC, RAGGED, *(Tree.balanced(branching=b, depth=d) for b, d in ((2, 9), (40, 3), (1, 5)))):
        bound = candidate(TreeEstimator(), tree.depth, nodes="public")
        assert bound.bound
        assert candidate(TreeEstimator(), tree).error <= bound.error


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_of_pruned_descent_are_taken_in_their_ratios(noise):
    found = candidate(PrunedDescent(noise, weights=(1, 1, 1, 4)), OPEN)
    made = found.make(leaf_domain(OPEN))
    assert BUDGET.covers(made.map(1))
    thresholds = [int(value) for value in made(data_of(OPEN)).statement.parameters["thresholds"].split(", ")]
    assert thresholds[0] == thresholds[1] == thresholds[2] > thresholds[3]
    assert thresholds[0] == found.parameters["threshold"]
    even = candidate(PrunedDescent(noise), OPEN)
    made = even.make(leaf_domain(OPEN))(data_of(OPEN))
    assert int(made.statement.parameters["thresholds"]) == even.parameters["threshold"]


def test_with_weights_the_worst_level_counts():
    plain, equal, last = (
        candidate(PrunedDescent(weights=weights), OPEN) for weights in (None, (1, 1, 1, 1), (1, 1, 1, 40))
    )
    assert equal.error == pytest.approx(plain.error)
    assert last.error > plain.error  # the first levels pay for the last
    assert last.error_at(np.arange(1.0, 3000.0)).max() == pytest.approx(last.error)


KNOWN = [(f"s{state}", f"c{county}", f"t{city}") for state in range(3) for county in range(3) for city in range(3)]


@pytest.mark.parametrize("closed", [False, True])
def test_predicted_errors_of_known_nodes_are_near_what_is_measured(closed):
    """500 releases of 40 nodes: the mean deviation of a level has a standard error of about 2 %, of the root 4 %."""
    key = Key.columns("state", "county", "city", known=KNOWN, closed=closed)
    found = plan(key, epsilon=1.0, delta=0.0 if closed else 1e-6)
    assert found.best.name == "tree_estimator"
    assert found.best.shown_from == 0 or not closed
    made = found.best.make(leaf_domain(OPEN))
    assert found.budget.covers(made.map(1))
    counts = OPEN.count([path for path in KNOWN for _ in range(400)])
    frames = [made(counts).to_frame(other=False) for _ in range(500)]
    deviations = np.array([frame["estimate"].to_numpy() for frame in frames]).std(axis=0)
    predicted = found.levels().filter(mechanism="tree_estimator")
    assert predicted["nodes"].to_list() == [1, 3, 9, 27]
    for level, error in predicted.select("level", "error").rows():
        here = deviations[(frames[0]["level"] == level).to_numpy()]
        assert here.mean() < 1.3 * error
        assert here.max() > 0.4 * error


def test_errors_of_noise_are_those_of_its_law():
    found = plan(7, epsilon=0.5, delta=1e-6, nodes="public", d_in=3)
    laplace, gaussian = (found.candidate(f"tree_{noise}") for noise in ("laplace", "gaussian"))
    assert laplace.error == pytest.approx(math.sqrt(laplace_variance(7 * 3 / 0.5)))
    assert gaussian.error == pytest.approx(math.sqrt(gaussian_variance(gaussian.parameters["scale"])))
    # For a mere depth least squares is only known to be no worse than the noise before it.
    assert laplace.bound
    assert gaussian.bound


@pytest.mark.parametrize("tree", [PUBLIC, RAGGED, Tree.balanced(branching=2, depth=9)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_of_least_squares_is_the_largest_deviation_of_its_release(tree, noise):
    best, before = (
        plan(each, epsilon=0.1, delta=1e-6, nodes="public").candidate(f"tree_{noise}") for each in (tree, tree.depth)
    )
    release = best.make(leaf_domain(tree))(np.zeros(tree.leaf_count, dtype=np.int64))
    assert best.error == pytest.approx(math.sqrt(release.fit.estimator.variances[below_root(tree)].max()), rel=1e-3)
    assert best.error <= before.error


def below_root(tree):
    return tree.node_levels > 0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_of_noise_are_taken_in_their_ratios(noise):
    budget, power = Budget.of(epsilon=0.05, delta=1e-6), 1 if noise == "laplace" else 2
    for weights in ((1, 1, 1, 1), (0.05, 1, 1, 1), (0, 0, 3, 1)):
        found = candidate(TreeNoise(noise, weights=weights), PUBLIC, budget)
        made = found.make(leaf_domain(PUBLIC))
        release = made(np.zeros(27, dtype=np.int64))
        assert budget.covers(made.map(1))
        scales = [float(scale) for scale in release.statement.parameters["level_scales"].split(", ")] * 4
        ratios = [(scales[3] / scale) ** power for scale in scales[:4]]  # infinite where nothing is measured
        assert ratios == pytest.approx([weight / weights[3] for weight in weights])
        worst = release.fit.estimator.variances[below_root(PUBLIC)].max()
        assert found.error == pytest.approx(math.sqrt(worst), rel=1e-3)
    chosen, equal = (candidate(TreeNoise(noise, weights=w), PUBLIC).error for w in (None, (1, 1, 1, 1)))
    assert chosen < equal
    with pytest.raises(ValueError, match="weights must hold one number for each of the 4 levels"):
        candidate(TreeNoise(weights=(1, 2)), PUBLIC)


UNITS = [
    Unit("user", rows=5),
    Unit("user", rows=(200, 200, 200, 50)),
    Unit("user", count="people", nodes=(6, 12, 20)),
    Unit("user", count="shares"),
]


@pytest.mark.parametrize("people", [1, *slow([2])])
@pytest.mark.parametrize("budget", [BUDGETS[0], {"epsilon": 1.0}, {"rho": 0.5}, {"rho": 0.5, "delta": 1e-6}], ids=str)
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("tree", [OPEN, PUBLIC], ids=["open", "public"])
def test_people_are_weighed_within_the_budget(tree, unit, budget, people):
    amounts = Budget.of(**budget, d_in=people)
    for method in PEOPLE_METHODS:
        each = candidate(method, tree, amounts, unit=unit)
        possible = tree is PUBLIC or {"epsilon", "delta"} <= budget.keys()
        if method.noise == "gaussian":
            possible &= {"rho", "delta"} & budget.keys() != set()
        assert each.feasible == possible, each.reason
        if possible:
            assert amounts.covers(each.make(people_domain(tree), dp.symmetric_distance()).map(people))


def test_the_better_noise_comes_first_for_people():
    for unit, best in zip(UNITS, ("laplace", "laplace", "gaussian", "laplace"), strict=True):
        found = plan(OPEN, epsilon=1.0, delta=1e-6, unit=unit)
        assert found.best.name == f"people_{best}"
        assert found.best.error == min(each.error for each in found.candidates if each.feasible)
        assert unit.counted(weighed=True) in found.describe()
        assert found.best.reason.startswith(f"layers with {best.title()} noise")
        assert found.lower_bound == 0
        assert repr(found)
    assert plan(OPEN, epsilon=1.0, delta=1e-6, unit=Unit("user", leaves=3)).worst_case  # rows are kept


def test_people_have_their_own_options():
    few, many = (candidate(PeopleLayers("laplace", measuring=share), OPEN, unit=UNITS[2]) for share in (0.2, 0.8))
    assert few.error > many.error
    assert few.shown_from < many.shown_from
    shown = candidate(PeopleLayers(levels=[3]), OPEN, unit=UNITS[0])
    assert shown.parameters["most"] == "5"
    assert (shown.error_at([0, 1000]) >= 0).all()


AUTO, AMOUNT, DELAY = Auto(), Value("amount", bounds=(0, 500)), Value("delay", bounds=(-30, 180), weight=3.0)


def made_means(tree, budget, *, method=AUTO, values=(AMOUNT,)):
    setting, domain = Setting.of(tree, Budget.of(**budget), values=values), leaf_values_domain(tree, values)
    return make_planned(method, setting, Space(domain, dp.symmetric_distance(), None, 0.95))


def test_values_take_every_budget_of_public_trees_and_epsilon_with_delta_of_open_ones():
    for budget in ({"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}):
        assert Budget.of(**budget).covers(made_means(PUBLIC, budget).map(1))
    for budget, words in (({"epsilon": 1.0}, "delta must be"), ({"rho": 0.5, "delta": 1e-6}, "epsilon and delta must")):
        with pytest.raises(ValueError, match=f"^{words}.*Hint"):
            made_means(OPEN, budget)
    for method in (TreeEstimator(), Auto(levels=[0, 2]), TreeEstimator(levels=[0, 2])):
        assert made_means(OPEN, BUDGETS[0], method=method).map(1) <= (1.0, 1e-6)


@pytest.mark.parametrize(
    ("tree", "method"),
    [
        (OPEN, TreeNoise("laplace")),
        (OPEN, PrunedDescent()),
        (OPEN, TreeEstimator(measuring=0.3)),
        (OPEN, Auto(nonnegative=True)),
        (PUBLIC, TreeNoise("gaussian")),
        (PUBLIC, TreeEstimator()),
        (PUBLIC, Auto(levels=[1])),
    ],
)
def test_methods_that_do_not_sum_are_refused(tree, method):
    with pytest.raises(ValueError, match=r"method \(.*must be left out"):
        made_means(tree, BUDGETS[0], method=method)


def test_predicted_sums_are_in_proportion_to_bounds_and_shares():
    def errors(value, quantity):
        return plan(OPEN, epsilon=1.0, delta=1e-6, value=value).levels().filter(quantity=quantity)["error"].to_numpy()

    even = Value("amount", bounds=(-250, 250))  # the count adds nothing to the error of such a sum
    sums, counts = errors(even, "sum of amount"), errors(even, "count")
    assert errors(Value("amount", bounds=(-500, 500)), "sum of amount") == pytest.approx(2 * sums)
    assert errors([even, DELAY], "sum of amount") == pytest.approx(4 * sums)
    assert errors([even, DELAY], "sum of delay").size == 4
    assert errors(AMOUNT, "sum of amount") == pytest.approx(np.hypot(sums, 250 * counts))


@pytest.mark.parametrize("values", [(AMOUNT,), (AMOUNT, DELAY)], ids=["one", "two"])
def test_deviations_of_sums_of_a_public_tree_are_those_that_are_measured(values):
    """800 releases of 21 nodes: a deviation has a standard error below 3 %, and 20 % are over six of them."""
    tree, runs = Tree.balanced(branching=4, depth=3), 800
    frame, made = plan(tree, epsilon=1.0, value=values).levels(), made_means(tree, {"epsilon": 1.0}, values=values)
    nobody = LeafValues(np.zeros(16, dtype=np.int64), tuple(np.zeros(16, dtype=np.int64) for _ in values))
    found = [made(nobody) for _ in range(runs)]
    drawn = {"count": np.array([each.estimates for each in found])}
    for place, value in enumerate(values):
        drawn[f"sum of {value.column}"] = np.array([each.values[place].sum for each in found])
    for quantity, numbers in drawn.items():
        predicted = frame.filter(quantity=quantity)["error"].to_numpy()
        for level, nodes in enumerate(tree.levels):
            assert numbers[:, nodes].std(axis=0) == pytest.approx(predicted[level], rel=0.2)


@pytest.mark.parametrize(
    ("closed", "values", "levels"),
    [
        (True, (AMOUNT, DELAY), [0, 2, 3]),
        (False, (AMOUNT,), [0, 1, 3]),
        *slow([(True, (AMOUNT,), None), (False, (AMOUNT, DELAY), None)]),
    ],
)
def test_deviations_of_sums_of_known_nodes_are_those_that_are_measured(closed, values, levels):
    """800 releases: that of a level has a standard error below 4 %, at the root, and 25 % are over six of them."""
    key = Key.columns("state", "county", "city", known=KNOWN, closed=closed)
    found = plan(key, epsilon=1.0, delta=0.0 if closed else 1e-6, value=values, levels=levels)
    assert (found.best.shown_from == 0) == closed
    made = found.best.make(leaf_values_domain(OPEN, values), dp.symmetric_distance())
    assert found.budget.covers(made.map(1))
    rows = OPEN.count([path for path in KNOWN for _ in range(400)])
    releases = [made(LeafValues(rows, tuple(np.full(27, 100 * STEPS) for _ in values))) for _ in range(800)]
    at = np.array(releases[0].nodes.levels)
    drawn = {"count": np.array([each.estimates for each in releases])}
    for place, value in enumerate(values):
        drawn[f"sum of {value.column}"] = np.array([each.values[place].sum for each in releases])
    shown = levels or range(4)
    frame = found.levels()
    expected = [(quantity, level, 3**level) for quantity in drawn for level in shown]
    assert frame.select("quantity", "level", "nodes").rows() == expected
    for quantity, level, error in frame.select("quantity", "level", "error").rows():
        measured = math.sqrt(drawn[quantity][:, at == level].var(axis=0).mean())
        assert measured == pytest.approx(error, rel=0.25), (quantity, level)


@pytest.mark.parametrize(
    "key",
    [
        Key.columns("state", "county", known=[("a",), ("b", "x")]),
        Key.columns("state", "county", known=[("a",)]),
        Key.columns("state", known=[("a",)], closed=True),
        Key.path("url", depth=4, known=[("a", "b")]),
        Key.ip("address", known=["10.0.0.0/8"]),
    ],
    ids=str,
)
def test_levels_with_known_nodes_have_predicted_errors_and_others_have_none(key):
    found = plan(key, epsilon=1.0, delta=1e-6, value=AMOUNT)
    numbers = found.levels().filter(quantity="count").select("level", "nodes").rows()
    known = key.known
    assert sum(nodes for _, nodes in numbers) == len(known.paths)
    assert found.best.error == found.levels().filter(quantity="count")["error"].max() > 0
    assert "known" in found.best.needs
    assert f"{len(known.paths)} known nodes" in found.describe()
    assert (found.best.shown_from == 0) == all(known.closed)


AT = np.arange(1, 10) / 10


def rank_errors(counts, bins):
    totals = np.concatenate(([0], np.cumsum(counts)))
    places = np.minimum(bins.astype(int), counts.size - 1)
    wanted = AT * totals[-1]
    return np.maximum(0, np.maximum(totals[places] - wanted, wanted - totals[places + 1])).mean()


@pytest.mark.parametrize(("bins", "people"), [(2**13, 20_000), (2**9, 2_000)])
@pytest.mark.parametrize("finding", [0.2, 0.0], ids=["segments", "bins"])
def test_predicted_rank_errors_are_near_those_of_even_people(bins, people, finding):
    rng, errors = np.random.default_rng(bins), []
    line = MeasuredLine.of(bins, 1.0, finding=finding, branching=16, confidence=0.9)
    for _ in range(8):
        counts = np.bincount(rng.integers(0, bins, people), minlength=bins)
        errors.append(rank_errors(counts, line.curve(np.arange(bins + 1.0), counts).quantiles(AT).estimate))
    predicted = curve_rank_error(bins, Budget.of(epsilon=1.0), finding=finding, people=people)
    assert 0.5 < np.mean(errors) / predicted < 2


def test_a_number_is_planned_as_it_is_released():
    number = {bins: Key.number("age", low=0, high=100, bins=bins) for bins in (100, 1024, 1025, 2**16)}
    for bins, key in number.items():
        found = plan(key, epsilon=1.0)
        assert found.best.name == ("bin_curve" if bins <= 1024 else "segment_curve")
        assert plan(key, epsilon=1.0, aim="keys").best == found.best
        assert {each.name for each in found.candidates} == {"bin_curve", "segment_curve"}
        for worse in ({"epsilon": 0.1}, {"epsilon": 1.0, "d_in": 5}, {"rho": 0.005}):
            more = plan(key, **worse)
            assert all(more.candidate(each.name).error > each.error for each in found.candidates)
    assert not {each.name for each in plan(PUBLIC, epsilon=1.0).candidates} & {"curve", "bin_curve"}


GROUPS = Tree.from_paths([("a",), ("b",)])


@pytest.mark.parametrize("bins", [100, 2**13])
@pytest.mark.parametrize(
    ("method", "budget", "finding"),
    [
        ("auto", {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 0.2, "delta": 1e-6}),
        (Curve(grouping=0.5), {"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}),
        (Curve(public_groups=GROUPS), {"epsilon": 1.0}, None),
        (Curve(public_groups=GROUPS), {"rho": 0.5}, None),
    ],
)
def test_a_number_below_columns_is_planned_as_it_is_released(bins, method, budget, finding):
    key = Key.nested(Key.columns("carrier"), Key.number("delay", low=0, high=100, bins=bins))
    found = plan(key, method=method, **budget)
    assert len(found.candidates) == 1
    rows = pl.DataFrame({"carrier": ["a"] * 400, "delay": [50.0] * 400})
    statement = release_tree(rows, by=key, method=method, **budget).statement
    assert found.best.name == statement.mechanism == "grouped_curves"
    share = 0.0 if bins == 100 else 0.2
    curve = curve_rank_error(bins, Budget.of(epsilon=1 / statement.parameters["scale"]), finding=share)
    assert found.best.error == pytest.approx(curve, rel=1e-6)
    assert curve >= plan(key.inner[1].tree, **{**budget, "delta": 0.0}).best.error
    groups = 0.0 if finding is None else plan(Key.columns("carrier"), **finding).best.shown_from
    assert found.best.shown_from == groups
    assert ("below public groups" if finding is None else "below unknown groups") in repr(found)


def test_a_number_below_columns_is_refused_where_its_release_is():
    key = Key.nested(Key.columns("carrier"), Key.number("delay", low=0, high=100, bins=100))
    rows = pl.DataFrame({"carrier": ["a"], "delay": [50.0]})
    for budget in ({"epsilon": 1.0}, {"rho": 0.5, "delta": 1e-6}):
        best = plan(key, **budget).best
        assert (best.name, best.feasible) == ("grouped_curves", False)
        with pytest.raises(InfeasibleError, match=best.reason):
            release_tree(rows, by=key, **budget)


def test_lines_are_refused_where_there_is_no_order_or_no_noise_to_draw():
    assert candidate(Curve(), OPEN).reason == "nodes of an open tree have no order"
    budget = Budget.of(epsilon=1e-9, d_in=10**6)
    assert "beyond what noise" in candidate(Curve(), Key.number("age", low=0, high=9, bins=9).tree, budget).reason


def test_the_estimators_errors_by_level_are_those_of_its_releases():
    """Over 2,000 releases of counts far from 0 a quarter is more than six deviations of a mean square."""
    tree = Tree.balanced(branching=3, depth=3)
    found = candidate(TreeEstimator(), tree)
    counts = np.full(tree.leaf_count, 10_000)
    made, errors = found.make(leaf_domain(tree)), []
    for _ in range(2000):
        errors.append(made(counts).estimates - tree.sum(counts))
    squares = np.square(errors).mean(axis=0)
    predicted = found.by_level
    assert [each.level for each in predicted] == [0, 1, 2]
    for each in predicted:
        assert squares[tree.node_levels == each.level].mean() == pytest.approx(each.error**2, rel=1 / 4)
    assert found.error == max(each.error for each in predicted[1:])
