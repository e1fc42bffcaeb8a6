"""Exact: every answer pattern of small query vectors, over all neighbours, compared without tolerance."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain, make_sparse_vector
from opendp_tree.saturate import LIMIT
from opendp_tree.theorems.noise import sparse_vector_epsilon
from tests.privacy.divergence import largest_ratio
from tests.privacy.sparse_vector_law import Gap, Mechanism, at_least, law, probability

BASE = Fraction(1, 2)


def claimed_ratio(inverse_scale, inverse_query_scale, **claim):
    """e**epsilon, exactly: scales are chosen as 1/n in units in which exp(-1) is BASE."""
    epsilon = sparse_vector_epsilon(
        scale=Fraction(1, inverse_scale), query_scale=Fraction(1, inverse_query_scale), **claim
    )
    assert epsilon.denominator == 1
    return 1 / BASE ** int(epsilon)


def mechanism(inverse_scale, inverse_query_scale, *, cutoff, refreshed, **mutation):
    return Mechanism(BASE**inverse_scale, BASE**inverse_query_scale, cutoff, refreshed, **mutation)


def neighbours(values, sensitivity, monotonic):
    moves = range(-sensitivity, sensitivity + 1)
    for move in product(moves, repeat=len(values)):
        if not monotonic or min(move) >= 0 or max(move) <= 0:
            yield tuple(value + step for value, step in zip(values, move, strict=True))


def worst_ratio(running, *, length, sensitivity=1, monotonic=False, values=range(-2, 3)):
    """The largest likelihood ratio over all vectors of values and all their neighbours; None if infinite."""
    laws = {}

    def cached(vector):
        if vector not in laws:
            laws[vector] = law(running, vector)
        return laws[vector]

    worst = Fraction(1)
    for vector in product(values, repeat=length):
        for other in neighbours(vector, sensitivity, monotonic):
            ratio = largest_ratio(cached(vector), cached(other))
            if ratio is None:
                return None
            worst = max(worst, ratio)
    return worst


CASES = [(1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1), (2, 1, 2), (2, 2, 2)]  # length, cutoff, sensitivity


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("inverse_scales", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize(("length", "cutoff", "sensitivity"), CASES)
def test_no_answers_are_likelier_than_the_map_allows(length, cutoff, sensitivity, inverse_scales, refreshed, monotonic):
    running = mechanism(*inverse_scales, cutoff=cutoff, refreshed=refreshed)
    total = sum(law(running, (1,) * length).values())
    assert total == 1
    claim = claimed_ratio(
        *inverse_scales, sensitivity=sensitivity, cutoff=cutoff, monotonic=monotonic, refreshed=refreshed
    )
    reach = range(-2, 3) if length < 3 else range(-1, 2)
    worst = worst_ratio(running, length=length, sensitivity=sensitivity, monotonic=monotonic, values=reach)
    assert worst is not None
    assert worst <= claim


@pytest.mark.parametrize("refreshed", [False, True])
def test_the_map_is_nearly_reached(refreshed):
    """Many queries far above and one that must be above: nearly all that the map allows is lost."""
    running = mechanism(1, 1, cutoff=1, refreshed=refreshed)
    claim = claimed_ratio(1, 1, sensitivity=1, cutoff=1, monotonic=True, refreshed=refreshed)
    here, there = (0,) * 6 + (-6,), (1,) * 6 + (-6,)
    found = largest_ratio(law(running, here), law(running, there))
    assert Fraction(1, 2) * claim < found <= claim


def test_at_the_largest_counts_answers_below_stay_free():
    """A threshold and a count at the limit, where noisy sums would saturate: one person less must not show.

    Of 1,000 runs with ten queries each, the share of "all below" is that of the exact law far from the limit, to within
    six standard errors (a false alarm in 5e8 runs), and at most e**2 times that one person lower. Saturating sums gave
    none in 4,000 against 105 in 4,000.
    """
    tree = Tree.from_parents([-1])
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    asked = make_sparse_vector(*space, 1.0, threshold=LIMIT, query_scale=1.0, monotonic=True)
    assert asked.map(1) == 2.0
    ten = np.zeros(10, dtype=np.int64)
    below = [sum(not asked(np.array([count]))(ten).any() for _ in range(1000)) for count in (LIMIT, LIMIT - 1)]
    far = law(Mechanism(_rational(-1.0), _rational(-1.0), 1, False), (0,) * 10)[(False,) * 10]
    assert abs(below[0] / 1000 - float(far)) < 6 * math.sqrt(float(far) / 1000)
    assert below[1] <= math.exp(2) * (1000 * float(far) + 6 * math.sqrt(1000 * float(far)))


def _rational(exponent):
    return Fraction(math.exp(exponent)).limit_denominator(10**4)


# Gaps: an answer "above" says by how much. The same claim, for outcomes that reveal more.

GAPS = tuple(map(Gap, (0, 1, 2, 5)))


def gap_outcomes(length, cutoff):
    """Answer patterns with the gap of each "above". Ratios do not change for larger gaps."""
    for answers in product((False, *GAPS), repeat=length):
        if sum(answer is not False for answer in answers) <= cutoff:
            yield answers


def worst_gap_ratio(running, *, length, monotonic, sensitivity=1, values=range(-1, 2)):
    """The largest likelihood ratio of any outcome with gaps."""
    worst = Fraction(0)
    for vector in product(values, repeat=length):
        for other in neighbours(vector, sensitivity, monotonic):
            for answers in gap_outcomes(length, running.cutoff):
                worst = max(worst, probability(running, vector, answers) / probability(running, other, answers))
    return worst


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("inverse_scales", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize(("length", "cutoff", "sensitivity"), [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 1, 2), (3, 1, 1)])
def test_gaps_cost_nothing(length, cutoff, sensitivity, inverse_scales, refreshed, monotonic):
    running = mechanism(*inverse_scales, cutoff=cutoff, refreshed=refreshed)
    claim = claimed_ratio(
        *inverse_scales, sensitivity=sensitivity, cutoff=cutoff, monotonic=monotonic, refreshed=refreshed
    )
    values = range(-1, 2) if length < 3 else range(2)
    worst = worst_gap_ratio(running, length=length, monotonic=monotonic, sensitivity=sensitivity, values=values)
    assert worst <= claim


@pytest.mark.parametrize("refreshed", [False, True])
def test_gaps_come_near_the_map(refreshed):
    """Counts that rise where they must stay below, and one gap: nearly all of a monotonic calibration is lost."""
    running = mechanism(1, 1, cutoff=1, refreshed=refreshed)
    claim = claimed_ratio(1, 1, sensitivity=1, cutoff=1, monotonic=True, refreshed=refreshed)
    here, there, answers = (0,) * 6 + (-6,), (1,) * 6 + (-6,), (False,) * 6 + (Gap(3),)
    assert claim / 2 < probability(running, here, answers) / probability(running, there, answers) <= claim


@pytest.mark.parametrize("values", [(0,), (2, -1), (-2, 1)])
def test_the_chances_of_all_gaps_add_up_to_that_of_the_answer(values):
    """Without gaps beyond 60, which take noise of at least 30."""
    running = mechanism(1, 1, cutoff=1, refreshed=False)
    below = (False,) * (len(values) - 1)
    total = sum(probability(running, values, (*below, Gap(gap))) for gap in range(60))
    exact = probability(running, values, (*below, True))
    assert exact - 4 * BASE**28 <= total < exact


# Mutants: the known wrong variants of sparse vector, and wrong maps of the right one.


def rejected(running, claim, **search):
    worst = worst_ratio(running, **search)
    return worst is None or worst > claim


RIGHT = {"sensitivity": 1, "cutoff": 2, "monotonic": False, "refreshed": False}


def test_mutant_no_query_noise_is_rejected():
    running = mechanism(1, 1, cutoff=2, refreshed=False, query_noise=False)
    assert rejected(running, claimed_ratio(1, 1, **RIGHT), length=2)


def price(inverse_scale, inverse_query_scale, *, cutoff=1, monotonic=True):
    """e**epsilon of one draw of the threshold's noise."""
    scales = inverse_scale, inverse_query_scale
    return claimed_ratio(*scales, sensitivity=1, cutoff=cutoff, monotonic=monotonic, refreshed=False)


