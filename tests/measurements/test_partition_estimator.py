import json
import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_tree import OpenTree, Tree, leaf_domain, make_partition_estimator
from opendp_tree.measurements.partition_plan import PartitionPlan, plan_partition
from opendp_tree.theorems.tree_partition import PartitionShape

L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=3, depth=5)


def estimator(tree, **options):
    return make_partition_estimator(leaf_domain(tree), L1, **{"epsilon": 1.0, "delta": 1e-6, **options})


@settings(max_examples=20)
@given(
    st.floats(0.05, 10),
    st.floats(-10, -1).map(lambda x: 10.0**x),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_the_loss_is_within_its_budget(epsilon, delta, alpha):
    release = estimator(TREE, epsilon=epsilon, delta=delta, alpha=alpha)
    spent = release.map(1)
    assert 0.99 * epsilon < spent[0] <= epsilon
    assert 0 < spent[1] <= delta
    assert release.map(0) == (0.0, 0.0)
    assert release.map(2)[0] == pytest.approx(2 * spent[0], rel=1e-12)
    assert release.map(2)[1] > 2 * spent[1]


def people_at(tree, rng):
    """Leaf counts of all sizes: empty, light, near the threshold, heavy."""
    kinds = rng.integers(0, 5, tree.leaf_count)
    sizes = np.stack([0 * kinds, rng.integers(0, 5, kinds.size), rng.integers(15, 40, kinds.size)])
    return np.choose(kinds % 3, sizes) + np.where(kinds == 4, rng.integers(0, 3000, kinds.size), 0)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_intervals_cover(confidence):
    """Per node over 200 fresh releases: at most one in a thousand million such tests fails by chance."""
    counts = people_at(TREE, np.random.default_rng(4))
    truth, release, runs = TREE.sum(counts), estimator(TREE, confidence=confidence), 200
    missed = np.zeros(TREE.node_count)
    for _ in range(runs):
        found = release(counts)
        missed += (truth < found.lower) | (truth > found.upper)
    allowed = runs * (1 - confidence)
    # Binomial tail by six and a half standard errors, for each of the 121 nodes.
    assert missed.max() <= allowed + 6.5 * math.sqrt(allowed) + 1
    assert found.confidence == confidence


def test_estimates_are_sums_of_cells():
    counts = people_at(TREE, np.random.default_rng(6))
    release = estimator(TREE)(counts)
    fill = release.statement.parameters["fill"]
    assert fill > 0
    leaves = TREE.leaves
    assert set(np.unique(release.cells[leaves])) <= {0, 1}
    nothing = release.cells == 0
    assert (release.estimates[nothing] == fill).all()
    assert (release.lower[nothing] == 0).all()
    heavy = leaves[counts > 1000]
    assert (release.cells[heavy] == 1).all()
    assert np.abs(release.estimates[heavy] - counts[counts > 1000]).max() < 300
    # A parent holds the cells of its children, and itself at most.
    below = np.bincount(TREE.parents[1:], weights=release.cells[1:], minlength=TREE.node_count)
    inner = np.setdiff1d(np.arange(TREE.node_count), leaves)
    assert set((release.cells - below)[inner]) <= {0, 1}


def test_public_and_open_trees_agree():
    """The same data with hardly any noise gives the same cells and counts."""
    plan = PartitionPlan(0.02, PartitionShape(4, 20, 3, 1), 0.02, 0.0, 0.0)
    rows = [("a", "x"), ("a", "y"), ("b",), ("a", "x", "deep")]
    counts = [40, 30, 25, 50]
    budget = {"epsilon": 200.0, "delta": 0.5, "plan": plan}
    open_tree = OpenTree.columns(3)
    data = open_tree.count([row for row, count in zip(rows, counts, strict=True) for _ in range(count)])
    found = estimator(open_tree, **budget)(data).to_frame()
    assert found.select("level", "label_1", "label_2", "label_3", "estimate", "cells").rows() == [
        (0, None, None, None, 145.0, 4),
        (1, "a", None, None, 120.0, 3),
        (1, "b", None, None, 25.0, 1),
        (2, "a", "x", None, 90.0, 2),
        (2, "a", "y", None, 30.0, 1),
        (3, "a", "x", "deep", 50.0, 1),
        (3, "a", "x", "(other)", 40.0, 1),
    ]
    public = Tree.from_paths([("a", "y"), ("b",), ("a", "x", "deep")])
    release = estimator(public, **budget)(np.array([30, 25, 50]))
    assert release.to_frame().filter(label_2="y")["estimate"].to_list() == [30.0]


def test_the_statement_is_plain_data():
    statement = estimator(TREE)(np.zeros(TREE.leaf_count, dtype=np.int64)).statement
    plain = json.loads(json.dumps(statement.to_dict()))
    assert plain["mechanism"] == "partition_estimator"
    assert plain["loss"]["epsilon"] <= 1.0
    assert plain["loss"]["delta"] <= 1e-6
    assert plain["parameters"]["threshold"] > plain["parameters"]["radius"]


def test_an_open_release_holds_nothing_but_cells():
    """What a release keeps alive is the size of its cells, not of the data."""
    import gc

    tree = OpenTree.bits(32)
    keys = np.concatenate([np.arange(100_000, dtype=np.uint64), np.full(500, 7, dtype=np.uint64)])
    counts = tree.count(keys)
    release = estimator(tree)(counts)
    seen, queue = set(), [release]
    while queue:
        here = queue.pop()
        if id(here) in seen or isinstance(here, type):
            continue
        seen.add(id(here))
        assert here is not counts
        assert here is not counts.occupied.counts
        if isinstance(here, (tuple, list, dict)) or hasattr(here, "__dict__") or callable(here):
            queue.extend(x for x in gc.get_referents(here) if not _is_module(x))
    assert release.to_frame().height > 1


def _is_module(thing):
    import types

    return isinstance(thing, (types.ModuleType, type)) or (isinstance(thing, dict) and "__builtins__" in thing)


def test_plans_can_be_given_and_are_checked():
    plan = plan_partition(depth=5, epsilon=0.5, delta=1e-7, alpha=0.1, public=True)
    release = estimator(TREE, plan=plan)
    assert 0.4 < release.map(1)[0] <= 0.5 * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"plan spends \(.*\) at distance 1, more than epsilon and delta"):
        estimator(TREE, plan=plan, epsilon=0.3)
    shallow = plan_partition(depth=4, epsilon=0.5, delta=1e-7, alpha=0.1, public=True)
    with pytest.raises(ValueError, match="plan must be for a depth of at least 5, found 4"):
        estimator(TREE, plan=shallow)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, r"epsilon \(0\) must be positive"),
        ({"epsilon": -1.0}, ValueError, r"epsilon \(-1.0\) must be finite and non-negative"),
        ({"delta": 0.0}, ValueError, r"delta \(0.0\) must be above 0 and below 1"),
        ({"delta": 1.0}, ValueError, r"delta \(1.0\) must be above 0 and below 1"),
        ({"alpha": 1.0}, ValueError, r"alpha \(1.0\) must be at least 0 and below 1"),
        ({"alpha": math.nan}, ValueError, r"alpha \(nan\) must be at least 0 and below 1"),
        ({"confidence": 1.0}, ValueError, r"confidence \(1.0\) must be above 0 and below 1"),
        ({"confidence": 1 - 1e-12}, ValueError, r"confidence \(.*\) must be at most 1 - 1e-9"),
        ({"minimise": "best"}, ValueError, r"minimise \('best'\) must be one of 'rmse', 'largest'"),
        ({"node_count": 1.5}, TypeError, r"node_count \(1.5\) must be an integer"),
    ],
)
def test_wrong_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        estimator(TREE, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": math.nan}, r"scale \(nan\) must be a float above 0"),
        ({"scale": 0.0}, r"scale \(0.0\) must be a float above 0"),
        ({"count_scale": -1.0}, r"count_scale \(-1.0\) must be a float above 0"),
        ({"count_scale": 2.0**51}, r"count_scale \(.*\) must be a float above 0 and at most 2\*\*50"),
        ({"fill": math.nan}, r"fill \(nan\) must be finite and non-negative"),
    ],
)
def test_plans_of_odd_numbers_are_refused(change, message):
    right = {"scale": 1.0, "shape": PartitionShape(5, 30, 20, 5), "count_scale": 5.0, "fill": 0.0, "error": 0.0}
    with pytest.raises(ValueError, match=message):
        PartitionPlan(**{**right, **change})


