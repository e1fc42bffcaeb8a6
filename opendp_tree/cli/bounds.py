"""`opendp-tree bounds`: what bounds on the rows of a person keep. Checked, counted in the ledger, reported, written."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from opendp.metrics import symmetric_id_distance
from opendp.mod import Measurement

from opendp_tree._arguments import float_below
from opendp_tree._interrupts import interruptible, interrupts_deferred
from opendp_tree._show import table
from opendp_tree.budget import report_scale
from opendp_tree.cli.source import scan_columns
from opendp_tree.cli.spending import Job, check_outputs, first_sentence, output_format, run_job
from opendp_tree.cli.terminal import CommandError, Exit, Progress, silenced
from opendp_tree.mechanisms.bound_report import make_bound_report
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.rows.domains import frame_domain

if TYPE_CHECKING:
    import polars as pl

__all__ = ["run_bounds"]


@interrupts_deferred
def run_bounds(options: argparse.Namespace) -> Exit:
    """Report on the bounds for a file. Interrupts wait while a file is made or cleared, and while OpenDP counts."""
    progress = Progress(quiet=options.quiet)
    check_outputs(options, reads=(options.file,))
    form = output_format(options, printed=None)
    with interruptible():
        frame = scan_columns(options.file, options.format, (options.unit,))
    job = Job(
        "report",
        frame,
        _build_measurement(options, frame),
        lambda report: _encode(report, form),
        {"epsilon": options.epsilon, "delta": Fraction(0)},
        {"file": Path(options.file).name, "bounds": options.most},
    )
    report: BoundReport = run_job(options, job, progress)
    progress.end()
    if options.plot is not None:
        _draw(report, options.plot)
    return Exit.OK


def _build_measurement(options: argparse.Namespace, frame: pl.LazyFrame) -> Measurement:
    try:
        return make_bound_report(
            frame_domain(frame),
            symmetric_id_distance(options.unit),
            report_scale(float_below(options.epsilon)),
            most=options.most,
            confidence=float(options.confidence),
        )
    except (TypeError, ValueError) as error:  # about columns and arguments: no row has been read
        raise CommandError(Exit.USAGE, f"{first_sentence(error)} Hint: opendp-tree bounds --help") from None


def _encode(report: BoundReport, form: str | None) -> bytes:
    if form is None:
        return f"{_words(report)}\n".encode()
    if form == "json":
        return report.to_json().encode()
    from opendp_tree.releases.writing import frame_bytes

    frame, words = report.to_frame(), report.describe()
    return frame_bytes(frame, file_format=form, statement=report.statement, words=words)


def _words(report: BoundReport) -> str:
    """Sentences and a table."""
    parts = (report.shares, report.lower, report.upper)
    rows: list[list[object]] = [
        [bound, *(f"{100 * share:.1f} %" for share in shares), "recommended" * (bound == report.recommended)]
        for bound, *shares in zip(report.bounds.tolist(), *parts, strict=True)
    ]
    return f"{report.describe()}\n\n{table(['bound', 'keeps', 'at least', 'at most', ''], rows)}"


def _draw(report: BoundReport, path: str) -> None:
    from opendp_tree.plots.bands import plot_bounds
    from opendp_tree.plots.page import write_html

    with silenced(), interruptible():
        write_html(plot_bounds(report), path)
