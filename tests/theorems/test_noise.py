"""How noise is drawn, and what several people or releases lose together."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import Interval, geometric_sum
from opendp_tree.theorems.noise import (
    BASE,
    families_amount,
    gaussian_acceptance,
    geometric_digits,
    group_delta,
    group_loss,
    proposal_scale,
)
from opendp_tree.theorems.tails import truncated_laplace_delta
from tests.privacy.divergence import families_delta

scales = st.fractions(min_value=Fraction(1, 1000), max_value=2**50)


@given(scales, st.none() | st.integers(1, 2**62 - 1))
def test_digits_reach_every_number_and_few_beyond_the_radius(scale, radius):
    *lower, top = geometric_digits(scale, radius)
    assert [digit.unit for digit in (*lower, top)] == [BASE**i for i in range(len(lower) + 1)]
    assert all(digit.size == BASE for digit in lower)
    if radius is None:
        assert top.size is None
    else:
        assert (top.size - 1) * top.unit <= radius < top.size * top.unit


@given(scales, st.integers(1, 2**62 - 1) | st.integers(1, 10_000))
@example(Fraction(10**6), 16)
@example(Fraction(10**6), 4096)
@example(Fraction(1000), 100)
@example(Fraction(2) ** 1000, 2**62 - 1)
def test_rejection_keeps_at_least_half(scale, radius):
    top = geometric_digits(scale, radius)[-1]
    reached = top.size * top.unit
    # The kept numbers are the lower ones of a decreasing law: their share is at least their count's.
    assert 2 * (radius + 1) >= reached
    assert reached < 2**63


def test_product_of_digit_laws_is_the_geometric_law():
    """In exact arithmetic, with any rational ratio in the place of exp(-1/scale)."""
    q = Fraction(9, 10)
    digits = geometric_digits(Fraction(1000), None)
    for z in (0, 1, 255, 256, 257, 700):
        product = Fraction(1)
        rest = z
        for digit in digits:
            ratio = q**digit.unit
            j = rest if digit.size is None else rest % BASE
            rest //= BASE
            product *= ratio**j * (1 - ratio if digit.size is None else 1 / geometric_sum(ratio, digit.size))
        assert product == (1 - q) * q**z


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(100)])
def test_proposal_times_acceptance_is_the_gaussian(scale):
    """The logarithms, exactly: -|y|/t - (|y| - s²/t)²/(2s²) = -y²/(2s²) - s²/(2t²)."""
    t = proposal_scale(scale)
    for y in range(50):
        left = -Fraction(y, t) - (y - scale**2 / t) ** 2 / (2 * scale**2)
        assert left == -Fraction(y * y) / (2 * scale**2) - scale**2 / (2 * t * t)
        kept = gaussian_acceptance(y, scale)
        reference = math.exp(-float((y - scale**2 / t) ** 2 / (2 * scale**2)))
        assert float(kept.lo) == pytest.approx(reference, rel=1e-12, abs=1e-300)
        assert 0 <= kept.lo <= kept.hi <= 1 + Decimal("1e-50")


def test_group_privacy_covers_the_exact_loss_of_truncated_laplace():
    """Its delta at every distance is known exactly, and while k is small it loses all that group privacy allows."""
    q = Fraction(1, 2)
    for radius in (2, 5):
        one = truncated_laplace_delta(q, radius=radius, d_in=1)
        for k in range(1, 2 * radius):
            exact = truncated_laplace_delta(q, radius=radius, d_in=k)
            assert exact <= group_delta(one, ratio=1 / q, k=k)
            if k <= radius:
                assert exact == group_delta(one, ratio=1 / q, k=k)


def test_losses_are_rounded_up_and_capped():
    third, small = Fraction(1, 3), Interval.of(Fraction(1, 10**9))
    epsilon, delta = group_loss(third, small, k=3)
    assert Fraction(epsilon) >= 1
    assert delta > 3e-9
    assert group_loss(third, small, k=0) == (0.0, 0.0)
    assert group_loss(Fraction(0), small, k=5)[1] >= 5e-9
    assert group_loss(third, small, k=2**63)[1] == 1.0
    assert math.isfinite(group_loss(third, small, k=2**63)[0])


def test_one_person_pays_what_one_person_pays_at_any_epsilon():
    assert group_loss(Fraction(10**7), Interval.of(Fraction(1, 2**20)), k=1) == (1e7, 2.0**-20)


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
    both = families_delta([[losses[2]], [delta]])
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


def test_losses_of_one_family_do_not_add_up():
    assert families_amount([[Fraction(1), Fraction(3)], [Fraction(2)], []]) == 5
    assert families_amount([]) == 0


def test_sums_of_deltas_are_never_below_what_is_lost():
    for deltas in product([Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)], repeat=3):
        assert families_delta([delta] for delta in deltas) <= families_amount([delta] for delta in deltas)
