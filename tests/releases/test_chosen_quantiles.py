"""Chosen quantiles as a value: frames, words, JSON."""

import json
from datetime import date
from fractions import Fraction

import numpy as np
import pytest

from opendp_tree.releases.chosen_quantiles import ChosenQuantiles
from opendp_tree.releases.curve import range_edges
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.trees.number_range import NumberRange

STATEMENT = PrivacyStatement("chosen_quantiles", "max_divergence()", 1, {"epsilon": 1.0}, {"scale": 1.0})


def release(edges):
    shares = Fraction(1, 4), Fraction(1, 2)
    return ChosenQuantiles(shares, np.array([1, 2]), np.array([20, 10]), edges, 0.95, STATEMENT)


def test_frames_have_the_bins_and_their_middles():
    found = release(np.array([0.0, 10.0, 20.0, 40.0]))
    assert found.to_frame().rows() == [(0.25, 15.0, 10.0, 20.0, 20), (0.5, 30.0, 20.0, 40.0, 10)]
    assert found.quantiles([0.5]).rows() == [(0.5, 30.0, 20.0, 40.0, 10)]


def test_quantiles_that_nobody_paid_for_are_refused():
    with pytest.raises(ValueError, match=r"paid for: 0\.25, 0\.5"):
        release(np.arange(4.0)).quantiles([0.9])


def test_dates_stay_dates_and_json_is_plain():
    found = release(range_edges(NumberRange(date(2024, 1, 1), date(2024, 1, 31), 3)))
    assert found.to_frame()["estimate"].to_list() == [date(2024, 1, 16), date(2024, 1, 26)]
    read = json.loads(found.to_json())
    assert read["estimate"] == ["2024-01-16", "2024-01-26"]
    assert (read["lower"], read["upper"]) == (["2024-01-11", "2024-01-21"], ["2024-01-21", "2024-01-31"])
    assert read["statement"]["mechanism"] == "chosen_quantiles"


def test_words_say_what_is_known():
    words = release(np.arange(4.0)).describe()
    assert "Quantile 0.25: a value in [1, 2), a bin that is off by at most 20 people." in words
    assert "Quantile 0.5: a value in [2, 3], a bin that is off by at most 10 people." in words
    assert "outside of the line is not among" in words
    assert "epsilon 1" in words
    assert repr(release(np.arange(4.0))) == "ChosenQuantiles(0.25, 0.5)"
