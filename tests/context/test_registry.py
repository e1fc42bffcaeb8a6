import opendp.prelude as dp
import polars as pl
import pytest

import opendp_tree as ot
from opendp_tree import Key, Unit, register
from tests.context.shared import PAIR, PERSON, PUBLIC, ROW, contexts, on_leaf_counts
from tests.thoroughness import slow

TREE = ot.Tree.balanced(branching=2, depth=3)


@pytest.fixture
def context():
    ot.register()
    return on_leaf_counts(TREE.count([3] * 1000), TREE, split_evenly_over=2)


def test_the_context_solves_for_the_scale(context):
    query = context.query().tree_sum().truncated_laplace(delta=4e-7, d_in=3)
    assert query.param() == pytest.approx(3 / 0.5, rel=1e-9)
    assert len(query.release()) == 7


def test_queryables_live_in_a_context(context):
    asked = context.query().sparse_vector(threshold=500, monotonic=True).release()
    assert asked(0) is True
    assert len(context.query().tree_sum(carrier="vector").laplace().release()) == 7
    with pytest.raises(ValueError, match=r"exhausted|consumed|budget|allocated"):
        context.query().tree_sum(carrier="vector").laplace().release()


def test_filters_and_odometers_account():
    register()
    filtered = on_leaf_counts(TREE.count([3] * 1000), TREE)
    filtered.query(epsilon=0.5, delta=1e-7).truncated_laplace(delta=1e-7).release()
    epsilon, delta = filtered.current_privacy_loss()
    assert epsilon == pytest.approx(0.5, rel=1e-9)
    assert delta == 1e-7


def test_tree_counts_becomes_a_method_of_all_queries():
    register()
    register()
    for context in contexts(ROW, PAIR, split_evenly_over=1):
        assert context.query().filter(pl.col("user") > 9).tree_counts(by="country").release().estimates.size == 3
    counts = on_leaf_counts(loss=dp.loss_of(epsilon=1.0), split_evenly_over=1)
    assert counts.query().tree_counts().release().estimates.size == 3


SHARED = {
    "multiplicative_estimator": {"alpha": 0.5, "eta": 0.01, "mass_bound": 10**8},
    "tree_classifier": {"alpha": 0.5, "eta": 0.01, "threshold": 500, "mass": 10_000},
    "tree_estimator": {},
}


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
def test_what_takes_epsilon_and_delta_takes_the_share_of_its_query(name, people):
    """A third of a budget is no float: what is typed in its place is too much or too little."""
    register()
    context = on_leaf_counts(people=people, split_evenly_over=3)
    query = getattr(context.query(), name)(**SHARED[name])
    epsilon, delta = query.resolve().map(people)
    share = context.query()._d_out
    assert 0.33 < epsilon <= share[0]
    assert 0 < delta <= share[1]
    assert query.release() is not None
    typed = getattr(context.query(), name)(epsilon=0.01, delta=1e-9, **SHARED[name])
    assert typed.resolve().map(1)[0] <= 0.01
    assert typed.release() is not None


def test_a_share_without_delta_is_refused_by_name():
    register()
    for loss in (dp.loss_of(epsilon=1.0), dp.loss_of(rho=0.5)):
        context = on_leaf_counts(loss=loss, split_evenly_over=1)
        with pytest.raises(ValueError, match=r"tree_estimator must have a share of epsilon and delta. Hint"):
            context.query().tree_estimator()


CHAINS = {
    "tree_counts": lambda query: query.tree_counts(),
    "tree_estimator": lambda query: query.tree_estimator(),
    "multiplicative_estimator": lambda query: query.multiplicative_estimator(**SHARED["multiplicative_estimator"]),
    "truncated_laplace": lambda query: query.tree_sum().truncated_laplace(delta=1e-7, d_in=3),
    "tree_partition": lambda query: query.tree_partition(token_scale=20.0, threshold=400, radius=300, margin=40),
    "pruned_descent": lambda query: query.pruned_descent(delta=1e-7),
    "sparse_vector": lambda query: query.sparse_vector(threshold=500, monotonic=True),
    "above_threshold": lambda query: query.tree_sum(output_metric=dp.linf_distance(T="i64")).above_threshold(
        threshold=9
    ),
}
QUICK = "tree_counts", "truncated_laplace", "pruned_descent"


@pytest.mark.parametrize("name", slow(CHAINS, unless=QUICK.__contains__))
@pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
def test_every_part_follows_polars_steps_and_leaf_counts_on_both_roads(name):
    register()
    key = Key.columns("country", tree=PUBLIC)
    for context in contexts(PERSON, PAIR, split_evenly_over=1):
        counts = context.query().filter(pl.col("city") != "liege").leaf_counts(by=key, unit=Unit("user", rows=1))
        query = CHAINS[name](counts)
        epsilon, delta = query.resolve().map(1)
        assert 0 < epsilon <= 1.0
        assert delta <= 1e-6
        assert query.release() is not None
