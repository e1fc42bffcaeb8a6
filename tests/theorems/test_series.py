"""What periods cost together, against exact laws of sequences of small mechanisms."""

from fractions import Fraction
from itertools import product

import pytest

from opendp_tree.theorems.series import (
    disjoint_amount,
    disjoint_loss,
    families_amount,
    families_loss,
    moved_row_epsilon,
    overlapping_loss,
    user_loss,
)

# A mechanism on 0 or 1 rows: which outcome of three, with e**epsilon = 2 or 3, and a delta that is lost on outcome 2.
TRUE, LOST = {2: Fraction(2, 3), 3: Fraction(3, 4)}, {2: Fraction(1, 10), 3: Fraction(1, 5)}
RESPONSES = {
    ratio: {
        0: {0: TRUE[ratio], 1: 1 - TRUE[ratio]},
        1: {0: (1 - TRUE[ratio]) * (1 - LOST[ratio]), 1: TRUE[ratio] * (1 - LOST[ratio]), 2: LOST[ratio]},
    }
    for ratio in TRUE
}


def lost(p, q, ratio):
    """The exact hockey stick from one law to the other."""
    return sum(max(Fraction(0), p.get(key, Fraction(0)) - ratio * q.get(key, Fraction(0))) for key in {*p, *q})


def price(ratio, law):
    return max(lost(law[0], law[1], ratio), lost(law[1], law[0], ratio))


def joint(rows, knows):
    """Two releases; which mechanism makes the second, and so what it costs, depends on what the first showed."""
    law = {}
    for first, mass in RESPONSES[2][rows[0]].items():
        for second, chance in RESPONSES[knows(first)][rows[1]].items():
            law[first, second] = mass * chance
    return law


@pytest.mark.parametrize("knows", [lambda first: 2, lambda first: 3, lambda first: 3 if first == 1 else 2])
def test_a_row_in_one_of_two_releases_costs_the_dearer_and_a_row_in_both_their_sum(knows):
    losses = {ratio: price(Fraction(ratio), law) for ratio, law in RESPONSES.items()}
    worst = max(2, *map(knows, (0, 1, 2)))
    delta = max(losses[2], *(losses[knows(first)] for first in (0, 1, 2)))
    for other in (0, 1):
        for pair in (((0, other), (1, other)), ((other, 0), (other, 1))):
            for here, there in (pair, pair[::-1]):
                assert lost(joint(here, knows), joint(there, knows), Fraction(worst)) <= delta
    _, both = overlapping_loss([(Fraction(0), losses[2]), (Fraction(0), delta)])
    for here, there in (((0, 0), (1, 1)), ((1, 1), (0, 0))):
        assert lost(joint(here, knows), joint(there, knows), Fraction(2 * worst)) <= both


def test_the_bounds_are_reached():
    def knows(first):
        return 3

    assert lost(joint((0, 1), knows), joint((0, 0), knows), Fraction(3)) == Fraction(1, 5)
    assert lost(joint((1, 1), knows), joint((0, 0), knows), Fraction(6)) == 1 - Fraction(9, 10) * Fraction(4, 5)


def test_a_row_in_both_periods_costs_more_than_the_dearer():
    def knows(first):
        return 2

    assert lost(joint((1, 1), knows), joint((0, 0), knows), Fraction(2)) > Fraction(1, 10)


def test_losses():
    losses = [(Fraction(1), Fraction(1, 10)), (Fraction(2), Fraction(1, 20)), (Fraction(1, 2), Fraction(1, 5))]
    assert disjoint_loss(losses) == (2, Fraction(1, 5))
    assert overlapping_loss(losses) == (Fraction(7, 2), 1 - Fraction(9, 10) * Fraction(19, 20) * Fraction(4, 5))
    assert user_loss(losses, periods=2) == (3, 1 - Fraction(9, 10) * Fraction(4, 5))
    assert user_loss(losses, periods=9) == overlapping_loss(losses)
    assert user_loss(losses, periods=1) == disjoint_loss(losses)
    assert moved_row_epsilon([Fraction(1), Fraction(2)], [Fraction(3), Fraction(1)]) == 5
    assert disjoint_amount([]) == 0
    assert families_loss([losses, losses[:1]]) == (3, 1 - Fraction(4, 5) * Fraction(9, 10))
    assert families_loss([losses]) == disjoint_loss(losses)
    assert families_amount([[Fraction(1), Fraction(3)], [Fraction(2)], []]) == 5
    assert families_amount([]) == 0


def test_sums_of_deltas_are_never_below_what_is_lost():
    for deltas in product([Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)], repeat=3):
        assert overlapping_loss([(Fraction(0), delta) for delta in deltas])[1] <= sum(deltas)
