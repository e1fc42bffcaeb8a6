"""`opendp-tree bounds`: what bounds on the rows of a person keep. Checked, counted in the ledger, reported, written."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from opendp.metrics import symmetric_id_distance
from opendp.mod import Measurement

from opendp_tree._arguments import float_below
from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible, interrupts_deferred
from opendp_tree._tables import table
from opendp_tree.cli.parser import OUTPUTS
from opendp_tree.cli.release import _check_readable, _kind, _open_ledger, _sentence
from opendp_tree.cli.source import Source, _scan
from opendp_tree.cli.terminal import CommandError, Exit, Progress, print_bytes, silenced
from opendp_tree.measurements.bound_report import make_bound_report
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.rows.frame_domain import frame_domain
from opendp_tree.rows.key import Key
from opendp_tree.which_bound import report_scale

if TYPE_CHECKING:
    import polars as pl

__all__ = ["run_bounds"]


@interrupts_deferred
def run_bounds(options: argparse.Namespace) -> Exit:
    """Report on the bounds for a file. Interrupts wait where a file is made or cleared away, and while OpenDP counts.

    A report that is not useful is done, too: it was paid for, and says so.
    """
    progress = Progress(quiet=options.quiet)
    form = _check_arguments(options)
    with interruptible():
        frame = _scan(options.file, options.format, (options.unit,))
    measurement = _build_measurement(options, frame)
    with ExitStack() as files:
        output = None if options.output is None else files.enter_context(PendingFile(options.output))
        if options.plot is not None:
            files.enter_context(PendingFile(options.plot))
        ledger, entry = None, 0
        if options.ledger is not None:
            progress.step("checking the file")
            _check_readable(options.file, Source(frame, Key.columns(options.unit)))
            ledger = _open_ledger(options)
            note = {"file": Path(options.file).name, "bounds": options.most}
            entry = ledger.reserve({"epsilon": options.epsilon, "delta": Fraction(0)}, note)
        progress.step("counting")
        try:
            with silenced():
                report: BoundReport = measurement(frame)
                with interruptible():
                    content = _encode(report, form)
            progress.end()
            if output is None:
                print_bytes(content)
            else:
                output.commit(content)
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a panic of Polars is no Exception
            spent = "" if ledger is None else f", but its cost stays counted in {options.ledger}"
            # Only the kind of error: its message may hold data.
            raise CommandError(
                Exit.FAILURE,
                f"the report failed ({_kind(error)}){spent}. Hint: can {options.file} be read, and the output be "
                "written in full?",
            ) from None
        if ledger is not None:
            ledger.finish(entry, report.statement.to_dict())
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
        raise CommandError(Exit.USAGE, f"{_sentence(error)} Hint: opendp-tree bounds --help") from None


def _check_arguments(options: argparse.Namespace) -> str | None:
    """What the parser cannot check, and the format of the output; None for words."""
    if options.ledger is None and (options.total_epsilon or options.total_delta is not None or options.dataset):
        raise CommandError(Exit.USAGE, "a total or a data set is for a ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None and options.total_epsilon is None:
        raise CommandError(Exit.USAGE, "--total-delta goes with --total-epsilon. Hint: state both")
    used = [options.file, *(name for name in (options.output, options.plot, options.ledger) if name is not None)]
    if len({os.path.realpath(name) for name in used}) < len(used):
        raise CommandError(Exit.USAGE, "a file is named twice. Hint: output, picture, ledger and input must differ")
    if options.output is None and sys.stdout is None:
        raise CommandError(Exit.FAILURE, "standard output is closed; nothing was spent. Hint: -o OUT.csv")
    if options.plot is not None and find_spec("plotly") is None:
        raise CommandError(Exit.FAILURE, "--plot needs Plotly. Hint: pip install plotly")
    if options.output is None:
        return None if options.output_format is None else str(options.output_format)
    ending = Path(options.output).suffix.lower().removeprefix(".")
    form = options.output_format or {"jsonl": "ndjson", "pq": "parquet"}.get(ending, ending)
    if form not in OUTPUTS:
        raise CommandError(
            Exit.USAGE, f"{options.output} has an unknown ending. Hint: --output-format {'|'.join(OUTPUTS)}"
        )
    return str(form)


def _encode(report: BoundReport, form: str | None) -> bytes:
    if form is None:
        return f"{_words(report)}\n".encode()
    if form == "json":
        return report.to_json().encode()
    from opendp_tree.releases.writing import frame_bytes

    return frame_bytes(report.to_frame(), file_format=form)


def _words(report: BoundReport) -> str:
    """Sentences and a table."""
    parts = (report.shares, report.lower, report.upper)
    rows: list[list[object]] = [
        [bound, *(f"{100 * share:.1f} %" for share in shares), "recommended" * (bound == report.recommended)]
        for bound, *shares in zip(report.bounds.tolist(), *parts, strict=True)
    ]
    return f"{report.describe()}\n\n{table(['bound', 'keeps', 'at least', 'at most', ''], rows)}"


def _draw(report: BoundReport, path: str) -> None:
    from opendp_tree.plots.bounds import plot_bounds
    from opendp_tree.plots.page import write_html

    with silenced(), interruptible():
        write_html(plot_bounds(report), path)
