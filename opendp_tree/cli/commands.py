"""The commands. Arguments, columns and files are checked first; a release is committed to the ledger, then written."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
from opendp.mod import Measurement

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible, interrupts_deferred
from opendp_tree._show import table
from opendp_tree.budget import Budget
from opendp_tree.cli.terminal import CommandError, Exit, Progress, print_bytes, silenced, termination_deferred
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, LedgerError, decimal_texts
from opendp_tree.planning.candidate import InfeasibleError
from opendp_tree.planning.methods import METHODS, Auto, Curve, Line, Method, Quantiles
from opendp_tree.plots.bands import plot_bounds
from opendp_tree.plots.page import write_html
from opendp_tree.plots.rows import plot_quantiles
from opendp_tree.plots.tree import plot_tree
from opendp_tree.prepare import Account, Prepared, Question, make_report
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.writing import FORMATS, format_of, frame_bytes, unwritable
from opendp_tree.rows.grouping import read_again_like
from opendp_tree.rows.sources import FORMATS as ENDINGS
from opendp_tree.rows.sources import FRAME_ERRORS, file_format, scan_file, with_numbers, with_times
from opendp_tree.rows.unit import Unit, unit_words
from opendp_tree.rows.value import Value, read_values
from opendp_tree.trees.tree import Tree

__all__ = ["first_sentence", "run_bounds", "run_ledger", "run_plan", "run_release", "typed"]


def run_plan(options: argparse.Namespace) -> Exit:
    """Print what a release would choose from, and its error."""
    _check_request(options)
    request = _read_request(options)
    try:
        plan = request.question.plan(request.frame, request.budget, alpha=float(options.alpha))
    except (TypeError, ValueError) as error:
        raise _refusal(options, request, error) from None
    if options.json:
        rows = plan.to_frame().with_columns(cs.float().replace(math.inf, None)).to_dicts()  # JSON has no infinity
        record = {"depth": request.question.key.hierarchy.depth, "best": plan.best.name, "candidates": rows}
        print(json.dumps(record, indent=1))
    else:
        print(plan)
    return Exit.OK if plan.best.feasible else Exit.INFEASIBLE


@interrupts_deferred
def run_release(options: argparse.Namespace) -> Exit:
    """Release the counts of a file. Interrupts wait while OpenDP counts and while files are written."""
    progress = Progress(quiet=options.quiet or options.json)
    _check_request(options)
    _check_outputs(options, reads=(options.file, options.tree, options.known))
    form = _output_format(options) or "csv"
    if options.quantiles is not None and form == "json" and options.method != Quantiles.name:
        words = "--quantiles has no JSON, because the JSON of a curve has all of them"
        raise CommandError(Exit.USAGE, f"{words}. Hint: -o OUT.csv")
    if options.spreadsheet_safe and form != "csv":
        raise CommandError(Exit.USAGE, f"--spreadsheet-safe is for CSV, not for {form}. Hint: leave it out")
    progress.step("planning")
    with interruptible():
        request = _read_request(options)
    _check_labels(request, form)
    try:
        measurement = request.question.measurement(
            request.frame, request.budget, alpha=float(options.alpha), confidence=float(options.confidence)
        )
    except (TypeError, ValueError) as error:
        raise _refusal(options, request, error) from None
    note = {"file": Path(options.file).name, "columns": request.question.columns, "output": Path(options.output).name}
    encode = partial(_encode_release, options, form)
    job = Job("release", request.frame, measurement, request.budget, request.cost, note, encode)
    release: TreeRelease = _run_job(options, job, progress)
    if options.plot is not None:
        progress.step("drawing")
        with silenced(), interruptible():
            drawn = plot_tree(release) if options.quantiles is None else plot_quantiles(release, options.quantiles)
            write_html(drawn, options.plot)
    _tell(options, progress, job, release, lambda: _release_words(release, options.quantiles))
    return Exit.OK


@interrupts_deferred
def run_bounds(options: argparse.Namespace) -> Exit:
    """Report on the bounds for a file. Interrupts wait while OpenDP counts and while files are written."""
    progress = Progress(quiet=options.quiet or options.json)
    _check_outputs(options, reads=(options.file,))
    form = _output_format(options)
    with interruptible():
        frame = _scan(options.file, options.format, (options.unit,))
    try:
        cost, budget = Budget.of(epsilon=float(options.epsilon)).written()
        confidence = float(options.confidence)
        measurement = make_report(frame, options.unit, budget, most=options.most, confidence=confidence)
    except (TypeError, ValueError) as error:  # about columns and arguments: no row has been read
        raise _usage(options, error) from None
    note = {"file": Path(options.file).name, "bounds": options.most}
    job = Job("report", frame, measurement, budget, cost, note, partial(_encode_report, form))
    report: BoundReport = _run_job(options, job, progress)
    if options.plot is not None:
        with silenced(), interruptible():
            write_html(plot_bounds(report), options.plot)
    _tell(options, progress, job, report, lambda: "" if form is None else _report_words(report))
    return Exit.OK


def run_ledger(options: argparse.Namespace) -> Exit:
    """Print a ledger, or a release that it stores."""
    if not Path(options.file).is_file():
        raise CommandError(Exit.FAILURE, f"there is no file {options.file}. Hint: check the name")
    ledger = Ledger.open(options.file)
    if options.release is not None:
        text = ledger.stored(options.release)
        if text is None:
            message = f"{options.file} stores no release {options.release}. Hint: opendp-tree ledger lists them"
            raise CommandError(Exit.FAILURE, message)
        print(text)
    elif not options.json:
        print(ledger.describe())
    else:
        entries = ledger.entries()
        left, kept = ledger.left_after(entries), ("time", "note", "statement")
        record = {
            "dataset": ledger.dataset,
            "unit": ledger.unit,
            "total": decimal_texts(ledger.total),
            "spent": decimal_texts({name: total - left[name] for name, total in ledger.total.items()}),
            "left": decimal_texts(left),
            "entries": [
                {"entry": each.number, "cost": decimal_texts(each.cost)} | {name: getattr(each, name) for name in kept}
                for each in entries
            ],
        }
        print(json.dumps(record, indent=1))
    return Exit.OK


@dataclass(frozen=True)
class Request:
    """What is to be counted, for whom, and for how much; no row has been read."""

    frame: pl.LazyFrame
    question: Question
    budget: Budget
    cost: Mapping[str, Fraction]


def _check_request(options: argparse.Namespace) -> None:
    """What the parser cannot check of the arguments that plan and release share."""
    bounds = {
        "rows": options.rows_per_unit or options.leaves_per_unit,
        "people": options.nodes_per_unit,
        "shares": options.count == "shares" or None,
    }
    if options.unit is None and (options.count or any(bounds.values())):
        raise CommandError(Exit.USAGE, "--count and the per-unit bounds require --unit. Hint: --unit COLUMN")
    if options.unit is not None and not bounds[options.count or "rows"]:
        needed = "--nodes-per-unit M" if options.count == "people" else "--rows-per-unit K, or --count shares"
        raise CommandError(Exit.USAGE, f"--unit requires a bound. Hint: {needed}")
    values, pairs = len(options.value or ()), len(options.bounds or ())
    if values != pairs:
        given = f"{values} --value and {pairs} --bounds were given"
        raise CommandError(
            Exit.USAGE, f"Give one --bounds for each --value ({given}). Hint: --value COLUMN --bounds 0 500"
        )
    if options.confidence == 0:
        raise CommandError(Exit.USAGE, "--confidence must be above 0. Hint: 0.95")
    lines = ("auto", *(name for name, method in METHODS.items() if isinstance(method, Line)))
    if options.quantiles is None and options.method == Quantiles.name:
        raise CommandError(Exit.USAGE, f"--method {Quantiles.name} requires --quantiles. Hint: --quantiles 0.5")
    if options.quantiles is not None and (options.by.line_below or options.by.tree) is None:
        hint = "--by 'number(age, low=0, high=100, bins=20)'"
        raise CommandError(Exit.USAGE, f"--quantiles requires a number in --by. Hint: {hint}")
    if options.quantiles is not None and options.method not in lines:
        raise CommandError(Exit.USAGE, f"--method {options.method} has no quantiles. Hint: --method curve")
    if options.plot is not None and options.method == Quantiles.name:
        raise CommandError(Exit.USAGE, "--plot requires counts. Hint: --method curve")


def _read_request(options: argparse.Namespace) -> Request:
    """The file, with all that can be checked before its rows are read."""
    try:
        unit, key = None, options.by
        if options.unit is not None:
            limits = {"rows": options.rows_per_unit, "leaves": options.leaves_per_unit, "nodes": options.nodes_per_unit}
            unit = Unit(options.unit, count=options.count or "rows", **limits)
        pairs = zip(options.value or (), options.bounds or (), strict=True)
        values = read_values([Value(column, bounds=(low, high)) for column, (low, high) in pairs] or None)
        epsilon, rho = (None if each is None else float(each) for each in (options.epsilon, options.rho))
        cost, budget = Budget.of(epsilon=epsilon, rho=rho, delta=float(options.delta)).written()
        columns = (*key.columns_used, *([] if unit is None else [unit.column]))
        if repeated := [each.column for each in values if each.column in columns]:
            raise ValueError(f"--value {repeated[0]} must not be a column of --by or --unit.")
        columns = (*columns, *(each.column for each in values))
        if options.file is None:  # a plan needs types alone, which are those of a CSV file
            frame = pl.LazyFrame(schema=dict.fromkeys(columns, pl.String))
        else:
            frame = _scan(options.file, options.format, columns, missing=Exit.AGAIN)
        frame = with_numbers(typed(frame, key), [each.column for each in values])
        if key.tree is not None and (options.tree or options.outside):
            raise ValueError("--tree and --outside are not for a number. Hint: --by 'number(..., outside=drop)'")
        if options.tree or options.outside:
            tree = None if options.tree is None else _read_tree(options, key, frame)
            key = replace(key, tree=tree, outside=options.outside)
        if options.closed is not None and options.known is None:
            raise ValueError("--closed requires --known. Hint: --known FILE lists the names that are public")
        if options.known is not None:
            levels = [name.strip() for name in (options.closed or "").split(",") if name.strip()]
            closed = True if levels == ["all"] else levels or None
            key = replace(key, known=_read_known(options, key, frame), closed=closed)
        question = Question.of(key, unit=unit, method=_method(options), value=values or None)
    except (TypeError, ValueError) as error:  # about arguments: no data has been read
        raise _usage(options, error) from None
    return Request(frame, question, budget, cost)


def _method(options: argparse.Namespace) -> Method | str:
    """The method; where quantiles are asked for, one that has some."""
    if options.method == Quantiles.name:
        return Quantiles(options.quantiles)
    return Curve() if options.quantiles is not None and options.method == Auto().name else str(options.method)


def typed(frame: pl.LazyFrame, key: Key) -> pl.LazyFrame:
    """Texts of a CSV file as what the key reads; anything else becomes null."""
    for column, owner in zip(key.columns_used, key.column_owners, strict=True):
        if owner.text_form == "number":
            frame = with_numbers(frame, [column])
        elif owner.text_form is not None:
            frame = with_times(frame, column, hours=owner.text_form == "time")
    return frame


def _read_tree(options: argparse.Namespace, key: Key, frame: pl.LazyFrame) -> Tree:
    """The public tree that a file lists: the leaf of each row, whose path ends at the first null."""
    try:
        return Tree.from_paths(_read_paths(options, options.tree, key, frame))
    except (TypeError, ValueError):
        message = f"{options.tree} does not list a tree. Hint: one leaf per row, each once"
        raise CommandError(Exit.FAILURE, message) from None


def _read_known(options: argparse.Namespace, key: Key, frame: pl.LazyFrame) -> Any:
    """The names that a file lists, or those that an earlier release shows."""
    if Path(options.known).suffix.lower() != ".json":
        return _read_paths(options, options.known, key, frame)
    try:
        return TreeRelease.from_json(Path(options.known).read_text("utf-8"))
    except (TypeError, ValueError):
        message = f"{options.known} does not hold a release. Hint: the JSON of an earlier release by the same key"
        raise CommandError(Exit.FAILURE, message) from None


def _read_paths(options: argparse.Namespace, name: str, key: Key, frame: pl.LazyFrame) -> list[Any]:
    """The names in a file with the key's columns, one per row."""
    listed = typed(_scan(name, None, key.columns_used), key)
    if options.file is not None:
        types, texts = frame.collect_schema(), (pl.Categorical, pl.Enum)
        dtypes = {each: pl.String if types[each] in texts else types[each] for each in key.columns_used}
        listed = listed.cast(dtypes, strict=False)  # type: ignore[arg-type]
    try:
        with silenced():
            schema = listed.collect_schema()
            groups = listed.select(key.expressions(key.columns_used, schema)).unique(maintain_order=True).collect()
            if name == options.known and key.open_tree().kind == "bits":
                return groups.to_series().drop_nulls().to_list()
            labels = key.labels(groups)
    except FRAME_ERRORS:
        raise CommandError(Exit.FAILURE, f"{name} cannot be read. Hint: is it damaged?") from None
    rows = zip(*(column.to_list() for column in labels.columns), strict=True)
    cut = [row[:length] for row, length in zip(rows, labels.lengths.tolist(), strict=True)]
    paths = dict.fromkeys(row[: row.index(None)] if None in row else row for row in cut)
    paths.pop((), None)
    if not paths:
        raise CommandError(Exit.FAILURE, f"{name} lists no nodes. Hint: one leaf per row")
    return list(paths)


