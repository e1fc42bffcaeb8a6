"""Laws of the theorems; tests/privacy/test_tree_means.py compares them with exact laws."""

import math
from fractions import Fraction

import pytest

from opendp_tree.theorems.sums import STEPS, centred_l1, found_epsilon, pair_l1, sums_epsilon
from tests.frame_truth import steps_of

LOW, HIGH = Fraction(-30), Fraction(180)


def test_steps_rise_from_bound_to_bound_and_are_the_nearest():
    numbers = [LOW + (HIGH - LOW) * place / 997 for place in range(-5, 1010)]
    steps = [steps_of(number, low=LOW, high=HIGH) for number in numbers]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, STEPS)
    width = (HIGH - LOW) / STEPS
    for number, step in zip(numbers, steps, strict=True):
        assert abs(LOW + step * width - min(max(number, LOW), HIGH)) <= width / 2


def test_infinities_are_clipped():
    assert [steps_of(end, low=LOW, high=HIGH) for end in (-math.inf, math.inf)] == [0, STEPS]


@pytest.mark.parametrize("k", range(4))
def test_a_pair_moves_by_all_steps_whatever_the_step(k):
    assert pair_l1(k) == centred_l1(k) == k * STEPS
    for step in range(11):
        assert abs(step) + abs(10 - step) == pair_l1(1, steps=10)
        assert abs(2 * step - 10) <= centred_l1(1, steps=10)


def test_epsilon_is_nothing_at_distance_0_and_rises_with_less_noise():
    assert sums_epsilon(0, pairs=[Fraction(3)]) == found_epsilon(0, finding=Fraction(1), measuring=[Fraction(1)]) == 0
    assert sums_epsilon(1, pairs=[Fraction(3)]) > sums_epsilon(1, pairs=[Fraction(4)])
