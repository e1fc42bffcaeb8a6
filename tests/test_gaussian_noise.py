"""Gaussian noise: the same kinds of tests as for Laplace noise."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import noise
from opendp_tree.theorems.noise import gaussian_acceptance, proposal_scale
from tests.goodness_of_fit import FALSE_ALARM, p_value
from tests.thoroughness import slow

SCALES = [0.3, 0.99, 1.0, 2.5, 16.0, 1000.0, 1e6, 2.0**49]


def masses(scale, support):
    return np.exp(-(np.asarray(support, dtype=float) ** 2) / (2 * scale**2))


def wide(scale):
    reach = int(12 * scale) + 2
    return np.arange(-reach, reach + 1)


def exact_acceptance(magnitude, scale):
    exact = Fraction(scale)
    power = (magnitude - exact**2 / proposal_scale(exact)) ** 2 / (2 * exact**2)
    with localcontext() as context:
        context.prec = 150
        return (-Decimal(power.numerator) / Decimal(power.denominator)).exp()


@pytest.mark.parametrize("scale", SCALES)
def test_floats_are_far_nearer_than_the_doubt(scale):
    """Every float that may decide is compared with 150 digits: a thousandth of the margin is never used."""
    magnitudes = np.unique((np.linspace(0, 12, 3000) * max(scale, 1)).astype(np.int64))
    found = noise._acceptance(magnitudes, scale)
    for magnitude, probability in zip(magnitudes.tolist(), found.tolist(), strict=True):
        error = abs(Decimal(probability) - exact_acceptance(magnitude, scale))
        assert error < Decimal(noise._DOUBT / 1000)


def scripted(monkeypatch, *words):
    queue = [np.array([word], dtype=np.uint64).view(np.uint8) for word in words]
    monkeypatch.setattr(noise, "secure_bytes", lambda count: queue.pop(0))
    return queue


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 1000.0])
@pytest.mark.parametrize("magnitude", [0, 1, 3])
def test_ties_are_broken_by_further_bits(monkeypatch, scale, magnitude):
    """A word that begins like the acceptance probability is followed by bits just below and just above it."""
    with localcontext() as context:
        context.prec = 150
        edge = exact_acceptance(magnitude, scale)
        word = int(edge * 2**64)
        further = int(edge * 2**128) - (word << 64)
        last = int(edge * 2**192) - (((word << 64) + further) << 64)
    place, words = np.array([magnitude]), np.array([word], dtype=np.uint64)
    for follow, expected in (
        ((further - 1,), True),
        ((further + 1,), False),
        ((further, last - 1), True),
        ((further, last + 1), False),
    ):
        left = scripted(monkeypatch, *follow)
        assert noise._kept(place, Fraction(scale), words)[0] == expected
        assert not left
    if word:
        left = scripted(monkeypatch)
        assert noise._kept(place, Fraction(scale), words - np.uint64(1))[0]
    assert not noise._kept(place, Fraction(scale), words + np.uint64(1))[0]


def test_words_outside_the_doubt_need_no_further_bits(monkeypatch):
    scripted(monkeypatch)
    scale, place = Fraction(5, 2), np.array([2, 2])
    edge = float(gaussian_acceptance(2, scale).lo)
    words = np.array([(edge - 1e-11) * 2**64, (edge + 1e-11) * 2**64]).astype(np.uint64)
    assert noise._kept(place, scale, words).tolist() == [True, False]


QUICK, LARGE = (200_000, 0.03), (20_000_000, 0.003)


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 2.5, 5.0, 40.0, 1000.0])
@pytest.mark.parametrize(("size", "off"), slow([QUICK, LARGE], unless=QUICK.__eq__))
def test_samples_follow_the_law_and_no_other(scale, size, off):
    """Chi-square tests that a right sampler fails with probability 1e-9; a scale that is a little off is rejected."""
    drawn, support = noise.gaussian(scale, size), wide(scale)
    assert p_value(drawn, support, masses(scale, support)) > FALSE_ALARM
    for wrong in (scale * (1 - off), scale * (1 + off)):
        assert scale < 1 or p_value(drawn, support, masses(wrong, support)) < FALSE_ALARM


def test_tiny_and_huge_scales_draw():
    assert not noise.gaussian(0.0, 10).any()
    assert not noise.gaussian(5e-324, 1000).any()
    assert np.abs(noise.gaussian(2.0**49, 1000)).max() > 2**49
    with pytest.raises(ValueError, match="must be at most 2\\*\\*49 to draw Gaussian noise"):
        noise.gaussian(2.0**50, 1)