@pytest.mark.parametrize("epsilon", [1e-4, 100.0, 1e4])
def test_extreme_budgets_build(epsilon):
    assert estimator(TREE, epsilon=epsilon, delta=1e-9).map(1)[0] <= epsilon


def test_doubtful_counts_never_raise():
    """Chances of every size, also below 2**-64: the same call works whatever the counts."""
    release = estimator(TREE, delta=1e-60)
    top = release(np.zeros(TREE.leaf_count, dtype=np.int64)).statement.parameters["threshold"]
    for count in range(0, 2 * top, 3):
        release(np.full(TREE.leaf_count, count))


def test_no_bound_that_privacy_rests_on_is_taken_on_trust():
    """A bound on the people of any input made the map false on members of the domain that exceed it."""
    with pytest.raises(TypeError, match="people"):
        estimator(TREE, people=60)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_leaf_counts_below_zero_are_taken_as_zero(confidence):
    """Per node over 200 fresh releases, as for other counts: a false alarm in a thousand million such tests."""
    counts = people_at(TREE, np.random.default_rng(7))
    counts[::3] -= 5000
    truth, release, runs = TREE.sum(counts.clip(0)), estimator(TREE, confidence=confidence), 200
    missed = np.zeros(TREE.node_count)
    for _ in range(runs):
        found = release(counts)
        missed += (truth < found.lower) | (truth > found.upper)
    allowed = runs * (1 - confidence)
    assert missed.max() <= allowed + 6.5 * math.sqrt(allowed) + 1
