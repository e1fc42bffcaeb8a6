"""Curves as OpenDP parts: maps, spaces, what is counted, and what is refused."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Key, Tree, leaf_domain
from opendp_tree.mechanisms.curve import (
    MeasuredLine,
    make_bin_curve,
    make_segment_curve,
    then_bin_curve,
    then_segment_curve,
)
from opendp_tree.theorems.interval import Interval
from opendp_tree.theorems.partition import find_epsilon_delta

L1 = dp.l1_distance(T="i64")
LINE = Tree.balanced(branching=2, depth=9)
MAKERS = [make_bin_curve, make_segment_curve]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1e6])
def test_epsilon_is_one_over_the_scale_and_never_more(make, scale):
    curve = make(leaf_domain(LINE), L1, scale)
    for k in (1, 2, 9):
        assert Fraction(k) / Fraction(scale) * (1 - Fraction(1, 10**9)) < Fraction(curve.map(k))
        assert Fraction(curve.map(k)) <= Fraction(k) / Fraction(scale) * (1 + Fraction(1, 2**51))
    assert curve.map(0) == 0
    assert curve.output_measure == dp.max_divergence()


@pytest.mark.parametrize("bins", [1, 2, 3, 16, 17, 255, 256, 257, 5000])
def test_every_number_of_segments_costs_no_more_than_the_map_says(bins):
    line = MeasuredLine.of(bins, 2.0, finding=0.2, branching=16, confidence=0.95)
    assert line.fringe is not None
    finding, lost = find_epsilon_delta([line.fringe], k=1)
    assert lost.hi == 0
    for segments in {1, 2, bins // 3 + 1, bins}:
        spent = sum(1 / Fraction(scale) for scale in line.segment_tree(segments).scales)
        assert (finding + Interval.of(spent)).hi <= line.epsilon(1)


@pytest.mark.parametrize("then", [then_bin_curve, then_segment_curve])
def test_vectors_and_leaf_domains_give_releases_of_all_nodes(then):
    counts = np.full(LINE.leaf_count, 40)
    vector = dp.vector_domain(dp.atom_domain(T="i64"), size=LINE.leaf_count)
    for space, options in (((leaf_domain(LINE), L1), {}), ((vector, L1), {"tree": LINE})):
        release = (space >> then(0.5, confidence=1 - 1e-9, **options))(counts)
        assert release.estimates.shape == (LINE.node_count,)
        assert abs(release.estimates[0] - 40 * 256) < 200
        assert release.quantiles([0.5])["lower"][0] <= 128 <= release.quantiles([0.5])["upper"][0]
        assert (release.lower <= release.estimates).all()
        assert (release.estimates <= release.upper).all()


def test_what_is_outside_of_the_line_is_counted_at_its_leaf_and_in_no_quantile():
    tree = Key.number("age", low=0, high=64, bins=64).tree
    counts = np.append(np.full(64, 50), 100_000)
    for make in MAKERS:
        release = make(leaf_domain(tree), L1, 0.2, confidence=1 - 1e-9)(counts)
        outside = int(tree.leaves[-1])
        assert abs(release.estimates[outside] - 100_000) < 50
        assert abs(release.estimates[tree.root] - 103_200) < 100
        assert release.lower[tree.root] <= 103_200 <= release.upper[tree.root]
        assert abs(release.quantiles([0.5])["estimate"][0] - 32) < 1


def test_negative_counts_are_read_as_nobody():
    release = make_bin_curve(leaf_domain(LINE), L1, 0.1)(np.full(LINE.leaf_count, -(2**62)))
    assert abs(release.estimates[0]) < 20


def test_segments_are_few_where_people_are_few_and_cuts_are_ends_of_cells():
    line = MeasuredLine.of(2**12, 1.0, finding=0.2, branching=16, confidence=0.95)
    counts = np.zeros(2**12, dtype=np.int64)
    counts[100], counts[3000] = 5_000, 5_000
    cuts = line.curve(np.arange(2**12 + 1.0), counts).cuts
    assert {0, 100, 101, 3000, 3001, 2**12} <= set(cuts.tolist())
    assert cuts.size < 120


def test_noise_that_cannot_be_drawn_is_refused_before_a_row_is_read():
    domain = leaf_domain(Tree.balanced(branching=2, depth=12))
    with pytest.raises(ValueError, match="scale"):
        make_segment_curve(domain, L1, 2.0**40, finding=0.999)
    make_segment_curve(domain, L1, 2.0**40, finding=0.2)(np.zeros(2**11, dtype=np.int64))
