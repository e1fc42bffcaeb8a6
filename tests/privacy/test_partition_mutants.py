"""Exact: each mutant changes one rule or one part of the claim, and must exceed what is claimed.

Inputs come from fixed streams, on each of which the right mechanism must keep its claim up to the input that finds the
mutant out.
"""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import pytest

from opendp_tree.theorems.partition import lost_chance
from tests.privacy.divergence import hockey_stick
from tests.privacy.partition_claim import (
    RATIOS,
    Claim,
    addition_ratio,
    fringe_of,
    laws,
    path_laws,
    plus,
    random_parts,
    series_laws,
)
from tests.privacy.partition_law import (
    ONE,
    RIGHT,
    Layer,
    Part,
    Rules,
    depths_of,
    fringes_of,
    measured,
    released,
    star_law,
)

TREES = [[-1, 0], [-1, 0, 0], [-1, 0, 1], [-1, 0, 0, 1], [-1, 0, 1, 1], [-1, 0, 1, 2]]
SKEWED = Fraction(1, 5), Fraction(4, 5)
MOST = 400


def cases(seed):
    """Trees with several known nodes, crowds about the thresholds, and one person more at some node."""
    rng = random.Random(seed)
    while True:
        parents = rng.choice(TREES)
        radius = rng.randint(1, 3)
        level = radius + 1, radius, rng.randint(0, min(2, radius))
        ratios = [rng.choice(RATIOS) for _ in range(4)]
        depths, parts = depths_of(parents), random_parts(rng, parents)
        parts = {u: Part(*ratios, (level,) * len(part.levels)) for u, part in parts.items()}
        crowds = [0, 0, 1, level[0] - 1, level[0], level[0] + 2]
        own, node = [rng.choice(crowds) for _ in parents], rng.randrange(len(parents))
        if sum(own) < 12 and max(depths) > 0:
            yield parents, own, node, parts


def person(parents, node, parts):
    """The part whose claim the person at a node has."""
    return parts[fringes_of(parents, parts)[node]]


def is_found_out(rules=RIGHT, change=lambda part: part, claim=Claim, layers=(), products=(ONE, ONE), wrong_layers=None):
    """Whether a mutant breaks the claim on one of the first cases, on all of which the right mechanism keeps it."""
    for parents, own, node, parts in islice(cases(1), MOST):
        inputs, here = [own, plus(own, node)], person(parents, node, parts)
        assert Claim([here], 1, products).holds(*laws(parents, inputs, parts, layers))
        changed = {u: change(part) for u, part in parts.items()}
        found = laws(parents, inputs, changed, layers if wrong_layers is None else wrong_layers, rules)
        if not claim([here], 1, products).holds(*found):
            return True
    return False


def test_the_right_mechanism_is_not_found_out():
    assert not is_found_out()


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("token", False),
        ("token_limit", 2),
        ("token_cap", 2),
        ("passes_x", True),
        ("exact_gap", True),
        ("cells_pass", True),
        ("tests_known", True),
        ("passes_rest", True),
        ("rest", "below"),
        ("rest", "fringe"),
        ("rest", "exact"),
        ("drops_empty", True),
        ("rest_noise", "truncated"),
        ("rest_noise", "one-sided"),
        ("rest_noise", "by count"),
        ("one_noise", True),
        ("skips_idle", True),
    ],
)
def test_mutant_rules_are_rejected(rule, value):
    assert is_found_out(replace(RIGHT, **{rule: value}))


@pytest.mark.parametrize(
    "change",
    [
        lambda part: replace(part, alpha=part.beta, beta=part.alpha),
        lambda part: replace(part, q=part.t, t=part.q),
    ],
    ids=["alpha and beta swapped", "tests and tokens swapped"],
)
def test_mutant_slopes_are_rejected(change):
    assert is_found_out(change=change)


def layer(depth, alpha, beta):
    return Layer(depth, lambda cells: (alpha, beta))


