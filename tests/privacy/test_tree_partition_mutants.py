"""Exact: each mutant changes one rule or one part of the claim, and must exceed what is claimed."""

from fractions import Fraction

import pytest

from opendp_tree.theorems.tree_partition import GapShape, gap_delta
from tests.privacy.divergence import hockey_stick
from tests.privacy.tree_partition_claim import Claim, neighbours, plus, tree_laws
from tests.privacy.tree_partition_law import Mechanism, Rules, far_from, star_law, uniform

Q = Fraction(1, 20)
CHAIN = [-1, 0, 1]


def excess(mechanism, laws):
    """The divergence of a mutant in units of the delta claimed for the right mechanism."""
    claim, (here, there) = Claim(mechanism, checked=False), laws
    found = max(hockey_stick(here, there, claim.ratio), hockey_stick(there, here, claim.ratio))
    return found / claim.delta


def path_excess(path, numbers, **rules):
    """As `excess`, for one person more at the lowest node of a path; the right mechanism must keep the claim."""
    right, mutant = (uniform(Q, Q, len(path), *numbers, **changed) for changed in ({}, rules))
    assert Claim(right).holds(*neighbours(right, path))
    return excess(mutant, neighbours(mutant, path))


def tree_excess(parents, own, node, levels, **rules):
    """As `path_excess`, for one person more at a node of a tree."""
    right, mutant = Mechanism(Q, Q, levels), Mechanism(Q, Q, levels, Rules(**rules))
    inputs = own, plus(own, node)
    assert Claim(right).holds(*tree_laws(right, parents, *inputs))
    return excess(mutant, tree_laws(mutant, parents, *inputs))


@pytest.mark.parametrize("rules", [{"token_limit": 3}, {"token_cap": 3}])
def test_mutant_tokens_that_end_are_rejected(rules):
    """A crowd whose largest token is drawn: one person more, and that gap cannot come out."""
    assert path_excess(((12, 0, 0),), (5, 4, 1), **rules) > 19


@pytest.mark.parametrize("rules", [{"token_limit": 3}, {"token_cap": 3}])
def test_mutant_tokens_that_end_are_rejected_over_a_wide_star(rules):
    numbers, leaves, heavy = (5, 4, 1), 8, 4
    right, mutant = (uniform(Q, Q, 2, *numbers, **changed) for changed in ({}, rules))
    far = far_from(mutant, leaves * heavy + 1)
    for mechanism in (right, mutant):
        laws = [star_law(mechanism, leaves, heavy, own, far) for own in (0, 1)]
        if mechanism is right:
            assert Claim(right).holds(*laws)
        else:
            assert excess(mutant, laws) > 5


def test_mutant_no_token_is_rejected():
    assert path_excess(((12, 0, 0),), (5, 4, 1), token=False) > 10**5


def test_mutant_exact_counts_passed_up_is_rejected():
    """The person is paid for at the first large node, and again at each one above."""
    assert path_excess(((4, 0, 0), (3, 1, 1), (3, 0, 0)), (5, 4, 1), passes_x=True) > 10**4


def test_mutant_exact_blurred_count_released_is_rejected():
    assert path_excess(((12, 0, 0),), (5, 4, 1), exact_gap=True) > 10**5


def test_mutant_cell_that_passes_its_count_up_is_rejected():
    assert tree_excess([-1, 0, 0], [1, 3, 4], 2, ((5, 4, 1),) * 2, cells_pass=True) > 10**4


def test_mutant_one_noise_along_a_chain_is_rejected():
    """In one input the noise of the child decides at the root too, in the other the root draws its own."""
    assert tree_excess(CHAIN, [0, 1, 2], 0, ((4, 3, 2),) * 3, one_noise=True) > 1000


def test_mutant_tests_skipped_where_nobody_arrived_is_rejected():
    assert tree_excess(CHAIN, [0, 1, 2], 0, ((4, 3, 2),) * 3, skips_idle=True) > 1000


