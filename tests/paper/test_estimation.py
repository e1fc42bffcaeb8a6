import math
import warnings
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import opendp_tree as ot
from opendp_tree import Tree, leaf_domain, make_multiplicative_estimator
from opendp_tree.paper import AccuracyWarning, multiplicative_threshold
from tests.goodness_of_fit import FALSE_ALARM
from tests.shapes import SHAPES, spread_counts
from tests.thoroughness import examples, slow

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=2, depth=3)
LEAVES = leaf_domain(TREE), L1
USUAL = {"alpha": 0.5, "epsilon": 1.0, "delta": 1e-6, "eta": 0.2}
NOT_GUARANTEED = pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")


@NOT_GUARANTEED
@examples(25)
@given(
    st.floats(0.2, 0.95),
    st.floats(0.01, 20),
    st.floats(1e-12, 0.3),
    st.one_of(st.none(), st.integers(0, 10**12)),
    st.one_of(st.none(), st.floats(1, 1e9)),
)
def test_map_is_at_most_what_was_asked_for(alpha, epsilon, delta, mass_bound, tau_min):
    estimator = make_multiplicative_estimator(
        *LEAVES, alpha=alpha, epsilon=epsilon, delta=delta, eta=0.1, mass_bound=mass_bound, tau_min=tau_min
    )
    spent = estimator.map(1)
    assert spent[0] <= epsilon
    assert spent[1] <= delta
    assert spent == (0.0, 0.0) or spent[0] > 0.999 * epsilon
    assert estimator.map(0) == (0.0, 0.0)
    ten = estimator.map(10)
    assert ten[0] == pytest.approx(10 * spent[0], rel=1e-12)
    assert ten[1] >= min(1.0, 10 * spent[1] * (1 - 1e-12))


def test_the_root_count_pays_half_and_a_public_bound_saves_it():
    private = multiplicative_threshold(**USUAL, depth=3)
    public = multiplicative_threshold(**USUAL, depth=3, mass_bound=10**7)
    halved = multiplicative_threshold(**{**USUAL, "epsilon": 0.5, "delta": 5e-7}, depth=3, mass_bound=10**7)
    assert private == halved
    assert private > 1.9 * public


def test_a_bound_below_the_lowest_rung_costs_nothing():
    estimator = make_multiplicative_estimator(*LEAVES, **USUAL, mass_bound=1000)
    assert estimator.map(1) == (0.0, 0.0)
    low = math.floor(0.5 * multiplicative_threshold(**USUAL, depth=3, mass_bound=1000))
    assert estimator(np.array([900, 0, 0, 0])).estimates.tolist() == [low] * 7


