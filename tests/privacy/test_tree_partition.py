"""Exact: the outcome laws of neighbours in rational numbers, compared with the map's claim without tolerance."""

import random
from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.group_privacy import group_delta
from opendp_tree.theorems.interval import geometric_sum
from opendp_tree.theorems.tree_partition import PartitionShape, partition_quiet
from tests.privacy.divergence import hockey_stick
from tests.privacy.partition_claim import (
    RATIOS,
    claim,
    depth_of,
    divergence,
    meeting_delta,
    path_divergence,
    path_mechanism,
    plus,
    tree_divergence,
    tree_mechanism,
    wide_paths,
)
from tests.privacy.partition_law import Bush, law, light_chance, mechanism_law, path_law

# All rooted trees of up to five nodes.
TREES = [
    *([-1], [-1, 0], [-1, 0, 1], [-1, 0, 0]),
    *([-1, 0, 1, 2], [-1, 0, 1, 1], [-1, 0, 0, 1], [-1, 0, 0, 0]),
    *([-1, 0, 1, 2, 3], [-1, 0, 1, 2, 2], [-1, 0, 1, 1, 2], [-1, 0, 1, 1, 1], [-1, 0, 0, 1, 3]),
    *([-1, 0, 0, 1, 1], [-1, 0, 0, 1, 2], [-1, 0, 0, 0, 1], [-1, 0, 0, 0, 0]),
]


def integers(rng):
    """Radius, margin and a threshold from the least allowed up."""
    radius = rng.randint(1, 6)
    margin = rng.randint(0, radius)
    return max(radius, 2 * margin) + rng.choice([1, 1, 2, 4]), radius, margin


def count(rng, threshold, radius, margin):
    """A count near the values at which the rules change, or none."""
    near = [threshold - radius, threshold - margin, threshold, threshold + radius]
    return max(0, rng.choice([*near, threshold - margin, 0, 0]) + rng.choice([-2, -1, -1, 0, 0, 1]))


def check_tree(parents, q, rng, nodes):
    """One random input on a tree against its neighbours with one person more at `nodes`."""
    numbers = integers(rng)
    mechanism = tree_mechanism(parents, q, *numbers)
    counts = [count(rng, *numbers) for _ in parents]
    ratio, delta = claim(mechanism)
    here = mechanism_law(mechanism, parents, counts)
    assert sum(here.values()) == 1
    for node in nodes:
        there = mechanism_law(mechanism, parents, plus(counts, node))
        assert divergence(here, there, ratio) <= delta, (mechanism, parents, counts, node)


def random_tree(rng, size):
    reach = rng.choice([1, 2, size])
    return [-1, *[rng.randint(max(0, node - reach), node - 1) for node in range(1, size)]]


# The oracle itself.

DRAWN = [([-1, 0, 1], (0, 1, 2)), ([-1, 0, 0], (0, 3, 2)), ([-1, 0, 0], (1, 3, 4))]


def run(parents, counts, shape, noises, tokens):
    """The mechanism as told, on given draws: node v has noise noises[v], and tokens[v] if it draws one."""
    passed, carried, cells = [0] * len(parents), {}, set()
    for node in reversed(range(len(parents))):
        children = [child for child, parent in enumerate(parents) if parent == node]
        residual = counts[node] + sum(passed[child] for child in children)
        carriers = [child for child in children if child in carried]
        token = carried[carriers[0]] if carriers else tokens[node]
        heavy = residual >= shape.carrier
        if residual + noises[node] >= shape.threshold + token or (heavy and len(carriers) > 1):
            cells.add(node)
            continue
        passed[node] = residual
        if heavy:
            carried[node] = token
    return frozenset(cells)


@pytest.mark.parametrize(("parents", "counts"), DRAWN)
@pytest.mark.parametrize(("threshold", "radius", "margin"), [(3, 2, 0), (3, 1, 1), (4, 2, 1)])
def test_the_law_is_that_of_running_the_mechanism_on_every_draw(parents, counts, threshold, radius, margin):
    """All noises, and all tokens below a bound; the law may exceed what was seen by the tokens beyond it only."""
    q, bound, shape = Fraction(1, 3), 6, PartitionShape(depth_of(parents), threshold, radius, margin)
    noise = [q**z / geometric_sum(q, radius + 1) for z in range(radius + 1)]
    seen, size = {}, len(parents)
    for noises, tokens in product(product(range(radius + 1), repeat=size), product(range(bound), repeat=size)):
        mass = Fraction(1)
        for z, token in zip(noises, tokens, strict=True):
            mass *= noise[z] * (1 - q) * q**token
        cells = run(parents, counts, shape, noises, tokens)
        seen[cells] = seen.get(cells, 0) + mass
    exact = law(parents, counts, q, shape)
    assert sum(exact.values()) == 1
    assert set(seen) <= set(exact)
    assert all(seen.get(cells, 0) <= mass for cells, mass in exact.items())
    assert sum(seen.values()) == (1 - q**bound) ** size


