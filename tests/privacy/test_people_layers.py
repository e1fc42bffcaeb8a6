"""Exact: all outcomes of tiny releases of people with many rows, as rational numbers, against what is claimed."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from opendp_tree.theorems.sums import layer_l1, layer_l2_squared, node_units, node_units_squared
from tests.privacy.partition_claim import Claim
from tests.privacy.people_law import RIGHT, Layers, Rules, SmallTree, all_people, excess, release_law, row_units
from tests.thoroughness import slow

FORK, CHAINS = SmallTree([-1, 0, 0]), SmallTree([-1, 0, 0, 1, 2])
HALF, THIRD, TENTH = Fraction(1, 2), Fraction(1, 3), Fraction(1, 10)
CASES = {
    "shares": Layers("shares", (1, 1, 1), (HALF, THIRD, HALF)),
    "rows": Layers("rows", (2, 1, 2), (HALF, THIRD, HALF)),
    "people": Layers("people", (1, 1, 1), (THIRD, HALF, HALF), units=3),
    "people at two": Layers("people", (1, 2, 2), (THIRD, HALF, HALF)),
}


def claim(parts, tree, layers, k):
    """e**epsilon and delta at k people, from the theorems alone."""
    found, ratio = Claim(parts.values(), k), Fraction(1)
    for level in range(tree.depth):
        most = 1 if layers.count == "shares" else layers.most[level]
        ratio /= layers.ratios[level] ** layer_l1(k, most=most, units=layers.units)
    return ratio * max(found.added, found.removed), found.delta


def worst(parts, tree, layers, pairs, k, rules=RIGHT, **options):
    """The largest divergence of any pair, less the delta that is claimed: at most 0 where the claim holds."""
    ratio, delta = claim(parts, tree, layers, k)
    found = Fraction(-1)
    for one, two in pairs:
        laws = [release_law(parts, tree, each, layers, rules, **options) for each in (one, two)]
        found = max(found, excess(*laws, layers, ratio) - delta, excess(*laws[::-1], layers, ratio) - delta)
    return found


def with_more(others, more):
    """Pairs: some people, and the same with further ones."""
    return [(list(one), [*one, *two]) for one in others for two in more]


SOME = [(), *((person,) for person in all_people(2, 2)), ((1, 1), (2, 0)), ((1, 2), (1, 1))]


@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("known", [(0,), (0, 1)], ids=str)
@pytest.mark.parametrize("tree", [FORK, *slow([CHAINS])], ids=["fork", "chains"])
def test_one_person_more_or_less_costs_what_is_claimed(tree, known, name, rests):
    parts = tree.silent(HALF, HALF, (2, 1, 0), known)
    pairs = with_more(SOME if tree is FORK else SOME[-3:], [(person,) for person in all_people(2, 3)])
    assert len(pairs) >= 27
    assert worst(parts, tree, CASES[name], pairs, 1, rests=rests) <= 0


@pytest.mark.parametrize("known", [(0,), (0, 1), (0, 1, 2)], ids=str)
def test_people_put_anywhere_may_be_counted_by_known_nodes(known):
    """Where everybody weighs 1, known nodes are not silent: their rests count the people placed there."""
    parts = FORK.silent(HALF, THIRD, (2, 1, 0), known, rest=THIRD)
    for k, more in ((1, [(person,) for person in all_people(2, 3)]), (2, [((1, 1), (2, 0)), ((1, 1), (1, 1))])):
        pairs = with_more([(), ((1, 1),), ((2, 0), (1, 1))], more)
        assert worst(parts, FORK, CASES["shares"], pairs, k) <= 0


@pytest.mark.parametrize("known", [(0,), (0, 1)], ids=str)
@pytest.mark.parametrize("name", sorted(CASES))
def test_two_people_cost_what_is_claimed(name, known):
    parts = FORK.silent(HALF, THIRD, (3, 2, 1), known)
    two = list(combinations_with_replacement(all_people(2, 2), 2))
    pairs = with_more([(), ((1, 1),), ((2, 0),)], two)
    swapped = [([one], [two]) for one in all_people(2, 3) for two in all_people(2, 3)]
    assert worst(parts, FORK, CASES[name], pairs, 2) <= 0
    assert worst(parts, FORK, CASES[name], swapped, 2) <= 0


def test_delta_and_epsilon_are_reached():
    """All of delta is lost where one person is alone; all of epsilon where a token absorbs one more."""
    parts, layers = FORK.silent(HALF, HALF, (2, 1, 0)), Layers("shares", (1, 1), (HALF, Fraction(1)))
    ratio, delta = claim(parts, FORK, layers, 1)
    nobody, one, two = (release_law(parts, FORK, people, layers) for people in ([], [(0, 1)], [(0, 1)] * 2))
    assert excess(one, nobody, layers, ratio) == delta
    assert excess(one, two, layers, ratio) == 0 < excess(one, two, layers, ratio * Fraction(999, 1000))


@pytest.mark.parametrize("units", [1, 2, 3, 7, 1024])
def test_nobody_weighs_more_than_is_declared(units):
    for most in (1, 2, 3, 5):
        for person in all_people(3, 6):
            total = sum(person)
            assert sum(row_units(rows, total, most=most, units=units) for rows in person) <= most * units
        for held in range(1, 40):
            assert held * node_units(held, most=most, units=units) <= layer_l1(1, most=most, units=units)
            square = held * node_units_squared(held, most=most, units=units) ** 2
            assert square <= layer_l2_squared(1, most=most, units=units)
        assert most * node_units(most, most=most, units=units) == layer_l1(1, most=most, units=units)


STAR, NEARLY = SmallTree([-1, 0, 0, 0]), (Fraction(99, 100),) * 2
SHARES, CROWD = Layers("shares", (1, 1), NEARLY), [(1, 1), (0, 1)] * 3
KNOWN_CROWD = [(1, 1, 1), (1, 0, 1)] * 3
MUTANTS = {
    "two places declared as one": (
        *(FORK, FORK.silent(TENTH, TENTH, (3, 2, 0)), SHARES, Rules(places=2), False),
        with_more([(), ((1, 1),), ((1, 1), (1, 1))], [((1, 1),)]),
    ),
    # Somebody at a shown leaf and at one that is not shown weighs m in the first, and again in the rest.
    "rests left out of what a person holds": (
        *(FORK, FORK.silent(TENTH, TENTH, (2, 1, 0)), Layers("people", (1, 1), (NEARLY[0], TENTH))),
        *(Rules(held="shown"), True, with_more([((1, 0),) * 2, ((1, 0),) * 3], [((1, 1),)])),
    ),
    # One person with many rows raises what everybody else weighs.
    "a bound read off the data": (
        *(FORK, FORK.silent(HALF, HALF, (2, 1, 0)), Layers("rows", (1, 1), (TENTH, TENTH)), Rules(from_data=True)),
        *(False, with_more([((1, 1), (1, 1), (2, 0)), ((2, 0), (2, 0))], [((3, 0),)])),
    ),
    # With a fixed seed, positions in the table decide where people are placed: one who comes first moves all.
    "places by a seed": (
        *(FORK, FORK.silent(TENTH, TENTH, (3, 2, 0)), SHARES, Rules(seeded=True), False),
        [(CROWD, [person, *CROWD]) for person in ((1, 0), (0, 1))],
    ),
    "places by a seed at unknown leaves": (
        *(STAR, STAR.silent(TENTH, TENTH, (3, 2, 0), (0, 1)), SHARES, Rules(seeded=True), False),
        [(KNOWN_CROWD, [person, *KNOWN_CROWD]) for person in ((1, 0, 1), (9, 1, 0))],
    ),
    "two unknown places of somebody with known rows": (
        *(STAR, STAR.silent(TENTH, TENTH, (3, 2, 0), (0, 1)), Layers("rows", (1, 1), NEARLY), Rules(places=2), False),
        with_more([(), ((0, 1, 1),), ((0, 1, 1), (0, 1, 1))], [((5, 1, 1),)]),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name):
    tree, parts, layers, rules, rests, pairs = MUTANTS[name]
    assert worst(parts, tree, layers, pairs, 1, rests=rests) <= 0
    assert worst(parts, tree, layers, pairs, 1, rules, rests=rests) > 0


def test_mutant_distance_by_the_formula_for_one_place_is_rejected():
    """Two people who come to different paths cost both paths' exact levels, not once those of one count."""
    tree = SmallTree([-1, 0, 1, 1])
    parts, layers = tree.silent(HALF, HALF, (3, 2, 0)), Layers("shares", (1, 1, 1), (Fraction(999, 1000),) * 3)
    q, t, noise = HALF, HALF, layers.ratios[0] ** -layer_l1(6, most=1, units=layers.units)
    one_place = (1 - q**3) / (1 - q) / t**2 * noise  # c of a count that rises by two, at margin 0, and two tokens
    both = Claim(parts.values(), 2).added * noise
    assert one_place < both <= claim(parts, tree, layers, 2)[0]
    crowd = [(1, 0), (0, 1)]
    fewer, more = (release_law(parts, tree, people, layers) for people in (crowd, crowd * 2))
    assert excess(fewer, more, layers, one_place) > 0 == excess(fewer, more, layers, both)


def test_mutant_delta_of_one_person_for_two_is_rejected():
    parts, layers = FORK.silent(HALF, HALF, (3, 2, 0)), CASES["shares"]
    ratio, delta = claim(parts, FORK, layers, 2)
    one, two = (release_law(parts, FORK, people, layers) for people in ([(1, 0)] * 2, []))
    lost = excess(one, two, layers, ratio)
    assert claim(parts, FORK, layers, 1)[1] < lost <= delta


def test_mutant_weights_in_floats_are_rejected():
    """Three leaves of a third each, in a crowd: floats round each addition to what they hold, integers are exact."""
    crowd, units = 2**53, 4
    exact = crowd + sum(row_units(1, 3, most=1, units=units) for _ in range(3)) - crowd
    floats = float(np.cumsum([float(crowd), *[units / 3] * 3])[-1]) - crowd
    assert exact <= layer_l1(1, most=1, units=units) < floats
