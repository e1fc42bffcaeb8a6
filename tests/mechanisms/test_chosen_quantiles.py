"""Chosen quantiles as OpenDP parts: maps in both measures, how far they are off, and what is refused."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_tree import Tree, leaf_domain
from opendp_tree.mechanisms.chosen_quantiles import Choices, make_chosen_quantiles, scores, then_chosen_quantiles

L1 = dp.l1_distance(T="i64")
LINE = Tree.balanced(branching=10, depth=4)
SPACE = leaf_domain(LINE), L1


@pytest.mark.parametrize("quantiles", [[0.5], [0.1, 0.5, 0.9], [0.0], [1 / 3, 0.123456]])
@pytest.mark.parametrize("scale", [0.4, 1.0, 9.0])
def test_epsilon_is_one_over_the_scale_and_never_more(quantiles, scale):
    choice = SPACE >> then_chosen_quantiles(scale, quantiles=quantiles)
    for k in (1, 3):
        assert Fraction(k) / Fraction(scale) * (1 - Fraction(1, 10**9)) < Fraction(choice.map(k))
        assert Fraction(choice.map(k)) <= Fraction(k) / Fraction(scale) * (1 + Fraction(1, 2**51))


def test_rho_is_an_eighth_of_the_squares_of_the_parts():
    zcdp = dp.zero_concentrated_divergence()
    for quantiles in ([0.5], [0.25, 0.5]):
        choice = make_chosen_quantiles(*SPACE, 2.0, quantiles=quantiles, output_measure=zcdp)
        assert choice.output_measure == zcdp
        assert choice.map(3) == pytest.approx(9 / (8 * 4 * len(quantiles)), rel=1e-12)


def test_quantiles_are_off_by_no_more_than_they_say():
    """At confidence 0.9 of 400 runs of each quantile at most 85 miss, but for once in 10**11."""
    counts = np.random.default_rng(2).integers(0, 6, LINE.leaf_count)
    totals = np.concatenate(([0], np.cumsum(counts)))
    choice = SPACE >> then_chosen_quantiles(2.0, quantiles=[0.1, 0.5], confidence=0.9)
    missed = np.zeros(2)
    errors = []
    for _ in range(400):
        release = choice(counts)
        wanted = np.array([0.1, 0.5]) * totals[-1]
        off = np.maximum(0, np.maximum(totals[release.bins] - wanted, wanted - totals[release.bins + 1]))
        missed += off > release.missed
        errors.append(off)
    assert missed.max() <= 85
    assert 0.3 < np.mean(errors) < 12  # the scale of the scores is 7.2 and 4


def test_ties_do_not_break_the_median():
    counts = np.zeros(LINE.leaf_count, dtype=np.int64)
    counts[500] = 1000
    choice = SPACE >> then_chosen_quantiles(1.0, quantiles=[0.25, 0.5, 0.75])
    assert (choice(counts).bins == 500).all()


def test_scores_of_counts_beyond_int64_are_exact_and_clamped():
    counts = np.full(4, 2**62 - 1)
    found = scores(counts, Fraction(1, 2)).tolist()
    assert found == [2**62 - 1, 0, 0, 2**62 - 1]
    assert scores(counts // 2**30, Fraction(1, 4)).tolist() == [0, 0, 4 * (2**32 - 1), 8 * (2**32 - 1)]


def test_choices_are_public_but_for_the_bins():
    choices = Choices.of(1.0, [0.5, 0.9], confidence=0.95)
    assert choices.reach(1000).tolist() == [
        int(np.ceil(2 * 2 * 0.5 * np.log(1000 / 0.05))),
        int(np.ceil(2 * 2 * 0.9 * np.log(1000 / 0.05))),
    ]
    assert choices.statement.loss["epsilon"] <= 1.0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"scale": 0.0}, ValueError, "scale"),
        ({"quantiles": []}, ValueError, "at least one"),
        ({"quantiles": [2.0]}, ValueError, "from 0 to 1"),
        ({"quantiles": [0.5] * 65}, ValueError, "at most 64"),
        ({"confidence": 0.0}, ValueError, "confidence"),
        ({"output_measure": dp.approximate(dp.max_divergence())}, ValueError, "output_measure"),
    ],
)
def test_arguments_that_cannot_be_are_refused(change, error, words):
    with pytest.raises(error, match=words):
        make_chosen_quantiles(*SPACE, **{"scale": 1.0, "quantiles": [0.5], **change})
