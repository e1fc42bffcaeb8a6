"""Sparse vector: its answers, its queries, and whole vectors of counts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_tree as ot
from opendp_tree import Tree, leaf_domain, make_sparse_vector, make_tree_sum
from opendp_tree.mechanisms import make_above_threshold
from opendp_tree.mechanisms.sparse_vector import BELOW, Calibration, SparseVector
from opendp_tree.saturate import LIMIT
from tests.goodness_of_fit import FALSE_ALARM, fit
from tests.privacy.sparse_vector_law import Gap, Mechanism, law, probability
from tests.thoroughness import slow

L1 = dp.l1_distance(T="i64")


TREE = Tree.balanced(branching=2, depth=3)
LEAVES = leaf_domain(TREE), L1
ROWS = dp.vector_domain(dp.atom_domain(T="i64", bounds=(0, 9))), dp.symmetric_distance()
HEAVY = np.array([1000, 0, 0, 0])


def count_at_least(least):
    """An OpenDP transformation: how many rows are at least this large."""
    from opendp._internal import _make_transformation

    return _make_transformation(
        *ROWS,
        dp.atom_domain(T="i64"),
        dp.absolute_distance(T="i64"),
        lambda rows: sum(row >= least for row in rows),
        lambda d_in: d_in,
    )


def test_maps_follow_the_calibrations():
    def epsilon(scale=4.0, **options):
        return make_sparse_vector(*LEAVES, scale, threshold=9, **options).map(1)

    assert epsilon(threshold_noise="refreshed", cutoff=3) == 3 * (1 / 4 + 2 / 8)  # Dwork and Roth
    assert epsilon(query_scale=8.0, cutoff=2) == 1 / 4 + 4 / 8
    assert epsilon(query_scale=8.0, cutoff=2, monotonic=True) == 1 / 4 + 2 / 8
    assert epsilon(query_scale=8.0, cutoff=2, sensitivity=3) == 3 * (1 / 4 + 4 / 8)
    assert epsilon(monotonic=True) == 0.5
    assert epsilon(scale=0.0) == math.inf
    assert epsilon(query_scale=0.0) == math.inf


def test_maps_by_group_privacy_for_leaf_counts():
    one = make_sparse_vector(*LEAVES, 4.0, threshold=9, query_scale=8.0)
    assert [one.map(k) for k in range(4)] == [0.0, 0.5, 1.0, 1.5]
    three = make_sparse_vector(*LEAVES, 4.0, threshold=9, query_scale=8.0, d_in=3, sensitivity=3)
    assert [three.map(k) for k in (0, 1, 3, 4, 6)] == [0.0, 1.5, 1.5, 3.0, 3.0]


def test_maps_stop_at_d_in_where_group_privacy_is_not_known():
    rows = make_sparse_vector(*ROWS, 4.0, threshold=9, query_scale=8.0, d_in=2, sensitivity=2)
    assert rows.map(2) == 1.0
    with pytest.raises(
        OpenDPException, match=r"d_in \(3\) must be at most 2, the d_in that the queries were checked at"
    ):
        rows.map(3)


def test_nodes_transformations_and_batches():
    tree_queries = make_sparse_vector(*LEAVES, 2.0, threshold=500, cutoff=9)(HEAVY)
    assert tree_queries(0) is True
    assert tree_queries(np.int64(2)) is False
    assert tree_queries([0, 1, 2]).tolist() == [True, True, False]
    assert tree_queries(np.array([6, 3])).tolist() == [False, True]
    assert tree_queries([]).tolist() == []
    rows = make_sparse_vector(*ROWS, 2.0, threshold=500, cutoff=9)([1] * 1000 + [5] * 1000)
    assert rows(count_at_least(3)) is True
    assert rows([count_at_least(6), count_at_least(0)]).tolist() == [False, True]
    vectors = dp.vector_domain(dp.atom_domain(T="i64"), size=4), L1
    assert make_sparse_vector(*vectors, 2.0, threshold=500, tree=TREE)([1000, 0, 0, 0])(0) is True


@pytest.mark.parametrize("threshold_noise", ["once", "refreshed"])
def test_after_the_cutoff_all_is_below_or_refused(threshold_noise):
    options = {"threshold": 500, "cutoff": 2, "threshold_noise": threshold_noise}
    below = make_sparse_vector(*LEAVES, 2.0, **options)(HEAVY)
    assert below([0, 2, 1, 3, 0]).tolist() == [True, False, True, False, False]
    assert below(0) is False
    refusing = make_sparse_vector(*LEAVES, 2.0, **options, after_cutoff="refuse")(HEAVY)
    assert refusing([0, 2, 1, 3, 0]).tolist() == [True, False, True]
    with pytest.raises(OpenDPException, match="the cutoff is reached: no further query is answered"):
        refusing(2)


def test_refused_queries_cost_nothing():
    asked = make_sparse_vector(*LEAVES, 2.0, threshold=500, after_cutoff="refuse")(HEAVY)
    for bad in (7, -1, 2**70, True, 1.0, "0", None, [0, 99], [[0]], np.array([0, 7]), np.array([-1]), np.array([0.0])):
        with pytest.raises(OpenDPException, match=r"query|queries"):
            asked(bad)
    assert asked(0) is True


def test_queries_that_are_too_sensitive_are_refused():
    doubled = count_at_least(3)
    rows = make_sparse_vector(*ROWS, 2.0, threshold=500, d_in=2, sensitivity=1, after_cutoff="refuse")([5] * 1000)
    with pytest.raises(OpenDPException, match=r"a query of stability 2 exceeds sensitivity \(1\); nothing was spent"):
        rows(doubled)
    leaves = make_sparse_vector(*LEAVES, 2.0, threshold=500, d_in=2)(HEAVY)
    with pytest.raises(OpenDPException, match=r"a node moves by up to 2 at d_in, more than sensitivity \(1\)"):
        leaves(0)


def test_queries_from_elsewhere_are_refused():
    leaves = make_sparse_vector(*LEAVES, 2.0, threshold=500)(HEAVY)
    with pytest.raises(OpenDPException, match="must start from the input_domain and input_metric"):
        leaves(count_at_least(3))
    with pytest.raises(OpenDPException, match=r"output domain \(.*\) must be one integer"):
        leaves(make_tree_sum(*LEAVES))
    rows = make_sparse_vector(*ROWS, 2.0, threshold=500)([1])
    with pytest.raises(OpenDPException, match="a query by node needs a tree"):
        rows(0)
    monotonic = make_sparse_vector(*LEAVES, 2.0, threshold=500, monotonic=True)(HEAVY)
    with pytest.raises(OpenDPException, match="that a transformation is monotonic cannot be checked"):
        monotonic(make_tree_sum(*LEAVES))


def test_what_is_evaluated_is_what_was_checked():
    """A list that changes between two looks, and data that changes between two queries, change nothing."""

    class Shifty(list):
        looks = 0

        def __iter__(self):
            self.looks += 1
            return iter([0] if self.looks == 1 else [count_at_least(3)])

    asked = make_sparse_vector(*LEAVES, 2.0, threshold=500)(HEAVY)
    assert asked(Shifty([0])).tolist() == [True]
    data = HEAVY.copy()
    asked = make_sparse_vector(*LEAVES, 2.0, threshold=500, cutoff=9)(data)
    data[:] = 0
    assert asked(0) is True


def test_each_dataset_has_its_own_answers():
    measurement = make_sparse_vector(*LEAVES, 2.0, threshold=500)
    first, second = measurement(HEAVY), measurement(np.array([0, 0, 0, 1000]))
    assert first(3) is True
    assert second(3) is False
    assert second(6) is True


@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("batched", [False, *slow([True])])
def test_answers_follow_the_exact_law(refreshed, batched):
    """Chi-square against the enumerated law, in one batch and query by query; a false alarm in 1e9 runs.

    The wrong law has a noncentrality of at least 388: it passes less than once in 1e30 runs.
    """
    values, runs = (1, -1, 0, 2), 3000
    scale = 1 / math.log(2)
    calibration = Calibration(0, scale, 2 * scale, cutoff=2, monotonic=False, refreshed=refreshed)
    # exp(-1/scale) is 1/2 and exp(-1/query_scale) its root, up to the last bit of a float.
    exact = law(Mechanism(_rational(0.5), _rational(math.sqrt(0.5)), 2, refreshed), values)
    seen = dict.fromkeys(exact, 0)
    for _ in range(runs):
        running = SparseVector(calibration)
        if batched:
            answers = running.answer(np.array(values)) != BELOW
        else:
            answers = [running.answer(np.array([value]))[0] != BELOW for value in values]
        seen[tuple(map(bool, answers))] += 1
    observed = list(seen.values())
    assert fit(observed, [float(mass) * runs for mass in exact.values()]) > FALSE_ALARM
    wrong = law(Mechanism(_rational(0.5), _rational(0.5), 2, refreshed), values)
    assert fit(observed, [float(mass) * runs for mass in wrong.values()]) < FALSE_ALARM


def _rational(value):
    return Fraction(value).limit_denominator(10**6)


@pytest.mark.parametrize("refreshed", [False, *slow([True])])
def test_gaps_follow_the_exact_law(refreshed):
    """Chi-square of the first query's gap against the enumerated law; a false alarm in 1e9 runs, and with power."""
    runs, scale = 6000, 1 / math.log(2)
    calibration = Calibration(0, scale, 2 * scale, cutoff=2, monotonic=False, refreshed=refreshed)
    gaps = [SparseVector(calibration).answer(np.array([1, -1]))[0] for _ in range(runs)]
    outcomes = [False, *map(Gap, range(8))]
    observed = [gaps.count(BELOW), *(gaps.count(gap) for gap in range(8))]

    def surprise(query_ratio):
        running = Mechanism(_rational(0.5), _rational(query_ratio), 2, refreshed)
        expected = np.array([float(probability(running, (1,), (each,))) for each in outcomes])
        return fit(np.append(observed, runs - sum(observed)), np.append(expected, 1 - expected.sum()) * runs)

    assert surprise(math.sqrt(0.5)) > FALSE_ALARM
    assert surprise(0.5) < FALSE_ALARM


