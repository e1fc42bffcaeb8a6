"""The descent, and its intervals: coverage computed from the law of the noise; wrong intervals must fail."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.mechanisms import make_pruned_descent, then_pruned_descent
from opendp_tree.mechanisms.pruned_descent import Pruning, descend, interval_reach, shown_intervals
from opendp_tree.theorems.interval import Interval, exp, round_up
from opendp_tree.theorems.tails import gaussian_tail, laplace_tail, noise_bound, noise_tail, pruned_chances
from tests.thoroughness import examples, slow
from tests.trees.test_least_squares import random_tree

L1 = dp.l1_distance(T="i64")
TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("c",)])
SPACE = leaf_domain(TREE), L1
FALSE_ALARM = 1e-9


@given(st.floats(0.2, 50), st.floats(1e-12, 0.1), st.integers(1, 4))
@examples(15)
def test_thresholds_are_the_lowest_for_a_delta(scale, delta, d_in):
    for law in ("laplace", "gaussian"):
        named = make_pruned_descent(*SPACE, scale, delta=delta, d_in=d_in, noise=law)
        assert named.map(d_in)[1] == delta
        threshold = int(named(np.zeros(4, dtype=np.int64)).statement.parameters["thresholds"].split(",")[0])
        assert make_pruned_descent(*SPACE, scale, threshold=threshold, noise=law).map(d_in)[1] <= delta
        if law == "gaussian" and threshold > 1:
            assert make_pruned_descent(*SPACE, scale, threshold=threshold - 1, noise=law).map(d_in)[1] > delta
        if law == "laplace":
            assert named.map(1)[0] == pytest.approx(3 / scale, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("threshold", [3, 40, 200])
def test_maps_are_the_theorems(scale, threshold):
    exact = Fraction(scale)
    q = exp(-1 / exact)
    for k in (1, 2, 5):
        epsilon, delta = make_pruned_descent(*SPACE, scale, threshold=threshold).map(k)
        assert Fraction(epsilon) >= 3 * k / exact
        one, group = laplace_tail(q, threshold - 1), laplace_tail(q, threshold - k)
        assert delta == max(round_up(group), min(round_up(1 - (1 - one) ** k), round_up(one * k)))
        rho, delta = make_pruned_descent(*SPACE, scale, threshold=threshold, noise="gaussian").map(k)
        assert Fraction(rho) >= Fraction(3 * k * k, 2) / exact**2 > Fraction(math.nextafter(rho, 0))
        assert delta >= round_up(gaussian_tail(exact, threshold - k))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_only_children_of_shown_nodes_are_shown_and_empty_nodes_never(seed, law):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 400)
    leaves = rng.integers(0, 30, tree.leaf_count) * (rng.random(tree.leaf_count) < 0.5)
    release = make_pruned_descent(leaf_domain(tree), L1, 3.0, threshold=1, noise=law)(leaves)
    counts = tree.sum(leaves)
    shown = set(np.flatnonzero(release.shown).tolist())
    assert (counts[release.shown] > 0).all()
    assert all(tree.parents[node] in shown or node == tree.root for node in shown)
    assert (release.estimates[release.shown] >= 1).all()
    assert (release.estimates[~release.shown] == 0).all()


def test_hidden_nodes_are_bounded_by_the_threshold_that_hid_the_first_of_them():
    """Thresholds differ from level to level; what is below a hidden node may hold no more than it."""
    weights = [4, 1, 1]
    release = make_pruned_descent(*SPACE, 3.0, delta=1e-6, weights=weights)(np.array([900, 1, 1, 0]))
    thresholds = [int(part) for part in release.statement.parameters["thresholds"].split(", ")]
    assert thresholds[0] < thresholds[1] == thresholds[2]
    by_path = {TREE.path(node): node for node in range(TREE.node_count)}
    upper = {path: release.upper[node] for path, node in by_path.items()}
    assert not release.shown[by_path[("b",)]]
    assert upper[("b",)] == upper[("b", "z")] == upper[("c",)] == upper[("a", "y")] > thresholds[1]
    nobody = make_pruned_descent(*SPACE, 3.0, delta=1e-6, weights=weights)(np.zeros(4, dtype=np.int64))
    assert (nobody.upper == nobody.upper[0]).all()
    assert thresholds[0] <= nobody.upper[0] < upper[("b",)]
    assert not nobody.shown.any()
    assert (nobody.lower == 0).all()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_intervals_hold_node_by_node(law):
    """20,000 chains below one root: misses are rarer than promised; false alarm 1e-9. Half the nodes are hidden."""
    copies, confidence = 20_000, 0.8
    parents = np.concatenate(([-1], np.zeros(copies), np.arange(1, copies + 1), np.arange(1, copies + 1))).astype(int)
    tree = Tree.from_parents(parents)
    low = make_pruned_descent(leaf_domain(tree), L1, 4.0, threshold=30, noise=law, confidence=confidence)
    leaves = np.tile([24, 12], copies).reshape(-1, 2).T.ravel()
    truth, release = tree.sum(leaves), low(leaves)
    assert 0.1 < release.shown.mean() < 0.9
    missed = (release.lower > truth) | (release.upper < truth)
    for nodes in (slice(1, copies + 1), slice(copies + 1, 2 * copies + 1), slice(2 * copies + 1, None)):
        found = int(missed[nodes].sum())
        assert stats.binomtest(found, copies, 1 - confidence, alternative="greater").pvalue > FALSE_ALARM
    # Power: intervals that are four narrower on each side do not hold.
    narrow = release.shown & ((release.lower + 4 > truth) | (release.upper - 4 < truth))
    wrong = int(narrow[1 : copies + 1].sum())
    assert stats.binomtest(wrong, copies, 1 - confidence, alternative="greater").pvalue < FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_new_nodes_are_shown_as_often_as_delta_says(law):
    """Many leaves of one unit below a heavy one: a binomial test, false alarm 1e-9, with power against T + 1."""
    star = Tree.from_parents(np.concatenate(([-1], np.zeros(200_000, dtype=int))))
    leaves = np.ones(200_000, dtype=np.int64)
    leaves[0] = 10**6
    release = make_pruned_descent(leaf_domain(star), L1, 2.0, threshold=7, noise=law)
    shown = int(release(leaves).shown.sum()) - 2
    rate, wrong = (float(noise_tail(law, Fraction(2), at).hi) for at in (6, 7))
    assert stats.binomtest(shown, 199_999, rate).pvalue > FALSE_ALARM
    assert stats.binomtest(shown, 199_999, wrong).pvalue < FALSE_ALARM
    assert rate <= release.map(1)[1]


def test_the_core_runs_on_any_list_of_non_empty_nodes():
    """Levels as sparse keys would give them; a threshold that no count reaches ends the descent."""
    levels = [
        (np.array([7]), np.array([30]), np.array([0])),
        (np.array([4, 5, 6]), np.array([20, 9, 1]), np.array([0, 0, 0])),
        (np.array([2, 3]), np.array([20, 9]), np.array([0, 1])),
    ]
    nodes, noisy, depths = descend(levels, Pruning("laplace", (0.0,) * 3, (5, 10, 5), Fraction(0)))
    assert [nodes.tolist(), noisy.tolist(), depths.tolist()] == [[7, 4, 2], [30, 20, 20], [0, 1, 2]]
    assert descend(levels, Pruning("laplace", (0.0,) * 3, (2**70, 1, 1), Fraction(0)))[0].size == 0


def test_open_and_public_trees_agree():
    """With hardly any noise the same nodes are shown with the same counts, people at inner nodes included."""
    rows = [("a", "x")] * 40 + [("a", "y")] * 30 + [("b",)] * 25 + [("a",)] * 7 + [("c", "z")] * 2
    tree = OpenTree.columns(2)
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    release = (space >> then_pruned_descent(0.02, threshold=10))(tree.count(rows))
    assert release.to_frame().select("level", "label_1", "label_2", "estimate", "other").rows() == [
        (0, None, None, 104, False),
        (1, "a", None, 77, False),
        (1, "b", None, 25, False),
        (1, "(other)", None, 2, True),
        (2, "a", "x", 40, False),
        (2, "a", "y", 30, False),
        (2, "a", "(other)", 7, True),
    ]
    assert release.hidden == 9
    public = Tree.from_paths([("a", "x"), ("a", "y"), ("b",), ("c", "z")])
    space = leaf_domain(public), dp.l1_distance(T="i64")
    found = (space >> then_pruned_descent(0.02, threshold=10))(public.count([row for row in rows if row != ("a",)]))
    frame = found.to_frame()
    assert frame.filter(frame["shown"]).select("level", "label_1", "label_2", "estimate", "other").rows() == [
        (0, None, None, 97, False),
        (1, "a", None, 70, False),
        (1, "b", None, 25, False),
        (1, "(other)", None, 2, True),
        (2, "a", "x", 40, False),
        (2, "a", "y", 30, False),
    ]


def probability_of_a_miss(weights, pruning, reach, hidden):
    """That the last node of a path is outside its interval: independent noises, thresholds, nothing else."""
    alive, missed, truth = Interval.of(1), Interval.of(0), weights[-1]
    for level, (weight, scale, threshold) in enumerate(zip(weights, pruning.scales, pruning.thresholds, strict=True)):

        def tail(at, scale=scale):
            return noise_tail(pruning.noise, Fraction(scale), at)

        needed = threshold - weight
        if truth > hidden[level]:
            missed = missed + alive * (1 - tail(needed))
        if level < len(weights) - 1:
            alive = alive * tail(needed)
        else:  # shown, and its noise beyond either end of the interval that is written around it
            far = int(reach[level])
            beyond = tail(max(far + 1, needed)) + tail(needed) - tail(max(-far, needed))
            missed = missed + alive * beyond
    return missed


def paths(hidden, thresholds):
    """Weights along a path: alike, falling, and near every edge that an interval has."""
    edges = sorted({int(edge) + step for edge in (*hidden, *thresholds) for step in (-1, 0, 1)} | {1})
    for last in edges:
        yield [last] * len(thresholds)
        yield [last + 5 * level for level in reversed(range(len(thresholds)))]
        yield [10**6] * (len(thresholds) - 1) + [last]


SETTINGS = list(product(["laplace", "gaussian"], [0.3, 3.0, 12.0], [1, 4, 20], [0.5, 0.95]))


def pruning_of(noise, scale, depth):
    scales = [scale * (1 + level % 2) for level in range(depth)]
    return Pruning(noise, tuple(scales), tuple(7 + 3 * (level % 3) for level in range(depth)), Fraction(0))


@pytest.mark.parametrize(
    ("noise", "scale", "depth", "confidence"), slow(SETTINGS, unless=lambda setting: setting[2] < 20)
)
def test_a_count_is_missed_no_more_often_than_promised(noise, scale, depth, confidence):
    pruning = pruning_of(noise, scale, depth)
    bounds = interval_reach(pruning, Fraction(confidence))
    for weights in paths(bounds[1], pruning.thresholds):
        assert probability_of_a_miss(weights, pruning, *bounds).hi <= 1 - Fraction(confidence)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_wrong_intervals_are_rejected(noise):
    """Two too narrow around shown nodes; and hidden nodes bounded without the union over the path."""
    pruning = pruning_of(noise, 3.0, 20)
    reach, hidden = interval_reach(pruning, Fraction(19, 20))
    own, _ = pruned_chances(Fraction(1, 20), 20)
    parts = zip(pruning.scales, pruning.thresholds, strict=True)
    without_union = np.array([t - 1 + noise_bound(noise, Fraction(s), own) for s, t in parts], dtype=float)
    for mutant in ((reach - 2, hidden), (reach, without_union)):
        misses = (probability_of_a_miss(each, pruning, *mutant).lo for each in paths(mutant[1], pruning.thresholds))
        assert max(misses) > Fraction(1, 20)


def test_shown_nodes_hold_somebody_and_floats_are_moved_outward():
    lower, upper = shown_intervals(np.array([1, 1000, 2**62 - 1]), np.full(3, 37.0))
    assert (lower[0], lower[1], upper[1]) == (1.0, 963.0, 1037.0)
    assert Fraction(lower[2]) <= 2**62 - 38
    assert Fraction(upper[2]) >= 2**62 + 36


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_extreme_scales_have_bounds(noise):
    pruning = Pruning(noise, (0.0, 5e-324, 1.7e308), (5, 5, 5), Fraction(0))
    reach, hidden = interval_reach(pruning, Fraction(9, 10))
    assert (reach[0], reach[1], hidden[0]) == (0.0, 0.0, 4.0)
    assert reach[2] > 1e308