def test_the_largest_counts_are_reached():
    released = make_multiplicative_estimator(*LEAVES, **USUAL)(np.array([2**61, 0, 2**50, 0])).estimates
    truth = TREE.sum(np.array([2**61, 0, 2**50, 0]))
    heavy = truth >= 2**50
    assert (released[heavy] >= truth[heavy]).all()
    assert (released[heavy] <= truth[heavy] + truth[heavy] // 2).all()


def failures(tree, counts, runs, **options):
    """For each node, in how many runs it was off by more than alpha * max(count, tau_min), or its interval was."""
    estimator = make_multiplicative_estimator(leaf_domain(tree), L1, **options)
    tau_min = options.get("tau_min") or multiplicative_threshold(
        **{name: options[name] for name in ("alpha", "epsilon", "delta", "eta")},
        depth=tree.depth,
        mass_bound=options.get("mass_bound"),
    )
    truth = tree.sum(counts)
    allowed = options["alpha"] * np.maximum(truth, tau_min)
    wrong, upper = np.zeros(tree.node_count, dtype=int), 0
    for _ in range(runs):
        release = estimator(counts)
        released = release.estimates
        wrong += (np.abs(released - truth) > allowed) | (release.lower > truth) | (truth > release.upper)
        # Truncation, always: what a round finds above is never estimated too high.
        assert (
            (released <= (1 + options["alpha"]) * truth) | (released == math.floor(options["alpha"] * tau_min))
        ).all()
        upper += (released >= truth).all()
    return wrong, upper


def assert_promise_holds(tree, counts, runs, **options):
    """No node fails more often than eta allows; a false alarm in 1e9 tests, whatever the number of nodes."""
    wrong, _ = failures(tree, counts, runs, **options)
    p_values = stats.binom.sf(wrong - 1, runs, options["eta"])
    assert p_values.min() > FALSE_ALARM / tree.node_count


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("mass_bound", [None, *slow([10**9])])
@pytest.mark.parametrize(("alpha", "times"), [(0.5, 1), *slow(product([0.4, 0.8], [1, 50]))])
def test_the_promise_holds(name, mass_bound, alpha, times):
    """Sixty runs for each shape, at the corrected tau_min and far above it: 3,000 in all."""
    tree, options = SHAPES[name], {**USUAL, "alpha": alpha}
    tau_min = times * multiplicative_threshold(**options, depth=tree.depth, mass_bound=mass_bound)
    counts = spread_counts(tree, 10**9 // tree.leaf_count, seed=times)
    assert_promise_holds(tree, counts, 60, **options, mass_bound=mass_bound, tau_min=None if times == 1 else tau_min)


@NOT_GUARANTEED
def test_the_accuracy_test_has_power():
    """A tau_min ten thousand times too small is found out."""
    tree = SHAPES["complete"]
    counts = spread_counts(tree, 10**5, seed=2)
    estimator = make_multiplicative_estimator(leaf_domain(tree), L1, **USUAL, tau_min=100, mass_bound=10**7)
    truth = tree.sum(counts)
    runs = 30
    wrong = sum(np.abs(estimator(counts).estimates - truth) > 0.5 * np.maximum(truth, 100) for _ in range(runs))
    assert stats.binom.sf(wrong - 1, runs, USUAL["eta"]).min() < FALSE_ALARM / tree.node_count


def test_estimates_are_upper_bounds_with_the_promised_probability():
    """The proof gives more than the paper says: no estimate is below its count. One node's promise is eta."""
    tree = SHAPES["chain"]
    _, upper = failures(tree, np.array([10**8]), 100, **USUAL)
    assert stats.binom.cdf(upper, 100, 1 - USUAL["eta"]) > FALSE_ALARM


def test_a_small_tau_min_warns_with_numbers():
    with pytest.warns(AccuracyWarning, match=r"round 1 of \d+: accuracy is not guaranteed \(privacy is\): noise"):
        low = make_multiplicative_estimator(*LEAVES, **USUAL, tau_min=1000, mass_bound=10**9)
    assert low.map(1)[0] <= 1.0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make_multiplicative_estimator(*LEAVES, **USUAL, tau_min=1000)
    assert any("a longer ladder would need noise of a scale above 2**50" in str(found.message) for found in seen)


def test_the_default_tau_min_never_warns():
    """The corrected formula is enough for the integers of every round: filterwarnings is "error" here."""
    for alpha in (0.1, 0.3, 0.9):
        for epsilon in (0.1, 1.0, 8.0):
            for delta in (1e-12, 1e-3):
                for mass_bound in (10**12,) if alpha < 0.9 else (None, 10**12):
                    make_multiplicative_estimator(
                        *LEAVES, alpha=alpha, epsilon=epsilon, delta=delta, eta=0.05, mass_bound=mass_bound
                    )


@NOT_GUARANTEED
@pytest.mark.parametrize("mass_bound", [None, 10**9])
def test_extreme_budgets(mass_bound):
    huge = make_multiplicative_estimator(*LEAVES, **{**USUAL, "epsilon": 1e300}, tau_min=10, mass_bound=mass_bound)
    released = huge(np.array([1000, 0, 0, 7]))
    assert released.estimates[3] >= 1000
    if mass_bound is None:
        with pytest.raises(ValueError, match=r"epsilon \(1e-20\) must be larger: the noise on the root's count"):
            make_multiplicative_estimator(*LEAVES, **{**USUAL, "epsilon": 1e-20, "delta": 1e-30})
        # Nearly uniform noise: delta alone decides its radius.
        tiny = make_multiplicative_estimator(*LEAVES, **{**USUAL, "epsilon": 1e-20})
        assert tiny.map(1)[0] <= 1e-20
        assert np.unique(tiny(np.array([1000, 0, 0, 7])).estimates).size == 1
    else:
        tiny = make_multiplicative_estimator(*LEAVES, **{**USUAL, "epsilon": 1e-20}, tau_min=5, mass_bound=mass_bound)
        assert tiny.map(1) == (0.0, 0.0)
        assert tiny(np.array([1000, 0, 0, 7])).estimates.tolist() == [2] * 7
    faint = make_multiplicative_estimator(*LEAVES, **{**USUAL, "delta": 1e-300}, mass_bound=mass_bound)
    assert faint.map(1)[1] <= 1e-300
    assert faint(np.array([1000, 0, 0, 7])).estimates.size == 7


@pytest.mark.parametrize("mass_bound", [None, 10_000])
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_it_warns_when_made_below_which_count_everything_is_one_number(alpha, mass_bound):
    tree = Tree.balanced(branching=3, depth=3)
    options = {"alpha": alpha, "eta": 0.05, "epsilon": 1.0, "delta": 1e-6, "mass_bound": mass_bound}
    with pytest.warns(
        AccuracyWarning, match=r"counts up to [\d,]+ are all estimated as .* Hint: plan\(tree, epsilon"
    ) as warned:
        made = ot.make_multiplicative_estimator(leaf_domain(tree), dp.l1_distance(T="i64"), **options)
    release = made(np.array([500] * 6 + [376, 0, 0]))
    one = release.statement.parameters["one_number_up_to"]
    assert (release.estimates == one).all()
    assert f"counts up to {one:,} are" in str(warned[0].message)
    assert f"ounts up to {one:,} are estimated as {one:,}." in release.describe()