def _scan(name: str, form: str | None, columns: tuple[str, ...], *, missing: Exit = Exit.FAILURE) -> pl.LazyFrame:
    """A file with the columns, or a failure that says what is wrong."""
    path = Path(name)
    if not path.is_file():
        raise CommandError(missing, f"there is no file {name}. Hint: check the name")
    form = form or file_format(path)
    if form is None and path.suffix.lower() in (".ndjson", ".jsonl"):
        why = "NDJSON is not read, because one line can decide whether the others can be"
        raise CommandError(Exit.USAGE, f"{name}: {why}. Hint: convert it to Parquet")
    if form is None:
        raise CommandError(Exit.USAGE, f"{name} has an unknown ending. Hint: --format, or one of {' '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise CommandError(Exit.FAILURE, f"{name} is empty. Hint: even a file without rows must name its columns")
    try:
        with silenced():
            frame = scan_file(path, file_format=form)
            names = frame.collect_schema().names()
    except FRAME_ERRORS:
        raise CommandError(Exit.FAILURE, f"{name} cannot be read as {form}. Hint: --format, or convert it") from None
    for column in columns:
        if column not in names:
            # The columns are not listed: in a file without a header line they would be the first row.
            hint = "the first line of a CSV file must name its columns" if form == "csv" else "check the name"
            raise CommandError(Exit.USAGE, f"{name} has no column {column}. Hint: {hint}")
    return read_again_like(frame.select(list(dict.fromkeys(columns))), frame)


def first_sentence(error: Exception) -> str:
    """An error without its hint: hints of Python calls do not help here."""
    return str(error).splitlines()[0].split(" Hint:")[0].rstrip(".") + "."


def _usage(options: argparse.Namespace, error: Exception) -> CommandError:
    """A mistake in the arguments, with a hint for the command line in place of one for Python calls."""
    hint = str(error).partition(" Hint: ")[2]
    hint = hint if hint.startswith("--") else f"opendp-tree {options.command} --help"
    return CommandError(Exit.USAGE, f"{first_sentence(error)} Hint: {hint}")


def _refusal(options: argparse.Namespace, request: Request, error: Exception) -> CommandError:
    """What to say where the arguments are wrong, or the budget allows no such release."""
    if not isinstance(error, InfeasibleError):
        return _usage(options, error)
    is_open = request.question.key.tree is None
    if is_open and options.delta == 0:
        words = "finding unknown nodes requires a delta above 0"
        return CommandError(Exit.INFEASIBLE, f"{words}. Hint: --delta 1e-6, or --tree FILE if the nodes are public")
    known = is_open and options.method.startswith(("tree_", "raw_", "multiplicative"))
    hint = "--tree FILE lists public nodes" if known else "opendp-tree plan shows what is possible"
    return CommandError(Exit.INFEASIBLE, f"{first_sentence(error)} Hint: {hint}")


def _check_outputs(options: argparse.Namespace, *, reads: tuple[str | None, ...]) -> None:
    """What the parser cannot check of ledger, output and picture; `reads` are the files that must stay as they are."""
    totals = options.total_epsilon or options.total_rho
    if options.ledger is None and (totals or options.total_delta is not None or options.dataset):
        raise CommandError(Exit.USAGE, "totals and --dataset require --ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None and not totals:
        raise CommandError(Exit.USAGE, "--total-delta requires --total-epsilon or --total-rho. Hint: give both")
    writes, others = (
        [os.path.realpath(name) for name in names if name not in (None, "-")]
        for names in ((options.output, options.plot, options.ledger), reads)
    )
    if len(set(writes)) < len(writes) or set(writes) & set(others):
        raise CommandError(Exit.USAGE, "a file is named twice. Hint: output, picture, ledger and input must differ")
    if options.output in (None, "-") and sys.stdout is None:
        raise CommandError(Exit.FAILURE, "standard output is closed; nothing was spent. Hint: -o OUT.csv")
    if options.plot is not None and find_spec("plotly") is None:
        raise CommandError(Exit.FAILURE, "--plot requires Plotly. Hint: pip install plotly")


def _output_format(options: argparse.Namespace) -> str | None:
    """The format of the output; None for standard output, where no format is given."""
    to_file = options.output not in (None, "-")
    form: str | None = options.output_format or (format_of(options.output) if to_file else None)
    if form is None and to_file:
        hint = f"--output-format {'|'.join(FORMATS)}"
        raise CommandError(Exit.USAGE, f"{options.output} has an unknown ending. Hint: {hint}")
    if form == "xlsx" and find_spec("xlsxwriter") is None:
        raise CommandError(Exit.FAILURE, "Excel output requires XlsxWriter. Hint: pip install xlsxwriter")
    return form


def _check_labels(request: Request, form: str) -> None:
    """That the types of the labels can be written in the format."""
    if form == "json" or not request.question.key.label_columns:  # all other labels are texts and numbers
        return
    with silenced():
        names = unwritable(request.frame.select(request.question.key.label_columns).collect_schema(), file_format=form)
    if names:
        message = f"{', '.join(names)} cannot be written as {form}; nothing was spent. Hint: -o OUT.parquet"
        raise CommandError(Exit.USAGE, message)


@dataclass(frozen=True)
class Job:
    """What is to be released from a file, and for how much."""

    what: str
    frame: pl.LazyFrame
    measurement: Measurement
    budget: Budget
    cost: Mapping[str, Fraction]
    note: Mapping[str, Any]
    encode: Callable[[Any], bytes]


def _run_job(options: argparse.Namespace, job: Job, progress: Progress) -> Any:
    """Make a release, commit it to the ledger with its cost, and only then write it; what was released."""
    with termination_deferred():
        for name in (options.output, options.plot):
            if name not in (None, "-"):
                with PendingFile(name):  # it can be written, or this fails before a row is read
                    pass
    ledger = None if options.ledger is None else _open_ledger(options)
    content: list[bytes] = []

    def encode(made: Any) -> Any:
        with interruptible():
            content.append(job.encode(made))
        return made

    progress.step("counting")
    try:
        with silenced():
            made = Prepared(
                job.measurement, job.frame, Account(ledger, job.budget, job.cost), job.note, encode
            ).release()
    except (KeyboardInterrupt, LedgerError):
        raise
    except BaseException as error:  # a panic of Polars is not an Exception
        # Only the kind of error: its message may hold data.
        message = f"the {job.what} failed ({_kind(error)}); nothing was spent"
        raise CommandError(Exit.FAILURE, f"{message}. Hint: can {options.file} be read in full?") from None
    progress.write("writing ...")  # an interrupt waits: what is paid for is written
    try:
        if options.output in (None, "-"):
            progress.end()
            print_bytes(content[0])
        else:
            with termination_deferred(), PendingFile(options.output) as output:
                output.commit(content[0])
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except OSError as error:
        target = "standard output" if options.output in (None, "-") else options.output
        hint = "free some space and try again"
        if ledger is not None:
            hint = f"it is stored: opendp-tree ledger {options.ledger} lists it, and with --release ENTRY prints it"
        message = f"the {job.what} could not be written to {target} ({_kind(error)}). Hint: {hint}"
        raise CommandError(Exit.FAILURE, message) from None
    return made


def _open_ledger(options: argparse.Namespace) -> Ledger:
    totals = {"epsilon": options.total_epsilon, "rho": options.total_rho}
    total = {name: value for name, value in totals.items() if value}
    if not total and not Path(options.ledger).exists():
        message = f"there is no ledger at {options.ledger} yet. Hint: --total-epsilon begins one"
        raise CommandError(Exit.FAILURE, message)
    return Ledger.open(
        options.ledger,
        total=total | {"delta": options.total_delta or Fraction(0)} if total else None,
        unit=unit_words(options.unit),
        dataset=options.dataset,
    )


def _tell(options: argparse.Namespace, progress: Progress, job: Job, made: Any, words: Callable[[], str]) -> None:
    """The summary: on a terminal, with --verbose anywhere, and with --json as one line for programs."""
    summary = words() if progress.shown or options.verbose else ""
    progress.end(summary)
    if options.verbose and not progress.shown and summary:
        print(summary, file=sys.stderr)
    if options.json:
        record = {
            "exit_code": int(Exit.OK),
            "command": options.command,
            **job.note,
            "cost": decimal_texts(job.cost),
            "statement": made.statement.to_dict(),
            "left": None if options.ledger is None else decimal_texts(Ledger.open(options.ledger).left()),
        }
        print(json.dumps(record), file=sys.stderr)


def _encode_release(options: argparse.Namespace, form: str, release: TreeRelease) -> bytes:
    if form == "json":
        return release.to_json().encode()
    if options.quantiles is not None:
        frame = release.quantiles(options.quantiles)
    else:
        frame = release.to_frame(spreadsheet_safe=options.spreadsheet_safe)
    return frame_bytes(frame, file_format=form, statement=release.statement, words=release.describe())


def _release_words(release: TreeRelease, quantiles: tuple[float, ...] | None) -> str:
    """The largest nodes, or quantiles, as a table, and the release in words."""
    if quantiles is not None:
        frame = release.quantiles(quantiles)
        cells = [["" if cell is None else str(cell) for cell in row] for row in frame.rows()]
        return f"{table(frame.columns, cells)}\n\n{release.describe()}"
    return repr(release)


def _encode_report(form: str | None, report: BoundReport) -> bytes:
    if form is None:
        return f"{_report_words(report)}\n".encode()
    if form == "json":
        return report.to_json().encode()
    return frame_bytes(report.to_frame(), file_format=form, statement=report.statement, words=report.describe())


def _report_words(report: BoundReport) -> str:
    """Sentences and a table."""
    parts = (report.shares, report.lower, report.upper)
    rows: list[list[object]] = [
        [bound, *(f"{100 * share:.1f} %" for share in shares), "recommended" * (bound == report.recommended)]
        for bound, *shares in zip(report.bounds.tolist(), *parts, strict=True)
    ]
    return f"{report.describe()}\n\n{table(['bound', 'keeps', 'at least', 'at most', ''], rows)}"


def _kind(error: BaseException) -> str:
    return error.strerror or "OSError" if isinstance(error, OSError) else type(error).__name__
