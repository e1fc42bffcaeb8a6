"""Exact: each mutant changes one rule or one part of the claim, and must exceed what is claimed."""

from fractions import Fraction

import pytest

from opendp_tree.theorems.group_privacy import group_delta
from tests.privacy.partition_claim import (
    claim,
    divergence,
    meeting_delta,
    path_divergence,
    path_mechanism,
    tree_divergence,
    tree_mechanism,
)
from tests.privacy.partition_law import Bush, mechanism_law

Q = Fraction(1, 20)
CHAIN = [-1, 0, 1]


def excess(parents, counts, node, numbers, **rules):
    """The divergence of a mutant in units of the delta claimed for the right mechanism, which must keep it."""
    right, mutant = tree_mechanism(parents, Q, *numbers), tree_mechanism(parents, Q, *numbers, **rules)
    ratio, delta = claim(right)
    assert tree_divergence(right, parents, counts, node, ratio) <= delta
    return tree_divergence(mutant, parents, counts, node, ratio) / delta


@pytest.mark.parametrize(("leaves", "least"), [(10, 4), (100, 40), (400, 170)])
def test_mutant_tokens_truncated_to_the_radius_is_rejected(leaves, least):
    """Nothing on small trees shows it: the loss grows with the number of heavy siblings."""
    threshold, radius, margin = 7, 3, 0
    path = (Bush(0, ((leaves, Bush(threshold + radius - 1)),)),)
    mutant = path_mechanism(path, Q, threshold, radius, margin, token_limit=radius)
    ratio, delta = claim(mutant)
    assert path_divergence(mutant, path, ratio) > least * delta
    right = path_mechanism(path, Q, threshold, radius, margin)
    assert path_divergence(right, path, ratio) <= delta


def test_mutant_nodes_below_the_carrier_level_never_cells_is_rejected():
    assert excess([-1], [3], 0, (5, 3, 1), light_tested=False) > 100


def test_mutant_map_without_the_margin_term_is_rejected():
    """Nodes in a row that stay below with their own tokens, or with one shared token, and then a cell."""
    path = Bush(5), *[Bush()] * 7, Bush(1)
    mechanism = path_mechanism(path, Q, 7, 4, 0)
    ratio, delta = claim(mechanism)
    assert path_divergence(mechanism, path, ratio) <= delta
    assert path_divergence(mechanism, path, 1 / Q) > 1000 * delta


def test_mutant_delta_without_meeting_carriers_is_rejected():
    """The threshold at its least; a carrier beside a path that reaches the carrier level in one input only."""
    path = Bush(2), Bush(0, ((1, Bush(3)),))
    mechanism = path_mechanism(path, Q, 5, 4, 2)
    ratio, delta = claim(mechanism)
    found = path_divergence(mechanism, path, ratio)
    assert 1000 * (delta - meeting_delta(mechanism)) < found <= delta


def test_mutant_token_that_starts_late_is_rejected():
    """The chain's first node keeps its token to itself: its answer and the rest of the chain's are paid twice."""
    assert excess(CHAIN, [0, 0, 3], 2, (4, 3, 0), late_token=True) > 1000


def test_mutant_one_token_for_the_whole_tree_is_rejected():
    assert excess([-1, 0], [3, 4], 0, (4, 3, 0), one_token=True) > 1000


def test_mutant_fresh_token_at_every_node_is_rejected():
    assert excess(CHAIN, [0, 0, 3], 2, (4, 3, 0), fresh_tokens=True) > 1000


def test_mutant_cell_that_passes_its_residual_up_is_rejected():
    assert excess([-1, 0], [0, 3], 1, (4, 3, 0), tops_pass=True) > 1000


def test_mutant_one_noise_along_a_chain_is_rejected():
    assert excess([-1, 0], [0, 4], 0, (5, 3, 1), one_noise=True) > 1000


def test_mutant_two_carriers_tested_with_one_token_is_rejected():
    """A test in place of the rule does not save kappa, which is what it seems to buy: that delta is exceeded.

    The one surviving leaf's token tests the root; with the extra person the path's own, younger token does. With
    kappa the claim holds for this variant too: where carriers meet, "no cell" has chance kappa at most.
    """
    parents, counts, node = [-1, 0, *[0] * 8], [0, 5, *[7] * 8], 1
    mutant = tree_mechanism(parents, Q, 7, 6, 1, forced=False)
    ratio, delta = claim(mutant)
    found = tree_divergence(mutant, parents, counts, node, ratio)
    assert 2 * (delta - meeting_delta(mutant)) < found <= delta


@pytest.mark.parametrize("distance", [2, 3])
def test_mutant_delta_without_the_group_size_is_rejected(distance):
    mechanism = tree_mechanism([-1], Q, 17, 4, 4)
    ratio, delta = claim(mechanism)
    here, there = (mechanism_law(mechanism, [-1], [people]) for people in (12, 12 + distance))
    found = divergence(here, there, ratio**distance)
    assert distance * delta < found <= group_delta(delta, ratio=ratio, k=distance)
