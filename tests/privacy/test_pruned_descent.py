"""Exact: all outcomes of the descent on small trees, in rational numbers, with Laplace noise of rational ratio.

Noisy counts above all true counts are one outcome: there the likelihood ratio is always the same, so nothing is lost.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain
from opendp_tree.mechanisms import make_pruned_descent
from opendp_tree.theorems.tails import laplace_tail, pruned_deltas
from tests.privacy.divergence import hockey_stick

HIDDEN = None
TREES = {
    "root": Tree.from_parents([-1]),
    "chain": Tree.from_parents([-1, 0, 1]),
    "fork": Tree.from_parents([-1, 0, 0]),
    "star": Tree.from_parents([-1, 0, 0, 0]),
    "fork on a stem": Tree.from_parents([-1, 0, 1, 1]),
}
RATIOS = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]


def pruned_laplace_ratio(q, one):
    """One level's e**epsilon at distance 1 is the larger: a shift of the noise, or a node that is new and hidden."""
    return 1 / q, 1 / (1 - one)


def mass(q, z):
    return q ** abs(z) * (1 - q) / (1 + q)


def node_law(q, count, threshold, top):
    """The law of one considered node's answer."""
    law = {HIDDEN: 1 - laplace_tail(q, threshold - count)}
    for value in range(threshold, top):
        law[value] = mass(q, value - count)
    law[top] = laplace_tail(q, max(threshold, top) - count)
    return law


def by_level(value, level):
    """A level's own value, where there is one for each."""
    return value[level] if isinstance(value, tuple) else value


def outcome_law(tree, counts, q, threshold, top, *, orphans=False, there=None):
    """The law of all answers, as tuples of (node, value) for the shown nodes.

    Values from `top` on are one. `orphans` is the mutant that also considers children of nodes that were not shown;
    `there` overrides which nodes are.
    """
    there = [count > 0 for count in counts] if there is None else there
    children = [np.flatnonzero(tree.parents == node).tolist() for node in range(tree.node_count)]

    def below(node):
        """The law of the answers at and below a node that is considered."""
        if not there[node]:
            return {(): Fraction(1)}
        shown_part = all_below(node)
        law = {}
        level = int(tree.node_levels[node])
        for value, p in node_law(by_level(q, level), int(counts[node]), by_level(threshold, level), top).items():
            rest = {(): Fraction(1)} if value is HIDDEN and not orphans else shown_part
            for answers, r in rest.items():
                key = answers if value is HIDDEN else ((node, value), *answers)
                law[key] = law.get(key, 0) + p * r
        return law

    def all_below(node):
        law = {(): Fraction(1)}
        for child in children[node]:
            law = {a + b: p * r for (a, p), (b, r) in product(law.items(), below(child).items())}
        return law

    return below(tree.root)


def neighbours(leaves, k, largest=3):
    """Pairs of small leaf counts at L1 distance exactly k."""
    every = list(product(range(largest + 1), repeat=leaves))
    return [(a, b) for a in every for b in every if sum(abs(x - y) for x, y in zip(a, b, strict=True)) == k]


def claimed(tree, q, threshold, k):
    one = laplace_tail(q, threshold - 1)
    ratio = max(pruned_laplace_ratio(q, one)) ** (k * tree.depth)
    return ratio, max(pruned_deltas(one, laplace_tail(q, threshold - k), k))


def worst(tree, q, threshold, k, ratio, pairs=None, top=None, **mutation):
    """The largest divergence. A `top` at the threshold looks at which nodes are shown alone: a lower bound."""
    found = Fraction(0)
    for a, b in pairs or neighbours(tree.leaf_count, k, largest=1 if tree.leaf_count > 2 else 2):
        counts = [tree.sum(np.array(x)) for x in (a, b)]
        common = max(threshold, *(int(count.max()) for count in counts)) if top is None else top
        laws = [outcome_law(tree, count, q, threshold, common, **mutation) for count in counts]
        found = max(found, hockey_stick(*laws, ratio))
    return found


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("threshold", [1, 2, 4])
def test_the_claim_holds_on_small_trees(name, q, threshold):
    tree = TREES[name]
    for k in (1, 2):
        ratio, delta = claimed(tree, q, threshold, k)
        assert worst(tree, q, threshold, k, ratio) <= delta


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("threshold", [2, 5])
def test_delta_is_reached_by_one_new_node(q, threshold):
    """One node alone: k units appear at once. For large q, k separate nodes are worse, so only t(k) is compared."""
    for k in (1, 2, 3):
        ratio, _ = claimed(TREES["root"], q, threshold, k)
        assert worst(TREES["root"], q, threshold, k, ratio, pairs=[((k,), (0,))]) == laplace_tail(q, threshold - k)


@pytest.mark.parametrize("q", [Fraction(3, 4), Fraction(7, 8)])
def test_delta_is_nearly_reached_by_many_new_nodes(q):
    """A star with a heavy leaf, so that its root is almost surely shown, and k new leaves of one unit each."""
    tree, threshold, k = TREES["star"], 6, 2
    ratio, delta = claimed(tree, q, threshold, k)
    assert delta > laplace_tail(q, threshold - k), "separate nodes are the worst case here"
    found = worst(tree, q, threshold, k, ratio, pairs=[((99, 1, 1), (99, 0, 0))], top=threshold)
    assert Fraction(99, 100) * delta < found <= delta