def flat(path):
    """The tree of a path as parents and counts, and its lowest node."""
    parents, counts = [], []

    def add(bush, parent):
        parents.append(parent)
        counts.append(bush.own)
        node = len(parents) - 1
        for copies, child in bush.groups:
            for _ in range(copies):
                add(child, node)
        return node

    node = -1
    for step in reversed(path):
        node = add(step, node)
    return parents, counts, node


@pytest.mark.parametrize("q", RATIOS)
def test_counting_survivors_loses_no_divergence(q):
    """Both oracles on the same small trees, also with other rules for tokens: equal divergences at every ratio."""
    rng = random.Random(5)
    for rules in [{}, {"token_limit": 2}, {"light_tested": False}, {"one_noise": True}] * 6:
        numbers = integers(rng)

        def bush(depth, numbers=numbers):
            groups = tuple((rng.randint(1, 2), bush(depth - 1)) for _ in range(depth and rng.randint(0, 1)))
            return Bush(count(rng, *numbers), groups)

        path = tuple(bush(rng.choice([0, 1, 1, 2])) for _ in range(rng.randint(1, 3)))
        mechanism = path_mechanism(path, q, *numbers, **rules)
        parents, counts, node = flat(path)
        for ratio in (Fraction(1), 1 / q, claim(mechanism)[0]):
            assert path_divergence(mechanism, path, ratio) == tree_divergence(mechanism, parents, counts, node, ratio)


# The claim.


@pytest.mark.parametrize("q", RATIOS)
def test_claim_on_all_trees_of_up_to_five_nodes(q):
    rng = random.Random(1)
    for parents in TREES:
        for _ in range(25):
            check_tree(parents, q, rng, range(len(parents)))


@pytest.mark.parametrize("q", RATIOS)
def test_claim_on_random_trees_of_up_to_twelve_nodes(q):
    rng = random.Random(2)
    for _ in range(25):
        parents = random_tree(rng, rng.randint(6, 12))
        check_tree(parents, q, rng, rng.sample(range(len(parents)), 2))


@pytest.mark.slow
@pytest.mark.parametrize("q", RATIOS)
def test_claim_on_many_trees(q):
    rng = random.Random(3)
    for parents in TREES:
        for _ in range(60):
            check_tree(parents, q, rng, range(len(parents)))
    for _ in range(50):
        parents = random_tree(rng, rng.randint(6, 12))
        check_tree(parents, q, rng, rng.sample(range(len(parents)), 3))


def check_wide(q, numbers, copies):
    for path in wide_paths(*numbers, copies):
        mechanism = path_mechanism(path, q, *numbers)
        ratio, delta = claim(mechanism)
        assert path_divergence(mechanism, path, ratio) <= delta, (mechanism, path)


WIDE = [(3, 2, 1), (4, 3, 0), (5, 4, 2), (7, 3, 3), (9, 6, 1)]


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("numbers", WIDE)
def test_claim_on_wide_stars(q, numbers):
    check_wide(q, numbers, 2)
    check_wide(q, numbers, 100)


