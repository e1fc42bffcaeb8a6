"""Exact: cells, gaps, rests and layers stay within what the theorem functions say, without any tolerance."""

import random
from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.partition import stay_ratio
from tests.privacy.divergence import families_delta, hockey_stick, largest_ratio
from tests.privacy.partition_claim import (
    RATIOS,
    THREE_INNER_LEVELS,
    TREES,
    Claim,
    besides,
    laws,
    mixed_claim_holds,
    path_laws,
    plus,
    random_layers,
    random_levels,
    random_part,
    random_parts,
    random_path,
    series_laws,
)
from tests.privacy.partition_law import (
    LIMIT,
    ONE,
    Layer,
    Part,
    closed_people,
    fringes_of,
    lumped,
    measured,
    path_law,
    released,
    star_law,
    tree_law,
)
from tests.thoroughness import slow

HALF, THIRD, FIFTH = Fraction(1, 2), Fraction(1, 3), Fraction(1, 5)


# The oracles.


@pytest.mark.parametrize(("alpha", "beta"), [(HALF, THIRD), (THIRD, HALF), (Fraction(9, 10), FIFTH)])
def test_lumped_noise_is_the_difference_of_two_geometric_numbers(alpha, beta):
    """From its definition, the sum over the smaller number in closed form; both tails are what is left."""
    for count in (2, 5):
        law = dict(lumped(alpha, beta, count, 2, 7))
        assert sum(law.values()) == 1
        for value in range(3, 7):
            right, left = max(value - count, 0), max(count - value, 0)
            assert law[value] == (1 - alpha) * alpha**right * (1 - beta) * beta**left / (1 - alpha * beta)


def test_tails_may_be_lumped_anywhere_beyond_the_counts():
    """A third input with more people, which adds outcomes, changes no divergence."""
    parts = {0: Part(HALF, THIRD, FIFTH, HALF, ((3, 2, 1), (3, 2, 1)))}
    layers = (Layer(1, lambda cells: (HALF, THIRD)),)
    parents, own = [-1, 0, 1], [1, 0, 2]
    inputs = [own, plus(own, 2), [4, 0, 6]]
    narrow, wide = laws(parents, inputs[:2], parts, layers), laws(parents, inputs, parts, layers)[:2]
    for ratio in (ONE, Fraction(5, 4), Fraction(3)):
        for here, there in ((0, 1), (1, 0)):
            found = hockey_stick(narrow[here], narrow[there], ratio)
            assert found == hockey_stick(wide[here], wide[there], ratio)
    assert len(narrow[0]) < len(wide[0])


def test_fixing_what_is_beside_a_way_up_loses_no_divergence():
    """A tree's divergence is the mean of its paths', over what the other child passes up."""
    part = Part(HALF, THIRD, FIFTH, HALF, ((3, 2, 1), (3, 2, 0)))
    parents, own = [-1, 0, 1, 1], [1, 1, 2, 2]
    few, more = laws(parents, [own, plus(own, 3)], {0: part})
    beside = tree_law([-1, 0, 1], [0, 0, 2], {0: Part(HALF, THIRD, None, None, (None, (3, 2, 0)))})
    assert len(beside) > 1
    passed = {2: sum(mass for (cells, _), mass in beside.items() if not cells)}
    passed[0] = 1 - passed[2]
    for ratio in (ONE, Fraction(5, 4), Fraction(2)):
        mean = Fraction(0)
        for up, mass in passed.items():
            here, there = path_laws(part, ((2, 0, 0), (1, up, up)), 1, [0, 0, 0], [1, 0, 0])
            mean += mass * hockey_stick(there, here, ratio)
        assert hockey_stick(more, few, ratio) == mean > 0


