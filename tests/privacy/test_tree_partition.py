"""Exact: cells and gaps of the partition stay within what the theorem functions say, without any tolerance."""

import random
from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.partition import stay_ratio
from tests.privacy.divergence import hockey_stick, largest_ratio
from tests.privacy.tree_partition_claim import (
    Claim,
    besides,
    depth_of,
    neighbours,
    path_laws,
    plus,
    shape_of,
    tree_laws,
)
from tests.privacy.tree_partition_law import Mechanism, far_from, many_leaves, path_law, star_law, tree_law, uniform
from tests.thoroughness import thinned

RATIOS = [(Fraction(1, 2), Fraction(1, 3)), (Fraction(1, 3), Fraction(1, 2)), (Fraction(4, 5), Fraction(3, 4))]
SHAPES = [(2, 1, 0), (2, 1, 1), (3, 2, 0), (3, 2, 1), (3, 2, 2), (4, 2, 1), (4, 3, 2), (5, 3, 1)]
PUBLIC = [(1, 1, 0), (2, 2, 1), (2, 4, 0), (3, 3, 1), (1, None, 0), (2, None, 0), (2, None, 1), (3, None, 1)]
TREES = [
    [-1],
    [-1, 0],
    [-1, 0, 0],
    [-1, 0, 1],
    [-1, 0, 0, 0],
    [-1, 0, 0, 1],
    [-1, 0, 1, 1],
    [-1, 0, 1, 2],
]


# The oracles.


@pytest.mark.parametrize("numbers", [*SHAPES[1:5], *PUBLIC[2:6]])
def test_fixing_what_is_beside_the_path_loses_no_divergence(numbers):
    """A tree's divergence is the mean of its paths', over what the other children pass up."""
    q, t = RATIOS[0]
    mechanism = uniform(q, t, 3, *numbers)
    parents, own, node = [-1, 0, 0, 1], [1, 0, numbers[0], numbers[0] - 1], 3
    far = far_from(mechanism, sum(own) + 1 + numbers[0])
    leaf = Mechanism(q, t, mechanism.levels[:2])
    ups = {total: mass for (total, _), mass in many_leaves(leaf, 1, 1, own[2], far).items()}
    for ratio in (Fraction(1), Fraction(5, 4), 1 / q):
        here, there = (tree_law(mechanism, parents, people, far) for people in (own, plus(own, node)))
        total = Fraction(0)
        for up, mass in ups.items():
            path = ((own[3], 0, 0), (own[1], 0, 0), (own[0], up, up))
            few, many = (path_law(mechanism, ((path[0][0] + k, 0, 0), *path[1:]), far) for k in (0, 1))
            total += mass * hockey_stick(many, few, ratio)
        assert hockey_stick(there, here, ratio) == total
        assert total > 0 or ratio == 1 / q


def test_noise_without_end_may_be_cut_anywhere_beyond_the_counts():
    q, t = RATIOS[1]
    mechanism = uniform(q, t, 2, 2, None, 1)
    own, more = [1, 2], [1, 3]
    found = []
    for far in (5, 9):
        here, there = (tree_law(mechanism, [-1, 0], people, far) for people in (own, more))
        found.append((hockey_stick(here, there, Fraction(3, 2)), hockey_stick(there, here, Fraction(3, 2))))
    assert found[0] == found[1]
    assert min(found[0]) > 0


# The claim on whole trees: joint laws of all cells and gaps.


def check_trees(numbers, q, t, rng, samples):
    for parents in TREES:
        mechanism = uniform(q, t, depth_of(parents), *numbers)
        claim = Claim(mechanism)
        for _ in range(samples):
            own = [rng.choice([0, 0, 1, rng.randint(0, numbers[0] + 1)]) for _ in parents]
            node = rng.randrange(len(parents))
            fewer, more = tree_laws(mechanism, parents, own, plus(own, node))
            assert claim.holds(fewer, more), (mechanism, parents, own, node)


@pytest.mark.parametrize(("q", "t"), thinned(RATIOS, 3))
@pytest.mark.parametrize("numbers", [*SHAPES, *PUBLIC])
def test_claim_on_small_trees(numbers, q, t):
    check_trees(numbers, q, t, random.Random(1), 2 if numbers in SHAPES else 1)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [*SHAPES, *PUBLIC])
