from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.distances import group_delta
from opendp_tree.theorems.interval import Interval, exp
from opendp_tree.theorems.partition import noise_tail, stay_ratio
from opendp_tree.theorems.tree_partition import (
    FirstReach,
    GapShape,
    gap_addition_ratio,
    gap_delta,
    gap_epsilon,
    gap_ratio,
    gap_removal_ratio,
)

ratios = st.fractions(min_value=Fraction(1, 20), max_value=Fraction(19, 20), max_denominator=40)
radii = st.integers(1, 8)


@st.composite
def shapes(draw, most=6):
    radius = draw(radii)
    threshold = draw(st.integers(radius + 1, radius + 6))
    margin = draw(st.integers(0, threshold - 1))
    return GapShape.uniform(draw(st.integers(1, most)), threshold=threshold, radius=radius, margin=margin)


def noise_law(q, radius):
    masses = [q**z for z in range(radius + 1)]
    return [mass / sum(masses) for mass in masses]


@given(ratios, radii, st.integers(-2, 12))
def test_tails_are_sums(q, radius, least):
    assert noise_tail(q, radius=radius, least=least) == sum(noise_law(q, radius)[max(least, 0) :])
    long = noise_tail(q, radius=None, least=least)
    assert noise_tail(q, radius=400, least=least) <= long
    assert long - noise_tail(q, radius=400, least=least) <= q**400


@given(ratios, radii, st.integers(1, 6), st.data())
def test_stays_are_the_largest_ratio_of_no_cell_at_exact_counts(q, radius, above, data):
    threshold = radius + above
    margin = data.draw(st.integers(0, threshold - 1))

    def stays(x):
        return 1 - noise_tail(q, radius=radius, least=threshold - x)

    exact = [stays(x) / stays(x + 1) for x in range(threshold - margin - 1)]
    assert stay_ratio(q, threshold=threshold, radius=radius, margin=margin) == max(exact, default=1)


@given(ratios, ratios, shapes())
def test_the_ratio_is_the_larger_of_both_directions(q, t, shape):
    assert gap_ratio(q, t, shape) == max(gap_removal_ratio(q), gap_addition_ratio(q, t, shape))


@given(ratios, ratios, shapes())
def test_loss_grows_with_depth(q, t, shape):
    deeper = GapShape.uniform(
        shape.depth + 1, threshold=shape.thresholds[0], radius=shape.radii[0], margin=shape.margins[0]
    )
    assert gap_ratio(q, t, deeper) >= gap_ratio(q, t, shape)
    assert gap_delta(q, deeper) > gap_delta(q, shape)


@given(ratios, ratios, shapes(), st.integers(1, 12))
def test_distance_is_no_dearer_than_group_privacy(q, t, shape, k):
    """And delta stays a probability, that never falls with distance."""
    delta = gap_delta(q, shape, k=k)
    assert gap_delta(q, shape, k=k - 1) <= delta <= 1
    assert delta <= group_delta(gap_delta(q, shape), ratio=gap_ratio(q, t, shape), k=k)


@given(ratios, st.lists(radii, min_size=1, max_size=5), st.integers(1, 4))
def test_delta_multiplies_over_levels(q, radii_, k):
    count = len(radii_)
    shape = GapShape(tuple(range(count)), (20,) * count, tuple(radii_), (1,) * count)
    kept = Fraction(1)
    for radius in radii_:
        kept *= 1 - noise_tail(q, radius=radius, least=radius - k + 1)
    assert gap_delta(q, shape, k=k) == 1 - kept


@given(shapes())
def test_epsilon_is_the_logarithm_of_the_ratio(shape):
    scale, token_scale = Fraction(7, 5), Fraction(9, 5)
    ratio = gap_ratio(exp(-1 / scale), exp(-1 / token_scale), shape)
    again = gap_epsilon(scale, token_scale, shape).exp()
    assert again.lo <= ratio.hi
    assert ratio.lo <= again.hi


def test_epsilon_of_one_scale_is_exact_where_it_can_be():
    shape = GapShape.uniform(3, threshold=16, radius=15, margin=4)
    epsilon = gap_epsilon(Fraction(1), Fraction(2), shape)
    assert epsilon.lo == epsilon.hi == 1


def test_noise_without_end_loses_nothing():
    shape = GapShape.uniform(3, threshold=2, radius=None, margin=0, every_node=True)
    assert gap_delta(Fraction(1, 2), shape, k=5) == 0
    assert gap_addition_ratio(Fraction(1, 2), Fraction(1, 3), shape) == Fraction(3, 2) ** 2 * 3


def test_first_reaches_distribution_function():
    law = FirstReach(Fraction(2), 3, 2, span=5)
    edges = list(law.edges())
    assert len(edges) == 5
    for at, edge in enumerate(edges):
        assert edge.lo <= law.cdf(at).hi
        assert law.cdf(at).lo <= edge.hi
    assert law.cdf(5).lo == Interval.of(1).lo


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), (), ()), "must name at least one level"),
        (((1, 1), (5, 5), (4, 4), (1, 1)), r"levels \(1, 1\) must ascend"),
        (((-1, 1), (5, 5), (4, 4), (1, 1)), r"levels \(-1, 1\) must ascend"),
        (((0, 1), (5,), (4, 4), (1, 1)), "thresholds must be 2, one for each tested level"),
        (((0,), (5,), (0,), (1,)), r"radius \(0\) must be at least 1"),
        (((0,), (5,), (4,), (-1,)), r"margin \(-1\) must not be negative"),
        (((0,), (5,), (4,), (5,)), r"margin \(5\) must be below the threshold \(5\)"),
        (((0,), (5,), (5,), (1,)), r"threshold \(5\) must exceed radius \(5\), or empty nodes could be shown"),
        (((0,), (5,), (None,), (1,)), r"radius \(None\) must be an integer"),
        (((0, 1), (5, 6), (4, 4), (1, 1)), "must not fall towards the root"),
    ],
)
def test_shapes_that_the_proof_does_not_cover_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        GapShape(*arguments)


def test_numbers_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match=r"must be integers, found float"):
        GapShape((0,), (5.0,), (4,), (1,))
