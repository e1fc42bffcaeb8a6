"""OpenDP's searches find the epsilon or the scale at which a budget is spent: `delta=` lets them compare pairs."""

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_tree as ot
from opendp_tree.budget import make_unfunded, with_promised_delta
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_partition import make_tree_partition
from tests.mechanisms.combinators import FRAME, means, people

TREE, OPEN = ot.Tree.balanced(branching=2, depth=3), ot.OpenTree.bits(8)
L1 = dp.l1_distance(T="i64")
LEAVES, KEYS = (ot.leaf_domain(TREE), L1), (ot.leaf_domain(OPEN), L1)
COUNTS, FOUND = np.array([400, 0, 3, 90]), OPEN.count([7] * 500 + [200] * 300)
TARGET = (0.5, 1e-7)

BY_EPSILON = {
    "tree_estimator": (lambda epsilon: make_tree_estimator(*LEAVES, epsilon=epsilon, delta=1e-7), COUNTS),
    "open_tree_estimator": (lambda epsilon: make_tree_estimator(*KEYS, epsilon=epsilon, delta=1e-7), FOUND),
    "multiplicative_estimator": (
        lambda epsilon: ot.make_multiplicative_estimator(
            *LEAVES, alpha=0.5, epsilon=epsilon, delta=1e-7, eta=0.01, mass_bound=10**9
        ),
        COUNTS,
    ),
    "tree_classifier": (
        lambda epsilon: ot.paper.make_tree_classifier(
            *LEAVES, threshold=10**5, mass=2 * 10**5, alpha=0.5, epsilon=epsilon, delta=1e-7, eta=0.01
        ),
        COUNTS,
    ),
}
BY_SCALE = {
    "tree_partition": (lambda scale: make_tree_partition(*LEAVES, scale, delta=1e-7), COUNTS),
    "open_tree_partition": (lambda scale: make_tree_partition(*KEYS, scale, delta=1e-7), FOUND),
    "truncated_laplace": (lambda scale: ot.make_truncated_laplace(*LEAVES, scale, delta=1e-7), COUNTS),
    "noisy_tree": (
        lambda scale: ot.make_tree_sum(*LEAVES) >> ot.then_truncated_laplace(scale, delta=1e-7, d_in=3),
        COUNTS,
    ),
}
FROM_ROWS = {
    "tree_means": (lambda epsilon: means("kind", epsilon=epsilon, delta=1e-7), FRAME),
    "people_estimator": (lambda epsilon: people("kind", epsilon=epsilon, delta=1e-7), FRAME),
}
SEARCHED = {**BY_EPSILON, **BY_SCALE, **FROM_ROWS}


@pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")
@pytest.mark.parametrize("name", SEARCHED)
def test_searches_spend_the_budget(name):
    make, data = SEARCHED[name]
    found = dp.binary_search_chain(make, d_in=1, d_out=TARGET)
    assert found.map(1) == make(dp.binary_search_param(make, d_in=1, d_out=TARGET)).map(1)
    epsilon, delta = found.map(1)
    assert 0.5 * (1 - (1e-6 if name in FROM_ROWS else 1e-9)) <= epsilon <= 0.5
    assert delta == 1e-7
    assert found.check(1, TARGET)
    assert found(data) is not None


def test_searches_spend_a_pure_budget():
    linf = dp.linf_distance(T="i64")
    for make in (
        lambda scale: ot.make_sparse_vector(*LEAVES, scale, threshold=20),
        lambda scale: (
            ot.make_tree_sum(*LEAVES, output_metric=linf) >> ot.mechanisms.then_above_threshold(scale, threshold=20)
        ),
    ):
        assert 0.5 * (1 - 1e-9) <= dp.binary_search_chain(make, d_in=1, d_out=0.5).map(1) <= 0.5


@pytest.mark.parametrize("name", BY_EPSILON)
def test_without_epsilon_there_is_a_map_and_no_release(name):
    make, data = BY_EPSILON[name]
    assert make(0.0).map(1) == (0.0, 1e-7)
    assert make(0.0).map(0) == (0.0, 0.0)
    with pytest.raises(OpenDPException, match=r"epsilon \(0\) must be positive for a release"):
        make(0)(data)


def test_a_pure_measurement_has_a_pure_probe():
    probe = make_unfunded(*LEAVES, delta=0.0)
    assert probe.output_measure == dp.max_divergence()
    assert probe.map(3) == 0.0
    make = lambda epsilon: make_tree_estimator(*LEAVES, epsilon=epsilon, delta=0.0)  # noqa: E731
    assert dp.binary_search_chain(make, d_in=2, d_out=1.0).map(2) == pytest.approx(1.0, rel=1e-9)


def test_a_larger_loss_is_not_hidden_by_the_promise():
    assert with_promised_delta((1.0, 0.5), 1e-7) == (1.0, 0.5)