def test_noise_without_end_may_be_cut_anywhere_beyond_the_counts(monkeypatch):
    part = Part(HALF, THIRD, FIFTH, HALF, ((2, None, 1), (2, None, 1)))
    found = []
    for limit in (LIMIT, 9):
        monkeypatch.setattr("tests.privacy.partition_law.LIMIT", limit)
        for function in ("steps", "noise_law"):
            getattr(__import__("tests.privacy.partition_law", fromlist=[function]), function).cache_clear()
        few, more = laws([-1, 0, 1], [[0, 1, 2], [0, 1, 3]], {0: part})
        found.append((hockey_stick(few, more, Fraction(6, 5)), hockey_stick(more, few, Fraction(6, 5)), len(few)))
    assert found[0][:2] == found[1][:2]
    assert min(found[0]) > 0
    assert found[0][2] > found[1][2]


# The claim on whole trees: joint laws of all cells, gaps, rests and layers.


def check_trees(rng, trees, samples, largest=2, endless=0):
    """One person more, at any node; the claim is that of the person's own fringe, stronger than the release's."""
    for parents in trees:
        for _ in range(samples):
            parts, (layers, products) = random_parts(rng, parents, largest, endless), random_layers(rng, parents)
            own = [rng.choice([0, 0, 1, rng.randint(0, 4)]) for _ in parents]
            node = rng.randrange(len(parents))
            if sum(own) < 8:
                few, more = laws(parents, [own, plus(own, node)], parts, layers)
                claim = Claim([parts[fringes_of(parents, parts)[node]]], 1, products)
                assert claim.holds(few, more), (parents, own, node, parts, products)


@pytest.mark.parametrize("seed", [0, 1, *slow(range(2, 20))])
def test_claim_on_small_trees_with_layers(seed):
    check_trees(random.Random(seed), TREES, 40)


@pytest.mark.parametrize("seed", [0, *slow(range(1, 10))])
def test_claim_with_three_inner_levels_and_layers(seed):
    check_trees(random.Random(100 + seed), THREE_INNER_LEVELS, 40)


@pytest.mark.parametrize("seed", [0, *slow(range(1, 10))])
def test_claim_with_wider_noise(seed):
    check_trees(random.Random(200 + seed), TREES[:8], 10, largest=4)


def test_claim_with_noise_without_end():
    """Every node is tested, the empty ones, too."""
    check_trees(random.Random(250), TREES[:3], 12, endless=0.8)


@pytest.mark.parametrize("seed", [0, *slow(range(1, 10))])
def test_claim_for_people_who_come_and_go(seed):
    """Theorems 3 and 4: one to three people, anywhere, in several fringes or at one place."""
    rng = random.Random(300 + seed)
    for parents in TREES[:9]:
        for _ in range(12):
            parts, (layers, products) = random_parts(rng, parents, 2), random_layers(rng, parents)
            own, gone, come = [rng.choice([0, 0, 1, 2]) for _ in parents], [], []
            place = rng.randrange(len(parents))
            for _ in range(rng.randint(1, 3)):
                node = place if rng.random() < 0.5 else rng.randrange(len(parents))
                rng.choice([gone, come, come]).append(node)
            if sum(own) < 6:
                here, there = laws(parents, [plus(own, *gone), plus(own, *come)], parts, layers)
                known = list(parts.values())
                assert mixed_claim_holds(known, here, there, len(gone), len(come), products), (parents, own, parts)


@pytest.mark.parametrize("seed", [0, *slow(range(1, 5))])
def test_claim_with_closed_nodes(seed):
    """A closed node has no tested levels, and people below its unknown children count at the node itself."""
    rng = random.Random(400 + seed)
    for parents in TREES[1:9]:
        for _ in range(15):
            parts = random_parts(rng, parents, 2)
            closed = {u for u in parts if rng.random() < 0.6}
            parts = {
                u: Part(part.q, part.t, part.alpha, part.beta, () if u in closed else part.levels)
                for u, part in parts.items()
            }
            own, node = [rng.choice([0, 0, 1, 3]) for _ in parents], rng.randrange(len(parents))
            whose = fringes_of(parents, parts)
            kept = [v for v in range(len(parents)) if v in parts or whose[v] not in closed]
            shrunk = [kept.index(parents[v]) if v else -1 for v in kept]
            inputs = [closed_people(parents, people, parts, closed) for people in (own, plus(own, node))]
            assert all(people[v] == 0 for people in inputs for v in range(len(parents)) if v not in kept)
            inputs = [[people[v] for v in kept] for people in inputs]
            renamed = {kept.index(u): part for u, part in parts.items()}
            if sum(own) < 8:
                assert Claim([parts[whose[node]]]).holds(*laws(shrunk, inputs, renamed)), (parents, own, node, parts)


