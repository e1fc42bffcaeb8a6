"""The discrete Gaussian law."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from scipy import stats

from opendp_tree.theorems.gaussian import gaussian_acceptance, gaussian_tail, proposal_scale


def exact_masses(scale, reach):
    """exp(-z**2 / (2 scale**2)) for z = 0..reach in 120 digits."""
    with localcontext() as context:
        context.prec = 120
        rate = Decimal(scale.denominator) ** 2 / (2 * Decimal(scale.numerator) ** 2)
        return [(-rate * z * z).exp() for z in range(reach + 1)]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(17)])
def test_tails_enclose_the_exact_sums(scale):
    masses = exact_masses(scale, int(40 * scale) + 40)
    with localcontext() as context:
        context.prec = 120
        total = masses[0] + 2 * sum(masses[1:])
        for at in (-9, -1, 0, 1, 2, 5, int(6 * scale) + 1):
            above = sum(masses[at:]) if at > 0 else total - sum(masses[1 - at :])
            tail = gaussian_tail(scale, at)
            assert tail.lo <= above / total <= tail.hi
            assert (tail.hi - tail.lo) / tail.hi < Decimal("1e-40")


@pytest.mark.parametrize("scale", [101, 1000, 10**6])
@pytest.mark.parametrize("steps", [0.0, 0.3, 0.79, 0.81, 2.0, 5.0, 8.0])
def test_tails_of_wide_noise_are_bounded(scale, steps):
    at = int(steps * scale) + 1
    bound = float(gaussian_tail(Fraction(scale), at).hi)
    truth = stats.norm.sf((at - 0.5) / scale)  # right to many digits for noise this wide
    assert truth * (1 - 1e-9) <= bound
    if steps >= 2:
        assert bound < 1.35 * truth
    assert gaussian_tail(Fraction(scale), -5).hi == 1


def test_the_extremes():
    assert gaussian_tail(Fraction(5e-324), 1).hi < Decimal("1e-1000")
    assert gaussian_tail(Fraction(1), 10**6).hi < Decimal("1e-1000")
    assert gaussian_tail(Fraction(1e300), 1).hi <= 1


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
