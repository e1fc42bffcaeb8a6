"""Quantiles, shares and ranges: what they are without noise, and how often their intervals hold with it."""

from datetime import date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from opendp_tree.mechanisms.curve import MeasuredLine
from opendp_tree.releases import curve as curves
from opendp_tree.releases.curve import MeasuredCurve, check_quantiles, line_edges, range_edges, values_at
from opendp_tree.trees.least_squares import SegmentTree
from opendp_tree.trees.number_range import NumberRange
from opendp_tree.trees.tree import Tree
from tests.thoroughness import slow

FALSE_ALARM = 1e-9
AT = [0.0, 0.1, 0.5, 0.77, 1.0]


def exact_curve(counts, edges=None):
    """A curve whose noise is next to nothing."""
    tree = SegmentTree.of(len(counts), scale=1e-6, branching=16, root_weight=Fraction(1, 2))
    noisy = [np.add.reduceat(counts, starts[:-1]) for starts in tree.starts]
    edges = np.arange(len(counts) + 1.0) if edges is None else edges
    return MeasuredCurve(edges, np.arange(len(counts) + 1), tree, np.concatenate(noisy), 0.95)


def test_quantiles_without_noise_are_those_of_the_bins():
    curve = exact_curve(np.array([10, 0, 0, 20, 10]))
    found = curve.quantiles([0.0, 0.125, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(found.estimate, [0.0, 0.5, 2.5, 3.5, 4.0, 5.0], atol=1e-4)
    assert (found.lower <= found.estimate + 1e-9).all()
    assert (found.estimate <= found.upper + 1e-9).all()
    np.testing.assert_allclose(found.lower[[1, 3]], [0.0, 3.0])
    np.testing.assert_allclose(found.upper[[1, 3]], [1.0, 4.0])


def test_shares_and_ranges_without_noise():
    curve = exact_curve(np.array([10, 0, 0, 20, 10]))
    shares = curve.share_frame([0, 1, 3.5, 5, 99])
    np.testing.assert_allclose(shares["estimate"], [0, 0.25, 0.5, 1, 1], atol=1e-6)
    counts = curve.count_frame(0.5, 4)
    assert counts["estimate"][0] == pytest.approx(25, abs=1e-3)
    assert counts["lower"][0] == pytest.approx(20, abs=1e-3)
    assert counts["upper"][0] == pytest.approx(30, abs=1e-3)
    assert curve.count_frame(2, 2).row(0)[2:] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("ranges", "value"),
    [
        (NumberRange(date(2024, 1, 1), date(2024, 1, 31), 30), date(2024, 1, 16)),
        (NumberRange(datetime(2024, 1, 1), datetime(2024, 1, 2), 24), datetime(2024, 1, 1, 12)),
        (NumberRange(-3, 3, 6), 0.0),
    ],
)
def test_values_are_of_the_kind_of_the_edges(ranges, value):
    curve = exact_curve(np.full(ranges.bins, 10), range_edges(ranges))
    near = abs(curve.quantile_frame([0.5])["estimate"][0] - value)
    assert near <= (timedelta(minutes=1) if isinstance(value, date) else 1e-3)
    assert curve.count_frame(ranges.low, value)["estimate"][0] == pytest.approx(5 * ranges.bins, abs=1e-3)
    assert curve.share_frame(value)["estimate"][0] == pytest.approx(0.5, abs=1e-4)


def test_values_of_another_kind_are_refused():
    numbers = exact_curve(np.array([1, 2]))
    dates = exact_curve(np.array([1, 2]), range_edges(NumberRange(date(2024, 1, 1), date(2024, 1, 3), 2)))
    for curve, value in ((numbers, "a"), (numbers, float("nan")), (dates, "soon")):
        with pytest.raises(TypeError, match="values must be"):
            curve.share_frame([value])
    with pytest.raises(ValueError, match=r"low \(2\) must not be above high \(1\)\. Hint"):
        numbers.count_frame(2, 1)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([], ValueError, "at least one"),
        ([1.5], ValueError, "from 0 to 1"),
        ([float("nan")], ValueError, "from 0 to 1"),
        (["a"], TypeError, "must be numbers"),
        ([True], TypeError, "must be numbers"),
    ],
)
def test_shares_that_are_none_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        check_quantiles(given)
    assert check_quantiles(0.25) == check_quantiles(Fraction(1, 4)) == [0.25]  # one share is a list of one


def test_edges_of_a_tree_without_ranges_are_places():
    assert line_edges(Tree.balanced(branching=2, depth=3)).tolist() == [0, 1, 2, 3, 4]
    assert values_at(np.array([0.0, 10.0, 40.0]), np.array([0.5, 1.5])).tolist() == [5.0, 25.0]


