"""The report in one call: from rows to shares, and refusals before and after the budget is spent."""

import re
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.mod import OpenDPException

from opendp_tree import bound_report
from opendp_tree.which_bound import report_scale

dp.enable_features("contrib")
ROWS = np.minimum(np.floor(np.random.default_rng(4).pareto(1.2, 30_000) + 1).astype(int), 1000)
VISITS = pl.DataFrame({"user": np.repeat(np.arange(ROWS.size), ROWS)})


def test_a_report_is_right_and_uses_no_more_than_its_budget():
    """A false alarm has a chance of 1e-7: the intervals are of that confidence."""
    report = bound_report(VISITS, most=50, epsilon=0.2, confidence=1 - 1e-7)
    truth = np.minimum(ROWS, report.bounds[:, None]).sum(axis=1) / np.minimum(ROWS, 50).sum()
    assert ((report.lower <= truth) & (truth <= report.upper)).all()
    assert report.useful
    assert truth[report.bounds == report.recommended] >= 0.95
    assert report.statement.loss["epsilon"] <= 0.2


def test_lazy_frames_and_other_columns_do_as_well():
    lazy = VISITS.rename({"user": "who"}).lazy()
    assert bound_report(lazy, unit="who", most=50, epsilon=0.2).useful


def test_too_few_rows_are_a_result_and_not_an_error():
    """30 * 200 / 0.05 = 120,000 rows are needed; noise lifts 10 rows there with a chance below 1e-20."""
    report = bound_report(pl.DataFrame({"user": range(10)}), most=200)
    assert not report.useful
    assert report.recommended is None
    assert "The budget is spent" in report.describe()


def test_the_scale_is_the_least_that_the_budget_allows():
    for epsilon in (0.05, 0.1, 1 / 3, 1e-9, 7.3, 1000):
        scale = report_scale(epsilon)
        assert 1 / Fraction(scale) <= Fraction(epsilon) < 1 / Fraction(np.nextafter(scale, 0))


WRONG = [
    ({"epsilon": 0}, ValueError, "epsilon (0) must be positive"),
    ({"epsilon": 1e4}, ValueError, "epsilon (10000.0) must be from 1e-09 to 1000. Hint: 0.05"),
    ({"unit": 3}, TypeError, "unit (int) must be a str. Hint: the name of the column"),
    ({"unit": "nobody"}, ValueError, "must have a column of input_domain as its identifier"),
    ({"most": 0}, ValueError, "most (0) must be from 2"),
    ({"confidence": 2}, ValueError, "confidence (2) must be above 0 and below 1"),
    ({"data": [1, 2]}, TypeError, "must give each column's data type, or be a frame"),
]


@pytest.mark.parametrize(("given", "kind", "words"), WRONG)
def test_wrong_arguments_are_told_before_a_row_is_read(given, kind, words):
    unread = VISITS.lazy().map_batches(lambda _: pytest.fail("a row was read"))
    options = {"data": unread, "most": 50, **given}
    with pytest.raises(kind, match=re.escape(words)):
        bound_report(options.pop("data"), **options)


def test_errors_while_reading_hold_no_data():
    broken = pl.DataFrame({"user": ["secret"]}).lazy().select(pl.col("user").cast(pl.Int64))
    with pytest.raises(OpenDPException, match="details are withheld") as told:
        bound_report(broken, most=5)
    assert "secret" not in str(told.value)
