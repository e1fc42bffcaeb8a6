"""`opendp-tree release`: everything is checked, then counted in the ledger, then released, then written."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from opendp.mod import Measurement

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible, interrupts_deferred
from opendp_tree._tables import table
from opendp_tree.cli.parser import OUTPUTS, float_below
from opendp_tree.cli.source import Source, open_source
from opendp_tree.cli.terminal import CommandError, Exit, Progress, print_bytes, silenced
from opendp_tree.ledger import Ledger
from opendp_tree.pipeline import count_rows, counted_of, make_release
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.unit import Unit, unit_words
from opendp_tree.rows.value import Value, read_values

__all__ = ["run_release"]


@interrupts_deferred
def run_release(options: argparse.Namespace) -> Exit:
    """Release the counts of a file. Interrupts wait where a file is made or cleared away, and while OpenDP counts."""
    progress = Progress(quiet=options.quiet)
    form = _check_arguments(options)
    progress.step("planning")
    with interruptible():
        source = open_source(options, unit=options.unit, values=tuple(options.value or ()))
    _check_writable(options, source, form)
    measurement = build_measurement(options, source)
    with ExitStack() as files:
        output = None if options.output == "-" else files.enter_context(PendingFile(options.output))
        if options.plot is not None:
            files.enter_context(PendingFile(options.plot))
        ledger, entry = None, 0
        if options.ledger is not None:
            progress.step("checking the file")
            _check_readable(options.file, source)
            ledger = _open_ledger(options)
            entry = ledger.reserve({"epsilon": options.epsilon, "delta": options.delta}, _note(options, source))
        progress.step("counting")
        try:
            with silenced():
                release: TreeRelease = measurement(source.frame)
                with interruptible():
                    content = _encode(release, form, options.spreadsheet_safe)
            progress.step("writing")
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
                f"the release failed ({_kind(error)}){spent}. Hint: can {options.file} be read and {options.output} "
                "be written in full?",
            ) from None
        if ledger is not None:
            ledger.finish(entry, {} if release.statement is None else release.statement.to_dict())
    if options.plot is not None:
        progress.step("drawing")
        _draw(release, options.plot)
    progress.end(_summary(release) if progress.shown else "")
    return Exit.OK


def build_measurement(options: argparse.Namespace, source: Source) -> Measurement:
    """From the frame to the release, within the budget for one row or one unit."""
    try:
        values = _values(options)
        counts = count_rows(source.frame, by=source.key, unit=_unit(options), values=values)
    except (TypeError, ValueError) as error:  # about columns and arguments: no row has been read
        raise CommandError(Exit.USAGE, f"{_sentence(error)} Hint: opendp-tree release --help") from None
    try:
        return make_release(
            counts,
            1,
            counted=counted_of(_unit(options), values),
            budget={"epsilon": float_below(options.epsilon), "delta": float_below(options.delta)},
            alpha=float(options.alpha),
            method=options.method,
            confidence=float(options.confidence),
        )
    except ValueError as error:
        raise CommandError(
            Exit.INFEASIBLE, f"{_sentence(error)} Hint: opendp-tree plan shows what is possible"
        ) from None


def _unit(options: argparse.Namespace) -> Unit | None:
    if options.unit is None:
        return None
    return Unit(options.unit, rows=options.rows_per_unit, leaves=options.leaves_per_unit)


def _values(options: argparse.Namespace) -> tuple[Value, ...]:
    pairs = zip(options.value or (), options.bounds or (), strict=True)
    return read_values([Value(column, bounds=(low, high)) for column, (low, high) in pairs] or None)


def _check_arguments(options: argparse.Namespace) -> str:
    """What the parser cannot check, and the format of the output."""
    if (options.rows_per_unit or options.leaves_per_unit) and options.unit is None:
        raise CommandError(Exit.USAGE, "--rows-per-unit and --leaves-per-unit need a unit. Hint: --unit COLUMN")
    if options.unit is not None and not (options.rows_per_unit or options.leaves_per_unit):
        raise CommandError(Exit.USAGE, "--unit needs a bound. Hint: --rows-per-unit K, or --leaves-per-unit G")
    if len(options.value or ()) != len(options.bounds or ()):
        raise CommandError(Exit.USAGE, "each --value needs bounds, and none else. Hint: --value COLUMN --bounds 0 500")
    if options.confidence == 0:
        raise CommandError(Exit.USAGE, "--confidence must be above 0. Hint: 0.95")
    if options.ledger is None and (options.total_epsilon or options.total_delta is not None or options.dataset):
        raise CommandError(Exit.USAGE, "a total or a data set is for a ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None and options.total_epsilon is None:
        raise CommandError(Exit.USAGE, "--total-delta goes with --total-epsilon. Hint: state both")
    writes, reads = (
        [os.path.realpath(name) for name in names if name not in (None, "-")]
        for names in ((options.output, options.plot, options.ledger), (options.file, options.tree))
    )
    if len(set(writes)) < len(writes) or set(writes) & set(reads):
        raise CommandError(Exit.USAGE, "a file is named twice. Hint: output, picture, ledger and input must differ")
    if options.output == "-" and sys.stdout is None:
        raise CommandError(Exit.FAILURE, "standard output is closed; nothing was spent. Hint: -o OUT.csv")
    if options.plot is not None and find_spec("plotly") is None:
        raise CommandError(Exit.FAILURE, "--plot needs Plotly. Hint: pip install plotly")
    form = _output_format(options)
    if options.spreadsheet_safe and form != "csv":
        raise CommandError(Exit.USAGE, "--spreadsheet-safe goes with CSV output. Hint: leave it out")
    return form


def _output_format(options: argparse.Namespace) -> str:
    ending = Path(options.output).suffix.lower().removeprefix(".")
    form = options.output_format or (
        "csv" if options.output == "-" else {"jsonl": "ndjson", "pq": "parquet"}.get(ending, ending)
    )
    if form not in OUTPUTS:
        raise CommandError(
            Exit.USAGE, f"{options.output} has an unknown ending. Hint: --output-format {'|'.join(OUTPUTS)}"
        )
    return str(form)


def _check_writable(options: argparse.Namespace, source: Source, form: str) -> None:
    """Whether the labels' types have a place in the output's format."""
    from opendp_tree.releases.writing import unwritable

    if source.key.kind != "columns" or form == "json":  # the others' labels are texts and numbers
        return
    with silenced():
        found = unwritable(source.frame.select(source.key.columns_used).collect_schema(), file_format=form)
    if found:
        raise CommandError(
            Exit.USAGE, f"{', '.join(found)} cannot be written as {form}; nothing was spent. Hint: -o OUT.parquet"
        )


def _check_readable(name: str, source: Source) -> None:
    """Read the file once before budget is spent on it."""
    from opendp_tree.rows.files import FRAME_ERRORS, read_all

    try:
        with silenced(), interruptible():
            read_all(source.frame)
    except FRAME_ERRORS:
        raise CommandError(
            Exit.FAILURE, f"{name} is damaged, or not quoted as CSV must be; nothing was spent. Hint: mend it"
        ) from None


def _open_ledger(options: argparse.Namespace) -> Ledger:
    total = None
    if options.total_epsilon is not None:
        total = {"epsilon": options.total_epsilon, "delta": options.total_delta or Fraction(0)}
    return Ledger.open(options.ledger, total=total, unit=unit_words(options.unit), dataset=options.dataset)


def _note(options: argparse.Namespace, source: Source) -> dict[str, Any]:
    columns = [*source.key.columns_used, *(options.value or ())]
    return {"file": Path(options.file).name, "columns": columns, "output": Path(options.output).name}


def _encode(release: TreeRelease, form: str, spreadsheet_safe: bool) -> bytes:
    if form == "json":
        return release.to_json().encode()
    from opendp_tree.releases.writing import frame_bytes

    frame = release.to_frame(spreadsheet_safe=spreadsheet_safe)
    return frame_bytes(frame, file_format=form, statement=release.statement)


def _draw(release: TreeRelease, path: str) -> None:
    from opendp_tree.plots.page import write_html
    from opendp_tree.plots.tree import plot_tree

    with silenced(), interruptible():
        write_html(plot_tree(release), path)


def _summary(release: TreeRelease) -> str:
    """What came out, for the terminal."""
    from opendp_tree.releases.tables import level_rows

    names = ("all", *(release.tree.names or ()))
    rows = [
        [names[level] if level < len(names) else str(level), shown, largest, half]
        for level, shown, largest, half in level_rows(release.to_frame())
    ]
    return f"{table(['level', 'nodes', 'largest', 'within'], rows)}\n\n{release.describe()}"


def _kind(error: BaseException) -> str:
    return error.strerror or "OSError" if isinstance(error, OSError) else type(error).__name__


def _sentence(error: Exception) -> str:
    """The error's first sentence, without its hint: hints of Python calls do not help here."""
    return str(error).splitlines()[0].split(" Hint:")[0].rstrip(".") + "."