@pytest.mark.parametrize("wrong", [(layer(1, *SKEWED[::-1]),), (layer(1, *SKEWED),) * 2], ids=["swapped", "twice"])
def test_mutant_layers_are_rejected(wrong):
    """Tails swapped, and a layer that is released twice."""
    assert is_found_out(layers=(layer(1, *SKEWED),), products=SKEWED, wrong_layers=wrong)


def test_mutant_people_counted_in_a_set_and_in_the_rest_above_it_are_rejected():
    assert is_found_out(Rules(nested_sets=True), layers=(layer(2, *SKEWED),), products=SKEWED)


def test_mutant_layer_whose_slopes_depend_on_counts_is_rejected():
    """Steeper where the person is: the ratio of the tails has no bound, and already the lumped tails exceed it."""
    alpha, beta = Fraction(1, 2), Fraction(1, 2)
    exact = [
        {(frozenset(), (((0, 0), count, *steep),)): ONE}
        for count, steep in ((1, (alpha, beta)), (2, (alpha**4, beta**4)))
    ]
    few, more = released(exact)
    assert not Claim([Part(alpha, beta, None, None, ())], 1, (alpha, beta)).holds(few, more)


class WithoutExactLevels(Claim):
    """The rest's slope alone, without the exact levels below it."""

    def __init__(self, parts, k, layers):
        super().__init__(parts, k, layers)
        self.added = max(max(1 / part.t if part.levels else ONE, 1 / part.beta) for part in parts)


class OneLevelLess(Claim):
    """Delta with d - 1."""

    def __init__(self, parts, k, layers):
        super().__init__(parts, k, layers)
        self.delta = max(lost_chance(fringe_of(replace(p, levels=p.levels[1:])), q=p.q, k=k) for p in parts)


class LowestLevelOnly(Claim):
    """One tested level, though somebody may be below an unknown node above it."""

    def __init__(self, parts, k, layers):
        super().__init__([replace(part, levels=part.levels[:1]) for part in parts], k, layers)


class ClosedByTrust(Claim):
    """No tested level, though somebody is below an unknown child."""

    def __init__(self, parts, k, layers):
        super().__init__([replace(part, levels=()) for part in parts], k, layers)


@pytest.mark.parametrize("claim", [WithoutExactLevels, OneLevelLess, LowestLevelOnly, ClosedByTrust])
def test_mutant_claims_are_rejected(claim):
    assert is_found_out(claim=claim)


TIGHT = Part(Fraction(1, 20), Fraction(1, 20), Fraction(1, 20), Fraction(1, 20), ())


def way_holds(levels, path, rules=RIGHT, *, checked=True):
    """Whether one person more at the lowest node of a way up keeps the claim."""
    part = replace(TIGHT, levels=levels)
    nobody = [0] * (len(path) + 1)
    few, more = path_laws(part, path, 0, nobody, plus(nobody, 0), rules=rules)
    return Claim([part], checked=checked).holds(few, more)


@pytest.mark.parametrize("rules", [Rules(token_limit=3), Rules(token_cap=3)], ids=["truncated", "capped"])
def test_mutant_tokens_that_end_are_rejected_over_a_wide_star(rules):
    """With many heavy leaves one of them keeps its largest token."""
    part = replace(TIGHT, levels=((5, 4, 1),) * 2)
    for changed in (RIGHT, rules):
        exact = [star_law(part, 8, 4, 0, own, 0, changed) for own in (0, 1)]
        few, more = released([measured(law, {-1: part}, [], []) for law in exact])
        assert Claim([part]).holds(few, more) == (changed is RIGHT)


def test_mutant_without_the_floor_below_the_blur_level_is_rejected():
    path = (0, 2, 1), (0, 2, 2), (10, 2, 1)
    assert way_holds(((4, 3, 0),) * 3, path)
    assert not way_holds(((4, 3, 0),) * 3, path, Rules(floor=False))


def test_mutant_blur_level_that_falls_towards_the_root_is_rejected():
    levels, path = ((4, 3, 1), (6, 3, 1)), ((3, 0, 0), (0, 0, 0))
    assert not way_holds(levels, path, checked=False)
    with pytest.raises(ValueError, match="must not fall towards the root"):
        way_holds(levels, path)