@pytest.mark.parametrize("q", RATIOS)
def test_a_new_path_pays_once(q):
    """A whole path that is new costs no more than its first node."""
    tree, threshold = TREES["chain"], 4
    ratio, delta = claimed(tree, q, threshold, 1)
    assert worst(tree, q, threshold, 1, ratio, pairs=[((1,), (0,))]) == delta


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("q", RATIOS)
def test_the_mixture_behind_approximate_zcdp(name, q):
    """The law is at least 1 - delta times that of the descent over nodes that are there in both inputs."""
    tree, threshold = TREES[name], 3
    for k in (1, 2):
        _, delta = claimed(tree, q, threshold, k)
        for a, b in neighbours(tree.leaf_count, k, largest=1 if tree.leaf_count > 2 else 2):
            here, there = tree.sum(np.array(a)), tree.sum(np.array(b))
            both = [x > 0 and y > 0 for x, y in zip(here, there, strict=True)]
            law = outcome_law(tree, here, q, threshold, threshold + 2)
            common = outcome_law(tree, here, q, threshold, threshold + 2, there=both)
            assert all(law.get(outcome, 0) >= (1 - delta) * p for outcome, p in common.items())


def test_negative_counts_are_taken_as_0():
    """So inputs that are k apart stay at most k apart, and the laws above are those of all inputs."""
    descent = make_pruned_descent(leaf_domain(TREES["fork"]), dp.l1_distance(T="i64"), 0.0, threshold=1)
    assert descent(np.array([-5, 10])).estimates.tolist() == [10, 0, 10]


@pytest.mark.parametrize("name", ["chain", "fork", "fork on a stem"])
@pytest.mark.parametrize("thresholds", [(1, 4, 2), (4, 2, 3), (2, 2, 5)])
def test_levels_may_differ_in_noise_and_threshold(name, thresholds):
    tree = TREES[name]
    ratios = (Fraction(1, 2), Fraction(3, 4), Fraction(1, 4))
    for k in (1, 2):
        claims = [claimed(TREES["root"], q, t, k) for q, t in zip(ratios[: tree.depth], thresholds, strict=False)]
        ratio, delta = math.prod(claim[0] for claim in claims), max(claim[1] for claim in claims)
        for a, b in neighbours(tree.leaf_count, k, largest=2):
            laws = [outcome_law(tree, tree.sum(np.array(x)), ratios, thresholds, 6) for x in (a, b)]
            assert hockey_stick(*laws, ratio) <= delta


# Mutants: each is a plausible mistake, and the exact comparison above must reject it.


def test_mutant_tail_at_the_threshold_is_rejected():
    """P(noise >= T), as if an empty node got noise: a new node has a count of 1 already."""
    q, threshold = Fraction(1, 2), 4
    ratio, _ = claimed(TREES["root"], q, threshold, 1)
    assert worst(TREES["root"], q, threshold, 1, ratio) > laplace_tail(q, threshold)


def test_mutant_strict_threshold_is_rejected():
    """Delta computed for "above T", shown from T on."""
    q, threshold = Fraction(1, 2), 4
    ratio, delta = claimed(TREES["root"], q, threshold + 1, 1)
    assert worst(TREES["root"], q, threshold, 1, ratio) > delta


def test_mutant_group_at_one_node_only_is_rejected():
    q, threshold, k = Fraction(7, 8), 6, 2
    ratio, _ = claimed(TREES["star"], q, threshold, k)
    found = worst(TREES["star"], q, threshold, k, ratio, pairs=[((99, 1, 1), (99, 0, 0))], top=threshold)
    assert found > laplace_tail(q, threshold - k)


def test_mutant_group_at_separate_nodes_only_is_rejected():
    q, threshold, k = Fraction(1, 4), 6, 3
    ratio, _ = claimed(TREES["root"], q, threshold, k)
    found = worst(TREES["root"], q, threshold, k, ratio, pairs=[((k,), (0,))])
    assert found > 1 - (1 - laplace_tail(q, threshold - 1)) ** k


def test_mutant_descent_through_hidden_nodes_is_rejected():
    """Children of nodes that were not shown are considered too: every new node of the path leaks."""
    q, threshold = Fraction(1, 2), 4
    ratio, delta = claimed(TREES["chain"], q, threshold, 1)
    assert worst(TREES["chain"], q, threshold, 1, ratio, pairs=[((1,), (0,))], orphans=True) > delta


def test_mutant_low_threshold_at_the_price_of_a_shift_is_rejected():
    """At T = 1 an empty node is never shown, but one of count 1 often is: hiding it costs more than a shift."""
    q, threshold = Fraction(3, 4), 1
    tree = TREES["root"]
    one = laplace_tail(q, threshold - 1)
    assert 1 / (1 - one) > 1 / q
    assert worst(tree, q, threshold, 1, 1 / q, pairs=[((0,), (1,))]) > 0
    assert worst(tree, q, threshold, 1, max(pruned_laplace_ratio(q, one)), pairs=[((0,), (1,))]) == 0


def test_mutant_one_level_paid_for_a_whole_path_is_rejected():
    q, threshold = Fraction(1, 2), 3
    tree = TREES["chain"]
    assert worst(tree, q, threshold, 1, 1 / q, pairs=[((6,), (7,)), ((7,), (6,))]) > laplace_tail(q, threshold - 1)
