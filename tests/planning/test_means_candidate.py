import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Auto, OpenTree, Tree, TreeEstimator, TreeNoise, Value, leaf_domain, plan
from opendp_tree.budget import Budget
from opendp_tree.mechanisms import leaf_values_domain
from opendp_tree.planning import plan_means
from opendp_tree.planning.candidates import means_candidate
from opendp_tree.rows.leaf_values import LeafValues, read_space

AMOUNT, DELAY = Value("amount", bounds=(0, 500)), Value("delay", bounds=(-30, 180), weight=3.0)
PUBLIC = read_space(leaf_values_domain(Tree.from_paths([("a", "b"), ("a", "c")]), AMOUNT))
OPEN = read_space(leaf_values_domain(OpenTree.columns(2), AMOUNT))


def budget(**amounts):
    return Budget.of(**{"epsilon": None, "delta": 0.0, "rho": None, "d_in": 1, **amounts})


@pytest.mark.parametrize("amounts", [{"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}])
def test_a_public_tree_takes_every_kind_of_budget(amounts):
    dp.enable_features("contrib")
    made = means_candidate(PUBLIC, budget(**amounts), method="auto").make(
        leaf_values_domain(PUBLIC.tree, PUBLIC.values), dp.symmetric_distance()
    )
    assert budget(**amounts).covers(made.map(1))


@pytest.mark.parametrize("amounts", [{"epsilon": 1.0}, {"rho": 0.5, "delta": 1e-6}])
def test_an_open_tree_needs_epsilon_and_delta(amounts):
    with pytest.raises(ValueError, match=r"epsilon and delta must both be given.*Hint"):
        means_candidate(OPEN, budget(**amounts), method="auto")


@pytest.mark.parametrize(
    ("space", "method"),
    [
        (OPEN, TreeNoise("laplace")),
        (OPEN, "pruned_laplace"),
        (OPEN, TreeEstimator(measuring=0.3)),
        (OPEN, Auto(nonnegative=True)),
        (PUBLIC, TreeNoise("gaussian")),
        (PUBLIC, TreeEstimator()),
        (PUBLIC, Auto(levels=[1])),
    ],
)
def test_methods_that_do_not_sum_are_refused(space, method):
    with pytest.raises(ValueError, match=r"method \(.*must be left out"):
        means_candidate(space, budget(epsilon=1.0, delta=1e-6), method=method)


def test_levels_may_be_said_for_an_open_tree():
    for method in ("auto", "tree_estimator", Auto(levels=[0, 2]), TreeEstimator(levels=[0, 2])):
        assert means_candidate(OPEN, budget(epsilon=1.0, delta=1e-6), method=method).feasible


def test_predictions_are_in_proportion_to_bounds_and_shares():
    shape = {"sizes": [1, 20, 400], "rows": 10**6, "epsilon": 1.0, "delta": 1e-6}

    def errors(value, quantity):
        return plan_means(**shape, value=value).levels().filter(quantity=quantity)["error"].to_numpy()

    sums = errors(AMOUNT, "sum of amount")
    assert errors(Value("amount", bounds=(0, 1000)), "sum of amount") == pytest.approx(2 * sums)
    assert errors([AMOUNT, DELAY], "sum of amount") == pytest.approx(4 * sums)
    assert errors(AMOUNT, "mean of amount") == pytest.approx(sums * np.array([1, 20, 400]) / 10**6)
    assert errors([AMOUNT, DELAY], "sum of delay").size == 3


@pytest.mark.parametrize("values", [(AMOUNT,), (AMOUNT, DELAY)], ids=["one", "two"])
def test_deviations_of_a_public_tree_are_those_that_are_measured(values):
    """800 releases of 21 nodes: a deviation has a standard error below 3 %, and 20 % are over six of them."""
    tree, runs = Tree.balanced(branching=4, depth=3), 800
    frame = plan(tree, epsilon=1.0, value=values).levels()
    domain = leaf_values_domain(tree, values)
    made = means_candidate(read_space(domain), budget(epsilon=1.0), method="auto").make(domain, dp.symmetric_distance())
    nobody = LeafValues(np.zeros(16, dtype=np.int64), tuple(np.zeros(16, dtype=np.int64) for _ in values))
    found = [made(nobody) for _ in range(runs)]
    drawn = {"count": np.array([each.estimates for each in found])}
    drawn["sum of amount"] = np.array([each.values[0].sum - 250 * each.estimates for each in found])
    for quantity, numbers in drawn.items():
        predicted = frame.filter(quantity=quantity)["error"].to_numpy()
        for level, nodes in enumerate(tree.levels):
            assert numbers[:, nodes].std(axis=0) == pytest.approx(predicted[level], rel=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sizes": [2, 3]}, "sizes"), ({"rows": 0}, "rows"), ({"value": None}, "value must be given")],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan_means(**{"sizes": [1, 2], "rows": 5, "epsilon": 1.0, "delta": 1e-6, "value": AMOUNT, **options})


def test_leaf_counts_are_no_leaf_values():
    with pytest.raises(ValueError, match="must hold leaf values"):
        read_space(leaf_domain(OpenTree.columns(2)))