def test_claim_on_many_small_trees(numbers, q, t):
    check_trees(numbers, q, t, random.Random(2), 40)


@pytest.mark.parametrize(("q", "t"), thinned(RATIOS, 3))
@pytest.mark.parametrize("numbers", [(3, 2, 1), (4, 3, 0), (5, 4, 2)])
@pytest.mark.parametrize("leaves", [2, 9, pytest.param(40, marks=pytest.mark.slow)])
def test_claim_on_wide_stars_of_heavy_leaves(numbers, q, t, leaves):
    threshold, radius, margin = numbers
    mechanism = uniform(q, t, 2, *numbers)
    claim = Claim(mechanism)
    for heavy in (threshold - margin, threshold - 1, threshold, threshold + radius + 1):
        for own in (0, threshold - margin - 1):
            far = far_from(mechanism, leaves * heavy + own + 1)
            fewer, more = (star_law(mechanism, leaves, heavy, own + k, far) for k in (0, 1))
            assert sum(fewer.values()) == 1
            assert claim.holds(fewer, more), (numbers, heavy, own)


# The claim on paths, whatever is passed up beside them.


def check_paths(mechanism, paths, k=1):
    claim = Claim(mechanism, k)
    for path in paths:
        assert claim.holds(*neighbours(mechanism, path, k)), (mechanism, path)


@pytest.mark.parametrize("numbers", [(2, 1, 0), (2, 1, 1), (3, 2, 0), (3, 2, 1), (2, 2, 0), (2, None, 1)])
def test_claim_on_all_paths_of_two_nodes(numbers):
    """People at both nodes, and any sum and maximum beside both."""
    q, t = RATIOS[0]
    mechanism, beside = uniform(q, t, 2, *numbers), list(besides(numbers[0]))
    nodes = [(own, *off) for own in range(numbers[0] + 1) for off in beside]
    check_paths(mechanism, product(nodes, nodes))


def random_path(rng, length, threshold):
    beside = list(besides(threshold))
    for _ in range(length):
        off = rng.choice(beside) if rng.random() < 0.4 else (0, 0)
        yield (rng.choice([0, 0, 0, 1, rng.randint(0, threshold)]), *off)


@pytest.mark.parametrize(("q", "t"), thinned(RATIOS, 3))
@pytest.mark.parametrize("numbers", [*SHAPES, (7, 6, 2), (9, 5, 3), *PUBLIC, (4, 6, 2)])
def test_claim_on_random_paths(numbers, q, t):
    rng = random.Random(3)
    for length in (3, 4, 6):
        check_paths(uniform(q, t, length, *numbers), (tuple(random_path(rng, length, numbers[0])) for _ in range(20)))


def test_claim_at_a_size_in_use():
    """Integers as `choose_parameters` gives them at epsilon 1 and delta 1e-6, and e**-1 as 3/8."""
    rng, q = random.Random(10), Fraction(3, 8)
    mechanism = uniform(q, Fraction(2, 5), 6, 17, 16, 4)
    check_paths(mechanism, (tuple(random_path(rng, 6, 17)) for _ in range(12)))
    check_paths(mechanism, (tuple(random_path(rng, 6, 17)) for _ in range(6)), 3)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [*SHAPES, (7, 6, 2), (9, 5, 3), *PUBLIC, (4, 6, 2)])
def test_claim_on_many_random_paths(numbers, q, t):
    rng = random.Random(4)
    for length in (2, 3, 4, 6, 9):
        check_paths(uniform(q, t, length, *numbers), (tuple(random_path(rng, length, numbers[0])) for _ in range(250)))


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [(4, 3, 1), (6, 5, 2), (6, 5, 0), (4, None, 1)])
def test_claim_on_chains_and_caterpillars(numbers, q, t):
    """Long chains at every count, and one arrival a level, at the path or beside it."""
    threshold, length = numbers[0], 12
    mechanism = uniform(q, t, length, *numbers)
    chains = [((own, 0, 0), *[(0, 0, 0)] * (length - 1)) for own in range(threshold + 2)]
    caterpillars = [((own, 0, 0), *[step] * (length - 1)) for own in (0, 2) for step in ((1, 0, 0), (0, 1, 1))]
    check_paths(mechanism, chains + caterpillars)


