"""The one way in which the command line spends: files are checked, data released, committed to the ledger, written."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp.mod import Measurement

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible
from opendp_tree.cli.terminal import CommandError, Exit, Progress, print_bytes, silenced, termination_deferred
from opendp_tree.ledger import Ledger, spend
from opendp_tree.releases.writing import FORMATS, format_of
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
    """Make a release, commit it to the ledger with its cost, and only then write it; what was released."""
    with termination_deferred():
        for name in (options.output, options.plot):
            if name not in (None, "-"):
                with PendingFile(name):  # it can be written, or this fails before a row is read
                    pass
    ledger = None if options.ledger is None else _open_ledger(options)
    content: list[bytes] = []

    def make() -> Any:
        progress.step("counting")
        try:
            with silenced():
                made = job.measurement(job.frame)
                with interruptible():
                    content.append(job.encode(made))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of Polars is no Exception
            # Only the kind of error: its message may hold data.
            raise CommandError(
                Exit.FAILURE,
                f"the {job.what} failed ({_kind(error)}); nothing was spent. Hint: can {options.file} be read in full?",
            ) from None
        return made

    made = spend(ledger, job.cost, make, note=job.note)
    progress.write("writing ...")  # an interrupt waits: what is paid is written
    try:
        _write(options, content[0], progress)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except OSError as error:
        place = "the output" if options.output in (None, "-") else options.output
        hint = "free some room, and try again"
        if ledger is not None:
            hint = f"it is stored: opendp-tree ledger {options.ledger} lists it, and with --release ENTRY prints it"
        raise CommandError(
            Exit.FAILURE, f"the {job.what} could not be written to {place} ({_kind(error)}). Hint: {hint}"
        ) from None
    return made


def _write(options: argparse.Namespace, content: bytes, progress: Progress) -> None:
    if options.output in (None, "-"):
        progress.end()
        print_bytes(content)
        return
    with termination_deferred(), PendingFile(options.output) as output:
        output.commit(content)


def check_outputs(options: argparse.Namespace, *, reads: tuple[str | None, ...]) -> None:
    """What the parser cannot check of ledger, output and picture; `reads` are the files that must stay as they are."""
    if options.ledger is None and (
        options.total_epsilon or options.total_rho or options.total_delta is not None or options.dataset
    ):
        raise CommandError(Exit.USAGE, "a total or a data set is for a ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None and not (options.total_epsilon or options.total_rho):
        raise CommandError(Exit.USAGE, "--total-delta goes with --total-epsilon or --total-rho. Hint: state both")
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
    form = printed if options.output in (None, "-") else format_of(options.output)
    form = options.output_format or form
    if form == "xlsx" and find_spec("xlsxwriter") is None:
        raise CommandError(Exit.FAILURE, "Excel output needs XlsxWriter. Hint: pip install xlsxwriter")
    if form is None and options.output not in (None, "-"):
        raise CommandError(
            Exit.USAGE, f"{options.output} has an unknown ending. Hint: --output-format {'|'.join(FORMATS)}"
        )
    return form


def first_sentence(error: Exception) -> str:
    """An error without its hint: hints of Python calls do not help here."""
    return str(error).splitlines()[0].split(" Hint:")[0].rstrip(".") + "."


def _open_ledger(options: argparse.Namespace) -> Ledger:
    total = None
    begun = {"epsilon": options.total_epsilon, "rho": options.total_rho}
    if any(begun.values()):
        total = {name: amount for name, amount in begun.items() if amount} | {
            "delta": options.total_delta or Fraction(0)
        }
    elif not Path(options.ledger).exists():
        raise CommandError(
            Exit.FAILURE, f"there is no ledger at {options.ledger} yet. Hint: --total-epsilon begins one"
        )
    return Ledger.open(options.ledger, total=total, unit=unit_words(options.unit), dataset=options.dataset)


def _kind(error: BaseException) -> str:
    return error.strerror or "OSError" if isinstance(error, OSError) else type(error).__name__