# The claim on ways up to a known node, whatever is passed up beside them.


def check_paths(part, paths, adds, layers=(), products=(ONE, ONE)):
    for path, (top, added) in product(paths, adds):
        few, more = path_laws(part, path, top, [0] * (len(path) + 1), added, layers=layers)
        assert Claim([part], sum(added), products).holds(few, more), (part, path, top, added)


@pytest.mark.parametrize("numbers", [(2, 1, 0), (2, 1, 1), (3, 2, 0), (3, 2, 1), (2, None, 1)])
def test_claim_on_all_ways_of_two_nodes(numbers):
    """People at both nodes, and any sum and maximum beside both."""
    part = Part(HALF, THIRD, THIRD, HALF, (numbers,) * 2)
    nodes = [(own, *off) for own in range(numbers[0] + 1) for off in besides(numbers[0])]
    check_paths(part, [*product(nodes, nodes)][::3], [(0, (1, 0, 0))])


@pytest.mark.parametrize("seed", [0, *slow(range(1, 12))])
def test_claim_on_random_ways(seed):
    """One to three people at one place or spread over the way and the known node, with two layers beside."""
    rng = random.Random(500 + seed)
    for length in (0, 1, 2, 3, 4, 6):
        for _ in range(12):
            part = random_part(rng, length, 4, endless=0.1)
            alphas, betas = ([rng.choice(RATIOS) for _ in range(2)] for _ in range(2))
            threshold = max((numbers[0] for numbers in part.levels if numbers), default=3)
            added = [0] * (length + 1)
            for _ in range(rng.choice([1, 2, 3])):
                added[rng.choice([0, 0, rng.randint(0, length)])] += 1
            path = tuple(random_path(rng, length, threshold))
            if sum(own + beside for own, beside, _ in path) + 3 < LIMIT:
                check_paths(
                    part,
                    [path],
                    [(rng.choice([0, 1, 5]), added)],
                    list(zip(alphas, betas, strict=True)),
                    (alphas[0] * alphas[1], betas[0] * betas[1]),
                )


@pytest.mark.parametrize(("q", "t"), [(HALF, THIRD), (Fraction(4, 5), Fraction(3, 4))])
@pytest.mark.parametrize("numbers", [(4, 3, 1), (6, 5, 2), (6, 5, 0), (4, None, 1)])
def test_claim_on_chains_and_caterpillars(numbers, q, t):
    """Long chains at every count, and one arrival per level, at the way or beside it, for one to three people."""
    threshold, length = numbers[0], 9
    part = Part(q, t, HALF, FIFTH, (numbers,) * length)
    chains = [((own, 0, 0), *[(0, 0, 0)] * (length - 1)) for own in range(threshold + 2)]
    caterpillars = [((own, 0, 0), *[step] * (length - 1)) for own in (0, 2) for step in ((1, 0, 0), (0, 1, 1))]
    check_paths(part, chains[::2] + caterpillars, [(0, (k, *[0] * length)) for k in (1, 3)])


def test_claim_at_a_size_in_use():
    """Numbers of a real plan at epsilon 1 and delta 1e-6, and e**-1 as 3/8."""
    rng = random.Random(10)
    part = Part(Fraction(3, 8), Fraction(2, 5), Fraction(2, 3), Fraction(3, 5), ((17, 16, 4),) * 4)
    check_paths(part, [tuple(random_path(rng, 4, 17)) for _ in range(5)], [(2, (1, 0, 0, 0, 0))])


