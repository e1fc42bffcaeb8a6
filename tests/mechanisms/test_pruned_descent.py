"""The descent, and its intervals: coverage computed from the law of the noise; wrong intervals must fail."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import opendp_tree as ot
from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.mechanisms import make_pruned_descent, then_pruned_descent
from opendp_tree.mechanisms.pruned_descent import LevelCounts, PrunedIntervals, descend
from opendp_tree.theorems.gaussian import gaussian_tail
from opendp_tree.theorems.interval import Interval, exp, round_up
from opendp_tree.theorems.pruned_descent import laplace_tail, noise_bound, noise_tail, pruned_chances
from tests.thoroughness import examples, thinned
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


def test_opendps_own_threshold_release_promises_less_than_the_exact_tail():
    """Upstream issue 2922: for one new key the exact delta is P(noise >= threshold - 1), and less is no promise."""
    keys = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
    theirs = dp.m.make_laplace_threshold(keys, dp.l01inf_distance(dp.absolute_distance(T="i64")), 1.0, 5)
    exact = round_up(laplace_tail(exp(Fraction(-1)), 4))
    ours = make_pruned_descent(leaf_domain(Tree.from_parents([-1])), L1, 1.0, threshold=5)
    assert ours.map(1) == (1.0, exact)
    assert theirs.map((1, 1, 1))[1] < exact


def test_maps_are_monotone_and_survive_extremes():
    for law in ("laplace", "gaussian"):
        release = make_pruned_descent(*SPACE, 2.0, threshold=30, noise=law)
        values = [release.map(k) for k in range(6)]
        assert values[0] == (0.0, 0.0)
        assert values == sorted(values)
        assert [v[1] for v in values] == sorted(v[1] for v in values)
        assert make_pruned_descent(*SPACE, 0.0, threshold=30, noise=law).map(1) == (math.inf, 1.0)
        assert make_pruned_descent(*SPACE, 0.0, delta=0.1, noise=law).map(1) == (math.inf, 1.0)
        for scale in (5e-324, 1e-300, 1e300, 1.7e308):
            loss, delta = make_pruned_descent(*SPACE, scale, delta=1e-6, noise=law).map(1)
            assert loss >= 0
            assert delta == 1e-6
        assert make_pruned_descent(*SPACE, 1e-300, threshold=1, noise=law).map(1)[1] == 1.0


def test_low_thresholds_cost_more_than_the_shift():
    epsilon, delta = make_pruned_descent(*SPACE, 10.0, threshold=1).map(1)
    assert epsilon > 3 * 0.69
    assert delta > 0.5


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


def test_without_noise_the_threshold_decides():
    leaves = np.array([50, 3, 10, 0])
    release = make_pruned_descent(*SPACE, 1e-6, threshold=10)(leaves)
    assert [TREE.path(node) for node in np.flatnonzero(release.shown)] == [
        (),
        ("a",),
        ("a", "x"),
        ("b",),
        ("b", "z"),
    ]
    frame = release.to_frame()
    assert frame.select("path", "estimate", "lower", "upper", "shown", "other").rows() == [
        ("", 63.0, 63.0, 63.0, True, False),
        ("a", 53.0, 53.0, 53.0, True, False),
        ("b", 10.0, 10.0, 10.0, True, False),
        ("c", 0.0, 0.0, 9.0, False, False),
        ("a / x", 50.0, 50.0, 50.0, True, False),
        ("a / y", 0.0, 0.0, 9.0, False, False),
        ("a / (other)", 3.0, 0.0, 53.0, True, True),
        ("b / z", 10.0, 10.0, 10.0, True, False),
    ]


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
        LevelCounts(np.array([30]), np.array([0])),
        LevelCounts(np.array([20, 9, 1]), np.array([0, 0, 0])),
        LevelCounts(np.array([20, 9]), np.array([0, 1])),
    ]

    def silent(scale, size):
        return np.zeros(size, dtype=np.int64)

    found = list(descend(levels, scales=[1.0] * 3, thresholds=[5, 10, 5], draw=silent))
    assert [places.tolist() for places, _ in found] == [[0], [0], [0]]
    assert [noisy.tolist() for _, noisy in found] == [[30], [20], [20]]
    found = list(descend(levels, scales=[1.0] * 3, thresholds=[2**70, 1, 1], draw=silent))
    assert all(places.size == 0 for places, _ in found)


def test_both_measures_compose_and_cast():
    pair = make_pruned_descent(*SPACE, 3.0, delta=1e-7)
    assert dp.c.make_composition([pair, pair]).map(1) == pytest.approx((2.0, 2e-7))
    concentrated = make_pruned_descent(*SPACE, 3.0, delta=1e-7, noise="gaussian")
    assert concentrated.output_measure == dp.approximate(dp.zero_concentrated_divergence())
    assert dp.c.make_composition([concentrated, concentrated]).map(1)[1] == pytest.approx(2e-7)
    cast = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(concentrated), 1e-6)
    epsilon, delta = cast.map(1)
    assert 0 < epsilon < 10
    assert delta == 1e-6


def test_the_context_solves_for_the_scale():
    ot.register()
    context = dp.Context.compositor(
        data=np.array([5000, 1, 0, 0]),
        domain=leaf_domain(TREE),
        privacy_unit=dp.unit_of(l1=1, U="i64"),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
    )
    query = context.query().pruned_descent(delta=1e-6)
    assert query.param() == pytest.approx(3.0, rel=1e-6)
    assert query.release().shown.sum() == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "exactly one of threshold and delta must be given"),
        ({"threshold": 5, "delta": 0.1}, ValueError, "exactly one of threshold and delta must be given"),
        ({"threshold": 0}, ValueError, r"threshold \(0\) must be an integer from 1"),
        ({"threshold": 1.5}, TypeError, r"threshold \(1.5\) must be an integer"),
        ({"delta": 0.0}, ValueError, r"delta \(0.0\) must be above 0 and below 1"),
        ({"delta": 0.1, "d_in": 0}, ValueError, r"d_in \(0\) must be an integer from 1"),
        ({"threshold": 5, "noise": "normal"}, ValueError, r"noise \('normal'\) must be one of 'laplace', 'gaussian'"),
        ({"threshold": 5, "weights": [1, 0, 1]}, ValueError, "weights must be positive"),
        ({"threshold": 5, "weights": [1, 1]}, ValueError, "weights must hold one number for each of the 3 levels"),
        ({"threshold": 5, "confidence": 1.0}, ValueError, r"confidence \(1.0\) must be above 0 and below 1"),
        ({"threshold": 5, "confidence": "high"}, TypeError, r"confidence \('high'\) must be a number"),
        ({"threshold": 5, "scale": -1.0}, ValueError, r"scale \(-1.0\) must be finite and non-negative"),
        ({"threshold": 5, "tree": Tree.from_parents([-1])}, ValueError, "must be the tree of input_domain"),
    ],
)
def test_wrong_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        make_pruned_descent(*SPACE, **{"scale": 1.0, **options})


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


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_open_trees_cost_what_public_ones_of_their_depth_do(noise):
    open_space = leaf_domain(OpenTree.bits(4)), dp.l1_distance(T="i64")
    public_space = leaf_domain(Tree.balanced(branching=2, depth=5)), dp.l1_distance(T="i64")
    for people in (0, 1, 3):
        maps = [
            (space >> then_pruned_descent(3.0, delta=1e-6, noise=noise)).map(people)
            for space in (open_space, public_space)
        ]
        assert maps[0] == maps[1]


def test_open_trees_without_people_show_the_root_at_most():
    tree = OpenTree.bits(8)
    large = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_pruned_descent(1.0, delta=1e-6)
    assert large(tree.count([])).to_frame().height == 0
    assert large(tree.count([7] * 10_000)).to_frame(other=False)["bits"].to_list() == list(range(9))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_tiny_deltas_have_thresholds(noise):
    large = make_pruned_descent(leaf_domain(OpenTree.bits(4)), dp.l1_distance(T="i64"), 1.0, delta=1e-200, noise=noise)
    assert large.map(1)[1] == 1e-200


def chance_of_a_miss(weights, *, noise, scales, thresholds, intervals):
    """That the last node of a path is outside its interval: independent noises, thresholds, nothing else."""
    alive, missed, truth = Interval.of(1), Interval.of(0), weights[-1]
    for level, (weight, scale, threshold) in enumerate(zip(weights, scales, thresholds, strict=True)):
        passes = noise_tail(noise, Fraction(scale), threshold - weight)
        if truth > intervals.hidden[level]:
            missed = missed + alive * (1 - passes)
        if level < len(weights) - 1:
            alive = alive * passes
        else:  # shown, and its noise beyond either end of the interval that is written around it
            reach = int(intervals.reach[level])
            above = noise_tail(noise, Fraction(scale), max(reach + 1, threshold - weight))
            below = noise_tail(noise, Fraction(scale), threshold - weight) - noise_tail(
                noise, Fraction(scale), max(-reach, threshold - weight)
            )
            missed = missed + alive * (above + below)
    return missed


def paths(intervals, thresholds):
    """Weights along a path: alike, falling, and near every edge that an interval has."""
    edges = sorted({int(edge) + step for edge in (*intervals.hidden, *thresholds) for step in (-1, 0, 1)} | {1})
    for last in edges:
        yield [last] * len(thresholds)
        yield [last + 5 * level for level in reversed(range(len(thresholds)))]
        yield [10**6] * (len(thresholds) - 1) + [last]


SETTINGS = list(product(["laplace", "gaussian"], [0.3, 3.0, 12.0], [1, 4, 20], [0.5, 0.95]))


def bounds_of(noise, scale, depth, confidence):
    scales = [scale * (1 + level % 2) for level in range(depth)]
    thresholds = [7 + 3 * (level % 3) for level in range(depth)]
    law = {"noise": noise, "scales": scales, "thresholds": thresholds}
    return law, PrunedIntervals.of(**law, confidence=Fraction(confidence))


@pytest.mark.parametrize(("noise", "scale", "depth", "confidence"), thinned(SETTINGS, 3))
def test_a_count_is_missed_no_more_often_than_promised(noise, scale, depth, confidence):
    law, intervals = bounds_of(noise, scale, depth, confidence)
    for weights in paths(intervals, law["thresholds"]):
        assert chance_of_a_miss(weights, **law, intervals=intervals).hi <= 1 - Fraction(confidence)


def shifted(intervals, *, reach=0, hidden=0):
    return replace(intervals, reach=intervals.reach + reach, hidden=intervals.hidden + hidden)


def test_wrong_intervals_are_rejected():
    """Two too narrow around shown nodes; and hidden nodes bounded without the union over the path."""
    for noise in ("laplace", "gaussian"):
        law, right = bounds_of(noise, 3.0, 20, 0.95)
        own, _ = pruned_chances(Fraction(1, 20), 20)
        without_union = [
            t - 1 + noise_bound(noise, Fraction(s), own) for s, t in zip(law["scales"], law["thresholds"], strict=True)
        ]
        mutants = [shifted(right, reach=-2), replace(right, hidden=np.array(without_union, dtype=float))]
        for mutant in mutants:
            worst = max(
                chance_of_a_miss(weights, **law, intervals=mutant).lo for weights in paths(mutant, law["thresholds"])
            )
            assert worst > Fraction(1, 20)


def test_shown_nodes_hold_somebody_and_floats_are_moved_outward():
    _, intervals = bounds_of("laplace", 12.0, 4, 0.95)
    lower, upper = intervals.around(np.array([1, 1000, 2**62 - 1]), np.zeros(3, dtype=np.int64))
    assert lower[0] == 1.0
    reach = intervals.reach[0]
    assert (lower[1], upper[1]) == (1000 - reach, 1000 + reach)
    assert Fraction(lower[2]) <= 2**62 - 1 - Fraction(reach)
    assert Fraction(upper[2]) >= 2**62 - 1 + Fraction(reach)


def test_extreme_scales_have_bounds():
    for noise in ("laplace", "gaussian"):
        silent = PrunedIntervals.of(noise=noise, scales=[0.0], thresholds=[5], confidence=Fraction(9, 10))
        assert (silent.reach.tolist(), silent.hidden.tolist()) == ([0.0], [4.0])
        loud = PrunedIntervals.of(noise=noise, scales=[1.7e308], thresholds=[5], confidence=Fraction(9, 10))
        assert loud.reach[0] > 1e308
        tiny = PrunedIntervals.of(noise=noise, scales=[5e-324], thresholds=[5], confidence=Fraction(9, 10))
        assert tiny.reach.tolist() == [0.0]