def lines(bins):
    rng = np.random.default_rng(bins)
    ties = np.zeros(bins, dtype=np.int64)
    ties[rng.integers(0, bins, 9)] = rng.integers(1, 200, 9)
    end = np.zeros(bins, dtype=np.int64)
    end[-1] = 500
    point = np.ones(bins, dtype=np.int64)
    point[bins // 3] = 3000
    return {
        "even": np.full(bins, 2),
        "ties": ties,
        "point": point,
        "empty": np.zeros(bins, dtype=np.int64),
        "start": end[::-1].copy(),
        "end": end,
    }


def misses(counts, line, runs):
    """How often each interval misses: of quantiles, of shares at two places, of a range."""
    totals = np.concatenate(([0], np.cumsum(counts)))
    people, bins = totals[-1], counts.size
    wanted = np.array(AT) * people
    # A value of bin b is a quantile if at most the share lies before the bin, and at least the share before its end.
    least = np.array([np.flatnonzero(totals[1:] >= share - 1e-9)[0] for share in wanted])
    most = np.array([np.flatnonzero(totals[:-1] <= share + 1e-9)[-1] for share in wanted])
    places = np.array([bins // 3, bins // 2])
    found = np.zeros((3, len(AT)), dtype=np.int64)
    for _ in range(runs):
        curve = line.curve(np.arange(bins + 1.0), counts)
        quantiles, shares = curve.quantiles(AT), curve.shares(places.astype(float))
        ranges = curve.counts(np.array([bins // 4]), np.array([bins // 2 + 1]))
        found[0] += (quantiles.lower > least) | (quantiles.upper < most + 1)
        if people:
            true = totals[places] / people
            found[1, :2] += (shares.lower > true + 1e-12) | (shares.upper < true - 1e-12)
        true = totals[bins // 2 + 1] - totals[bins // 4]
        found[2, :1] += (ranges.lower > true) | (ranges.upper < true)
    return found


CONFIDENCE, RUNS = 0.8, 100


def alarm(missed):
    return stats.binom.sf(missed.max() - 1, RUNS, 1 - CONFIDENCE) < FALSE_ALARM / 100


@pytest.mark.parametrize("finding", [0.0, 0.2])
@pytest.mark.parametrize("name", slow(lines(40), unless=["even", "empty"].__contains__))
def test_intervals_hold_on_every_kind_of_line(name, finding):
    """Each of 14 intervals of 12 settings alarms falsely once in 10**11 runs, so all together below once in 10**8."""
    line = MeasuredLine.of(40, 1.0, finding=finding, branching=4, confidence=CONFIDENCE)
    assert not alarm(misses(lines(40)[name], line, RUNS))


def test_intervals_of_a_fifth_of_the_reach_are_found_out(monkeypatch):
    right = curves.tail_reach
    monkeypatch.setattr(curves, "tail_reach", lambda *args, **options: right(*args, **options) / 5)
    line = MeasuredLine.of(40, 1.0, finding=0.0, branching=4, confidence=CONFIDENCE)
    assert alarm(misses(np.full(40, 2), line, RUNS))


def test_estimates_lie_in_their_intervals():
    rng = np.random.default_rng(1)
    line = MeasuredLine.of(300, 2.0, finding=0.2, branching=16, confidence=0.9)
    for _ in range(20):
        curve = line.curve(np.arange(301.0), rng.integers(0, 9, 300))
        shares = curve.shares(np.linspace(0, 300, 50))
        ends = np.sort(rng.integers(0, 301, (50, 2)), axis=1)
        counts = curve.counts(ends[:, 0], ends[:, 1])
        for found in (shares, counts):
            assert (found.lower <= found.estimate).all()
            assert (found.estimate <= found.upper).all()
        assert (np.diff(curve.quantiles(np.linspace(0, 1, 40)).estimate) >= 0).all()
        assert (np.diff(curve.totals) >= 0).all()


@pytest.mark.parametrize(
    ("low", "high", "bins"), [(2**60, 2**60 + 1024, 1024), (2**53, 2**53 + 4, 4), (1.0, 1.0 + 2**-50, 64)]
)
def test_edges_that_floats_cannot_hold_are_refused(low, high, bins):
    with pytest.raises(ValueError, match=r"low .*Hint"):
        range_edges(NumberRange(low, high, bins))


def test_large_edges_that_floats_hold_are_kept():
    ranges = NumberRange(2**60, 2**60 + 1024, 4)
    assert [int(edge) for edge in range_edges(ranges)] == list(ranges.edges)


@pytest.mark.parametrize(
    ("edges", "value"),
    [
        (np.linspace(-1.0, 1.0, 2**16 + 1), -1e-20),
        (np.array([0.0, 1.0, 1e300]), np.nextafter(1.0, 0.0)),
        (np.array([2.0**60, 2.0**60 + 256, 2.0**60 + 512]), 2**60 + 255),
        (
            np.array(["2300-01-01", "9000-01-01", "9000-01-02"], dtype="M8[us]"),
            np.datetime64("8999-12-31T23:59:59.999999"),
        ),
    ],
)
def test_a_value_just_below_an_edge_lies_before_it(edges, value):
    """All people are in the bin that the value is in: of these none is known to lie below it, nor at or above it."""
    edge = next(place for place, each in enumerate(edges.tolist()) if each > np.asarray(value).item())
    counts = np.zeros(edges.size - 1, dtype=np.int64)
    counts[edge - 1] = 5000
    curve = exact_curve(counts, edges)
    assert edge - 1 < curve.places(value)[0] < edge
    assert curve.places(edges[edge])[0] == edge
    below = curve.share_frame(value)
    assert below["lower"][0] < 0.01
    assert below["upper"][0] > 0.99
    assert curve.count_frame(value, edges[edge])["upper"][0] > 4900


def test_a_range_that_is_a_hair_wide_may_hold_all_of_its_bin():
    curve = exact_curve(np.array([5000, 0]), np.array([-1.0, 0.0, 1.0]))
    assert curve.count_frame(-2e-20, -1e-20)["upper"][0] > 4900
    assert curve.count_frame(-1e-20, -1e-20)["upper"][0] == 0
    assert curve.count_frame(2, 3)["upper"][0] == 0


def test_the_end_of_the_line_includes_what_is_there():
    curve = exact_curve(np.array([0, 100]))
    assert curve.share_frame(2)["estimate"][0] == 1
    assert curve.count_frame(0, 2)["estimate"][0] == pytest.approx(100, abs=1e-3)
