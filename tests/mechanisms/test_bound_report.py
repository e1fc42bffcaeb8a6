"""The report: its map, its noise, what it refuses; intervals hold the true shares as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from scipy import stats

from opendp_tree import frame_domain, noise
from opendp_tree.mechanisms import make_bound_report
from opendp_tree.mechanisms.bound_report import _TILTS, _log_moment, _Margins, estimated_rows, kept_shares
from opendp_tree.theorems.interval import Interval, digits, exp
from opendp_tree.theorems.tails import bin_ends
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value
from tests.privacy.bound_law import laplace_moment, margin_ends, tail_chance

FRAME = pl.DataFrame({"user": [*range(3000), *range(1000), *range(1000)]})
SPACE = frame_domain(FRAME), dp.symmetric_id_distance("user")


def test_the_map_is_exact_or_rounded_up_and_twice_for_changed_people():
    for scale in (0.3, 1.0, 7.0, 20.0):
        made = make_bound_report(*SPACE, scale, most=9)
        changed = make_bound_report(SPACE[0], dp.change_one_id_distance("user"), scale, most=9)
        losses = [made.map(k) for k in range(6)]
        assert losses[0] == 0
        for k, loss in enumerate(losses):
            assert 0 <= Fraction(loss) - k / Fraction(scale) <= Fraction(np.spacing(loss))
            assert changed.map(k) == made.map(2 * k)
        assert made.output_measure == dp.max_divergence()


def test_the_statement_is_the_map_at_one():
    changed = make_bound_report(SPACE[0], dp.change_one_id_distance("user"), 8.0, most=9)
    for made, unit in ((make_bound_report(*SPACE, 8.0, most=9), "'user'"), (changed, "'user' for another")):
        statement = made(FRAME).statement
        assert statement.loss == {"epsilon": made.map(1)}
        assert statement.unit == f"one value of {unit}"
        assert statement.parameters == {"scale": 8.0, "most": 9}


def test_every_bin_gets_integer_laplace_noise_even_where_nobody_is():
    """Chi-square with a false-alarm rate of 1e-9; other scales are rejected."""
    made = make_bound_report(*SPACE, 3.0, most=500)
    drawn = np.concatenate([made(FRAME.clear()).people for _ in range(100)])
    support = range(-200, 201)
    assert p_value(drawn, support, laplace_masses(3.0, support)) > FALSE_ALARM
    assert p_value(drawn, support, laplace_masses(1.5, support)) < FALSE_ALARM
    assert p_value(drawn, support, laplace_masses(4.0, support)) < FALSE_ALARM


def test_the_columns_of_a_report_do_not_depend_on_the_data():
    made = make_bound_report(*SPACE, 2.0, most=40)
    for frame in (FRAME, FRAME.clear(), FRAME.head(1)):
        report = made(frame)
        assert report.bounds.tolist() == list(bin_ends(40))
        assert all(
            part.size == report.bounds.size for part in (report.people, report.shares, report.lower, report.upper)
        )


def test_people_are_counted_where_they_belong():
    """A noise of scale 1/4 is 40 or more with probability below 1e-60."""
    report = make_bound_report(*SPACE, 0.25, most=4)(FRAME)
    assert np.abs(report.people - [2000, 0, 1000, 0]).max() < 40
    assert abs(report.rows - 5000) < 400


HALF = Fraction(1, 2)


def true_shares(rows, ends):
    return np.minimum(rows, ends[:, None]).sum(axis=1) / rows.sum()


def held(found, truth):
    return bool(((found.lower <= truth) & (truth <= found.upper)).all())


UNIT = (1 - HALF) / (1 + HALF)
"""The mass of 0, where that of z is proportional to 2**-|z|."""


def missed(people, scale, reach):
    """The probability of a miss, exactly, over a window of noise with masses 2**-|z|, at a confidence of 0.9."""
    truth = true_shares(np.repeat([1, 2], people), np.array([1, 2]))
    chance = Fraction(0)
    for outcome in product(range(-reach, reach + 1), repeat=2):
        found = kept_shares(np.array(people) + outcome, ends=np.array([1, 2]), scale=scale, confidence=0.9)
        if not held(found, truth):
            chance += UNIT**2 * HALF ** sum(map(abs, outcome))
    return chance


@pytest.mark.parametrize("people", [(0, 3), (5, 5), (40, 2), (1, 0)])
def test_the_probability_of_a_miss_is_below_what_is_promised(people):
    """Everything outside the window is taken for a miss; no tolerance."""
    scale = math.nextafter(1 / math.log(2), 2)
    assert exp(-1 / Fraction(scale)).lo >= HALF  # the noise that is assumed is no smaller than this
    outside = 2 * 2 * UNIT * HALF**9 / (1 - HALF)
    assert missed(people, scale, reach=8) + outside <= Fraction(1, 10)


def test_mutant_noise_taken_for_a_tenth_is_rejected_exactly():
    assert missed((5, 5), 0.1 / math.log(2), reach=4) > Fraction(1, 10)


ENDS = np.array(bin_ends(60))
GENERATOR = np.random.default_rng(3)
TAILS = np.minimum(np.floor(GENERATOR.pareto(1.1, 20_000) + 1).astype(int), 60)
LOW_IN_BINS = np.concatenate(([1], ENDS[:-1] + 1))[np.searchsorted(ENDS, TAILS)]
"""As many people in each bin, but all at its first number."""
HIGH_IN_BINS = ENDS[np.searchsorted(ENDS, TAILS)]
PEOPLE = {
    "tails": TAILS,
    "first of bins": LOW_IN_BINS,
    "last of bins": HIGH_IN_BINS,
    # The bound 20 keeps as little, and as much, as people in these bins can make it: so many that noise is nothing.
    "first up to 20, then last": np.tile(np.where(TAILS <= 20, LOW_IN_BINS, HIGH_IN_BINS), 20),
    "last up to 20, then first": np.tile(np.where(TAILS <= 20, HIGH_IN_BINS, LOW_IN_BINS), 20),
}


def plug_in(noisy, ends, scale):
    """The mutant: the estimate, and two standard deviations of the noise in it."""
    estimates = kept_shares(noisy, ends=ends, scale=scale, confidence=0.95).estimates
    middles = (np.concatenate(([1], ends[:-1] + 1)) + ends) / 2
    weights = np.minimum(middles, ends[:, None]) - estimates[:, None] * middles
    reach = 2 * math.sqrt(2) * scale * np.sqrt((weights**2).sum(axis=1)) / (middles @ noisy)
    return type("Plug", (), {"lower": estimates - reach, "upper": estimates + reach})


def misses(rows, interval, runs, scale=4.0):
    people, truth = np.bincount(np.searchsorted(ENDS, rows), minlength=ENDS.size), true_shares(rows, ENDS)
    return sum(not held(interval(people + noise.laplace(scale, ENDS.size)), truth) for _ in range(runs))


@pytest.mark.parametrize("name", PEOPLE)
def test_intervals_hold_together_as_often_as_they_say(name):
    runs, chance = 60, 0.3
    found = misses(PEOPLE[name], lambda noisy: kept_shares(noisy, ends=ENDS, scale=4.0, confidence=1 - chance), runs)
    assert found <= stats.binom.isf(FALSE_ALARM, runs, chance)


@pytest.mark.parametrize("name", ["first of bins", "last of bins"])
def test_mutant_the_plug_in_ratio_is_rejected(name):
    runs, chance = 60, 0.3
    found = misses(PEOPLE[name], lambda noisy: plug_in(noisy, ENDS, 4.0), runs)
    assert found > stats.binom.isf(FALSE_ALARM, runs, chance)


def test_shares_rise_and_lie_in_their_intervals():
    for people in (np.zeros(ENDS.size), -50 * np.ones(ENDS.size), 2.0**61 * np.ones(ENDS.size), np.arange(ENDS.size)):
        for scale, confidence in product((2.0**-50, 0.1, 20.0, 2.0**50), (1e-9, 0.95, 1 - 2.0**-50)):
            found = kept_shares(people.astype(np.int64), ends=ENDS, scale=scale, confidence=confidence)
            for part in (found.estimates, found.lower, found.upper):
                assert (np.diff(part) >= 0).all()
                assert ((part > 0) & (part <= 1)).all()
                assert part[-1] == 1
            assert ((found.lower <= found.estimates) & (found.estimates <= found.upper)).all()


def test_without_noise_and_with_a_bin_for_every_number_shares_are_exact():
    rows = np.array([1, 1, 1, 2, 5, 5, 8])
    ends = np.array(bin_ends(8))
    people = np.bincount(np.searchsorted(ends, rows), minlength=8)
    found = kept_shares(people, ends=ends, scale=2.0**-50, confidence=0.95)
    truth = true_shares(rows, ends)
    assert found.estimates == pytest.approx(truth, abs=1e-9)
    assert found.lower == pytest.approx(truth, abs=1e-6)
    assert found.upper == pytest.approx(truth, abs=1e-6)
    assert estimated_rows(people, ends) == rows.sum()


@pytest.mark.parametrize("side", [0, 1])
def test_margins_are_those_of_the_theorem(side):
    """The share is a power of 2, so that floats are exact."""
    ends, share = np.array(bin_ends(40)), Fraction(1, 4)
    firsts = np.concatenate(([1], ends[:-1] + 1))
    found = _Margins.of(np.ones(ends.size, dtype=np.int64), ends[:-1], *((firsts, ends), (ends, firsts))[side])
    for row, bound in zip(found.kept - float(share) * found.all, ends[:-1], strict=True):
        pairs = zip(firsts.tolist(), ends.tolist(), strict=True)
        assert row.tolist() == [margin_ends(share, bound=int(bound), first=a, last=b)[side] for a, b in pairs]
        assert found.totals(np.array([0.25]))[ends[:-1] == bound] == row.sum()


@pytest.mark.parametrize("scale", [0.5, 20.0])
@pytest.mark.parametrize("budget", [1.0, 7.0, 30.0])
def test_what_the_noise_reaches_is_proved_by_the_theorem(scale, budget):
    """At one of its tilts the theorem bounds the probability, in enclosed arithmetic."""
    ends = np.array(bin_ends(20))
    found = _Margins.of(np.zeros(ends.size, dtype=np.int64), ends[:-1], ends, ends)
    reaches = found.reach(np.zeros(ends.size - 1), scale, budget)
    rate = 1 / Fraction(scale)
    for reach, row in zip(reaches, found.kept, strict=True):
        weights = [int(weight) for weight in row]
        chances = (
            tail_chance(
                exp(-rate), exp(Fraction(tilt) * rate / max(weights)), weights=weights, reach=math.floor(reach) + 1
            )
            for tilt in _TILTS.tolist()
        )
        assert min(chance.hi for chance in chances) <= exp(-Fraction(budget)).lo


@pytest.mark.parametrize("scale", [0.01, 0.7, 20.0, 1e9])
def test_floats_give_the_moment_of_the_theorem(scale):
    for tilt in (0.0, 0.1, 0.5, 0.98):
        with digits(120):
            rate = 1 / Fraction(scale)
            moment = laplace_moment(exp(-rate), exp(Fraction(tilt) * rate))
            exact = Interval.ln(moment)
        assert float(_log_moment(np.array(tilt), scale)) == pytest.approx(float(exact.lo), rel=1e-12, abs=1e-14)
