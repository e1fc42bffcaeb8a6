from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from opendp_tree import noise
from opendp_tree.theorems.noise import geometric_digits
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value
from tests.thoroughness import slow

SCALES = [0.3, 1.0, 2.5, 16.0, 17.0, 100.0, 1000.0, 1e6]
LAWS = [(scale, radius) for scale in SCALES for radius in (None, 1, 7, 40, 300, 100_000)]


def digits_of(scale, radius):
    return geometric_digits(Fraction(scale), radius)


def exact_cdf(digit, count):
    """The first values of the distribution function, summed term by term in 150 digits."""
    with localcontext() as context:
        context.prec = 150
        ratio = (-Decimal(digit.rate.numerator) / Decimal(digit.rate.denominator)).exp()
        size = digit.size
        total = 1 / (1 - ratio) if size is None else (1 - ratio**size) / (1 - ratio)
        values, running, power = [], Decimal(0), Decimal(1)
        for _ in range(count):
            running, power = running + power, power * ratio
            values.append(running / total)
    return values


@pytest.mark.parametrize(("scale", "radius"), LAWS)
def test_tables_settle_only_what_is_certain(scale, radius):
    """Every look-up that needs no further bits lies wholly inside its digit's part of the unit interval."""
    for digit in digits_of(scale, radius):
        table = noise._table(digit)
        count = table.below.size
        cdf = [Decimal(0), *exact_cdf(digit, count)]
        for place in range(count):
            cells = np.flatnonzero(table.guide == place)
            if cells.size:
                assert Fraction(int(cells[0]), 2**16) >= Fraction(cdf[place]) - Fraction(1, 10**140)
                assert Fraction(int(cells[-1]) + 1, 2**16) <= Fraction(cdf[place + 1]) + Fraction(1, 10**140)
                assert (np.diff(cells) == 1).all()
            if place < table.above.size:
                assert Fraction(int(table.below[place]), 2**64) <= Fraction(cdf[place + 1])
                assert Fraction(int(table.above[place]), 2**64) >= Fraction(cdf[place + 1])
                assert int(table.above[place]) - int(table.below[place]) <= 2


def scripted(monkeypatch, *words):
    """Replace the secure bits by given 64-bit words, which must be used up."""
    queue = [np.array([word], dtype=np.uint64).view(np.uint8) for word in words]

    def take(count):
        word = queue.pop(0)
        return word[:count] if count == 8 else word[-count:]

    monkeypatch.setattr(noise, "secure_bytes", take)
    return queue


@pytest.mark.parametrize(("scale", "radius"), [(2.5, None), (1000.0, None), (1000.0, 5000), (3.0, 50)])
def test_ties_are_broken_by_further_bits(monkeypatch, scale, radius):
    """A word whose interval holds an edge is followed by bits just below and just above that edge."""
    digit = digits_of(scale, radius)[-1]
    table = noise._table(digit)
    for place in range(min(6, table.above.size)):
        edge = exact_cdf(digit, place + 1)[-1]
        with localcontext() as context:
            context.prec = 150
            word = int(edge * 2**64)
            further = int(edge * 2**128) - (word << 64)
        assert table.below[place] <= word < table.above[place]
        for offset, expected in ((-1, place), (1, place + 1)):
            left = scripted(monkeypatch, further + offset)
            assert table._place(np.array([word], dtype=np.uint64))[0] == expected
            assert not left
        # Bits that still tie need one word more.
        left = scripted(monkeypatch, further, 2**64 - 1)
        assert table._place(np.array([word], dtype=np.uint64))[0] == place + 1
        assert not left


def test_the_far_tail_has_no_end(monkeypatch):
    """All 64 bits set: the draw lies beyond the table, and how far is told by the next bits."""
    table = noise._table(digits_of(2.5, None)[-1])
    reached = []
    for following in (2**10, 2**63, 2**64 - 1):
        scripted(monkeypatch, following, 0, 0)
        reached.append(int(table._place(np.array([2**64 - 1], dtype=np.uint64))[0]))
    assert table.below.size - 1 <= reached[0] <= reached[1] < reached[2]
    assert reached[1] == int(2.5 * np.log(2.0) * 65)
    assert reached[2] == int(2.5 * np.log(2.0) * 128)


def test_numbers_beyond_int64_saturate(monkeypatch):
    candidates = noise._candidates(2.0**50, None)
    table = noise._table(digits_of(2.0**50, None)[-1])
    limit = (2**63 - 1) // table.digit.unit + 1
    monkeypatch.setattr(noise, "secure_bytes", lambda count: np.full(count, 255, dtype=np.uint8))
    monkeypatch.setattr(type(table.digit), "cdf", lambda digit, at: noise.Interval.of(0))
    drawn, kept = candidates(3)
    assert table._refine(2**64 - 1, 5) == limit
    assert kept.all()
    assert (drawn == 2**63 - 1).all()


