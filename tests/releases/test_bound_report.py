"""The value: what it recommends, when it does not, and how it is shown."""

import json
from dataclasses import replace

import numpy as np
import pytest

from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import PrivacyStatement

STATEMENT = PrivacyStatement(
    "bound_report", "max_divergence()", 1, {"epsilon": 0.05}, {"scale": 20.0, "most": 4}, "one value of 'user'"
)
REPORT = BoundReport(
    bounds=np.array([1, 2, 3, 4]),
    people=np.array([700, 200, -3, 60]),
    shares=np.array([0.7, 0.92, 0.97, 1.0]),
    lower=np.array([0.6, 0.9, 0.95, 1.0]),
    upper=np.array([0.8, 0.94, 0.99, 1.0]),
    rows=2400.0,
    confidence=0.95,
    statement=STATEMENT,
)


def test_the_recommended_bound_surely_keeps_95_per_cent():
    assert REPORT.recommended == 3
    assert replace(REPORT, lower=REPORT.lower - [0, 0, 0.01, 0]).recommended == 4


def test_a_report_is_useful_if_its_noise_is_at_most_a_tenth_of_the_rows():
    """30 times most times scale: 2400 rows, neither more nor less."""
    assert REPORT.useful
    few = replace(REPORT, rows=np.nextafter(2400.0, 0))
    assert not few.useful
    assert few.recommended is None
    assert replace(REPORT, rows=-5.0).useful is False


def test_any_share_may_be_asked_for():
    found = [REPORT.smallest_bound(share) for share in (0, 0.6, 0.61, 0.9, 0.951, 1)]
    assert found == [1, 1, 2, 2, 4, 4]
    for share in (-0.1, 1.1, float("nan"), True, "0.5"):
        with pytest.raises(ValueError, match="must be a number from 0 to 1"):
            REPORT.smallest_bound(share)


def test_the_frame_has_a_row_for_each_bound():
    frame = REPORT.to_frame()
    assert frame.columns == ["bound", "share", "lower", "upper", "people"]
    assert frame.row(1) == (2, 0.92, 0.9, 0.94, 200)


def test_words_say_what_was_found_and_what_it_cost():
    assert REPORT.describe().splitlines() == [
        "The share of rows kept by each bound from 1 to 4 on the rows of each person.",
        "Recommended: 3. It keeps 95.0 % to 99.0 % of about 2,400 rows, estimate 97.0 %.",
        "Shares are of at most 4 rows of each person: further rows are not counted.",
        "Accuracy: all intervals hold simultaneously with probability at least 0.95.",
        "Privacy: epsilon 0.05 for adding or removing one user with all rows of that user.",
    ]
    assert repr(REPORT) == "BoundReport(most=4, recommended=3, useful=True)"


def test_a_useless_report_says_so_that_it_is_paid_for_and_what_to_do():
    words = replace(REPORT, rows=-7.0).describe()
    assert "Not useful: there are about 0 rows" in words
    assert "at least 2,400 are needed" in words
    assert "The budget is spent. Hint: " in words
    assert "Recommended" not in words


def test_json_holds_all_of_it():
    told = json.loads(REPORT.to_json())
    assert told["recommended"] == 3
    assert told["useful"] is True
    assert told["people"] == [700, 200, -3, 60]
    assert told["statement"] == STATEMENT.to_dict()
    assert json.loads(replace(REPORT, rows=0.0).to_json())["recommended"] is None
