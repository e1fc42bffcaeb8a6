"""Least squares on trees, non-negative and whole counts, and intervals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opendp.mod import OpenDPException
from scipy import stats

from opendp_tree import Tree, leaf_domain, make_consistent, noise, then_consistent, then_tree_sum
from opendp_tree.mechanisms.consistent import polished, share_out
from opendp_tree.releases.release import TreeRelease
from tests.trees.test_least_squares import random_tree

NUMBERS = st.integers(-20, 20).map(float)
STAR = Tree.from_parents([-1, 0, 0, 0])


def best(total, wishes, variances):
    """The least squares over all choices of children that are zero: the same, by trying everything."""
    found = (np.inf, None)
    for choice in product([False, True], repeat=len(wishes)):
        kept = np.array(choice)
        if not kept.any():
            continue
        step = (total - wishes[kept].sum()) / variances[kept].sum()
        numbers = np.where(kept, wishes + variances * step, 0.0)
        if (numbers >= -1e-12).all():
            found = min(found, (((numbers - wishes) ** 2 / variances).sum(), numbers.tolist()))
    return found


@given(
    st.integers(0, 30).map(float),
    st.lists(NUMBERS, min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_sharing_out_is_the_least_squares_solution(total, wishes, variances):
    wishes, variances = np.array(wishes), np.array(variances, dtype=float)
    (level,) = STAR.level_order.inner_levels
    shared = share_out(level, np.array([total]), wishes, variances)
    assert (shared >= 0).all()
    assert shared.sum() == pytest.approx(total, abs=1e-9)
    cost, _ = best(total, wishes, variances)
    assert ((shared - wishes) ** 2 / variances).sum() == pytest.approx(cost, rel=1e-9, abs=1e-9)


FALSE_ALARM = 1e-9
TREE = Tree.from_paths([(f"{a}", f"{b}") for a in range(8) for b in range(5 if a % 2 else 3)] + [("alone",)])
TRUTH = np.where(np.arange(TREE.leaf_count) % 3 == 0, 0, np.arange(TREE.leaf_count) ** 2)


def laplace_variance(scale):
    return 1 / (2 * math.sinh(1 / (2 * scale)) ** 2)


def noisy_counts(tree, leaf_counts, scale, rounds):
    truth = tree.sum(leaf_counts)
    return truth, truth + noise.laplace(scale, rounds * truth.size).reshape(rounds, -1)


def coverage_fails(hits, rounds, confidence):
    """Whether so few hits would occur with a probability below the false-alarm rate, if the confidence were true."""
    return stats.binom.cdf(hits, rounds, confidence) < FALSE_ALARM


@pytest.mark.parametrize("kind", ["plain", "nonnegative", "integers", "both"])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_at_every_node(kind, confidence):
    """One binomial test a node, each failing a right interval with probability 1e-9."""
    options = {"nonnegative": kind in ("nonnegative", "both"), "integers": kind in ("integers", "both")}
    scale, rounds = 3.0, 800
    consistent = make_consistent(
        TREE, variances=[laplace_variance(scale)] * 3, noise="laplace", confidence=confidence, **options
    )
    truth, noisy = noisy_counts(TREE, TRUTH, scale, rounds)
    hits = np.zeros(truth.size, dtype=int)
    for row in noisy:
        release = consistent(row)
        hits += (release.lower <= truth) & (truth <= release.upper)
        assert (release.lower <= release.estimates).all()
        assert (release.estimates <= release.upper).all()
    assert not any(coverage_fails(hit, rounds, confidence) for hit in hits)


def test_the_coverage_test_has_power():
    """Intervals for variances four times too small must fail it."""
    consistent = make_consistent(TREE, variances=[laplace_variance(3.0) / 4] * 3, noise="laplace")
    truth, noisy = noisy_counts(TREE, TRUTH, 3.0, 800)
    hits = sum((release.lower <= truth) & (truth <= release.upper) for release in (consistent(row) for row in noisy))
    assert any(coverage_fails(hit, 800, 0.95) for hit in hits)


def test_normal_intervals_are_exact():
    """Two-sided binomial test over all nodes of independent trees: false alarm 1e-9."""
    tree = Tree.balanced(branching=2, depth=3)
    rng = np.random.default_rng(5)
    consistent = make_consistent(tree, variances=[1.0, 4.0, 9.0], noise="normal", confidence=0.9)
    rounds = 4000
    hits = 0
    for row in rng.normal(size=(rounds, 7)) * np.sqrt(np.array([1, 4, 4, 9, 9, 9, 9])):
        release = consistent(row)
        hits += release.lower[3] <= 0 <= release.upper[3]
    assert stats.binomtest(hits, rounds, 0.9).pvalue > FALSE_ALARM


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "options", [{"nonnegative": True}, {"integers": True}, {"nonnegative": True, "integers": True}]
)
def test_results_add_up_and_keep_their_promises(seed, options):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 200)
    variances = np.exp(rng.normal(size=200))
    noisy = rng.integers(-30, 40, 200)
    release = make_consistent(tree, variances=variances, **options)(noisy)
    found = release.estimates
    below = tree.parents >= 0
    sums = np.bincount(tree.parents[below], found[below], minlength=200)
    inner = np.setdiff1d(np.arange(200), tree.leaves)
    np.testing.assert_allclose(found[inner], sums[inner], rtol=1e-9, atol=1e-9)
    if "integers" in options:
        assert (found == np.rint(found)).all()
        assert (found[inner] == sums[inner]).all()
        real = make_consistent(tree, variances=variances, **{**options, "integers": False})(noisy).estimates
        assert (np.abs(found - real) < 1 + 1e-6).all()
    if "nonnegative" in options:
        assert found.min() >= 0
        assert release.lower.min() >= 0


def test_what_is_consistent_and_whole_stays_as_it_is():
    tree = random_tree(np.random.default_rng(4), 300)
    counts = tree.sum(np.random.default_rng(5).integers(0, 9, tree.leaf_count))
    both = make_consistent(tree, variances=np.full(300, 2.0), nonnegative=True, integers=True)(counts)
    assert (both.estimates == counts).all()


def test_unmeasured_children_take_what_is_left():
    tree = Tree.from_parents([-1, 0, 0, 0])
    variances = np.array([1.0, np.inf, 1.0, 1.0])
    assert make_consistent(tree, variances=variances)([10, 99, 3, 2]).estimates.tolist() == [10.0, 5.0, 3.0, 2.0]
    cut = make_consistent(tree, variances=variances, nonnegative=True)([4, 99, 3, 2]).estimates
    np.testing.assert_allclose(cut, [4.0, 0.0, 2.5, 1.5], atol=1e-6)


def test_chains_keep_their_map_and_all_carriers_work():
    space = leaf_domain(TREE), dp.l1_distance(T="i64")
    for carrier in (dp.m.then_laplace(scale=3.0), dp.m.then_laplace(scale=3.0) >> dp.as_array()):
        noisy = space >> then_tree_sum(carrier="vector") >> carrier
        chain = noisy >> then_consistent(TREE, variances=[18.0] * 3, noise="laplace")
        assert chain.map(1) == 1.0
        release = chain(TRUTH)
        assert release.statement is None
        assert release.confidence == 0.95
        assert release.to_frame().height == TREE.node_count


@pytest.mark.parametrize("data", [[1, 2, 3], [1.0] * (TREE.node_count + 1), ["a"] * TREE.node_count])
def test_wrong_measurements_are_refused(data):
    with pytest.raises((OpenDPException, TypeError, ValueError), match=r"the noisy counts must be"):
        make_consistent(TREE, variances=[1.0, 1.0, 1.0])(data)


def test_whole_counts_of_many_large_siblings_stay_near_and_not_negative():
    """A hundred siblings near 1e9, one of them followed by wide levels of small counts: each is floor or ceiling."""
    parents, values = [-1], [0.0]
    above = [0]
    for size, value in ((100, 1e9 + 0.6), (1000, (1e9 + 0.6) / 1000), (1000, (1e9 + 0.6) / 1e6)):
        first = len(parents)
        parents += [above[0]] * size
        values += [value] * size
        above = list(range(first, first + size))
    values[0] = 100 * (1e9 + 0.6)
    tree = Tree.from_parents(parents)
    options = {"variances": [1.0] * 4, "noise": "normal", "nonnegative": True, "integers": True}
    release = make_consistent(tree, **options)(values)
    assert release.estimates.min() >= 0
    assert np.abs(release.estimates - values).max() <= 1.001
    inner = np.bincount(parents[1:], weights=release.estimates[1:], minlength=tree.node_count)
    has = np.bincount(parents[1:], minlength=tree.node_count) > 0
    assert (inner[has] == release.estimates[has]).all()


@pytest.mark.parametrize(
    ("variances", "noisy", "expected"),
    [
        ([1e40, 1.0, 1.0], [1e20, 4.0, 6.0], [10.0, 4.0, 6.0]),
        ([1.0, 1e40, 1.0], [10.0, 1e20, 6.0], [10.0, 4.0, 6.0]),
    ],
)
def test_what_is_hardly_measured_hardly_matters(variances, noisy, expected):
    release = make_consistent(Tree.balanced(branching=2, depth=2), variances=variances, noise="normal")(noisy)
    assert release.estimates.tolist() == pytest.approx(expected, rel=1e-12)


def test_non_negative_counts_add_up_where_wishes_are_huge():
    tree = Tree.balanced(branching=3, depth=2)
    release = make_consistent(tree, variances=[1e-6, 2.06e22, 3.88e17, 1.13e20], noise="normal", nonnegative=True)(
        [1.0, 6.86e15, 1.53e15, -3.49e15]
    )
    assert release.estimates[1:].sum() == pytest.approx(release.estimates[0], rel=1e-12)
    assert release.estimates.min() >= 0


def test_variances_of_a_chain_are_not_guessed():
    upside_down = Tree.from_parents([1, -1])
    with pytest.raises(ValueError, match="variances of a chain must not differ unless its node ids run from the root"):
        make_consistent(upside_down, variances=[1.0, 10000.0])
    make_consistent(upside_down, variances=[2.0, 2.0])
    with pytest.raises(TypeError, match="variances must be numbers"):
        make_consistent(Tree.balanced(branching=2, depth=2), variances=["1", "1"])


@given(st.lists(st.floats(-50, 500), min_size=7, max_size=7), st.lists(st.booleans(), min_size=6, max_size=6))
def test_polished_estimates_are_whole_and_not_negative_and_add_up_with_their_rests(numbers, flags):
    tree = Tree.balanced(branching=2, depth=3)
    shown = np.array([True, *flags])
    shown &= shown[np.maximum(tree.parents, 0)]
    values = np.where(shown, numbers, 0.0)
    raw = TreeRelease(tree, values, values - 3, values + 3, 0.9, None, shown=shown)
    found = polished(raw, nonnegative=True, integers=True)
    rows = found.to_frame().filter("shown")
    assert (rows["estimate"] >= 0).all()
    assert (found.estimates == np.rint(found.estimates)).all()
    assert ((found.lower <= found.estimates) & (found.estimates <= found.upper)).all()
    for node in np.flatnonzero(shown):
        below = found.estimates[(tree.parents == node) & shown]
        all_shown = shown[tree.parents == node].all()
        assert not below.size or (
            below.sum() == found.estimates[node] if all_shown else below.sum() <= found.estimates[node]
        )
