import opendp.prelude as dp
import pytest
from opendp.context import constructors

import opendp_tree as ot

TREE = ot.Tree.balanced(branching=2, depth=3)


@pytest.fixture
def context():
    ot.register()
    return dp.Context.compositor(
        data=TREE.count([3] * 1000),
        domain=ot.leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=2,
    )


def test_registering_twice_changes_nothing():
    ot.register()
    before = dict(constructors)
    ot.register()
    assert dict(constructors) == before
    assert {"tree_sum", "truncated_laplace", "sparse_vector", "above_threshold"} <= set(before)


def test_the_context_solves_for_the_scale(context):
    query = context.query().tree_sum().truncated_laplace(delta=4e-7, d_in=3)
    assert query.param() == pytest.approx(3 / 0.5, rel=1e-9)
    assert len(query.release()) == 7


def test_queryables_live_in_a_context(context):
    asked = context.query().sparse_vector(threshold=500, monotonic=True).release()
    assert asked(0) is True
    assert len(context.query().tree_sum().laplace().release()) == 7
    with pytest.raises(ValueError, match=r"exhausted|consumed|budget|allocated"):
        context.query().tree_sum().laplace().release()


def test_filters_and_odometers_account(context):
    filtered = dp.Context.compositor(
        data=TREE.count([3] * 1000),
        domain=ot.leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    )
    filtered.query(epsilon=0.5, delta=1e-7).truncated_laplace(delta=1e-7).release()
    epsilon, delta = filtered.current_privacy_loss()
    assert epsilon == pytest.approx(0.5, rel=1e-9)
    assert delta == 1e-7
