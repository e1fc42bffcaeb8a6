"""The classifier against its claims, and the forests that it runs on."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_tree import Tree, leaf_domain, noise
from opendp_tree.paper import AccuracyWarning, make_tree_classifier
from opendp_tree.paper.classification import Forest, classify, forest_below, shortfall
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.paper import Classifier, Round, classification_cutoff, classification_threshold, classifier
from tests.goodness_of_fit import FALSE_ALARM, fit
from tests.privacy.classification_law import Mechanism, forest_law
from tests.shapes import SHAPES, ancestors, copies, random_tree, spread_counts
from tests.thoroughness import slow

TREES = [*SHAPES.values(), Tree.from_parents([-1]), *(random_tree(25, seed) for seed in range(8))]


def by_tree(order, forest):
    """The forest as a set of sets of node ids."""
    return {frozenset(order.nodes[forest.members[forest.trees == tree]].tolist()) for tree in range(forest.tree_count)}


def subtree(tree, root):
    return frozenset(node for node in range(tree.node_count) if root in ancestors(tree, node))


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_forests_are_the_subtrees_of_their_roots(tree):
    order = tree.level_order
    assert by_tree(order, forest_below(order)) == {frozenset(range(tree.node_count))}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        roots = []
        for node in rng.permutation(tree.node_count).tolist():
            if all(root not in ancestors(tree, node) and node not in ancestors(tree, root) for root in roots):
                roots.append(node)
            if len(roots) == 3:
                break
        forest = forest_below(order, roots)
        assert by_tree(order, forest) == {subtree(tree, root) for root in roots}
        assert (np.diff(forest.members) > 0).all()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_what_is_left_below_is_again_a_forest_of_whole_subtrees(tree):
    order = tree.level_order
    for seed in range(5):
        rng = np.random.default_rng(seed)
        forest = forest_below(order)
        above = set()
        for _ in range(3):
            found = set()
            for place in rng.permutation(forest.members)[:2]:
                found |= set(ancestors(tree, int(order.nodes[place])))
            above |= found
            kept = ~np.isin(order.nodes[forest.members], list(found))
            forest = Forest.of(order, forest.members[kept])
            left = set(range(tree.node_count)) - above
            roots = {node for node in left if tree.parents[node] not in left}
            assert by_tree(order, forest) == {subtree(tree, root) for root in roots}
            assert (np.diff(forest.members) > 0).all()


@pytest.mark.parametrize(
    ("roots", "error", "message"),
    [
        ([], TypeError, "roots must be a non-empty, one-dimensional collection of node ids"),
        ([0.5], TypeError, "roots must be a non-empty"),
        ([[1]], TypeError, "roots must be a non-empty"),
        ([7], ValueError, "roots must be node ids from 0 to 6"),
        ([-1], ValueError, "roots must be node ids from 0 to 6"),
        ([1, 1], ValueError, "roots must be distinct, and none may be below another"),
        ([0, 3], ValueError, "roots must be distinct, and none may be below another"),
        ([4, 1, 2], ValueError, "roots must be distinct, and none may be below another"),
    ],
)
def test_wrong_roots_are_named(roots, error, message):
    with pytest.raises(error, match=message):
        forest_below(Tree.balanced(branching=2, depth=3).level_order, roots)


L1 = dp.l1_distance(T="i64")
TREE = Tree.balanced(branching=2, depth=3)
LEAVES = leaf_domain(TREE), L1
USUAL = {"threshold": 3000, "mass": 5000, "alpha": 0.5, "epsilon": 1.0, "delta": 1e-6, "eta": 0.01}
NOT_GUARANTEED = pytest.mark.filterwarnings("ignore::opendp_tree.paper.AccuracyWarning")


def above(tree, roots, leaf_counts, run):
    """The node ids that a classifier finds above."""
    order = tree.level_order
    forest = forest_below(order, roots)
    found = classify(order, forest, tree.sum(np.asarray(leaf_counts, dtype=np.int64))[order.nodes], run)
    return frozenset(order.nodes[forest.members[found]].tolist())


def many(tree, roots, leaf_counts, run, runs):
    """As `above` for many runs at once, as a forest of copies: one row of truth values for each run."""
    grove, _ = copies(tree, runs)
    starts = (np.asarray(roots) + 1 + tree.node_count * np.arange(runs)[:, None]).ravel()
    order = grove.level_order
    forest = forest_below(order, starts)
    weights = grove.sum(np.tile(np.asarray(leaf_counts, dtype=np.int64), runs))
    found = np.zeros(grove.node_count, dtype=np.bool_)
    found[order.nodes[forest.members[classify(order, forest, weights[order.nodes], run)]]] = True
    return found[1:].reshape(runs, tree.node_count)


def by_hand(tree, roots, leaf_counts, run):
    """The algorithm without noise, node by node."""
    weights, found = tree.sum(np.asarray(leaf_counts, dtype=np.int64)), set()
    for root in roots:
        nodes = {node for node in range(tree.node_count) if root in ancestors(tree, node)}
        stops, marked = 0, set()
        for level in range(tree.depth - 1, -1, -1):
            here = [node for node in nodes - marked if tree.node_levels[node] == level]
            if not here or stops == run.cutoff or max(weights[here]) < run.threshold:
                continue
            stops += 1
            for node in here:
                if weights[node] >= run.count_threshold:
                    marked |= set(ancestors(tree, node)) & nodes
        found |= marked
    return frozenset(found)


@pytest.mark.parametrize("tree", [*SHAPES.values(), *(random_tree(40, seed) for seed in range(6))], ids=str)
@pytest.mark.parametrize("cutoff", [1, 2, 3, 10**15])
def test_without_noise_it_is_the_algorithm_by_hand(tree, cutoff):
    for seed in range(4):
        counts = spread_counts(tree, 1000, seed)
        for threshold, margin in ((1, 0), (300, 0), (300, 200), (5000, 0)):
            run = Classifier(threshold, cutoff, scale=0.0, count_scale=0.0, radius=0, margin=margin)
            children = np.flatnonzero(tree.parents == tree.root).tolist()
            assert above(tree, None, counts, run) == by_hand(tree, [tree.root], counts, run)
            if children:
                assert above(tree, children, counts, run) == by_hand(tree, children, counts, run)


@pytest.mark.parametrize(
    ("parents", "roots", "counts", "cutoff"),
    [
        ([-1, 0, 1], (0,), (2,), 1),
        ([-1, 0, 1], (0,), (2,), 2),
        ([-1, 0, 0, 1], (0,), (1, 2), 2),
        ([-1, 0, 0, 1, 2], (1, 2), (1, 2), 1),
    ],
)
def test_outcomes_follow_the_exact_law(parents, roots, counts, cutoff):
    """Chi-square against the enumerated law; a false alarm in 1e9 runs. A wrong cutoff or scale is rejected."""
    tree, runs = Tree.from_parents(parents), 20_000
    scale = 1 / math.log(2)  # so that exp(-1/scale) is 1/2, up to the last bit of a float
    run = Classifier(threshold=2, cutoff=cutoff, scale=scale, count_scale=scale, radius=1, margin=0)
    mechanism = Mechanism(Fraction(1, 2), 1, 1, 1, 2, run.count_threshold, cutoff)
    rows, times = np.unique(many(tree, roots, counts, run, runs), axis=0, return_counts=True)
    seen = {frozenset(np.flatnonzero(row).tolist()): int(n) for row, n in zip(rows, times, strict=True)}

    def p_value(law):
        # Leaves are listed in one order here and there, because parents come before children.
        masses = {}
        for (outcome, _), mass in law.items():
            masses[outcome] = masses.get(outcome, 0) + mass
        assert set(seen) <= set(masses)
        expected = [float(mass) * runs for mass in masses.values() if mass]
        return fit([seen.get(outcome, 0) for outcome, mass in masses.items() if mass], expected)

    assert p_value(forest_law(mechanism, tree, roots, counts)) > FALSE_ALARM
    wrong = Mechanism(Fraction(1, 4), 1, 1, 1, 2, run.count_threshold, cutoff)
    assert p_value(forest_law(wrong, tree, roots, counts)) < FALSE_ALARM


@NOT_GUARANTEED
@given(
    st.floats(0.001, 50),
    st.floats(1e-12, 0.4),
    st.floats(1, 1e6),
    st.floats(1, 30),
    st.floats(0.01, 0.99),
)
def test_map_is_at_most_what_was_asked_for_and_nearly_that(epsilon, delta, threshold, times, alpha):
    found = make_tree_classifier(
        *LEAVES, threshold=threshold, mass=threshold * times, alpha=alpha, epsilon=epsilon, delta=delta, eta=0.1
    )
    spent = found.map(1)
    assert 0.999 * epsilon < spent[0] <= epsilon
    assert 0 < spent[1] <= delta
    assert found.map(0) == (0.0, 0.0)
    further = found.map(2)
    assert further[0] == pytest.approx(2 * spent[0], rel=1e-12)
    # At distance 1 the promise is reported; beyond, what is lost, which is a little less than the promise allows.
    assert spent[1] == delta
    assert delta <= further[1] <= min(1, delta * (1 + math.exp(spent[0]))) * (1 + 1e-9)


def test_a_mass_below_the_threshold_draws_nothing_and_costs_nothing(monkeypatch):
    found = make_tree_classifier(*LEAVES, **{**USUAL, "mass": 2999})

    def refuse(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(noise, "laplace", refuse)
    monkeypatch.setattr(noise, "truncated_laplace", refuse)
    assert [found.map(k) for k in (0, 1, 1000)] == [(0.0, 0.0)] * 3
    classes = found(np.array([10**6, 0, 0, 0]))
    assert not classes.above.any()
    assert classes.transitions.size == 0


@pytest.mark.parametrize(
    ("options", "counts", "above", "transitions"),
    [
        # Node 1 has 4000 + 3500; neither leaf reaches 6000 by itself, and leaf 5 does.
        ({"mass": 12_000, "threshold": 6000}, [4000, 3500, 8000, 0], [0, 1, 2, 5], [1, 5]),
        ({"roots": [1, 6]}, [5000, 0, 5000, 5000], [1, 3, 6], [3, 6]),
        # Leaf counts below zero are taken as zero, so that nothing above is lighter than the noise reaches.
        ({"threshold": 2000, "epsilon": 1e6}, [2500, -2500, -9, 0], [0, 1, 3], [3]),
        ({"threshold": 2000, "epsilon": 1e6}, [2500, 0, 2500, -4000], [0, 1, 2, 3, 5], [3, 5]),
        ({"threshold": 2000, "epsilon": 1e6}, [1700, -1700, 1700, 0], [0], [0]),
    ],
)
def test_transitions_are_above_with_no_child_above(options, counts, above, transitions):
    made = make_tree_classifier(*LEAVES, **{**USUAL, **options})
    classes = made(np.array(counts))
    assert np.flatnonzero(classes.above).tolist() == above
    assert classes.transitions.tolist() == transitions
    if "roots" in options:  # a forest costs what a tree does
        assert made.map(1) == make_tree_classifier(*LEAVES, **USUAL).map(1)


def test_counts_at_the_limit_and_below_zero_do_not_wrap():
    """Noise may be as large as it likes; a comparison never wraps and never clamps both sides."""
    order = TREE.level_order
    counts = np.array([LIMIT, -LIMIT, -LIMIT, 0])
    run = Classifier(LIMIT, 1, scale=1.0, count_scale=1.0, radius=40, margin=100)
    weights = TREE.sum(counts)[order.nodes]
    runs = [classify(order, forest_below(order), weights, run) for _ in range(200)]
    assert {tuple(order.nodes[found].tolist()) for found in runs} <= {(), (0, 1, 3)}
    tops = sum(found.any() for found in runs)
    assert stats.binom.cdf(tops, 200, 0.5) > FALSE_ALARM  # at least half: the leaf is at the threshold


def test_the_comparison_is_exact_beyond_int64(monkeypatch):
    """Draws at the ends of int64, whose difference wraps."""
    order = Tree.from_parents([-1]).level_order
    end = 2**63 - 1
    run = Classifier(LIMIT, 1, scale=1.0, count_scale=1.0, radius=1, margin=0)
    for query, threshold, expected in ((end, -end, True), (-end, end, False), (end, end, False), (0, -end, True)):
        draws = iter([np.array([query]), np.array([threshold])])
        monkeypatch.setattr(noise, "laplace", lambda *_, draws=draws: next(draws))
        count = LIMIT if expected else -LIMIT
        assert classify(order, forest_below(order), np.array([count]), run).tolist() == [expected]


@pytest.mark.parametrize("name", SHAPES)
def test_found_above_never_means_light(name):
    """Truncation: whatever the noise, a node found above weighs at least the threshold minus the noise's reach."""
    tree = SHAPES[name]
    weights = tree.sum(spread_counts(tree, 2000, seed=3))
    run = Classifier(threshold=300, cutoff=5, scale=200.0, count_scale=20.0, radius=60, margin=100)
    for _ in range(100):
        found = above(tree, None, weights[tree.leaves], run)
        assert all(weights[node] >= run.threshold - run.error for node in found)
        assert all(set(ancestors(tree, node)) <= found for node in found)