QUICK, LARGE = (200_000, 0.05), (20_000_000, 0.005)


def follows(drawn, scale, off, support):
    """Whether a sample has a Laplace law, and not that of a scale that is off by so much: tiny ones look alike."""
    if p_value(drawn, support, laplace_masses(scale, support)) <= FALSE_ALARM:
        return False
    wrong = [laplace_masses(scale * factor, support) for factor in (1 - off, 1 + off)]
    return scale < 1 or all(p_value(drawn, support, masses) < FALSE_ALARM for masses in wrong)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 16.5, 40.0, 1000.0])
@pytest.mark.parametrize(("size", "off"), slow([QUICK, LARGE], unless=QUICK.__eq__))
def test_samples_follow_the_law_and_no_other(scale, size, off):
    """Each comparison is a chi-square test that a right sampler fails with probability 1e-9."""
    wide = int(50 * scale) + 1
    both, natural = np.arange(-wide, wide + 1), np.arange(wide + 1)
    assert follows(noise.laplace(scale, size), scale, off, both)
    assert follows(noise.geometric(scale, size), scale, off, natural)
    for radius in {1, 3, 30, 500, int(5 * scale)}:
        both, natural = np.arange(-radius, radius + 1), np.arange(radius + 1)
        drawn = noise.truncated_laplace(scale, radius, size), noise.truncated_geometric(scale, radius, size)
        for sample, support in zip(drawn, (both, natural), strict=True):
            if radius == int(5 * scale):
                assert follows(sample, scale, off, support)
            else:  # of a scale far from the radius little is told
                assert p_value(sample, support, laplace_masses(scale, support)) > FALSE_ALARM


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_a_zero_that_is_drawn_twice_as_often_is_rejected(monkeypatch, scale):
    """The mutant that keeps both signs of zero."""
    support = np.arange(-int(50 * scale), int(50 * scale) + 1)
    mutant = noise.geometric(scale, 200_000) * (1 - 2 * (noise.geometric(1e9, 200_000) & 1))
    assert p_value(mutant, support, laplace_masses(scale, support)) < FALSE_ALARM


def test_draws_are_independent_of_their_neighbours():
    """Products of consecutive centred draws average to 0: six standard errors, a false alarm in 5e8 runs."""
    for scale in (1.0, 1000.0):
        drawn = noise.laplace(scale, 400_000).astype(float)
        products = drawn[1:] * drawn[:-1]
        assert abs(products.mean()) < 6 * products.std() / np.sqrt(products.size)


def test_no_noise_at_scale_zero_and_radius_zero():
    assert not noise.laplace(0.0, 10).any()
    assert not noise.truncated_laplace(5.0, 0, 10).any()
    assert not noise.truncated_geometric(0.0, 3, 10).any()


@pytest.mark.parametrize("size", [0, 1, 15, 65_535, 65_537, 200_001])
def test_as_many_draws_as_asked(size):
    assert noise.laplace(1.0, size).shape == (size,)


def test_tiny_and_huge_scales_draw():
    assert not noise.laplace(5e-324, 1000).any()
    assert not noise.laplace(0.01, 1000).any()
    assert np.abs(noise.truncated_laplace(1e308, 10, 1000)).max() <= 10
    assert np.abs(noise.truncated_laplace(1.7e308, 2**62 - 1, 1000)).max() > 2**60
    with pytest.raises(ValueError, match="must be at most 2\\*\\*50 to draw untruncated noise"):
        noise.laplace(2.0**51, 1)


SKEWS = [(0.3, 2.5), (1.0, 1.0), (2.5, 0.3), (5.0, 9.0), (40.0, 17.0), (1000.0, 3.0)]


def skewed_masses(right_scale, left_scale, support):
    """The masses, up to a factor, of the difference of two geometric numbers on a support."""
    values = np.asarray(support, dtype=float)
    return np.exp(-np.where(values >= 0, values / right_scale, -values / left_scale))


@pytest.mark.parametrize(("right_scale", "left_scale"), SKEWS)
def test_skewed_noise_is_the_difference_of_two_geometric_numbers(monkeypatch, right_scale, left_scale):
    """Given its parts the number is known, so its law is exact where theirs are."""
    drawn = iter(range(3, 100))
    monkeypatch.setattr(noise._Table, "draw", lambda table, count: np.full(count, next(drawn), dtype=np.int64))
    digits = [digits_of(scale, None) for scale in (right_scale, left_scale)]
    numbers = iter(range(3, 100))
    right, left = (sum(next(numbers) * digit.unit for digit in part) for part in digits)
    assert noise.skewed_geometric(right_scale, left_scale, 5).tolist() == [right - left] * 5


