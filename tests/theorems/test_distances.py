"""Group privacy."""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_tree.theorems.distances import group_delta, group_loss
from opendp_tree.theorems.interval import Interval
from opendp_tree.theorems.laplace import truncated_laplace_delta


def test_it_covers_the_exact_loss_of_truncated_laplace():
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