def failures(tree, counts, wanted, run, runs):
    """In how many runs some node was found on the wrong side."""
    weights = tree.sum(counts)
    high = weights >= (1 + wanted.alpha) * wanted.threshold
    low = weights < (1 - wanted.alpha) * wanted.threshold
    found = many(tree, [tree.root], counts, run, runs)
    return int((found[:, low].any(axis=1) | ~found[:, high].all(axis=1)).sum())


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("times", "alpha"), [(1, 0.25), (2, 0.25), (4, 0.25), (4, 0.9)])
def test_all_nodes_are_classified_right_with_the_promised_probability(name, times, alpha):
    """At the smallest threshold that is guaranteed, for masses of one to four times it. False alarm: 1e-9."""
    tree, runs = SHAPES[name], 1000
    wanted = smallest_guaranteed(times, tree.depth, alpha)
    counts = heavy_counts(tree, wanted)
    wrong = failures(tree, counts, wanted, classifier(wanted, depth=tree.depth), runs)
    assert stats.binom.sf(wrong - 1, runs, float(wanted.eta)) > FALSE_ALARM


def test_the_accuracy_test_has_power():
    """Thirty times the noise at the same thresholds is found out."""
    tree, runs = SHAPES["complete"], 1000
    wanted = smallest_guaranteed(4, tree.depth)
    run = classifier(wanted, depth=tree.depth)
    loud = Classifier(run.threshold, run.cutoff, 30 * run.scale, run.count_scale, run.radius, run.margin)
    wrong = failures(tree, heavy_counts(tree, wanted), wanted, loud, runs)
    assert stats.binom.sf(wrong - 1, runs, float(wanted.eta)) < FALSE_ALARM