@pytest.mark.parametrize(("right_scale", "left_scale"), SKEWS)
def test_skewed_samples_follow_their_law_and_no_other(right_scale, left_scale):
    """Chi-square tests that a right sampler fails with probability 1e-9; swapped sides and scales 5 % off are found."""
    drawn = noise.skewed_geometric(right_scale, left_scale, 200_000)
    support = np.arange(-int(50 * left_scale) - 1, int(50 * right_scale) + 2)
    assert p_value(drawn, support, skewed_masses(right_scale, left_scale, support)) > FALSE_ALARM
    both = np.arange(-int(50 * max(right_scale, left_scale)) - 1, int(50 * max(right_scale, left_scale)) + 2)
    for wrong in ((right_scale * 1.05, left_scale * 1.05), (left_scale, right_scale)):
        if wrong != (right_scale, left_scale) and wrong[0] > 0.5:
            assert p_value(drawn, both, skewed_masses(*wrong, both)) < FALSE_ALARM
    if right_scale == left_scale:
        assert p_value(drawn, support, laplace_masses(right_scale, support)) > FALSE_ALARM


def test_skewed_noise_with_one_tail_is_geometric():
    size, support = 200_000, np.arange(150)
    assert p_value(noise.skewed_geometric(3.0, 0.0, size), support, laplace_masses(3.0, support)) > FALSE_ALARM
    assert p_value(-noise.skewed_geometric(0.0, 3.0, size), support, laplace_masses(3.0, support)) > FALSE_ALARM
    assert p_value(noise.skewed_geometric(3.0, 5e-324, size), support, laplace_masses(3.0, support)) > FALSE_ALARM
    assert not noise.skewed_geometric(0.0, 0.0, 10).any()
    for scales in ((2.0**51, 1.0), (1.0, 2.0**51)):
        with pytest.raises(ValueError, match="must be at most 2\\*\\*50 to draw untruncated noise"):
            noise.skewed_geometric(*scales, 0)


def test_a_failing_generator_releases_nothing(monkeypatch):
    from opendp_tree import _opendp

    monkeypatch.setattr(_opendp, "fill_bytes", lambda pointer, count: False)
    with pytest.raises(RuntimeError, match="the secure random number generator failed; nothing was released"):
        noise.laplace(1.0, 10)


def test_chances_too_small_for_sixty_four_bits_are_drawn_all_the_same(monkeypatch):
    """Noise with a chance below 2**-64 is not reached, unless 64 bits are all zero and more decide."""
    waits = noise.first_reach(1.0, 100, np.array([100, 60, 1]), limit=64)
    assert waits[0] == waits[1] == 65
    table = noise._table(noise.FirstReach(Fraction(1), 100, 100, 64))
    scripted(monkeypatch, 0, 0, 0)
    assert table._place(np.zeros(1, dtype=np.uint64))[0] == 0
    scripted(monkeypatch, 2**63, 0, 0)
    assert table._place(np.zeros(1, dtype=np.uint64))[0] == 64


@pytest.mark.parametrize("limit", [1, 3, 64, 65, 200])
def test_waits_for_large_noise_follow_the_geometric_law(limit):
    """Chi-square against success chances from floats; a false alarm in 1e9 runs."""
    radius, scale, size = 4, 2.0, 60_000
    masses = laplace_masses(scale, np.arange(radius + 1))
    for least in (1, 2, 4):
        success = masses[least:].sum() / masses.sum()
        waits = noise.first_reach(scale, radius, np.full(size, least), limit=limit)
        law = success * (1 - success) ** np.arange(limit + 1)
        law[-1] = (1 - success) ** limit
        assert p_value(waits, np.arange(1, limit + 2), law) > FALSE_ALARM


def test_waits_for_other_noise_are_rejected():
    """Power: waits for noise of one more do not pass."""
    masses = laplace_masses(2.0, np.arange(5))
    success = masses[2:].sum() / masses.sum()
    waits = noise.first_reach(2.0, 4, np.full(60_000, 3), limit=20)
    law = success * (1 - success) ** np.arange(21)
    assert p_value(waits, np.arange(1, 22), law) < FALSE_ALARM


def test_waits_of_several_needs_at_once():
    least = np.tile([1, 3, 9], 2000)
    waits = noise.first_reach(2.0, 9, least, limit=50)
    masses = laplace_masses(2.0, np.arange(10))
    for place, need in enumerate((1, 3, 9)):
        success = masses[need:].sum() / masses.sum()
        law = success * (1 - success) ** np.arange(51)
        law[-1] = (1 - success) ** 50
        assert p_value(waits[place::3], np.arange(1, 52), law) > FALSE_ALARM
    assert noise.first_reach(2.0, 4, np.array([1, 4, 1]), limit=0).tolist() == [1, 1, 1]
    assert noise.first_reach(0.0, 4, np.array([1, 4]), limit=7).tolist() == [8, 8]


