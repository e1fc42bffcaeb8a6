"""Exact: every outcome of classifying small trees, over all neighbours, compared without tolerance."""

from dataclasses import replace
from fractions import Fraction

import pytest

from opendp_tree import Tree
from opendp_tree.theorems.paper import classification_delta, classification_epsilon
from tests.privacy.classification_law import Mechanism, forest_law
from tests.privacy.divergence import hockey_stick, one_more, worst
from tests.privacy.sparse_vector_law import Mechanism as SparseVectorLaw
from tests.privacy.sparse_vector_law import probability
from tests.privacy.test_tree_sum import all_trees

BASE = Fraction(1, 2)
RIGHT = Mechanism(
    BASE, inverse_scale=1, inverse_count_scale=1, radius=1, threshold=1, count_threshold=1, cutoff=1, shows_counts=False
)
SMALL = [tree for nodes in range(1, 6) for tree in all_trees(nodes)]
TWO_BRANCHES = Tree.from_parents([-1, 0, 0, 1, 2])
CHAIN = Tree.from_parents([-1, 0, 1, 2])


def claim(mechanism, cutoff=None):
    """The theorem's e**epsilon and delta, exactly; the cutoff may be a fraction, for the mutant."""
    cutoff = mechanism.cutoff if cutoff is None else cutoff
    scale = Fraction(1, mechanism.inverse_scale)
    epsilon = classification_epsilon(
        scale=scale, query_scale=scale, count_scale=Fraction(1, mechanism.inverse_count_scale), cutoff=cutoff
    )
    assert epsilon.denominator == 1
    delta = classification_delta(mechanism.count_ratio, radius=mechanism.radius, cutoff=cutoff)
    return 1 / mechanism.base ** int(epsilon), delta


def worst_of(mechanism, tree, *, ratio, roots=(0,), reach=range(2)):
    """The largest divergence over all small leaf counts and their neighbours."""
    return worst(lambda x: forest_law(mechanism, tree, roots, x), one_more(reach, tree.leaf_count), ratio)


@pytest.mark.parametrize("shows_counts", [False, True])
@pytest.mark.parametrize("cutoff", [1, 2])
@pytest.mark.parametrize("thresholds", [(1, 1), (2, 0), (0, 2), (1, 3)])
def test_no_outcome_is_likelier_than_the_map_allows(thresholds, cutoff, shows_counts):
    """All trees of up to five nodes; also if the noisy counts of the stops were released, as the proof has it."""
    threshold, count_threshold = thresholds
    mechanism = replace(
        RIGHT, threshold=threshold, count_threshold=count_threshold, cutoff=cutoff, shows_counts=shows_counts
    )
    ratio, delta = claim(mechanism)
    for tree in SMALL:
        if shows_counts and tree.node_count == 5:
            continue
        reach = range(3 if tree.leaf_count < 3 and tree.node_count < 5 else 2)
        assert worst_of(mechanism, tree, reach=reach, ratio=ratio) <= delta


@pytest.mark.parametrize(("inverse_scale", "inverse_count_scale", "radius"), [(1, 2, 2), (2, 1, 1), (1, 1, 3)])
def test_other_scales_and_radii(inverse_scale, inverse_count_scale, radius):
    mechanism = replace(
        RIGHT, inverse_scale=inverse_scale, inverse_count_scale=inverse_count_scale, radius=radius, cutoff=2
    )
    ratio, delta = claim(mechanism)
    for tree in (CHAIN, TWO_BRANCHES, Tree.from_parents([-1, 0, 0, 1, 1])):
        assert worst_of(mechanism, tree, ratio=ratio) <= delta


def test_a_forest_costs_what_a_tree_does():
    mechanism = replace(RIGHT, threshold=0, count_threshold=2)
    ratio, delta = claim(mechanism)
    reach = range(3)
    assert worst_of(mechanism, TWO_BRANCHES, roots=(1, 2), ratio=ratio, reach=reach) <= delta
    assert worst_of(mechanism, Tree.from_parents([-1, 0, 0, 1, 1]), roots=(2, 3, 4), ratio=ratio, reach=reach) <= delta


@pytest.mark.parametrize("thresholds", [(1, 1), (3, 2), (2, 4)])
def test_wide_stars_of_heavy_leaves(thresholds):
    """Many equal siblings near the threshold, one of which gains a person, or which the root counts together."""
    threshold, count_threshold = thresholds
    star = Tree.from_parents([-1, *[0] * 6])
    for cutoff in (1, 2):
        mechanism = replace(RIGHT, threshold=threshold, count_threshold=count_threshold, cutoff=cutoff)
        ratio, delta = claim(mechanism)
        for heavy in range(threshold - 1, threshold + 3):
            here, there = (forest_law(mechanism, star, (0,), (one, *[heavy] * 5)) for one in (heavy, heavy + 1))
            assert hockey_stick(here, there, ratio) <= delta
            assert hockey_stick(there, here, ratio) <= delta