def smallest_guaranteed(times, depth, alpha=0.25):
    """A round at the smallest threshold whose noise reaches no further than alpha allows."""
    low, high = 1, 2**30
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _guaranteed(_round(middle, times, alpha), depth) else (middle, high)
    return _round(high, times, alpha)


def _round(threshold, times, alpha):
    return Round(*map(Fraction, (threshold * times, 0.2, alpha, threshold, 1.0, 1e-6)))


def _guaranteed(wanted, depth):
    return classifier(wanted, depth=depth).is_accurate(wanted)


def heavy_counts(tree, wanted):
    """Leaf counts that sum to the mass, unevenly, so that many nodes are near the edges of the guarantee."""
    shares = spread_counts(tree, 1000, seed=11) + 1
    counts = (shares * int(wanted.mass)) // int(shares.sum())
    edge = math.ceil((1 + wanted.alpha) * wanted.threshold)
    if counts.size > 1 and edge < wanted.mass:
        counts[0] = edge
        counts[1:] = (counts[1:] * (int(wanted.mass) - edge)) // max(1, int(counts[1:].sum()))
    return counts


@pytest.mark.parametrize("alpha", [0.25, 0.9, *slow([0.5, 0.6, 0.99])])
def test_the_papers_condition_is_enough_for_ours(alpha):
    """At the paper's threshold no warning is given, for epsilons up to 1 and masses up to a hundred times it."""
    cases = itertools.product((0.01, 0.1, 1.0), (1, 3.5, 100), (1, 20, 10**6), (1e-3, 1e-6, 1e-30))
    for epsilon, times, depth, delta in cases:
        threshold, before = Fraction(1), None
        while threshold != before:  # the mass grows with the threshold: a fixed point
            numbers = (threshold * Fraction(times), 0.1, alpha, threshold, epsilon, delta)
            wanted, before = Round(*map(Fraction, numbers)), threshold
            threshold = Fraction(math.ceil(classification_threshold(wanted, depth=depth)))
        assert _guaranteed(wanted, depth)


