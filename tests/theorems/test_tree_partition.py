from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.theorems.interval import exp
from opendp_tree.theorems.tree_partition import (
    FirstTop,
    PartitionShape,
    partition_delta,
    partition_epsilon,
    partition_quiet,
    partition_ratio,
    top_chance,
    top_chance_given_token,
)

ratios = st.fractions(min_value=Fraction(1, 20), max_value=Fraction(19, 20), max_denominator=40)


@st.composite
def shapes(draw):
    radius = draw(st.integers(1, 8))
    margin = draw(st.integers(0, radius))
    least = max(radius, 2 * margin) + 1
    return PartitionShape(draw(st.integers(1, 6)), draw(st.integers(least, least + 6)), radius, margin)


def noise_law(q, radius):
    masses = [q**z for z in range(radius + 1)]
    return [mass / sum(masses) for mass in masses]


@given(ratios, shapes())
def test_quiet_is_the_chance_of_noise_up_to_the_margin(q, shape):
    assert partition_quiet(q, shape) == sum(noise_law(q, shape.radius)[: shape.margin + 1])


@given(ratios, shapes())
def test_loss_grows_with_depth(q, shape):
    deeper = PartitionShape(shape.depth + 1, shape.threshold, shape.radius, shape.margin)
    assert partition_ratio(q, deeper) >= partition_ratio(q, shape)
    assert partition_delta(q, deeper) > partition_delta(q, shape)


@given(ratios, st.integers(1, 8), st.data())
def test_chances_of_top_are_sums_over_noise_and_token(q, radius, data):
    missing = data.draw(st.integers(1, radius))
    law = noise_law(q, radius)
    assert top_chance_given_token(q, radius=radius, missing=missing) == sum(law[missing:])
    # With a token of its own: noise z and a token of at most z - missing.
    own = sum(law[z] * (1 - q ** (z - missing + 1)) for z in range(missing, radius + 1))
    assert top_chance(q, radius=radius, missing=missing) == own


@given(shapes())
def test_epsilon_is_the_logarithm_of_the_ratio(shape):
    scale = Fraction(7, 5)
    ratio = partition_ratio(exp(-1 / scale), shape)
    again = partition_epsilon(scale, shape).exp()
    assert again.lo <= ratio.hi
    assert ratio.lo <= again.hi


def test_first_tops_distribution_function():
    law = FirstTop(Fraction(2), 3, 2, token_known=True, span=5)
    edges = list(law.edges())
    assert len(edges) == 5
    for at, edge in enumerate(edges):
        assert edge.lo <= law.cdf(at).hi
        assert law.cdf(at).lo <= edge.hi
    assert law.cdf(5).lo == 1


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 5, 2, 1), r"depth \(0\) must be at least 1"),
        ((1, 5, 0, 0), r"radius \(0\) must be at least 1"),
        ((1, 5, 2, 3), r"margin \(3\) must be from 0 to radius \(2\)"),
        ((1, 5, 2, -1), r"margin \(-1\) must be from 0 to radius \(2\)"),
        ((1, 2, 2, 0), r"threshold \(2\) must be at least 3"),
        ((1, 6, 4, 3), r"threshold \(6\) must be at least 7"),
    ],
)
def test_shapes_that_the_proof_does_not_cover_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        PartitionShape(*numbers)
