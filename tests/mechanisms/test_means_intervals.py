import math
from itertools import pairwise

import numpy as np
import pytest

from opendp_tree.mechanisms.layers import ShownTree
from opendp_tree.mechanisms.means import (
    Centred,
    Union,
    ValueBounds,
    box_bounds,
    lowest_part,
    mean_ends,
    pair_bounds,
    two_reach,
)
from opendp_tree.mechanisms.tails import Bounds
from opendp_tree.rows.value import Value
from opendp_tree.theorems.tree_means import STEPS

RNG = np.random.default_rng(11)
VALUE = Value("delay", bounds=(-30, 180))


def tail_by_integration(first, second, reach):
    """P(|first*X + second*Y| > reach), by the law of Y given X on a fine grid."""
    x = np.linspace(-60, 60, 1_200_001)
    density = np.exp(-np.abs(x)) / 2
    if second == 0:
        return math.exp(-reach / first)

    def above(bound):
        y = bound / second
        return np.where(y >= 0, np.exp(-np.abs(y)) / 2, 1 - np.exp(-np.abs(y)) / 2)

    return float(((above(reach - first * x) + above(reach + first * x)) * density).sum() * (x[1] - x[0]))


@pytest.mark.parametrize(("first", "second"), [(1.0, 0.0), (0.9, 0.1), (0.3, 0.7), (0.5, 0.5), (500.0, 0.0), (180, 30)])
@pytest.mark.parametrize("chance", [0.2, 0.05, 0.001])
def test_the_reach_of_two_numbers_is_exact(first, second, chance):
    reach = two_reach(first, second, 1, chance)
    assert tail_by_integration(first, second, reach) == pytest.approx(chance, rel=1e-4)


@pytest.mark.parametrize("sets", [1, 2, 5, 40])
def test_the_reach_holds_for_sums_and_rises_with_the_distance_from_a_half(sets):
    parts = np.linspace(0, 0.5, 11)
    reaches = [two_reach(1 - part, part, sets, 0.05) for part in parts]
    assert all(one >= other - 1e-12 for one, other in pairwise(reaches))
    for part, reach in zip(parts[::5], reaches[::5], strict=True):
        noise = (1 - part) * RNG.laplace(size=(40_000, sets)).sum(axis=1) + part * RNG.laplace(size=(40_000, sets)).sum(
            axis=1
        )
        # At most 0.05 are beyond: 6 sd above is a chance below 1e-8.
        assert (np.abs(noise) > reach).mean() < 0.05 + 6 * math.sqrt(0.05 * 0.95 / 40_000)


def test_the_least_part_is_where_the_first_candidate_is_not_contradicted():
    scale, chance = 1e7, 0.05
    high, low = RNG.uniform(-5, 80, 300), RNG.uniform(-5, 80, 300)
    found = lowest_part(high, low, 1, scale, chance)
    grid = np.linspace(0, 1, 4001)
    reach = np.array([two_reach(1 - part, part, 1, chance) for part in grid])
    for mine, p, q in zip(found, high, low, strict=True):
        candidates = grid[(1 - grid) * p - grid * q <= reach]
        first = candidates[0] if candidates.size else 1.0
        assert mine <= first + 1e-9  # never inside
        assert first - mine < 0.02 or p + q < 20  # and not far outside