# Levels of their own.

BY_LEVEL = [
    ((3, 2, 0), (3, 2, 0), (4, 3, 1)),
    ((5, 4, 1), (4, 3, 1), (3, 2, 1)),
    ((5, 2, 1), (5, 4, 1), (5, 3, 2)),
    ((3, 3, 0), (2, 4, 0), (2, None, 0)),
    ((4, 3, 1), None, (4, 3, 1)),
    (None, (4, 3, 1), (3, 2, 0)),
    ((4, 3, 1), (4, 3, 1), None),
    ((4, 3, 1), None, None, (3, 2, 1)),
    ((2, None, 0), None, (2, None, 1)),
]
"""Thresholds, radii and margins by level, some levels not tested."""


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("levels", BY_LEVEL)
def test_claim_with_levels_of_their_own(levels, q, t):
    mechanism, rng = Mechanism(q, t, levels), random.Random(5)
    check_paths(mechanism, (tuple(random_path(rng, len(levels), 5)) for _ in range(40)))


@pytest.mark.parametrize("levels", BY_LEVEL)
def test_claim_on_trees_with_levels_of_their_own(levels):
    mechanism, rng = Mechanism(*RATIOS[0], levels), random.Random(6)
    chain = [-1, *range(len(levels) - 1)]
    claim = Claim(mechanism)
    for parents in (chain, [*chain, len(levels) - 2], [*chain, 0]):
        for _ in range(4):
            own = [rng.choice([0, 0, 1, 3]) for _ in parents]
            fewer, more = tree_laws(mechanism, parents, own, plus(own, rng.randrange(len(parents))))
            assert claim.holds(fewer, more), (parents, own)


def test_levels_that_are_not_tested_cost_nothing():
    q, t = RATIOS[0]
    tested, sparse = ((4, 3, 1),) * 2, ((4, 3, 1), None, (4, 3, 1), None, None)
    few, many = Claim(Mechanism(q, t, tested)), Claim(Mechanism(q, t, sparse))
    assert (few.added, few.delta) == (many.added, many.delta)


# Tightness.


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [(3, 2, 0), (4, 3, 1), (6, 5, 2), (9, 5, 3)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_adding_a_person_reaches_its_bound(numbers, q, t, depth):
    """Exact counts at L - 2 on all levels but the root's, where a crowd from beside takes the person up."""
    threshold, radius, margin = numbers
    mechanism = uniform(q, t, depth, *numbers)
    crowd = (0, threshold + radius + 4, 1)
    below = [(threshold - margin - 2, 0, 0), *[(0, 0, 0)] * (depth - 2)] if depth > 1 else []
    fewer, more = neighbours(mechanism, (*below, crowd))
    stay = stay_ratio(q, threshold=threshold, radius=radius, margin=margin)
    assert largest_ratio(fewer, more) == stay ** (depth - 1) / t


@pytest.mark.parametrize("numbers", [(4, 3, 0), (6, 5, 1)])
def test_a_person_whom_no_token_takes_up_reaches_the_bound(numbers):
    """Where a token costs less than an exact level, the dearest way up is exact on all levels."""
    q, t = Fraction(4, 5), Fraction(9, 10)
    threshold, radius, margin = numbers
    for depth in (1, 4):
        mechanism = uniform(q, t, depth, *numbers)
        fewer, more = neighbours(mechanism, ((threshold - margin - 2, 0, 0), *[(0, 0, 0)] * (depth - 1)))
        assert largest_ratio(fewer, more) == Claim(mechanism).added
        assert Claim(mechanism).added == stay_ratio(q, threshold=threshold, radius=radius, margin=margin) ** depth


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("levels", [((4, 3, 1),), ((4, 3, 1),) * 5, ((5, 4, 1), (4, 3, 1), None, (3, 2, 0))])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_removing_people_reaches_delta(levels, q, t, k):
    """k people alone, at thresholds just above the radius: any cell gives them away."""
    mechanism = Mechanism(q, t, levels)
    if k >= min(threshold - margin for threshold, _, margin in filter(None, levels)):
        k = 1
    fewer, more = neighbours(mechanism, ((0, 0, 0),) * len(levels), k)
    claim = Claim(mechanism, k)
    assert hockey_stick(more, fewer, claim.removed) == claim.delta
    assert hockey_stick(more, fewer, claim.removed * 1000) == claim.delta


@pytest.mark.parametrize(("q", "t"), RATIOS)
def test_removing_a_person_reaches_its_ratio(q, t):
    mechanism = uniform(q, t, 3, 2, None, 0)
    fewer, more = neighbours(mechanism, ((0, 0, 0),) * 3)
    assert largest_ratio(more, fewer) == 1 / q
    assert Claim(mechanism).delta == 0


# Distance k.


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [(3, 2, 0), (4, 3, 1), (5, 3, 2), (6, 5, 2), (2, None, 0), (3, 4, 1)])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_claim_for_people_at_one_place(numbers, q, t, k):
    rng = random.Random(7)
    for length in (1, 2, 4):
        paths = [tuple(random_path(rng, length, numbers[0])) for _ in range(10)]
        check_paths(uniform(q, t, length, *numbers), paths, k)