BELOW, GAP = (False,) * 8, (Gap(3),) * 5
MUTANTS = {
    # Saying how far below an answer is reveals a noisy difference for every query: no cutoff pays for that.
    "gaps of answers below": (
        *(mechanism(1, 1, cutoff=1, refreshed=False, stops=False), price(1, 1, monotonic=False)),
        *((0,) * 6, (1, -1) * 3, (Gap(-3), Gap(3)) * 3),
    ),
    "gaps at a monotonic price for other queries": (
        *(mechanism(1, 2, cutoff=1, refreshed=False), price(1, 2)),
        *((0,) * 5 + (-5,), (1,) * 5 + (-6,), (False,) * 5 + (Gap(4),)),
    ),
    "gaps above the cutoff": (
        *(mechanism(1, 1, cutoff=5, refreshed=False), price(1, 1)),
        *((3,) * 8 + (-3,) * 5, (4,) * 8 + (-3,) * 5, BELOW + GAP),
    ),
    # Without it every answer "below" leaks, so length breaks the bound.
    "no threshold noise": (
        *(mechanism(1, 1, cutoff=1, refreshed=False, threshold_noise=False), price(1, 1, monotonic=False)),
        *((1,) * 6, (2,) * 6, (False,) * 6),
    ),
    "the map of one answer above where five are given": (
        *(mechanism(1, 1, cutoff=5, refreshed=False), price(1, 1)),
        *((3,) * 8 + (-3,) * 5, (4,) * 8 + (-3,) * 5, BELOW + (True,) * 5),
    ),
    "answers above without a limit": (
        *(mechanism(1, 1, cutoff=1, refreshed=False, stops=False), price(1, 1)),
        *((3,) * 8 + (-3,) * 5, (4,) * 8 + (-3,) * 5, BELOW + (True,) * 5),
    ),
    "a monotonic price for other queries": (
        *(mechanism(1, 2, cutoff=1, refreshed=False), price(1, 2)),
        *((0,) * 5 + (-5,), (1,) * 5 + (-6,), (False,) * 5 + (True,)),
    ),
    "four draws of the threshold's noise paid as one": (
        *(mechanism(2, 1, cutoff=4, refreshed=True), price(2, 1, cutoff=4)),
        *((0, 0, -5) * 4, (1, 1, -5) * 4, (False, False, True) * 4),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name):
    running, claim, here, there, answers = MUTANTS[name]
    assert probability(running, here, answers) > claim * probability(running, there, answers)


def test_every_draw_of_the_threshold_is_paid():
    """The last mutant keeps the price of four draws."""
    running, _, here, there, answers = MUTANTS["four draws of the threshold's noise paid as one"]
    paid = claimed_ratio(2, 1, sensitivity=1, cutoff=4, monotonic=True, refreshed=True)
    assert probability(running, here, answers) <= paid * probability(running, there, answers)


def test_mutant_releasing_the_noisy_value_is_rejected():
    """With one draw of the threshold's noise and the value that passed it released, answers "below" leak for good."""
    q = p = BASE
    running = mechanism(1, 1, cutoff=1, refreshed=False)

    def chance(values, released, reach=200):
        """Below for all but the last query, then the last one's noisy value; truncated sums bound it both ways."""
        total, rest = Fraction(0), Fraction(0)
        for r in range(-reach, released + 1):
            term = (1 - q) / (1 + q) * q ** abs(r)
            for value in values[:-1]:
                term *= 1 - at_least(running, r - value)
            total += term
        rest = 2 * q**reach
        mass = (1 - p) / (1 + p) * p ** abs(released - values[-1])
        return total * mass, (total + rest) * mass

    claim = claimed_ratio(1, 1, sensitivity=1, cutoff=1, monotonic=False, refreshed=False)
    here, there = (0,) * 12 + (0,), (1,) * 12 + (1,)
    low, _ = chance(here, -3)
    _, high = chance(there, -3)
    assert low > claim * high
