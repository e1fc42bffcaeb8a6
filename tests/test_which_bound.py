"""The report in one call: from rows to shares, and refusals before and after the budget is spent."""

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from opendp.mod import OpenDPException

from opendp_tree import Ledger, Unit, bound_report, release_tree
from opendp_tree.ledger import BudgetError

dp.enable_features("contrib")
ROWS = np.minimum(np.floor(np.random.default_rng(4).pareto(1.2, 30_000) + 1).astype(int), 1000)
VISITS = pl.DataFrame({"user": np.repeat(np.arange(ROWS.size), ROWS)})


def test_a_report_is_right_and_uses_no_more_than_its_budget():
    """A false alarm has a chance of 1e-7: the intervals are of that confidence."""
    assert bound_report(VISITS.rename({"user": "who"}).lazy(), unit="who", most=50, epsilon=0.2).useful
    report = bound_report(VISITS, most=50, epsilon=0.2, confidence=1 - 1e-7)
    truth = np.minimum(ROWS, report.bounds[:, None]).sum(axis=1) / np.minimum(ROWS, 50).sum()
    assert ((report.lower <= truth) & (truth <= report.upper)).all()
    assert report.useful
    assert truth[report.bounds == report.recommended] >= 0.95
    assert report.statement.loss["epsilon"] <= 0.2


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


PERSON = "one value of 'user'"


def test_a_report_that_fails_costs_nothing_and_its_error_holds_no_data(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": 0}, unit=PERSON)
    broken = pl.DataFrame({"user": ["secret"]}).lazy().select(pl.col("user").cast(pl.Int64))
    with pytest.raises(OpenDPException, match="details are withheld") as told:
        bound_report(broken, most=5, epsilon=0.25, ledger=ledger)
    assert "secret" not in str(told.value)
    assert ledger.entries() == []


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