def test_gaps_are_whole_and_exact_at_the_largest_counts():
    tree = ot.Tree.from_parents([-1])
    space = ot.leaf_domain(tree), dp.l1_distance(T="i64")
    told = ot.make_sparse_vector(*space, 0.0, threshold=-LIMIT, query_scale=0.0, gaps=True)(np.array([LIMIT]))(0)
    assert told == LIMIT
    exact = ot.make_sparse_vector(*space, 0.0, threshold=7, query_scale=0.0, gaps=True, cutoff=9)
    assert [exact(np.array([count]))(0) for count in (6, 7, 12, LIMIT)] == [BELOW, 0, 5, LIMIT - 7]
    assert ot.make_sparse_vector(*space, 4.0, threshold=7, gaps=True).map(1) == ot.make_sparse_vector(
        *space, 4.0, threshold=7
    ).map(1)


LABELLED = ot.Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])


def exact_answers(domain, data, queries, **options):
    """Answers without noise at a threshold of 5."""
    asked = ot.make_sparse_vector(
        domain, dp.l1_distance(T="i64"), 0.0, threshold=5, query_scale=0.0, cutoff=99, **options
    )(data)
    return [asked(query) for query in queries]


def test_a_public_tree_is_asked_by_path_or_id():
    counts = LABELLED.count(["ghent"] * 3 + ["liege"] * 4)
    domain = ot.leaf_domain(LABELLED)
    assert exact_answers(domain, counts, [(), ("be",), ("be", "liege"), ("lu",), 1]) == [True, True, False, False, True]
    batch = exact_answers(domain, counts, [[("be",), ("lu",), LABELLED.node(("be", "ghent"))]], gaps=True)[0]
    assert batch.tolist() == [2, BELOW, BELOW]
    for nowhere in (("fr",), ("be", "ghent", "x"), (["be"],)):
        with pytest.raises(OpenDPException, match="must lead to a node of the tree"):
            exact_answers(domain, counts, [nowhere])