def test_mutant_untested_level_that_counts_as_a_child_is_rejected():
    levels, path = ((4, 3, 1), None, (4, 3, 1)), ((0, 0, 0), (10, 0, 0), (0, 0, 0))
    part = replace(TIGHT, levels=levels)
    for rules in (RIGHT, Rules(untested_is_child=True)):
        few, more = path_laws(part, path, 0, [0] * 4, [0, 1, 0, 0], rules=rules)
        assert Claim([part]).holds(few, more) == (rules is RIGHT)


@pytest.mark.parametrize("level", [(2, None, 0), (3, None, 1)])
def test_mutant_empty_nodes_left_out_though_noise_may_show_them_is_rejected(level):
    path = (0, 0, 0), (0, 2, 1)
    assert way_holds((level,) * 2, path)
    assert not way_holds((level,) * 2, path, Rules(skips_empty=True))


@pytest.mark.parametrize("k", [2, 3])
def test_mutant_delta_without_the_distance_is_rejected(k):
    part = replace(TIGHT, levels=((6, 5, 1),) * 2)
    few, more = path_laws(part, ((0, 0, 0),) * 2, 0, [0] * 3, [k, 0, 0])
    found = hockey_stick(more, few, Claim([part], k).removed)
    assert k * Claim([part]).delta < found <= Claim([part], k).delta


def test_mutant_silent_node_without_its_top_level_is_rejected():
    """Tokens alone do not pay for a person from whose path no token is subtracted."""
    part = Part(Fraction(4, 5), Fraction(9, 10), None, None, ((4, 3, 0),))
    few, more = path_laws(part, ((2, 0, 0),), 0, [0, 0], [1, 0])
    assert hockey_stick(few, more, 1 / part.t) > 0
    assert hockey_stick(few, more, addition_ratio(fringe_of(part), q=part.q, t=part.t, beta=ONE)) == 0


@pytest.mark.parametrize("mutant", ["a moved row priced once", "a row in both periods", "known nodes from the data"])
def test_mutant_series_are_rejected(mutant):
    rng = random.Random(3)
    for _ in range(60):
        parents = rng.choice([[-1, 0], [-1, 0, 0], [-1, 0, 1]])
        ratios, level = [rng.choice(RATIOS[:4]) for _ in range(4)], rng.choice([(2, 1, 0), (2, 1, 1), (3, 2, 1)])
        levels = (level,) * max(depths_of(parents))
        parts = [Part(*ratios, levels[height:]) for height in range(len(levels) + 1)]
        first, second = ([rng.choice([0, 0, 1, 2]) for _ in parents] for _ in range(2))
        node, claim = rng.randrange(len(parents)), Claim(parts)
        early, late = (plus(first, node), second), (first, plus(second, node))
        both = plus(first, node), plus(second, node)
        if mutant == "a moved row priced once":
            one, other = series_laws(parents, [early, late], parts)
            price = max(claim.added, claim.removed)
            if max(hockey_stick(one, other, price), hockey_stick(other, one, price)) > claim.delta:
                return
        else:
            pair = [(first, second), both if mutant == "a row in both periods" else early]
            if not claim.holds(*series_laws(parents, pair, parts, leaks=mutant == "known nodes from the data")):
                return
    pytest.fail("not found out")


def test_mutant_pooled_find_at_the_price_of_the_dearer_is_rejected():
    """A row is in its period and in the pooled find; so is delta."""
    part = Part(Fraction(1, 2), Fraction(1, 2), Fraction(1, 5), Fraction(1, 3), ((2, 1, 0),))
    parts = [part, replace(part, levels=())]
    claim = Claim(parts)
    base, more = series_laws([-1, 0], [([0, 0], [0, 0]), ([0, 1], [0, 0])], parts, pool=parts)
    lost = hockey_stick(more, base, claim.removed**2 * 1000)
    assert hockey_stick(more, base, claim.removed) > claim.delta
    assert claim.delta < lost == 1 - (1 - claim.delta) ** 2