def extreme(monkeypatch, run, rng):
    """Noise at the ends of what the proof allows, or 0."""
    half = run.margin // 2
    monkeypatch.setattr(noise, "laplace", lambda _, size: rng.choice([-half, 0, half], size))
    monkeypatch.setattr(noise, "truncated_laplace", lambda _, radius, size: rng.choice([-radius, 0, radius], size))


@pytest.mark.parametrize(("alpha", "radius", "margin"), [(0.25, 10, 4), (0.9, 20, 48), (0.9, 1, 60), (0.95, 1, 92)])
def test_within_its_margin_no_noise_misclassifies(alpha, radius, margin, monkeypatch):
    """All that `is_accurate` lets through is right on random trees of the whole mass, with the worst of noise."""
    rng = np.random.default_rng(9)
    wrong = checked = 0
    for seed in range(300):
        tree, times = random_tree(30, seed), int(rng.integers(1, 6))
        wanted = Round(*map(Fraction, (100 * times, 0.1, alpha, 100, 1.0, 1e-6)))
        run = Classifier(100, classification_cutoff(wanted), 1.0, 1.0, radius, margin)
        counts = rng.multinomial(100 * times, rng.dirichlet(np.full(tree.leaf_count, 0.3)))
        extreme(monkeypatch, run, rng)
        if run.is_accurate(wanted):
            checked += 1
            wrong += failures(tree, counts, wanted, run, runs=20)
    assert checked > 50
    assert wrong == 0


