"""The report in one call: from rows to shares, and refusals before and after the budget is spent."""

import re
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.mod import OpenDPException

from opendp_tree import Ledger, Unit, bound_report, release_tree
from opendp_tree.ledger import BudgetError, LedgerError

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


def test_frames_of_other_libraries_are_read_before_anything_is_spent(tmp_path):
    pandas = pytest.importorskip("pandas")
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1})
    frame = pandas.DataFrame({"user": VISITS["user"].to_numpy(), "object": [[1]] * VISITS.height})
    with pytest.raises(TypeError, match="object"):
        bound_report(frame, most=50, epsilon=0.2, ledger=ledger)
    assert not ledger.entries()
    assert bound_report(frame[["user"]], most=50, epsilon=0.2, ledger=ledger).useful


def test_too_few_rows_are_a_result_and_not_an_error():
    """30 * 200 / 0.05 = 120,000 rows are needed; noise lifts 10 rows there with a chance below 1e-20."""
    report = bound_report(pl.DataFrame({"user": range(10)}), most=200)
    assert not report.useful
    assert report.recommended is None
    assert "The budget is spent" in report.describe()


UNREAD = VISITS.lazy().map_batches(lambda _: pytest.fail("a row was read"), schema=VISITS.schema)
WRONG = [
    ({"epsilon": 0}, ValueError, "epsilon (0) must be positive"),
    ({"epsilon": 1e4}, ValueError, "epsilon (10000.0) must be from 1e-09 to 1000. Hint: 1.0"),
    ({"unit": 3}, TypeError, "unit (int) must be a str. Hint: the name of the column"),
    ({"unit": "nobody"}, ValueError, "there is no column 'nobody'"),
    ({"most": 0}, ValueError, "most (0) must be from 2"),
    ({"confidence": 2}, ValueError, "confidence (2) must be above 0 and below 1"),
    ({"data": 3}, TypeError, "the data (int) must be a frame, a list of rows, or a path"),
    ({"data": [1, 2]}, TypeError, "a list of rows must come with the data types of its columns"),
]


def test_errors_while_reading_hold_no_data():
    broken = pl.DataFrame({"user": ["secret"]}).lazy().select(pl.col("user").cast(pl.Int64))
    with pytest.raises(OpenDPException, match="details are withheld") as told:
        bound_report(broken, most=5)
    assert "secret" not in str(told.value)


PERSON = "one value of 'user'"


def test_a_ledger_counts_reports_beside_releases_and_refuses_what_is_too_much(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": "0.5", "delta": "1e-6"}, unit=PERSON)
    for given in (ledger, str(ledger.path)):  # 0.1 is a tenth: twice, and 0.3 besides, fit 0.5
        report = bound_report(VISITS, most=50, epsilon=0.1, ledger=given)
        assert report.statement.loss["epsilon"] <= 0.1
    unit = Unit("user", rows=5)
    release_tree(VISITS.with_columns(kind=1), by="kind", unit=unit, epsilon=0.3, delta=1e-6, ledger=ledger)
    entries = ledger.entries()
    assert [ledger.stored(entry.number) is None for entry in entries] == [False] * 3
    assert ledger.stored(2) == report.to_json()
    assert ledger.left()["epsilon"] == 0
    with pytest.raises(BudgetError, match="Hint: the ledger is spent"):
        bound_report(UNREAD, most=50, epsilon=0.1, ledger=ledger)
    assert ledger.entries() == entries


def test_a_report_that_fails_costs_nothing(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": 0}, unit=PERSON)
    seen = []

    def look(batch):
        seen.append(ledger.left()["epsilon"])
        raise RuntimeError("the disk is gone")

    with pytest.raises(OpenDPException, match="details are withheld"):
        bound_report(VISITS.lazy().map_batches(look, schema=VISITS.schema), most=50, epsilon=0.25, ledger=ledger)
    assert seen
    assert set(seen) == {Fraction(1)}
    assert ledger.entries() == []


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        *WRONG,
        ({"epsilon": 0.75}, BudgetError, "Hint: ask for at most epsilon 0.5"),
        ({"unit": "other"}, LedgerError, "is for unit"),
        ({"ledger": 3}, TypeError, "ledger (int) must be a Ledger"),
    ],
)
def test_what_a_ledger_is_not_for_is_refused_unread_and_costs_nothing(tmp_path, given, kind, words):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": "0.5", "delta": 0}, unit=PERSON)
    options = {"data": UNREAD, "most": 50, "ledger": ledger, **given}
    if given == {"unit": "nobody"}:
        kind, words = LedgerError, "is for unit"
    with pytest.raises(kind, match=re.escape(words)):
        bound_report(options.pop("data"), **options)
    assert ledger.entries() == []
