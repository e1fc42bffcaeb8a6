"""Exact: small lines, all that can come or go, every outcome, in rational numbers.

Curves: the law of the cells is enumerated by its definition; the cuts follow; a tree over the segments gets noise with
masses 2**(-power * |z|) on a window. Choices: weights are powers of 2 of the scores, so that laws are rational.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from opendp_tree.mechanisms.chosen_quantiles import scores
from opendp_tree.theorems.interval import Interval
from opendp_tree.theorems.laplace import laplace_epsilon
from opendp_tree.theorems.quantiles import (
    choice_epsilon,
    choice_rho,
    curve_epsilon,
    grouped_epsilon,
    quantile_score,
    score_sensitivity,
)
from opendp_tree.trees.segment_tree import SegmentTree
from tests.privacy.divergence import joint, largest_ratio
from tests.privacy.partition_claim import Claim, plus
from tests.privacy.partition_law import Part, steps

HALF = Fraction(1, 2)
POWERS = (1, 2, 1)
"""1/scale of each level of the tree over the segments is this many times ln 2."""


def cut_law(part, counts):
    """The law of the cuts: the ends of all cells, and of the line. Gaps do not matter, so they are not kept apart."""

    def subtree(first, last, level):
        """{(cuts, handed up, largest of one node): mass}."""
        middle = (first + last) // 2
        states = {(frozenset(), counts[first], 0): Fraction(1)}
        if last - first > 1:
            states = defaultdict(Fraction)
            for one, mass in subtree(first, middle, level + 1).items():
                for other, weight in subtree(middle, last, level + 1).items():
                    states[(one[0] | other[0], one[1] + other[1], max(one[2], other[2]))] += mass * weight
        out = defaultdict(Fraction)
        for (cuts, x, largest), mass in states.items():
            for gap, up, chance, _ in steps(part, level, x, largest):
                out[(cuts if gap is None else cuts | {first, last}, up, up)] += mass * chance
        return out

    law = defaultdict(Fraction)
    for (cuts, _, _), mass in subtree(0, len(counts), 0).items():
        law[tuple(sorted({0, len(counts), *cuts}))] += mass
    assert sum(law.values()) == 1
    return law


def node_counts(counts, cuts, branching=2):
    """The counts of the tree over the segments, as (level, count)."""
    tree = SegmentTree.of(len(cuts) - 1, scale=1.0, branching=branching, root_weight=HALF)
    for level, starts in enumerate(tree.starts):
        for first, last in pairwise(starts):
            yield level, sum(counts[cuts[first] : cuts[last]])


def measured(counts, cuts, *, powers=POWERS):
    """For every outcome of a window its mass, up to a factor that is the same for all counts."""
    laws = [
        {z: HALF ** (powers[min(level, 2)] * abs(z - count)) for z in (-1, 5)}
        for level, count in node_counts(counts, cuts)
    ]
    return joint(laws)


def whole_law(part, counts, *, measure=measured):
    return {
        (found, *outcome): mass * weight
        for found, mass in cut_law(part, counts).items()
        for outcome, weight in measure(counts, found).items()
    }


def finding_ratio(part):
    """e**epsilon of the cuts at distance 1."""
    claim = Claim([part])
    assert claim.delta == 0
    return max(claim.added, claim.removed)


def claimed(part, powers=POWERS):
    """e**epsilon at distance 1, where measuring is in units of ln 2, for trees of one to three levels."""
    costs = [
        laplace_epsilon(1, scales=[Fraction(1, power) for power in (powers[0], *powers[1:] * 2)[: levels + 1]])
        for levels in (1, 2)
    ]
    assert curve_epsilon(1, finding=Fraction(0), measuring=costs) == max(costs)
    return finding_ratio(part) * 2 ** int(curve_epsilon(1, finding=Fraction(0), measuring=costs))


LINES = [*product(range(4), repeat=2), *product(range(2), repeat=4), (3, 0, 0, 2), (0, 2, 3, 0)]
PARTS = {bins: Part(HALF, HALF, None, None, ((2, None, 1),) * levels) for bins, levels in ((2, 2), (4, 3))}


def worst(line, **changes):
    part, found = PARTS[len(line)], []
    here = whole_law(part, line, **changes)
    for place in range(len(line)):
        there = whole_law(part, tuple(plus(line, place)), **changes)
        found += [largest_ratio(here, there), largest_ratio(there, here)]
    return None if None in found else max(found)


@pytest.mark.parametrize("line", LINES)
def test_a_curve_keeps_its_epsilon(line):
    assert worst(line) <= claimed(PARTS[len(line)])


def test_what_measuring_costs_is_reached_without_finding():
    """With all bins as segments the map is tight: every level has one count that moves."""
    line, cuts = (0, 1, 0, 0), (0, 1, 2, 3, 4)
    here, there = (measured(counts, cuts) for counts in (line, plus(line, 2)))
    assert largest_ratio(here, there) == 2 ** sum(POWERS)


def test_no_outcome_is_lost_either_way():
    line = (1, 0, 0, 1)
    assert set(cut_law(PARTS[4], line)) == set(cut_law(PARTS[4], (0, 0, 0, 0)))


# Mutants of the curve.


def test_mutant_a_cut_at_the_fullest_bin_is_rejected():
    def measure_at_the_peak(counts, cuts):
        peak = max(range(len(counts)), key=lambda place: counts[place])
        return measured(counts, tuple(sorted({*cuts, peak})))

    laws = []
    for counts in ((0, 1, 0, 0), (0, 1, 2, 0)):
        law = {}
        for found, mass in cut_law(PARTS[4], counts).items():
            for outcome, weight in measure_at_the_peak(counts, found).items():
                law[len(outcome), outcome] = law.get((len(outcome), outcome), 0) + mass * weight
        laws.append(law)
    assert largest_ratio(*laws) is None or max(largest_ratio(*laws), largest_ratio(*laws[::-1])) > claimed(PARTS[4])


def test_mutant_empty_segments_left_out_are_rejected():
    def measure_the_occupied(counts, cuts):
        kept = [cut for cut, end in pairwise(cuts) if sum(counts[cut:end])]
        return {(tuple(kept), *outcome): mass for outcome, mass in measured(counts, cuts).items()}

    assert worst((0, 1, 0, 0), measure=measure_the_occupied) is None


def test_mutant_every_level_at_the_price_of_one_is_rejected():
    """All levels with the noise of the first, as if they were one count."""
    found = worst((0, 1, 0, 0), measure=lambda counts, cuts: measured(counts, cuts, powers=(4, 4, 4)))
    assert found > claimed(PARTS[4])


def test_mutant_finding_for_nothing_is_rejected():
    assert max(worst(line) for line in LINES) > claimed(PARTS[4]) / finding_ratio(PARTS[4])


def test_mutant_segments_that_share_a_bin_are_rejected():
    """Cells nest: counting each of them whole, instead of the segments between their ends, counts a row twice."""

    def measure_nested(counts, cuts):
        whole = {**{z: HALF ** abs(z - sum(counts)) for z in (-1, 5)}}
        parts = [{z: HALF ** (2 * abs(z - sum(counts[:cut]))) for z in (-1, 5)} for cut in cuts[1:]]
        return joint([whole, *parts])

    assert worst((0, 1, 0, 0), measure=measure_nested) > claimed(PARTS[4])


# The choice of a quantile.

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(0), Fraction(1), Fraction(1, 3)]
COUNTS = list(product(range(3), repeat=3))


def score_of(counts, place, share):
    return quantile_score(share, below=sum(counts[:place]), upto=sum(counts[: place + 1]), people=sum(counts))


def choice_law(counts, share, *, score=score_of):
    """Weights 2**-score in units of the denominator: 1/scale is ln 2 times the denominator."""
    weights = [HALF ** int(share.denominator * score(counts, place, share)) for place in range(len(counts))]
    return {place: weight / sum(weights) for place, weight in enumerate(weights)}


def pairs(k):
    for counts in COUNTS:
        for more in product(range(k + 1), repeat=3):
            if sum(more) == k:
                yield counts, tuple(a + b for a, b in zip(counts, more, strict=True))


def worst_choice(share, k, law=choice_law):
    found = []
    for one, other in pairs(k):
        p, q = law(one, share), law(other, share)
        found += [largest_ratio(p, q), largest_ratio(q, p)]
    return max(found)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("k", [1, 2])
def test_a_choice_keeps_its_epsilon(share, k):
    sensitivity = share.denominator * score_sensitivity(share)
    epsilon = choice_epsilon(k, sensitivity=sensitivity, scale=Fraction(1))  # in units of ln 2
    assert worst_choice(share, k) <= 2 ** int(epsilon)


@pytest.mark.parametrize("share", SHARES)
def test_scores_are_those_of_the_theorem_and_some_bin_has_none(share):
    for counts in COUNTS:
        found = scores(np.array(counts), share).tolist()
        assert found == [share.denominator * score_of(counts, place, share) for place in range(3)]
        assert min(found) == 0


@pytest.mark.parametrize("share", SHARES)
def test_scores_move_by_no_more_than_their_sensitivity(share):
    moves = [
        abs(score_of(one, place, share) - score_of(other, place, share))
        for one, other in pairs(1)
        for place in range(3)
    ]
    assert max(moves) <= score_sensitivity(share)
    assert share not in (0, 1) or max(moves) == 1


def test_mutant_weights_without_the_two_are_rejected():
    """Scores of many bins fall while one rises, so the normaliser moves against the weight: nearly twice as much."""
    share, bins = Fraction(1, 2), 4001
    one = np.zeros(bins, dtype=np.int64)
    one[0], one[-2], one[-1] = 20, 3, 18
    other = one.copy()
    other[0] += 1
    laws = []
    for counts in (one, other):
        weights = [HALF**score for score in scores(counts, share).tolist()]
        total = sum(weights)
        laws.append({place: weight / total for place, weight in enumerate(weights)})
    ratio = max(largest_ratio(*laws), largest_ratio(*laws[::-1]))
    epsilon = choice_epsilon(1, sensitivity=2 * score_sensitivity(share), scale=Fraction(1))  # in units of ln 2
    assert ratio <= 2 ** int(epsilon)
    without_the_two = 2 ** int(epsilon / 2)
    assert ratio > Fraction(199, 100) * without_the_two


def test_mutant_the_smaller_side_as_sensitivity_is_rejected():
    share = Fraction(9, 10)
    wrong = 2 * share.denominator * min(share, 1 - share)
    assert worst_choice(share, 1) > 2 ** int(wrong)


def test_mutant_a_score_of_ranks_that_jumps_is_rejected():
    """Rounding the wanted rank moves a score by a whole person, where the claim says less."""

    def rounded(counts, place, share):
        wanted = round(share * sum(counts))
        return max(0, sum(counts[:place]) - wanted, wanted - sum(counts[: place + 1]))

    share = Fraction(1, 2)
    moves = [
        abs(rounded(one, place, share) - rounded(other, place, share)) for one, other in pairs(1) for place in range(3)
    ]
    assert max(moves) > score_sensitivity(share)


def renyi(p, q, order):
    return sum(p[outcome] ** order * q[outcome] ** (1 - order) for outcome in p)


LN2 = Interval.of(2).ln()


@pytest.mark.parametrize("share", SHARES[:4])
@pytest.mark.parametrize("order", [2, 3, 8])
def test_a_choice_keeps_its_rho(share, order):
    """(order - 1) * divergence <= order * (order - 1) * rho; rho is in units of ln(2)**2."""
    for k in (1, 2):
        rho = choice_rho(k, sensitivity=share.denominator * score_sensitivity(share), scale=Fraction(1))
        bound = (LN2 * LN2 * Interval.of(rho) * (order * (order - 1))).exp()
        for one, other in pairs(k):
            p, q = choice_law(one, share), choice_law(other, share)
            assert max(renyi(p, q, order), renyi(q, p, order)) <= Fraction(bound.hi)


def test_mutant_a_quarter_of_rho_is_rejected():
    share = Fraction(1, 2)
    rho = choice_rho(1, sensitivity=Fraction(1), scale=Fraction(1)) / 4
    bound = (LN2 * LN2 * Interval.of(rho) * 2).exp()
    found = max(renyi(choice_law(one, share), choice_law(other, share), 2) for one, other in pairs(1))
    assert found > Fraction(bound.hi)


# Groups.


def groups_law(groups, *, shared=False):
    """A choice for each of two groups; with `shared`, rows of the first count in the second as well."""
    first, second = groups
    if shared:
        second = tuple(a + b for a, b in zip(first, second, strict=True))
    return joint([choice_law(counts, HALF) for counts in (first, second)])


def test_curves_of_disjoint_groups_cost_as_much_as_one():
    one = worst_choice(HALF, 1)
    epsilon = choice_epsilon(1, sensitivity=Fraction(1), scale=Fraction(1))
    assert grouped_epsilon(Fraction(0), epsilon) == epsilon
    ratios = []
    for here, there in pairs(1):
        for beside in COUNTS[::5]:
            p, q = groups_law((here, beside)), groups_law((there, beside))
            ratios += [largest_ratio(p, q), largest_ratio(q, p)]
    assert max(ratios) == one <= 2 ** int(epsilon)


def test_two_people_in_two_groups_cost_as_two():
    epsilon = int(choice_epsilon(2, sensitivity=Fraction(1), scale=Fraction(1)))
    changed = [(a, b) for a in list(pairs(1))[::3] for b in list(pairs(1))[::7]]
    ratios = [largest_ratio(groups_law((a[0], b[0])), groups_law((a[1], b[1]))) for a, b in changed]
    assert max(ratios) <= 2**epsilon


def test_mutant_rows_in_two_groups_are_rejected():
    epsilon = int(choice_epsilon(1, sensitivity=Fraction(1), scale=Fraction(1)))
    ratios = [
        largest_ratio(groups_law((here, (0, 0, 0)), shared=True), groups_law((there, (0, 0, 0)), shared=True))
        for here, there in pairs(1)
    ]
    assert max(ratios) > max(worst_choice(HALF, 1), 2**epsilon / 4)
    assert max(ratios) > worst_choice(HALF, 1)