@pytest.mark.parametrize("numbers", [(3, 2, 1), (4, 3, 0), (5, 4, 2)])
@pytest.mark.parametrize("leaves", [2, 7, pytest.param(40, marks=pytest.mark.slow)])
def test_claim_on_wide_stars_of_heavy_leaves(numbers, leaves):
    """The person at one more leaf, heavy too, at the inner node above all of them, or at the known node."""
    threshold, radius, margin = numbers
    part = Part(Fraction(4, 5), Fraction(3, 4), HALF, THIRD, (numbers,) * 2)
    claim = Claim([part])
    for heavy in (threshold - margin, threshold - 1, threshold, threshold + radius - 1):
        base = (heavy, 0, 0)
        for place in range(3):
            exact = [star_law(part, leaves, heavy, *plus(base, *[place] * k)) for k in (0, 1)]
            few, more = released([measured(law, {-1: part}, [], []) for law in exact])
            assert claim.holds(few, more), (numbers, heavy, place)


# Tightness.

PARTS = [
    Part(q, t, alpha, beta, ((4, 3, 1),) * depth)
    for q, t, alpha, beta in ((HALF, THIRD, FIFTH, HALF), (Fraction(4, 5), Fraction(9, 10), Fraction(9, 10), HALF))
    for depth in (1, 2, 4)
]


@pytest.mark.parametrize("part", PARTS)
def test_a_person_absorbed_by_a_token_reaches_its_price(part):
    """Exact counts at L - 2 on all levels but the topmost, where a crowd from beside takes the person up."""
    depth = len(part.levels)
    below = [(1, 0, 0), *[(0, 0, 0)] * (depth - 2)] if depth > 1 else []
    few, more = path_laws(part, (*below, (0, 12, 1)), 0, [0] * (depth + 1), plus([0] * (depth + 1), 0))
    stay = stay_ratio(part.q, threshold=4, radius=3, margin=1)
    assert largest_ratio(few, more) == stay ** (depth - 1) / part.t


@pytest.mark.parametrize("part", [*PARTS, Part(HALF, HALF, HALF, THIRD, ())])
@pytest.mark.parametrize("silent", [False, True])
def test_a_person_not_absorbed_by_any_token_reaches_its_price(part, silent):
    """Exact counts at L - 2 on all levels, and then the rest, if it is released."""
    depth = len(part.levels)
    if silent:
        part = Part(part.q, part.t, None, None, part.levels)
    path = [(1, 0, 0), *[(0, 0, 0)] * (depth - 1)] if depth else []
    few, more = path_laws(part, path, 0, [0] * (depth + 1), plus([0] * (depth + 1), 0))
    price = stay_ratio(part.q, threshold=4, radius=3, margin=1) ** depth / (part.beta or 1)
    assert largest_ratio(few, more) == price <= Claim([part]).added


def test_a_silent_node_needs_the_price_of_an_exact_top_level():
    """Where a token costs less than an exact level, tokens alone do not bound what a person more costs."""
    part = Part(Fraction(4, 5), Fraction(9, 10), None, None, ((4, 3, 0),) * 2)
    few, more = path_laws(part, ((2, 0, 0), (0, 0, 0)), 0, [0] * 3, [1, 0, 0])
    stay = stay_ratio(part.q, threshold=4, radius=3, margin=0)
    assert stay / part.t < largest_ratio(few, more) == Claim([part]).added == stay**2


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("k", [1, 2])
def test_removing_people_reaches_delta(part, k):
    """k people alone below all levels, at thresholds just above the radius: any cell reveals them."""
    depth = len(part.levels)
    few, more = path_laws(part, ((0, 0, 0),) * depth, 0, [0] * (depth + 1), [k, *[0] * depth])
    claim = Claim([part], k)
    assert hockey_stick(more, few, claim.removed) == hockey_stick(more, few, claim.removed * 1000) == claim.delta


@pytest.mark.parametrize(("alpha", "q"), [(FIFTH, HALF), (HALF, FIFTH)])
def test_removing_a_person_reaches_the_steeper_slope_and_layers_add_to_it(alpha, q):
    part = Part(q, HALF, alpha, HALF, ((2, None, 0),) * 2)
    added = [0, 0, 1] if alpha < q else [1, 0, 0]  # at the known node, or where a test may show the person
    few, more = path_laws(part, ((0, 0, 0),) * 2, 0, [0] * 3, added, layers=[(THIRD, FIFTH)])
    claim = Claim([part], 1, (THIRD, FIFTH))
    assert claim.removed == largest_ratio(more, few) == 5 * 3
    assert claim.delta == 0