def test_mutant_without_the_floor_below_the_blur_level_is_rejected():
    path = (0, 2, 1), (0, 2, 2), (10, 2, 1)
    assert path_excess(path, (4, 3, 0), floor=False) > 5


@pytest.mark.parametrize(
    ("levels", "path", "least"),
    [
        (((4, 3, 1), (6, 3, 1)), ((3, 0, 0), (0, 0, 0)), 1000),
        (((4, 3, 2), (4, 3, 2), (4, 3, 0)), ((0, 2, 2), (0, 0, 0), (1, 0, 0)), 100),
    ],
)
def test_mutant_blur_level_that_falls_towards_the_root_is_rejected(levels, path, least):
    """An exact count from below may then exceed what is blurred above, and hold the blurred count up in one input."""
    mutant = Mechanism(Q, Q, levels)
    assert excess(mutant, neighbours(mutant, path)) > least
    with pytest.raises(ValueError, match="must not fall towards the root"):
        Claim(mutant)


def test_mutant_delta_of_one_level_less_is_rejected():
    depth, numbers = 4, (4, 3, 1)
    mechanism = uniform(Q, Q, depth, *numbers)
    fewer, more = neighbours(mechanism, ((0, 0, 0),) * depth)
    claim = Claim(mechanism)
    less = gap_delta(Q, GapShape.uniform(depth - 1, threshold=4, radius=3, margin=1))
    assert less < hockey_stick(more, fewer, claim.ratio) == claim.delta


@pytest.mark.parametrize("numbers", [(2, 3, 0), (3, 4, 1), (3, None, 1)])
def test_mutant_empty_nodes_left_out_though_noise_may_show_them_is_rejected(numbers):
    path = (0, 0, 0), (0, 2, 1)
    right, mutant = (uniform(Q, Q, 2, *numbers, **changed) for changed in ({}, {"skips_empty": True}))
    assert Claim(right).holds(*neighbours(right, path))
    assert not Claim(mutant).holds_mixed(*neighbours(mutant, path))
    with pytest.raises(ValueError, match=r"radius \(.*\)"):
        GapShape.uniform(2, threshold=numbers[0], radius=numbers[1], margin=numbers[2])


def test_mutant_untested_level_that_counts_as_a_child_is_rejected():
    """What an untested node hands up must not hold up the blurred count above it: it was never blurred."""
    levels = (4, 3, 1), None, (4, 3, 1)
    assert tree_excess(CHAIN, [0, 10, 0], 1, levels, untested_is_child=True) > 1000


@pytest.mark.parametrize("k", [2, 3])
def test_mutant_delta_without_the_group_size_is_rejected(k):
    mechanism = uniform(Q, Q, 2, 6, 5, 1)
    fewer, more = neighbours(mechanism, ((0, 0, 0),) * 2, k)
    found = hockey_stick(more, fewer, Claim(mechanism, k).ratio)
    assert k * Claim(mechanism).delta < found <= Claim(mechanism, k).delta


def test_mutant_ratio_without_the_exact_levels_is_rejected():
    """Tokens alone do not pay for "no cell" at exact counts below."""
    q = t = Fraction(1, 2)
    mechanism = uniform(q, t, 3, 6, 5, 0)
    fewer, more = neighbours(mechanism, ((4, 0, 0), (0, 0, 0), (0, 15, 1)))
    assert hockey_stick(fewer, more, 1 / t) > 0
    assert hockey_stick(fewer, more, Claim(mechanism).added) == 0


def test_without_the_largest_child_the_claim_holds():
    """Private, but it blurs more than it needs."""
    for path in (((3, 0, 0), (0, 4, 3)), ((2, 0, 0), (1, 3, 3), (0, 9, 2))):
        mechanism = uniform(Q, Q, len(path), 4, 3, 1, keeps_largest=False)
        assert Claim(mechanism).holds(*neighbours(mechanism, path))