@pytest.mark.parametrize(("q", "t"), RATIOS)
@pytest.mark.parametrize("numbers", [(3, 2, 0), (4, 3, 1), (6, 5, 2), (2, None, 0)])
def test_claim_for_people_spread_over_a_path(numbers, q, t):
    """Some come and some go, each at a node of its own or not."""
    rng = random.Random(8)
    for length, k in product((2, 4), (2, 3)):
        mechanism = uniform(q, t, length, *numbers)
        claim = Claim(mechanism, k)
        for _ in range(10):
            path = tuple(random_path(rng, length, numbers[0]))
            nobody, more, fewer = [0] * length, [0] * length, [0] * length
            for _ in range(k):
                rng.choice([more, more, fewer])[rng.randrange(length)] += 1
            kept = tuple((own + less, *off) for (own, *off), less in zip(path, fewer, strict=True))
            here, there, spread = path_laws(
                mechanism, kept, nobody, [a - b for a, b in zip(more, fewer, strict=True)], plus(more, 0)
            )
            assert claim.holds_mixed(here, there), (mechanism, kept, more, fewer)
            assert Claim(mechanism, sum(more) + 1).holds(here, spread), (mechanism, kept, more)


@pytest.mark.parametrize(
    ("numbers", "k"), [*product([(3, 2, 0), (3, 2, 1), (4, 3, 1), (2, 2, 0)], [2, 3]), ((2, None, 0), 2)]
)
def test_claim_for_people_spread_over_a_tree(numbers, k):
    q, t = RATIOS[0]
    rng = random.Random(9)
    for parents in TREES[2:7]:
        mechanism = uniform(q, t, depth_of(parents), *numbers)
        claim = Claim(mechanism, k)
        for _ in range(3):
            own = [rng.choice([0, 0, 1, numbers[0] - 1]) for _ in parents]
            nodes = [rng.randrange(len(parents)) for _ in range(k)]
            here, there, swapped = tree_laws(
                mechanism, parents, own, plus(own, *nodes), plus(plus(own, *nodes), *nodes[:1])
            )
            assert claim.holds(here, there), (mechanism, parents, own, nodes)
            moved_out, moved_in = tree_laws(mechanism, parents, plus(own, *nodes[:1]), plus(own, *nodes[1:]))
            assert claim.holds_mixed(moved_out, moved_in), (mechanism, parents, own, nodes)
            assert Claim(mechanism, k + 1).holds(here, swapped)


def test_people_on_different_paths_cost_their_number():
    """Two people, each taken up by a crowd of its own: the square of one person's price is reached."""
    q, t = RATIOS[0]
    numbers = (3, 2, 2)
    mechanism = uniform(q, t, 2, *numbers)
    own = [0, 9, 9]
    here, there = tree_laws(mechanism, [-1, 0, 0], own, plus(own, 1, 2))
    assert largest_ratio(here, there) == 1 / t**2 == Claim(mechanism, 2).added


def test_one_radius_for_all_levels_is_worth_its_name():
    shape = shape_of(uniform(*RATIOS[0], 2, 3, 2, 1))
    assert shape.depth == 2
    assert shape.blur_levels == (2, 2)
