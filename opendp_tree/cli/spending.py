"""The one road on which the command line spends: files are made sure of, the ledger counts, then data are released."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp.mod import Measurement

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible
from opendp_tree.cli.parser import OUTPUTS
from opendp_tree.cli.terminal import CommandError, Exit, Progress, print_bytes, silenced
from opendp_tree.ledger import Ledger, spend
from opendp_tree.rows.unit import unit_words

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Job", "check_outputs", "first_sentence", "output_format", "run_job"]


@dataclass(frozen=True)
class Job:
    """What is to be released from a file, and for how much."""

    what: str
    frame: pl.LazyFrame
    measurement: Measurement
    encode: Callable[[Any], bytes]
    cost: Mapping[str, Fraction]
    note: Mapping[str, Any]


def run_job(options: argparse.Namespace, job: Job, progress: Progress) -> Any:
    """Count a job in the ledger, release it and write it; what was released."""
    with ExitStack() as files:
        output = None if options.output in (None, "-") else files.enter_context(PendingFile(options.output))
        if options.plot is not None:
            files.enter_context(PendingFile(options.plot))
        ledger = None
        if options.ledger is not None:
            progress.step("checking the file")
            _check_readable(options.file, job.frame)
            ledger = _open_ledger(options)
        return spend(ledger, job.cost, lambda: _write(options, job, progress, output), note=job.note)


def _write(options: argparse.Namespace, job: Job, progress: Progress, output: PendingFile | None) -> Any:
    progress.step("counting")
    try:
        with silenced():
            made = job.measurement(job.frame)
            with interruptible():
                content = job.encode(made)
        if output is None:
            progress.end()
            print_bytes(content)
        else:
            progress.step("writing")
            output.commit(content)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        spent = "" if options.ledger is None else f", but its cost stays counted in {options.ledger}"
        place = "the output" if output is None else options.output
        # Only the kind of error: its message may hold data.
        raise CommandError(
            Exit.FAILURE,
            f"the {job.what} failed ({_kind(error)}){spent}. Hint: can {options.file} be read and {place} be written "
            "in full?",
        ) from None
    return made


def check_outputs(options: argparse.Namespace, *, reads: tuple[str | None, ...]) -> None:
    """What the parser cannot check of ledger, output and picture; `reads` are the files that must stay as they are."""
    if options.ledger is None and (options.total_epsilon or options.total_delta is not None or options.dataset):
        raise CommandError(Exit.USAGE, "a total or a data set is for a ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None and options.total_epsilon is None:
        raise CommandError(Exit.USAGE, "--total-delta goes with --total-epsilon. Hint: state both")
    writes, others = (
        [os.path.realpath(name) for name in names if name not in (None, "-")]
        for names in ((options.output, options.plot, options.ledger), reads)
    )
    if len(set(writes)) < len(writes) or set(writes) & set(others):
        raise CommandError(Exit.USAGE, "a file is named twice. Hint: output, picture, ledger and input must differ")
    if options.output in (None, "-") and sys.stdout is None:
        raise CommandError(Exit.FAILURE, "standard output is closed; nothing was spent. Hint: -o OUT.csv")
    if options.plot is not None and find_spec("plotly") is None:
        raise CommandError(Exit.FAILURE, "--plot needs Plotly. Hint: pip install plotly")


def output_format(options: argparse.Namespace, *, printed: str | None) -> str | None:
    """The format of the output; `printed` is that of standard output."""
    if options.output_format is not None:
        return str(options.output_format)
    if options.output in (None, "-"):
        return printed
    ending = Path(options.output).suffix.lower().removeprefix(".")
    form = {"jsonl": "ndjson", "pq": "parquet"}.get(ending, ending)
    if form not in OUTPUTS:
        raise CommandError(
            Exit.USAGE, f"{options.output} has an unknown ending. Hint: --output-format {'|'.join(OUTPUTS)}"
        )
    return form


def first_sentence(error: Exception) -> str:
    """An error without its hint: hints of Python calls do not help here."""
    return str(error).splitlines()[0].split(" Hint:")[0].rstrip(".") + "."


def _check_readable(name: str, frame: pl.LazyFrame) -> None:
    """Read the file once before budget is spent on it."""
    from opendp_tree.rows.files import FRAME_ERRORS, read_all

    try:
        with silenced(), interruptible():
            read_all(frame)
    except FRAME_ERRORS:
        raise CommandError(
            Exit.FAILURE, f"{name} is damaged, or not quoted as CSV must be; nothing was spent. Hint: mend it"
        ) from None


def _open_ledger(options: argparse.Namespace) -> Ledger:
    total = None
    if options.total_epsilon is not None:
        total = {"epsilon": options.total_epsilon, "delta": options.total_delta or Fraction(0)}
    elif not Path(options.ledger).exists():
        raise CommandError(
            Exit.FAILURE, f"there is no ledger at {options.ledger} yet. Hint: --total-epsilon begins one"
        )
    return Ledger.open(options.ledger, total=total, unit=unit_words(options.unit), dataset=options.dataset)


def _kind(error: BaseException) -> str:
    return error.strerror or "OSError" if isinstance(error, OSError) else type(error).__name__