def test_adding_a_person_reaches_its_bound_with_layers():
    part = Part(HALF, FIFTH, HALF, THIRD, ((4, 3, 1),) * 2)
    few, more = path_laws(part, ((1, 0, 0), (0, 12, 1)), 0, [0] * 3, [1, 0, 0], layers=[(HALF, FIFTH), (THIRD, HALF)])
    assert largest_ratio(few, more) == Claim([part], 1, (HALF * THIRD, FIFTH * HALF)).added


def test_people_in_different_fringes_cost_their_number():
    parts = {node: Part(HALF, HALF, FIFTH, THIRD, ()) for node in range(3)}
    few, more = laws([-1, 0, 0], [[0, 1, 1], [0, 2, 2]], parts)
    assert largest_ratio(few, more) == 9 == Claim(parts.values(), 2).added
    assert largest_ratio(more, few) == 25 == Claim(parts.values(), 2).removed


# Known nodes from an earlier release.


@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_claim_for_two_periods_the_second_of_which_knows_what_the_first_showed(seed):
    """A row costs what its own period does; one that moves costs both directions, and delta once."""
    rng = random.Random(600 + seed)
    for parents in ([-1, 0], [-1, 0, 0], [-1, 0, 1]):
        for _ in range(5):
            ratios = [rng.choice(RATIOS[:4]) for _ in range(4)]
            levels = random_levels(rng, max(2, len(set(parents))) - 1, 2)
            parts = [Part(*ratios, levels[height:]) for height in range(len(levels) + 1)]
            first, second = ([rng.choice([0, 0, 1, 2]) for _ in parents] for _ in range(2))
            node, claim = rng.randrange(len(parents)), Claim(parts)
            pairs = (first, second), (plus(first, node), second), (first, plus(second, node))
            base, early, late = series_laws(parents, pairs, parts)
            assert claim.holds(base, early), (parents, first, second, node, parts)
            assert claim.holds(base, late), (parents, first, second, node, parts)
            assert mixed_claim_holds(parts, early, late, 1, 1)


@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_claim_for_two_periods_and_a_pooled_find(seed):
    """A row costs what its own period and the pooled find do together, and no more."""
    rng = random.Random(700 + seed)
    for parents in ([-1, 0], [-1, 0, 0], [-1, 0, 1]) * 3:
        levels = [random_levels(rng, max(2, len(set(parents))) - 1, 1) for _ in range(2)]
        ratios = [[rng.choice(RATIOS[:4]) for _ in range(4)] for _ in range(2)]
        if rng.random() < 0.5:
            ratios[1][2:] = None, None  # known nodes are silent in the pooled find
        parts, pool = (
            [Part(*own, each[height:]) for height in range(len(each) + 1)]
            for own, each in zip(ratios, levels, strict=True)
        )
        first, second = ([rng.choice([0, 0, 1]) for _ in parents] for _ in range(2))
        node, claim, pooled = rng.randrange(len(parents)), Claim(parts), Claim(pool)
        delta = families_delta([[claim.delta, claim.delta], [pooled.delta]])
        pairs = (first, second), (plus(first, node), second), (first, plus(second, node))
        base, early, late = series_laws(parents, pairs, parts, pool=pool)
        for more in (early, late):
            assert hockey_stick(base, more, claim.added * pooled.added) == 0
            assert hockey_stick(more, base, claim.removed * pooled.removed) <= delta


def test_path_and_tree_laws_of_a_chain_agree():
    part = Part(HALF, THIRD, FIFTH, HALF, ((3, 2, 1), None, (2, 1, 0)))
    chain = tree_law([-1, 0, 1, 2], [1, 0, 0, 2], {0: part})
    way = path_law(part, ((2, 0, 0), (0, 0, 0), (0, 0, 0)), 1)
    assert sorted(chain.values()) == sorted(way.values())
