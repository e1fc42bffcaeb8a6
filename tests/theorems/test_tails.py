"""How far noise reaches: truncated noise, tails, and sums of noise."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opendp_tree.theorems.tails import (
    gaussian_multiplier,
    gaussian_tail,
    laplace_multiplier,
    laplace_sum_tail,
    laplace_tail,
    noise_bound,
    noise_tail,
    normal_multiplier,
    pruned_chances,
    truncated_laplace_cdf,
)

ratios = st.fractions(min_value=Fraction(1, 100), max_value=Fraction(99, 100), max_denominator=100)
radii = st.integers(1, 12)


@given(ratios, radii, st.integers(-15, 15))
def test_cdf_is_the_sum_of_the_masses(q, radius, at):
    masses = {z: q ** abs(z) for z in range(-radius, radius + 1)}
    below = sum((mass for z, mass in masses.items() if z <= at), Fraction(0))
    assert truncated_laplace_cdf(q, radius=radius, at=at) == below / sum(masses.values())


CONFIDENCES = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]
WEIGHTS = [(1,), (1, 1), (3, 1), (2, 2, 1), (1, 1, 1, 1), (5, 3, 2, 1), (7, 1, 1, 1, 1)]


def exceeds(masses, weights, limit):
    """P(|sum of weights times independent draws| > limit), by convolution; draws are on -reach..reach."""
    reach = masses.size // 2
    law = np.ones(1)
    for weight in weights:
        stretched = np.zeros(2 * weight * reach + 1)
        stretched[::weight] = masses
        law = np.convolve(law, stretched)
    support = np.arange(law.size) - law.size // 2
    return law[np.abs(support) > limit * (1 + 1e-12)].sum()


def discrete(kind, scale):
    reach = int(40 * scale if kind == "laplace" else 9 * scale) + 2
    z = np.arange(-reach, reach + 1)
    masses = np.exp(-np.abs(z) / scale) if kind == "laplace" else np.exp(-(z**2) / (2 * scale**2))
    return masses / masses.sum()


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("scale", [0.4, 0.7, 1.0, 2.0, 3.5, 8.0, 20.0])
def test_gaussian_bounds_hold_for_every_weighting(confidence, scale):
    masses = discrete("gaussian", scale)
    for weights in WEIGHTS:
        deviation = scale * math.sqrt(sum(w * w for w in weights))
        multiple = gaussian_multiplier(confidence, least_scale=scale, measured=len(weights))
        assert exceeds(masses, weights, multiple * deviation) <= 1 - confidence


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 2.0, 3.5, 8.0])
def test_laplace_bounds_hold_for_every_weighting(confidence, scale):
    masses = discrete("laplace", scale)
    variance = 1 / (2 * math.sinh(1 / (2 * scale)) ** 2)
    multiple = laplace_multiplier(confidence, least_variance=variance)
    for weights in WEIGHTS:
        deviation = math.sqrt(variance * sum(w * w for w in weights))
        assert exceeds(masses, weights, multiple * deviation) <= 1 - confidence


@pytest.mark.parametrize("multiple", [0.3, 1.0, 1.9, 2.5, 4.0, 6.0])
def test_the_tail_of_laplace_sums_is_bounded_and_nearly_met(multiple):
    one = math.exp(-math.sqrt(2) * multiple)
    two = math.exp(-2 * multiple) * (1 + multiple)  # equal weights, deviation 2 at scale 1
    many = math.erfc(multiple / math.sqrt(2))
    bound = laplace_sum_tail(multiple)
    assert max(one, two, many) <= bound
    if multiple > 1.5:
        assert bound < 1.2 * max(one, two, many) + 1e-8


def test_normal_multipliers_are_exact_and_the_others_tend_to_them_or_stay_near():
    for confidence in CONFIDENCES:
        assert math.erfc(normal_multiplier(confidence) / math.sqrt(2)) == pytest.approx(1 - confidence, rel=1e-12)
        wide = gaussian_multiplier(confidence, least_scale=1e6, measured=10**7)
        assert normal_multiplier(confidence) <= wide <= 1.01 * normal_multiplier(confidence)
    alone = math.log(20) / math.sqrt(2)
    assert alone <= laplace_multiplier(0.95, least_variance=1e12) <= 1.03 * alone


def test_mutant_normal_quantiles_for_integer_noise_are_rejected():
    """What many packages do: 1.96 standard deviations whatever the noise."""
    masses = discrete("gaussian", 1.0)
    assert exceeds(masses, (1,), normal_multiplier(0.95) * 1.0) > 0.05
    assert exceeds(discrete("laplace", 3.5), (1,), normal_multiplier(0.99) * math.sqrt(2) * 3.5) > 0.01


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


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3), Fraction(25)])
@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**9)])
def test_bounds_are_the_least(noise, scale, chance):
    bound = noise_bound(noise, scale, chance)
    assert noise_tail(noise, scale, bound + 1).hi * 2 <= chance
    if bound:
        assert noise_tail(noise, scale, bound).lo * 2 > chance


def test_bounds_follow_the_exact_law():
    """With q = 1/2 the chance of more than b is 2/3 * 2**-b; and ln 2 is just above 0.6931."""
    q, scale = Fraction(1, 2), 1 / Fraction(6931471805, 10**10)
    for bound in range(1, 12):
        chance = 2 * laplace_tail(q, bound + 1)
        assert chance == Fraction(2, 3) / 2**bound
        assert noise_bound("laplace", scale, chance * Fraction(1001, 1000)) == bound
        assert noise_bound("laplace", scale, chance * Fraction(999, 1000)) == bound + 1


def test_chances_add_up():
    for depth in (1, 2, 129):
        own, above = pruned_chances(Fraction(1, 10), depth)
        assert own + (depth - 1) * above <= Fraction(1, 10)
        assert 2 * above <= own