def test_delta_is_nearly_reached():
    """A threshold so low that the sparse vector stops at once, and a count that only one neighbour can show."""
    mechanism = replace(RIGHT, threshold=-20, count_threshold=2)
    ratio, delta = claim(mechanism)
    found = worst_of(mechanism, Tree.from_parents([-1]), ratio=ratio)
    assert Fraction(99, 100) * delta < found <= delta


def test_epsilon_is_nearly_reached():
    """Levels that stay below while one person is in all of them, then one that is found above."""
    mechanism = replace(RIGHT, threshold=3, count_threshold=-9)
    chain = Tree.from_parents([-1, 0, 1, 2, 3, 4, 0])
    stops = 1 / BASE**2  # the noisy count passes surely, so only the sparse vector's two shifts can show
    here, there = (forest_law(mechanism, chain, (0,), (deep, 0)) for deep in (2, 3))
    found = max(mass / here[outcome] for outcome, mass in there.items() if here[outcome])
    assert Fraction(1, 4) * stops < found <= stops


# Mutants: each is a plausible mistake, and the exact comparison above must reject it.

LOW = replace(RIGHT, threshold=-20, count_threshold=2)
"""Every level stops, and at leaf counts 0 and 1 a node is found above by the largest noise or not at all."""


PRINTED = replace(LOW, inverse_scale=2, inverse_count_scale=2, cutoff=2)
TWO_STOPS = replace(LOW, cutoff=2)
EVERYWHERE = replace(LOW, counts_everywhere=True)
UPPER_AND_LOWER = Tree.from_parents([-1, 0])
SHOWN = replace(TWO_STOPS, inverse_count_scale=6, radius=2, shows_counts=True)
"""Two stops that show their counts, whose noise is so small that they cost more than all answers."""


@pytest.mark.parametrize("tree", [CHAIN, UPPER_AND_LOWER])
@pytest.mark.parametrize("right", [LOW, TWO_STOPS, SHOWN, replace(PRINTED, cutoff=1)])
def test_the_right_mechanism_is_not_rejected(right, tree):
    ratio, delta = claim(right)
    assert worst_of(right, tree, ratio=ratio) <= delta


@pytest.mark.parametrize(
    ("mutant", "claimed", "tree", "roots"),
    [
        # The printed cutoff M/((1 - alpha) * tau) = 3/2, under which two stops happen on noise scaled for 3/2.
        pytest.param(PRINTED, claim(PRINTED, cutoff=Fraction(3, 2)), CHAIN, (0,), id="a real-valued cutoff"),
        pytest.param(replace(LOW, halts=False), claim(LOW), CHAIN, (0,), id="tests repeated after the cutoff"),
        pytest.param(EVERYWHERE, claim(LOW), CHAIN, (0,), id="truncated Laplace noise on all levels"),
        pytest.param(LOW, claim(LOW), CHAIN, (0, 1), id="a tree and a subtree of it taken for disjoint"),
        # Trees that share no node still overlap if one hangs below the other: both count the same leaf.
        pytest.param(EVERYWHERE, claim(LOW), UPPER_AND_LOWER, (0,), id="a forest cut above its leaves"),
        pytest.param(TWO_STOPS, claim(LOW), CHAIN, (0,), id="noise not scaled by the cutoff"),
        pytest.param(TWO_STOPS, (claim(TWO_STOPS)[0], claim(LOW)[1]), CHAIN, (0,), id="the delta of one stop"),
        pytest.param(
            SHOWN, (claim(SHOWN)[0] * BASE**6, claim(SHOWN)[1]), UPPER_AND_LOWER, (0,), id="counts of one stop paid"
        ),
    ],
)
def test_mutants_are_rejected(mutant, claimed, tree, roots):
    ratio, delta = claimed
    assert worst_of(mutant, tree, roots=roots, ratio=ratio) > delta


def test_mutant_one_threshold_draw_for_the_forest_is_rejected():
    """Seven trees found above pin a shared threshold's noise; then every level of an eighth that stays below leaks."""
    shared = SparseVectorLaw(BASE, BASE, cutoff=7, refreshed=False)
    answers = (False,) * 8 + (True,) * 7
    here, there = (3,) * 8 + (-3,) * 7, (4,) * 8 + (-3,) * 7
    found = probability(shared, here, answers) / probability(shared, there, answers)
    ratio, _ = claim(RIGHT)
    assert found > ratio
