"""Which bound on the rows of a person? A private report on rows, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opendp.metrics import symmetric_id_distance
from opendp.mod import assert_features

from opendp_tree._arguments import check_type
from opendp_tree._interrupts import interrupts_deferred
from opendp_tree.budget import report_scale
from opendp_tree.ledger import Ledger
from opendp_tree.mechanisms.bound_report import make_bound_report
from opendp_tree.prepare import Account
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.rows.domains import frame_domain
from opendp_tree.rows.sources import read_source
from opendp_tree.rows.tables import measured
from opendp_tree.rows.unit import Unit

__all__ = ["bound_report"]


@interrupts_deferred
def bound_report(
    data: Any,
    *,
    unit: str = "user",
    most: int,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    ledger: Ledger | str | Path | None = None,
) -> BoundReport:
    """What each bound on the rows of a person would keep, privately, before a release is made with one of them.

    A release for people counts at most so many rows of each. Too small a bound cuts data off, too large a one costs
    noise, and the data's own percentile is private. This report costs `epsilon`, which the release then lacks: give
    both the same `ledger`, since one call knows nothing of others. Everything is checked before a row is read.

    It is useful from about 30 * most / epsilon rows on: 120,000 for 200 rows a person and 0.05. Below, it comes all the
    same, with `useful` False and no recommendation. That is a result and no error: only the noisy histogram can tell
    that there are too few rows, so the budget is spent.

    Parameters
    ----------
    data
        The rows, as `release_tree` takes them: a frame of any library, files, or a table of an engine.
    unit
        The column that tells people apart; "user" by default. Rows where it is null are left out.
    most
        The largest bound of interest, from 2 to 2**20: a public number, which nobody has read off the data. Shares are
        of at most so many rows of each person.
    epsilon
        What the report costs for all rows of one person, from 1e-9 to 1000; 0.05 by default, a twentieth of what a
        release often has.
    confidence
        The probability, at least, with which all intervals hold at once; 0.95, as people expect.
    ledger
        A `Ledger`, or the path of one that is there, as in `release_tree`: report and cost are committed together, and
        a report that fails or is interrupted costs nothing. By default None: nobody counts.

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"user": [*range(40_000), *range(5_000), *range(5_000)]})
    >>> report = bound_report(visits, most=5)
    >>> report.useful, report.recommended, report.statement.loss["epsilon"] <= 0.05
    (True, 3, True)
    >>> bool(abs(report.shares[0] - 0.8) < 0.03)
    True

    """
    assert_features("contrib")
    check_type(unit, str, name="unit", hint="the name of the column that tells people apart")
    report_scale(epsilon)
    account = Account.of(ledger, Unit(unit, count="shares"), epsilon=epsilon, delta=0.0, rho=None)
    frame = read_source(data)
    measurement = make_bound_report(
        frame_domain(frame),
        symmetric_id_distance(identifier=unit),
        report_scale(account.budget.pure_epsilon),
        most=most,
        confidence=confidence,
    )
    note = {"columns": [unit], "bounds": most}
    found: BoundReport = account.spend(lambda: measured(measurement, frame), note=note)
    return found
