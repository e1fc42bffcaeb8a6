"""Exact: small lines, all neighbours, every outcome, in rational numbers.

Curves: the law of the cells is enumerated by its definition; the cuts follow; a tree over the segments gets noise with
masses 2**(-power * |z|) on a window.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise, product

import pytest

from opendp_tree.theorems.noise import laplace_epsilon
from opendp_tree.theorems.sums import found_epsilon, grouped_epsilon
from opendp_tree.trees.least_squares import SegmentTree
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
    assert found_epsilon(1, finding=Fraction(0), measuring=costs) == max(costs)
    return finding_ratio(part) * 2 ** int(found_epsilon(1, finding=Fraction(0), measuring=costs))


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


# Groups.

COUNTS = list(product(range(3), repeat=2))
BINS = (0, 1, 2)
GROUP_COST = int(laplace_epsilon(1, scales=[Fraction(1, power) for power in POWERS[:2]]))  # in units of ln 2


def groups_law(groups, *, shared=False):
    """A curve for each of two groups; with `shared`, rows of the first count in the second as well."""
    first, second = groups
    if shared:
        second = tuple(a + b for a, b in zip(first, second, strict=True))
    return joint([measured(counts, BINS) for counts in (first, second)])


def test_curves_of_disjoint_groups_cost_as_much_as_one():
    assert grouped_epsilon(Fraction(0), Fraction(GROUP_COST)) == GROUP_COST
    ratios = []
    for here, place, beside in product(COUNTS, range(2), COUNTS):
        p, q = (groups_law((counts, beside)) for counts in (here, tuple(plus(here, place))))
        ratios += [largest_ratio(p, q), largest_ratio(q, p)]
    assert max(ratios) == 2**GROUP_COST


def test_two_people_in_two_groups_cost_as_two():
    changed = [(counts, tuple(plus(counts, place))) for counts in COUNTS for place in range(2)]
    ratios = [largest_ratio(groups_law((a[0], b[0])), groups_law((a[1], b[1]))) for a, b in product(changed, repeat=2)]
    assert max(ratios) == 2 ** (2 * GROUP_COST)


def test_mutant_rows_in_two_groups_are_rejected():
    here, there = (groups_law((counts, (0, 0)), shared=True) for counts in ((1, 0), (1, 1)))
    assert largest_ratio(here, there) > 2**GROUP_COST