def test_beyond_its_margin_noise_misclassifies(monkeypatch):
    """The test above has power: the same trees with noise of ten times the margin."""
    rng = np.random.default_rng(9)
    wanted = Round(*map(Fraction, (300, 0.1, 0.25, 100, 1.0, 1e-6)))
    run = Classifier(100, classification_cutoff(wanted), 1.0, 1.0, radius=10, margin=4)
    extreme(monkeypatch, Classifier(100, run.cutoff, 1.0, 1.0, radius=10, margin=40), rng)
    counts = [rng.multinomial(300, rng.dirichlet(np.full(random_tree(30, seed).leaf_count, 0.3))) for seed in range(50)]
    assert sum(failures(random_tree(30, seed), counts[seed], wanted, run, runs=20) for seed in range(50)) > 0


def test_a_threshold_that_is_too_low_warns_with_numbers():
    with pytest.warns(
        AccuracyWarning, match=r"not guaranteed \(privacy is\): .* by \d+, and alpha allows 50 at threshold 100"
    ):
        low = make_tree_classifier(*LEAVES, **{**USUAL, "threshold": 100, "mass": 150})
    assert low.map(1)[0] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_tree_classifier(*LEAVES, **USUAL)


@NOT_GUARANTEED
def test_deep_chains_and_large_trees_are_quick():
    chain = Tree.from_parents(np.arange(100_000) - 1)
    found = make_tree_classifier(leaf_domain(chain), L1, **USUAL)(np.array([5000]))
    assert found.transitions.tolist() == [99_999]
    wide = Tree.balanced(branching=10, depth=6)
    counts = np.zeros(wide.leaf_count, dtype=np.int64)
    counts[77] = 5000
    classes = make_tree_classifier(leaf_domain(wide), L1, **USUAL)(counts)
    assert classes.transitions.tolist() == [int(wide.leaves[77])]


def test_answers_that_run_out_leave_a_heavy_node_and_a_warning(monkeypatch):
    """A leaf of 10 on each of twelve levels uses up all answers, with noise of half the margin; one of 480 is left."""
    wanted = Round(*map(Fraction, (600, 0.1, 0.95, 100, 1.0, 1e-6)))
    run = Classifier(100, classification_cutoff(wanted), 1.0, 1.0, radius=0, margin=90)
    spine = [-1, *range(12)]
    tree = Tree.from_parents([*spine, *range(1, 13), 0])
    counts = np.array([10] * 12 + [480])
    draws = itertools.cycle([45, -45])  # on the queries, on the threshold
    monkeypatch.setattr(noise, "laplace", lambda _, size: np.full(size, next(draws)))
    heavy = tree.node_count - 1
    assert run.cutoff == 12
    assert heavy not in above(tree, None, counts, run)
    assert run.error <= wanted.slack
    assert not run.is_accurate(wanted)
    assert 'after 12 answers "above" a node of 480' in shortfall(wanted, run, depth=tree.depth)
    enough = Classifier(100, 45, 1.0, 1.0, radius=0, margin=90)
    assert enough.is_accurate(wanted)
    assert heavy in above(tree, None, counts, enough)
