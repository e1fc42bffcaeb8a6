import pytest

from opendp_tree import Auto, OpenTree, Partition, Tree, TreeNoise, Value, leaf_domain
from opendp_tree.budget import Budget
from opendp_tree.mechanisms import leaf_values_domain
from opendp_tree.planning import plan_means
from opendp_tree.planning.means_candidate import means_candidate
from opendp_tree.rows.leaf_values import read_space

AMOUNT, DELAY = Value("amount", bounds=(0, 500)), Value("delay", bounds=(-30, 180), weight=3.0)
PUBLIC = read_space(leaf_values_domain(Tree.from_paths([("a", "b"), ("a", "c")]), AMOUNT))
OPEN = read_space(leaf_values_domain(OpenTree.columns(2), AMOUNT))


def budget(**amounts):
    return Budget.of(**{"epsilon": None, "delta": 0.0, "rho": None, "d_in": 1, **amounts})


@pytest.mark.parametrize("amounts", [{"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}])
def test_a_public_tree_takes_every_kind_of_budget(amounts):
    import opendp.prelude as dp

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
        (OPEN, Partition(measuring=0.3)),
        (OPEN, Auto(nonnegative=True)),
        (PUBLIC, TreeNoise("gaussian")),
        (PUBLIC, Partition()),
        (PUBLIC, Auto(levels=[1])),
    ],
)
def test_methods_that_do_not_sum_are_refused(space, method):
    with pytest.raises(ValueError, match=r"method \(.*must be left out"):
        means_candidate(space, budget(epsilon=1.0, delta=1e-6), method=method)


def test_levels_may_be_said_for_an_open_tree():
    for method in ("auto", "partition_estimator", Auto(levels=[0, 2]), Partition(levels=[0, 2])):
        assert means_candidate(OPEN, budget(epsilon=1.0, delta=1e-6), method=method).feasible


def test_predictions_are_in_proportion_to_bounds_and_shares():
    plain = plan_means([1, 20, 400], rows=10**6, epsilon=1.0, delta=1e-6, value=AMOUNT)
    wide = plan_means([1, 20, 400], rows=10**6, epsilon=1.0, delta=1e-6, value=Value("amount", bounds=(0, 1000)))
    both = plan_means([1, 20, 400], rows=10**6, epsilon=1.0, delta=1e-6, value=[AMOUNT, DELAY])
    assert [each.level for each in plain] == [0, 1, 2]
    for one, other, shared in zip(plain, wide, both[:3], strict=True):
        assert other.sum_sd == pytest.approx(2 * one.sum_sd)
        assert shared.sum_sd == pytest.approx(4 * one.sum_sd)
        assert one.mean_sd == pytest.approx(one.sum_sd / (10**6 / one.nodes))
    assert both[3].value == "delay"


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