@pytest.mark.parametrize("place", [0.0, 0.02, 0.37, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("sets", [1, 4])
def test_pairs_hold_the_mean_and_the_sum_with_their_confidence(place, sets):
    """20,000 runs; 6 standard deviations below 0.95 is a chance below 1e-8."""
    runs, rows, epsilon = 20_000, 60, 0.5
    scale = STEPS / epsilon
    steps = round(place * STEPS) * rows
    exact = np.array([steps, STEPS * rows - steps], dtype=float)
    noisy = exact[:, None] + np.rint(scale * RNG.laplace(size=(2, runs, sets)).sum(axis=2))
    union = Union(np.full(runs, True), noisy[0], noisy[1], np.full(runs, sets), np.full(runs, scale))
    nothing = Bounds(np.zeros(runs), np.zeros(runs))
    found = pair_bounds(VALUE, union, 0.05, ValueBounds(nothing, nothing))
    mean = VALUE.low + steps / rows * VALUE.step
    slack = 6 * math.sqrt(0.05 * 0.95 / runs)
    held = (found.means.lower <= mean) & (mean <= found.means.upper)
    assert held.mean() > 0.95 - slack
    held = (found.sums.lower <= mean * rows) & (mean * rows <= found.sums.upper)
    assert held.mean() > 0.95 - slack
    assert held.mean() < (0.985 if sets == 1 else 0.999)  # and not by being endless
    assert (found.means.lower >= VALUE.low).all()
    assert (found.means.upper <= VALUE.high).all()


@pytest.mark.parametrize("bounds", [(-1e290, 1e290), (0.0, 1e290), (-1e290, -1e289)])
@pytest.mark.parametrize("sets", [1, 1000])
def test_ends_are_finite_at_the_largest_bounds(bounds, sets):
    value = Value("amount", bounds=bounds)
    high, low = (each.astype(float) for each in np.meshgrid([-(2**62), 0, 2**62], [-(2**62), 0, 2**62]))
    union = Union(np.full(9, True), high.ravel(), low.ravel(), np.full(9, sets), np.full(9, 2.0**50))
    empty = Bounds(np.zeros(9), np.zeros(9))
    found = pair_bounds(value, union, 0.05, ValueBounds(empty, empty))
    for bound in (found.sums, found.means):
        assert np.isfinite(bound.lower).all()
        assert np.isfinite(bound.upper).all()
    assert (found.sums.lower < found.sums.upper).all()


def test_a_narrower_reach_would_miss():
    runs, rows, scale = 20_000, 60, STEPS / 0.5
    noisy = STEPS * rows / 2 + np.rint(scale * RNG.laplace(size=(2, runs)))
    union = Union(np.full(runs, True), noisy[0], noisy[1], np.ones(runs, dtype=np.int64), np.full(runs, 0.8 * scale))
    nothing = Bounds(np.zeros(runs), np.zeros(runs))
    found = pair_bounds(VALUE, union, 0.05, ValueBounds(nothing, nothing)).means
    assert ((found.lower <= 75) & (found.upper >= 75)).mean() < 0.94


def test_a_box_holds_all_sums_and_means_of_its_counts_and_centred_sums():
    size = 200
    none = np.zeros(size, dtype=np.int64)
    shown = ShownTree(none, np.full(size, -1), 1, none == 0, none > 0, none)
    least = RNG.integers(0, 50, size).astype(float)
    most = least + RNG.integers(0, 40, size)
    centred = Centred(1.0 * STEPS, (RNG.integers(-60, 60, size) * STEPS))
    found = box_bounds(shown, VALUE, centred, Bounds(least, most), 0.05)
    reach = two_reach(1.0, 0.0, 1, 0.05)
    middle, half = 75, 105
    for place in range(size):
        for rows in np.linspace(max(least[place], 1), most[place], 7):
            for total in centred.sums[place] / STEPS + np.linspace(-reach, reach, 9):
                if rows <= most[place] and abs(total) <= rows:
                    assert found.sums.lower[place] <= middle * rows + half * total <= found.sums.upper[place]
                    assert found.means.lower[place] <= middle + half * total / rows <= found.means.upper[place]


def test_ends_are_moved_outward_by_half_a_step_and_stay_within_the_bounds():
    lower, upper = mean_ends(VALUE, np.array([0.0, 0.5]), np.array([0.5, 1.0]))
    assert lower[0] == VALUE.low
    assert upper[1] == VALUE.high
    assert 75 - VALUE.step < lower[1] < 75 - VALUE.step / 2