@pytest.mark.parametrize(
    ("tree", "keys", "queries", "expected"),
    [
        (
            ot.OpenTree.columns(2),
            [("be", "ghent")] * 4 + [("be", None)] * 2 + [("lu",)] * 6 + [(1, True)] * 5,
            [(), ("be",), ("be", "ghent"), ("be", None), ("lu",), ("lu", None), (1,), (True,), ("1",), ("fr", "x")],
            [12, 1, BELOW, BELOW, 1, BELOW, 0, BELOW, BELOW, BELOW],
        ),
        (ot.OpenTree.paths("/", depth=3), ["a/b"] * 4 + ["a/c"] * 2, [("a",), ("a", "b"), ("b",)], [1, BELOW, BELOW]),
        (ot.OpenTree.bits(8, stride=4), [17] * 4 + [18] * 2, [(0, 0), (16, 4), (17, 8), (32, 4)], [1, 1, BELOW, BELOW]),
        (ot.OpenTree.bits(128, stride=64), [[3, 2**64 - 1]] * 6, [(3 << 64, 64), ((3 << 64) + 2**64 - 1, 128)], [1, 1]),
    ],
)
def test_an_open_tree_is_asked_by_path(tree, keys, queries, expected):
    if tree.width > 64:
        keys = np.array(keys, dtype=np.uint64)
    assert exact_answers(ot.leaf_domain(tree), tree.count(keys), queries, gaps=True) == expected