@pytest.mark.slow
@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("radius", range(1, 7))
def test_claim_on_many_wide_stars(q, radius):
    for margin in range(radius + 1):
        numbers = max(radius, 2 * margin) + 1, radius, margin
        check_wide(q, numbers, 20)
    check_wide(q, (radius + 2, radius, radius // 2), 400)


def test_many_light_siblings_stay_within_the_claim():
    """Leaves just below the carrier level, whose number of survivors moves the centre's residual."""
    q, numbers = Fraction(1, 2), (6, 5, 2)
    for light, copies, own in product((1, 2, 3), (3, 12), (0, 1, 3)):
        for path in [
            (Bush(own, ((copies, Bush(light)),)),),
            (Bush(own), Bush(0, ((copies, Bush(light)), (5, Bush(9))))),
        ]:
            mechanism = path_mechanism(path, q, *numbers)
            ratio, delta = claim(mechanism)
            assert path_divergence(mechanism, path, ratio) <= delta


def test_noise_at_its_end_nearly_reaches_delta():
    """One node, where no margin is paid; and eight in a row, each of which adds its share."""
    for path, share in [((Bush(9),), Fraction(99, 100)), ((Bush(9), *[Bush()] * 7), Fraction(96, 100))]:
        mechanism = path_mechanism(path, Fraction(1, 200), 13, 3, 3)
        ratio, delta = claim(mechanism)
        assert share * delta < path_divergence(mechanism, path, ratio) <= delta


def test_carriers_that_meet_nearly_reach_delta():
    """A carrier at the carrier level beside a path that reaches it with the extra person only."""
    path = Bush(8), Bush(0, ((1, Bush(9)),))
    mechanism = path_mechanism(path, Fraction(1, 20), 15, 12, 6)
    ratio, delta = claim(mechanism)
    assert meeting_delta(mechanism) > Fraction(999, 1000) * delta
    assert Fraction(9, 10) * delta < path_divergence(mechanism, path, ratio) <= delta


def test_one_survivor_of_many_reaches_a_good_part_of_delta():
    """With no margin what is lost is the chance that the one surviving leaf's token covers the centre as well."""
    path = Bush(7), Bush(0, ((20, Bush(8)),))
    mechanism = path_mechanism(path, Fraction(1, 20), 8, 7, 0)
    ratio, delta = claim(mechanism)
    found = path_divergence(mechanism, path, ratio)
    assert Fraction(1, 20) * delta < found <= delta


# Groups.


def moves(rng, counts, distance):
    """The counts with as many people more or fewer, anywhere; a node only gains or only loses."""
    out, signs = list(counts), [rng.choice([1, 1, -1]) if people >= distance else 1 for people in counts]
    for node in rng.choices(range(len(counts)), k=distance):
        out[node] += signs[node]
    return out


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("distance", [2, 3])
def test_claim_for_groups(q, distance):
    rng = random.Random(4)
    for parents in [*TREES, *(random_tree(rng, 7) for _ in range(5))]:
        numbers = integers(rng)
        mechanism = tree_mechanism(parents, q, *numbers)
        counts = [count(rng, *numbers) for _ in parents]
        ratio, delta = claim(mechanism)
        here = mechanism_law(mechanism, parents, counts)
        for _ in range(5):
            there = mechanism_law(mechanism, parents, moves(rng, counts, distance))
            assert divergence(here, there, ratio**distance) <= group_delta(delta, ratio=ratio, k=distance)


@pytest.mark.parametrize("distance", [2, 3])
def test_claim_for_groups_on_wide_stars(distance):
    for q, numbers in product(RATIOS[1:3], WIDE[:3]):
        for path in wide_paths(*numbers, 50):
            mechanism = path_mechanism(path, q, *numbers)
            ratio, delta = claim(mechanism)
            found = path_divergence(mechanism, path, ratio**distance, distance)
            assert found <= group_delta(delta, ratio=ratio, k=distance)


# A sharper map, not yet the library's: what each level costs is not 1/(1 - pi) but the factors of each direction.


def level_factors(mechanism):
    """What one level's answer "no cell" costs at most when a person is added, and when one is removed."""
    shape = mechanism.shape
    stay = [light_chance(mechanism, residual) for residual in range(shape.carrier)]
    light = max(stay[residual] / stay[residual + 1] for residual in range(shape.carrier - 1))
    return max(stay[-1] / partition_quiet(mechanism.q, shape), light), 1 / stay[-1]


def check_sharper(mechanism, here, there):
    """Adding costs kappa alone, removing all of delta; one level of the depth, a cell's or a token's first, is free."""
    added, removed = level_factors(mechanism)
    levels, (ratio, delta) = mechanism.shape.depth - 1, claim(mechanism)
    assert max(added, removed) ** levels / mechanism.q <= ratio
    assert hockey_stick(here, there, added**levels / mechanism.q) <= meeting_delta(mechanism)
    assert hockey_stick(there, here, removed**levels / mechanism.q) <= delta


@pytest.mark.parametrize("q", RATIOS)
def test_sharper_claim_on_small_trees(q):
    rng = random.Random(6)
    for parents in [*TREES * 4, *(random_tree(rng, rng.randint(6, 10)) for _ in range(10))]:
        numbers = integers(rng)
        mechanism, counts = tree_mechanism(parents, q, *numbers), [count(rng, *numbers) for _ in parents]
        here = mechanism_law(mechanism, parents, counts)
        for node in rng.sample(range(len(parents)), min(3, len(parents))):
            check_sharper(mechanism, here, mechanism_law(mechanism, parents, plus(counts, node)))


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("numbers", WIDE)
def test_sharper_claim_on_wide_stars(q, numbers):
    for path in wide_paths(*numbers, 30):
        mechanism = path_mechanism(path, q, *numbers)
        check_sharper(mechanism, path_law(mechanism, path), path_law(mechanism, path, 1))


@pytest.mark.parametrize("q", RATIOS)
def test_sharper_claim_on_caterpillars(q):
    """Long paths at the levels where each factor is paid, with a heavy end or a carrier beside it."""
    for threshold, radius, margin in [(3, 2, 0), (3, 1, 1), (5, 4, 1), (7, 4, 0), (7, 3, 3)]:
        carrier = threshold - margin
        for own, length in product((carrier - 2, carrier - 1), (1, 2, 5, 9)):
            for end in (Bush(), Bush(1), Bush(radius), Bush(threshold), Bush(0, ((1, Bush(carrier)),))):
                path = (Bush(own), *[Bush()] * length, end)
                mechanism = path_mechanism(path, q, threshold, radius, margin)
                check_sharper(mechanism, path_law(mechanism, path), path_law(mechanism, path, 1))