@pytest.mark.parametrize(("scale", "radius"), [(0.7, 16), (3.0, 16), (3.0, 17), (300.0, 1000)])
def test_noise_given_that_it_is_large_follows_its_law(scale, radius):
    """Chi-square tests, each of which a right sampler fails with probability 1e-9.

    Power: of 200,000 draws those of a scale 10 % larger have a noncentrality of at least 951 in up to 100 cells, and
    pass with probability below 1e-70.
    """
    needs = np.unique([0, 1, radius // 2, radius - 8, radius - 1, radius])
    drawn = noise.truncated_geometric_from(scale, radius, np.tile(needs, 40_000)).reshape(-1, needs.size)
    for place, need in enumerate(needs):
        support = np.arange(need, radius + 1)
        assert p_value(drawn[:, place], support, laplace_masses(scale, support - need)) > FALSE_ALARM
    many = noise.truncated_geometric_from(scale, radius, np.zeros(200_000, dtype=np.int64))
    wrong = laplace_masses(scale * 1.1, np.arange(radius + 1))
    assert p_value(many, np.arange(radius + 1), wrong) < FALSE_ALARM


def test_noise_given_that_it_is_large_at_the_ends():
    assert noise.truncated_geometric_from(1.0, 5, np.full(9, 5)).tolist() == [5] * 9
    assert noise.truncated_geometric_from(0.0, 5, np.array([0, 0])).tolist() == [0, 0]
    assert noise.truncated_geometric_from(1.0, 5, np.zeros(0, dtype=np.int64)).size == 0
    huge = noise.truncated_geometric_from(1e300, 2**62 - 1, np.array([0, 2**61, 2**62 - 1]))
    assert (huge >= [0, 2**61, 2**62 - 1]).all()
    assert (huge <= 2**62 - 1).all()


@pytest.mark.parametrize(("scale", "radius"), [(1.0, 20), (0.4, 9), (10.0, 150)])
def test_waits_that_need_no_table_are_rare_for_certain(scale, radius):
    """Only words that begin with 16 zero bits can be waits below the limit: their probability is at most 2**-16."""
    first = noise._rare_from(scale, radius)
    assert 1 < first <= radius
    for least in (first, radius):
        chance = noise.FirstReach(Fraction(scale), radius, least, noise._LONGEST_REACH).cdf(noise._LONGEST_REACH - 1)
        assert chance.hi <= Decimal(2) ** -16
    often = noise.FirstReach(Fraction(scale), radius, first - 1, noise._LONGEST_REACH).cdf(noise._LONGEST_REACH - 1)
    assert often.lo > Decimal(2) ** -17


def test_rare_waits_follow_the_geometric_law():
    """Their number within Poisson bounds of 1e-9 on each side, and spread evenly over the draws: 1e-9."""
    scale, radius, size, limit = 1.0, 20, 5_000_000, 300
    least = noise._rare_from(scale, radius)
    masses = laplace_masses(scale, np.arange(radius + 1))
    success = masses[least:].sum() / masses.sum()
    waits = noise.first_reach(scale, radius, np.full(size, least), limit=limit)
    reached = waits[waits <= limit]
    expected = -size * np.expm1(limit * np.log1p(-success))
    assert 100 < expected < 10_000
    assert stats.poisson.ppf(1e-9, expected) <= reached.size <= stats.poisson.isf(1e-9, expected)
    parts = np.histogram(reached, bins=[1, 65, 129, 193, 257, limit + 1])[0]
    lengths = np.array([64, 64, 64, 64, limit - 256])
    assert stats.chisquare(parts, lengths / lengths.sum() * reached.size).pvalue > FALSE_ALARM
    # Power: waits for one less would be e times as many, and do not pass.
    assert reached.size < stats.poisson.ppf(1e-9, expected * np.e)


def test_integers_below_a_limit_are_even_and_incomplete_runs_are_drawn_again(monkeypatch):
    words = iter([[2**64 - 1, 5, 7, 0], [9]])
    monkeypatch.setattr(noise, "uniform_words", lambda size: np.array(next(words), dtype=np.uint64))
    assert noise.uniform_below(np.array([3 * 2**61, 4, 1, 7, 2**62])).tolist() == [9, 1, 0, 0, 0]


@pytest.mark.parametrize("limit", [1, 2, 3, 37, 64, 65, 1000])
def test_integers_below_a_limit_have_equal_chances(limit):
    drawn = noise.uniform_below(np.full(20_000, limit))
    counts = np.bincount(drawn, minlength=limit)
    assert counts.size == limit
    assert limit == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM
