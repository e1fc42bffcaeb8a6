"""Intervals of a ladder's rungs: what the guarantee of its rounds implies, and no more."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree import Tree
from opendp_tree.paper import Ladder, Round
from opendp_tree.paper.rung_release import Rungs, paper_statement
from opendp_tree.theorems.paper import classifier

TREE = Tree.balanced(branching=2, depth=3)


def exact(mass, threshold):
    numbers = (mass, Fraction(1, 20), Fraction(1, 4), threshold, Fraction(1, 2), Fraction(1, 10**7))
    return Round(*map(Fraction, numbers))


LOW, HIGH = exact(2900, 2000), exact(3400, 2300)


def rungs(base, *rounds, **options):
    ladder = Ladder(Fraction(base), rounds)
    return Rungs.of(ladder, [classifier(step, depth=3) for step in rounds], **options)


def test_a_rungs_counts_lie_between_what_its_round_finds_and_what_the_one_above_leaves():
    found = rungs(2500, LOW, HIGH)
    assert found.estimates.tolist() == [2500, 2900, 3400]
    assert found.lower.tolist() == [0, math.ceil(0.75 * 2000), math.ceil(0.75 * 2300)]
    assert found.upper.tolist() == [2500, 2900, 3400]
    assert found.confidence == pytest.approx(0.9)
    assert Fraction(found.confidence) <= 1 - Fraction(1, 10)


@pytest.mark.parametrize(
    "unsure", [rungs(2000, LOW, HIGH), rungs(2500, LOW, HIGH, accurate=False), rungs(2500, exact(3000, 4))]
)
def test_without_a_guarantee_no_interval_says_anything(unsure):
    """A ladder that is not connected, one that does not reach high enough, and one whose noise is too loud."""
    assert (unsure.lower == 0).all()
    assert np.isinf(unsure.upper).all()


def test_bounds_beyond_floats_integers_are_rounded_outward():
    mass, threshold = 2**60 + 1, 2**59 + 3
    found = rungs((1 + Fraction(1, 4)) * threshold, exact(mass, threshold))
    assert Fraction(found.upper[1]) >= mass
    assert Fraction(found.lower[1]) <= Fraction(3, 4) * threshold


def test_nodes_are_released_on_their_rungs():
    release = rungs(2500, LOW).release(TREE, np.array([1, 1, 0, 1, 0, 0, 0]), paper_statement("x", (1.0, 0.5), {}))
    assert release.estimates.tolist() == [2900, 2900, 2500, 2900, 2500, 2500, 2500]
    assert release.statement.loss == {"epsilon": 1.0, "delta": 0.5}