@pytest.mark.parametrize(
    ("tree", "query", "words"),
    [
        (ot.OpenTree.columns(2), ("a", "b", "c"), "at most 2 labels"),
        (ot.OpenTree.columns(2), (1.5,), "at most 2 labels"),
        (ot.OpenTree.paths("/", depth=3), (1,), "each a text"),
        (ot.OpenTree.columns(2), "a", "must be a tuple"),
        (ot.OpenTree.columns(2), 0, "must be a tuple"),
        (ot.OpenTree.bits(8), (3,), "two integers"),
        (ot.OpenTree.bits(8), (3, True), "two integers"),
        (ot.OpenTree.bits(8, stride=4), (16, 5), "bits is a multiple of 4 up to 8"),
        (ot.OpenTree.bits(8, stride=4), (17, 4), "the least integer with these leading bits"),
        (ot.OpenTree.bits(8), (256, 8), "the least integer with these leading bits"),
    ],
)
def test_paths_that_a_tree_cannot_hold_are_refused_whatever_the_data(tree, query, words):
    for keys in ([], [("a", "b")] if tree.kind == "columns" else ["a"] if tree.kind == "paths" else [3]):
        with pytest.raises(OpenDPException, match=words):
            exact_answers(ot.leaf_domain(tree), tree.count(keys), [query])


def test_an_open_tree_is_asked_adaptively_down_to_its_heaviest_node():
    """A threshold of 500 and a count of 2,000: noise of scale 20 errs by 1,000 with probability below 1e-20."""
    tree = ot.OpenTree.bits(8)
    above = ot.make_sparse_vector(ot.leaf_domain(tree), dp.l1_distance(T="i64"), 20.0, threshold=500, cutoff=8)
    ask, prefix = above(tree.count([181] * 2000)), 0
    for bits in range(1, 9):
        right = prefix + 2 ** (8 - bits)
        prefix = right if ask((right, bits)) else prefix
    assert prefix == 181


VECTOR = dp.vector_domain(dp.atom_domain(T="i64"))
LINF = dp.linf_distance(T="i64")


def test_maps_follow_the_metric():
    options = {"threshold": 5, "cutoff": 2, "query_scale": 8.0}
    plain = make_above_threshold(VECTOR, LINF, 4.0, **options)
    monotonic = make_above_threshold(VECTOR, dp.linf_distance(T="i64", monotonic=True), 4.0, **options)
    refreshed = make_above_threshold(VECTOR, LINF, 4.0, **options, threshold_noise="refreshed")
    assert [plain.map(k) for k in range(3)] == [0.0, 0.75, 1.5]
    assert monotonic.map(1) == 0.5
    assert refreshed.map(1) == 1.0
    floats = make_above_threshold(VECTOR, dp.linf_distance(T="f64"), 4.0, **options)
    assert floats.map(0.5) == 0.375
    assert make_above_threshold(VECTOR, LINF, 0.0, threshold=5).map(1) == math.inf
