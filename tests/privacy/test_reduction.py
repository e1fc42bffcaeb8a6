"""Exact: two rounds of classification on small trees, the second on what the first left, after a count of the root."""

from dataclasses import replace
from fractions import Fraction

import pytest

from opendp_tree import Tree
from opendp_tree.theorems.tails import truncated_laplace_delta
from tests.privacy.classification_law import Mechanism, forest_law, tree_weights
from tests.privacy.divergence import laplace, one_more, worst
from tests.privacy.test_classification import BASE, claim
from tests.privacy.test_tree_sum import all_trees

ROUND = Mechanism(BASE, inverse_scale=1, inverse_count_scale=1, radius=1, threshold=1, count_threshold=1, cutoff=1)
LOW = replace(ROUND, threshold=-20, count_threshold=2)
ROOT_RADIUS = 2
SMALL = [tree for nodes in range(1, 5) for tree in all_trees(nodes)]


def ladder_law(rounds, tree, leaf_counts, *, overlapping=False):
    """The law of what each round, from the first to the last, finds above."""
    law = {(): (Fraction(1), frozenset())}
    for mechanism in rounds:
        following = {}
        for history, (chance, above) in law.items():
            left = set(range(tree.node_count)) - above
            roots = [node for node in sorted(left) if int(tree.parents[node]) not in left]
            if overlapping:  # the mutant: the trees of all nodes that are left, whether nested or not
                roots = sorted(left)
            if not roots:
                following[history, frozenset()] = chance, above
                continue
            for (found, _), mass in forest_law(mechanism, tree, roots, leaf_counts).items():
                old = following.get((history, found), (Fraction(0), None))[0]
                following[history, found] = old + chance * mass, above | found
        law = following
    return {history: chance for history, (chance, _) in law.items()}


def counted_law(rounds, tree, leaf_counts):
    """As above, but first the root's count is released, and a low one runs the last round alone."""
    root = tree_weights(tree, leaf_counts)[tree.root]
    total = {}
    for z, chance in laplace(BASE, ROOT_RADIUS).items():
        shown = root + z
        for history, mass in ladder_law(rounds if shown > 1 else rounds[-1:], tree, leaf_counts).items():
            total[shown, history] = chance * mass
    return total


CHOICES = [(ROUND, ROUND), (replace(ROUND, threshold=2), ROUND), (LOW, LOW), (replace(ROUND, count_threshold=3), LOW)]


def worst_of(law, rounds, tree, ratio, **options):
    return worst(lambda x: law(rounds, tree, x, **options), one_more(range(2), tree.leaf_count), ratio)


@pytest.mark.parametrize("rounds", CHOICES)
def test_rounds_add_up(rounds):
    """The rounds that are run may depend on a count of the root, which adds its own; the longest ladder is paid."""
    (first, lost), (second, more) = map(claim, rounds)
    root = truncated_laplace_delta(BASE, radius=ROOT_RADIUS, d_in=1)
    for tree in SMALL:
        assert worst_of(ladder_law, rounds, tree, first * second) <= lost + more
        assert worst_of(counted_law, rounds, tree, first * second / BASE) <= lost + more + root


CHAIN = Tree.from_parents([-1, 0, 1])


def test_mutant_rounds_on_overlapping_trees_are_rejected():
    ratio, delta = claim(LOW)
    assert worst_of(ladder_law, (LOW, LOW), CHAIN, ratio**2) <= 2 * delta
    assert worst_of(ladder_law, (LOW, LOW), CHAIN, ratio**2, overlapping=True) > 2 * delta


def test_mutant_one_round_paid_for_two_is_rejected():
    ratio, delta = claim(LOW)
    assert worst_of(ladder_law, (LOW, LOW), CHAIN, ratio) > delta


def test_mutant_root_count_for_free_is_rejected():
    quiet = replace(LOW, radius=3, count_threshold=4)
    ratio, delta = claim(quiet)
    assert worst_of(counted_law, (quiet, quiet), Tree.from_parents([-1]), ratio**2) > 2 * delta
