"""The commands. Arguments, columns and files are checked first; a release is committed to the ledger, then written."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
from opendp.mod import Measurement

from opendp_tree._arguments import check_probability
from opendp_tree._interrupts import deferred_interrupts, interruptible
from opendp_tree._show import clear_code, show_status, table
from opendp_tree.budget import Budget
from opendp_tree.cli.terminal import CommandError, Exit, failed, print_bytes, require, silenced, write_file
from opendp_tree.keys.key import Key
from opendp_tree.ledger import Ledger, LedgerError, decimal_texts, left_after_release, show, spent
from opendp_tree.planning.methods import METHODS, Auto, Curve, InfeasibleError
from opendp_tree.plots.lines import plot_bounds
from opendp_tree.plots.page import write_html
from opendp_tree.plots.rows import plot_quantiles
from opendp_tree.plots.tree import plot_tree
from opendp_tree.prepare import Account, Question, make_report
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import release_text
from opendp_tree.releases.writing import FORMATS, format_of, made_bytes
from opendp_tree.rows.domains import read_again_like
from opendp_tree.rows.sources import FRAME_ERRORS, ending_words, file_format, scan_file, texts_as
from opendp_tree.rows.unit import BOUNDS, Unit, Value, read_values, unit_words
from opendp_tree.trees.tree import Tree


def run_plan(options: argparse.Namespace) -> Exit:
    """Print the mechanisms that a release would choose from, and their errors."""
    _check_totals(options)
    frame, question, account = _read_request(options)
    with _arguments(options):
        ranking = question.plan(frame, account.budget)
    left = None
    if options.ledger is not None and ranking.best.feasible:
        left = left_after_release(options.ledger, account.cost, **_ledger_settings(options))
    if options.json:
        frames = {"candidates": ranking.to_frame(), "levels": ranking.levels()}
        record: dict[str, Any] = {"depth": question.key.hierarchy.depth, "best": ranking.best.name}
        record["left"] = None if left is None else decimal_texts(left)
        record["warning"] = _warning(options)
        for name, each in frames.items():
            record[name] = each.with_columns(cs.float().replace(math.inf, None)).to_dicts()  # JSON has no infinity
        print(json.dumps(record, indent=1))
    else:
        print(str(ranking).replace("Hint: delta=", "Hint: --delta "))
        if left is not None:
            print(f"Left after it: {show(left)}.")
    return Exit.OK if ranking.best.feasible else Exit.INFEASIBLE


@deferred_interrupts()
def run_release(options: argparse.Namespace) -> Exit:
    """Release the counts of a file. Interrupts wait while OpenDP counts and while files are written."""
    form = _check_outputs(options) or "csv"
    if options.quantiles is not None and form == "json":
        raise CommandError("--quantiles cannot be written as JSON; a curve's JSON has them all. Hint: -o OUT.csv")
    if options.spreadsheet_safe and form != "csv":
        raise CommandError(f"--spreadsheet-safe is for CSV, not for {form}. Hint: leave it out")
    with interruptible():
        frame, question, account = _read_request(options)
    with _arguments(options):
        measurement = question.measurement(frame, account.budget)
    note = {"file": Path(options.file).name, "columns": question.columns, "output": Path(options.output).name}
    return _spend(options, form, measurement, frame, account, note)


@deferred_interrupts()
def run_bounds(options: argparse.Namespace) -> Exit:
    """Report on the bounds for a file. Interrupts wait while OpenDP counts and while files are written."""
    form = _check_outputs(options)
    with interruptible():
        frame, _ = _scan(options.file, options.format, (options.unit,))
    with _arguments(options):
        account, confidence = _account(epsilon=options.epsilon), options.confidence
        measurement = make_report(frame, options.unit, account.budget, most=options.most, confidence=confidence)
    note = {"file": Path(options.file).name, "bounds": options.most}
    return _spend(options, form, measurement, frame, account, note)


def run_ledger(options: argparse.Namespace) -> Exit:
    """Print a ledger, or print or write a release that it stores."""
    name, entry = options.file, options.release
    require(entry is not None or options.output is None, "-o requires --release. Hint: --release ENTRY")
    require(Path(name).is_file(), f"there is no file {name}. Hint: check the name", Exit.FAILURE)
    ledger = Ledger.open(name)
    if entry is not None:
        text, hint = ledger.stored(entry), "opendp-tree ledger lists the entries"
        require(text is not None, f"{name} stores no release {entry}. Hint: {hint}", Exit.FAILURE)
        if options.output is None:
            print(text)
        else:
            is_other = os.path.realpath(options.output) != os.path.realpath(name)
            require(is_other, "a file is named twice. Hint: output and ledger must differ")
            _write_stored(text or "", options.output)
    elif not options.json:
        print(ledger.describe())
    else:
        entries = ledger.entries()
        left, fields = ledger.left_after(entries), ("time", "note", "statement")
        record = {
            "dataset": ledger.dataset,
            "unit": ledger.unit,
            "total": decimal_texts(ledger.total),
            "spent": decimal_texts(spent(ledger.total, left)),
            "left": decimal_texts(left),
            "entries": [
                {"entry": entry.number, "cost": decimal_texts(entry.cost)} | {f: getattr(entry, f) for f in fields}
                for entry in entries
            ],
        }
        print(json.dumps(record, indent=1))
    return Exit.OK


def _write_stored(text: str, output: str) -> None:
    """Write the JSON of a release to a file in the format of its ending."""
    form = format_of(output) or ""
    require(form, f"{output} has an unknown ending. Hint: one of {' '.join(FORMATS)}")
    check_packages(form)
    try:
        write_file(output, text.encode() if form == "json" else made_bytes(TreeRelease.from_json(text), form))
    except ValueError:
        raise failed("the entry is a report, or is damaged. Hint: a report is written as .json only") from None


def first_sentence(error: Exception) -> str:
    """An error without its hint: hints of Python calls do not help here."""
    return str(error).splitlines()[0].split(" Hint:")[0].rstrip(".") + "."


@contextmanager
def _arguments(options: argparse.Namespace) -> Iterator[None]:
    """Report what is wrong with arguments or the budget, before a row is read, with a hint for the command line."""
    try:
        yield
    except InfeasibleError as error:
        words, hint = first_sentence(error), "opendp-tree plan shows what is possible"
        is_open = options.by.tree is None and options.tree is None
        if is_open and options.delta == 0:
            words = "finding unknown nodes requires a delta above 0."
            hint = "--delta 1e-6, or --tree FILE if the nodes are public"
        elif is_open and options.method.startswith("tree_"):
            hint = "--tree FILE lists public nodes"
        raise CommandError(f"{words} Hint: {hint}", Exit.INFEASIBLE) from None
    except (TypeError, ValueError) as error:
        raise CommandError(f"{first_sentence(error)} Hint: opendp-tree {options.command} --help") from None


def _check_request(options: argparse.Namespace) -> None:
    """Check what the parser cannot check of the arguments that plan and release share."""
    method, unit, count, limits = options.method, options.unit, options.count, any(_limits(options).values())
    if len(options.value) != len(options.bounds):
        given = f"{len(options.value)} --value and {len(options.bounds)} --bounds were given"
        raise CommandError(f"Give one --bounds for each --value ({given}). Hint: --value COLUMN --bounds 0 500")
    if repeated := {*options.by.columns_used, unit}.intersection(options.value):
        raise CommandError(f"--value {repeated.pop()} must not be a column of --by or --unit. Hint: another column")
    if options.nonnegative or options.integers:
        is_plain = method == "auto" and options.quantiles is None and not options.value
        require(is_plain, "--nonnegative and --integers are for counts by --method auto. Hint: leave them out")
    if options.quantiles is not None:
        hint = "--by 'number(age, low=0, high=100, bins=20)'"
        require(options.by.line_below or options.by.tree, f"--quantiles requires a number in --by. Hint: {hint}")
        require(isinstance(METHODS[method], Auto | Curve), f"--method {method} has no quantiles. Hint: --method curve")
    if options.tree or options.outside:
        hint = "--by 'number(..., outside=drop)'"
        require(options.by.tree is None, f"--tree and --outside are not for a number. Hint: {hint}")
        is_public = options.tree or options.by.has_room
        require(is_public, "--outside requires --tree. Hint: --tree FILE lists public nodes")
    require(options.known or not options.closed, "--closed requires --known. Hint: --known FILE lists public nodes")
    if count or limits:
        require(unit is not None, "--count and the per-unit bounds require --unit. Hint: --unit COLUMN")
    if unit is not None:
        bounds = {"people": "--nodes-per-unit M", "shares": "leave it out"}
        bound = bounds.get(count, "--rows-per-unit K, or --count shares")
        require(count == "shares" or limits, f"--unit requires a bound. Hint: {bound}")
        for name, limit in _limits(options).items():
            is_for_count = limit is None or name in BOUNDS[count or "rows"]
            require(is_for_count, f"--{name}-per-unit is not for --count {count or 'rows'}. Hint: {bound}")


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    return {"rows": options.rows_per_unit, "leaves": options.leaves_per_unit, "nodes": options.nodes_per_unit}


def _read_request(options: argparse.Namespace) -> tuple[pl.LazyFrame, Question, Account]:
    """The file, the question and the budget; checks everything that can be checked before rows are read."""
    _check_request(options)
    with _arguments(options):
        key, method = options.by, options.method
        check_probability(options.confidence, name="confidence")  # which a plan does not use
        unit = None if options.unit is None else Unit(options.unit, count=options.count or "rows", **_limits(options))
        pairs = zip(options.value, options.bounds, strict=True)
        values = read_values([Value(column, bounds=(low, high)) for column, (low, high) in pairs] or None)
        account = _account(epsilon=options.epsilon, rho=options.rho, delta=options.delta)
        columns = (*key.columns_used, *([] if unit is None else [unit.column]), *(each.column for each in values))
        if options.file is None:  # a plan needs only types, which are those of a CSV file
            frame, form = pl.LazyFrame(schema=dict.fromkeys(columns, pl.String)), "csv"
        else:
            frame, form = _scan(options.file, options.format, columns)
        frame = typed(frame, key, values if form == "csv" else ())
        if options.tree or options.outside:
            tree = None if options.tree is None else Tree.from_paths(_read_paths(options, options.tree, key, frame))
            key = replace(key, tree=tree, outside=options.outside)
        if options.known is not None or options.closed is not None:
            levels = [name.strip() for name in (options.closed or "").split(",") if name.strip()]
            known = None if options.known is None else _read_known(options, key, frame)
            key = replace(key, known=known, closed=True if levels == ["all"] else levels or None)
        if options.nonnegative or options.integers:
            method = Auto(nonnegative=options.nonnegative, integers=options.integers)
        elif options.quantiles is not None and method == "auto":
            method = Curve()
        shares = {"alpha": options.alpha, "confidence": options.confidence}
        question = Question.of(key, unit=unit, method=method, value=values or None, **shares)
        if unit is not None and question.weighs:
            unit.bounds(len(key.shown_levels))
    if (warning := _warning(options)) and not options.json:
        print(f"opendp-tree: warning: {warning}", file=sys.stderr)
    return frame, question, account


def _warning(options: argparse.Namespace) -> str | None:
    """What is allowed, but probably wrong."""
    words = f"delta {options.delta:g} is large: choose it well below 1 / number of people"
    return words if options.delta > 1e-3 else None


def _account(**amounts: Any) -> Account:
    """The budget, exactly as written, without a ledger."""
    cost, below = Budget.of(**amounts).written()
    return Account(None, below, cost)


def typed(frame: pl.LazyFrame, key: Key, values: Sequence[Value] = ()) -> pl.LazyFrame:
    """The frame with texts of a CSV file read as the types of the key and the values; other texts become null."""
    for column, owner in zip(key.columns_used, key.column_owners, strict=True):
        frame = texts_as(frame, {column: owner.text_type})
    return texts_as(frame, {each.column: pl.Float64() for each in values})


def _read_known(options: argparse.Namespace, key: Key, frame: pl.LazyFrame) -> Any:
    """The names that a file lists, or an earlier release."""
    if Path(options.known).suffix.lower() != ".json":
        return _read_paths(options, options.known, key, frame)
    try:
        return TreeRelease.from_json(Path(options.known).read_text("utf-8"))
    except (TypeError, ValueError):
        hint = "the JSON of an earlier release with the same --by"
        raise failed(f"{options.known} is not a release. Hint: {hint}") from None


def _read_paths(options: argparse.Namespace, name: str, key: Key, frame: pl.LazyFrame) -> list[Any]:
    """The nodes that a file with the key's columns lists, one per row; a path ends at the first null."""
    listed = typed(_scan(name, None, key.columns_used)[0], key)
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
        raise failed(f"{name} cannot be read. Hint: is it damaged?") from None
    rows = zip(*(column.to_list() for column in labels.columns), strict=True)
    cut = [row[:length] for row, length in zip(rows, labels.lengths.tolist(), strict=True)]
    paths = dict.fromkeys(row[: row.index(None)] if None in row else row for row in cut)
    paths.pop((), None)
    if not paths:
        raise failed(f"{name} lists no nodes. Hint: one leaf per row")
    return list(paths)


def _scan(name: str, form: str | None, columns: tuple[str, ...]) -> tuple[pl.LazyFrame, str]:
    """The columns of a file that is there and can be read, and its format."""
    path = Path(name)
    require(path.is_file(), f"there is no file {name}. Hint: check the name", Exit.FAILURE)
    form = form or file_format(path) or ""
    require(form, f"{ending_words(name)}; or give its --format")
    try:
        with silenced():
            frame = scan_file(name, file_format=form)
            names = frame.collect_schema().names()
    except ValueError as error:
        raise failed(str(error)) from None
    # Columns of CSV are listed if one of them was expected: without a header line they would be the first row.
    hint = "the first line of a CSV file must name its columns"
    if form != "csv" or not set(columns).isdisjoint(names):
        hint = f"its columns are {', '.join(names[:20])}"
    for column in columns:
        words = column.replace(";", " ").split()
        if len(words) > 1 and set(words) <= set(names):
            hint = f"separate columns by commas: '{', '.join(words)}'"
        require(column in names, f"{name} has no column {column}. Hint: {hint}")
    return read_again_like(frame.select(list(dict.fromkeys(columns))), frame), form


def _output(options: argparse.Namespace) -> str | None:
    """The output file; None for standard output."""
    return None if options.output == "-" else options.output


def _check_totals(options: argparse.Namespace) -> None:
    """Check that the options of a ledger belong to one."""
    totals = options.total_epsilon or options.total_rho
    if totals or options.total_delta is not None or options.dataset:
        require(options.ledger is not None, "totals and --dataset require --ledger. Hint: --ledger LEDGER")
    if options.total_delta is not None:
        require(totals, "--total-delta requires --total-epsilon or --total-rho. Hint: give both")


def _check_outputs(options: argparse.Namespace) -> str | None:
    """The output's format, None for words on standard output; checks files, options of the ledger and packages."""
    output = _output(options)
    writes = [os.path.realpath(name) for name in (output, options.plot, options.ledger) if name is not None]
    if options.ledger is not None:  # SQLite writes and removes these
        writes += [f"{os.path.realpath(options.ledger)}-{beside}" for beside in ("journal", "wal", "shm")]
    reads = {os.path.realpath(name) for name in (options.file, options.tree, options.known) if name is not None}
    form: str | None = options.output_format or (None if output is None else format_of(output))
    _check_totals(options)
    is_repeated = len(set(writes)) < len(writes) or reads.intersection(writes)
    require(not is_repeated, "a file is named twice. Hint: output, picture, ledger and input must differ")
    endings = f"Hint: --output-format {'|'.join(FORMATS)}"
    require(output is None or form is not None, f"{output} has an unknown ending. {endings}")
    is_open = output is not None or sys.stdout is not None
    require(is_open, "standard output is closed; nothing was spent. Hint: -o OUT.csv", Exit.FAILURE)
    check_packages(form, options.plot)
    return form


def check_packages(form: str | None, plot: str | None = None) -> None:
    """Refuse an output whose package is not installed."""
    for package, used, what in (("plotly", plot, "--plot"), ("xlsxwriter", form == "xlsx", "Excel output")):
        if used:
            hint = f"Hint: pip install {package}"
            require(find_spec(package) is not None, f"{what} requires {package}. {hint}", Exit.FAILURE)


def _spend(
    options: argparse.Namespace,
    form: str | None,
    measurement: Measurement,
    frame: pl.LazyFrame,
    account: Account,
    note: Mapping[str, Any],
) -> Exit:
    """Make a release, commit it to the ledger with its cost, and only then write it, draw it and print a summary."""
    what, output = "report" if options.command == "bounds" else "release", _output(options)
    for name in filter(None, (output, options.plot)):
        write_file(name, None)  # fails before a row is read if it cannot be written
    if options.ledger is not None:
        account = replace(account, ledger=_open_ledger(options, account))
    content: list[bytes] = []

    def encode(made: Any) -> Any:
        with interruptible():
            content.append(_encode(options, form, made))
        return made

    clear = None if options.quiet or options.json else clear_code()
    show_status(clear, "counting ...")
    try:
        with silenced():
            made = account.release(measurement, frame, note, encode)
    except (KeyboardInterrupt, LedgerError):
        raise
    except BaseException as error:  # a panic of Polars is not an Exception
        hint = f"can {options.file} be read in full?"
        raise failed(f"the {what} failed ({_kind(error)}); nothing was spent. Hint: {hint}") from None
    show_status(clear, "")
    try:  # interrupts wait: a release that was paid for is written
        if output is not None:
            write_file(output, content[0])
        else:
            print_bytes(content[0])
    except BrokenPipeError:
        raise
    except OSError as error:
        target, hint = output or "standard output", "free some space and try again"
        if options.ledger is not None:
            hint = f"it is stored: opendp-tree ledger {options.ledger} lists it, and --release ENTRY -o OUT writes it"
        raise failed(f"the {what} could not be written to {target} ({_kind(error)}). Hint: {hint}") from None
    if options.plot is not None:
        with silenced(), interruptible():
            draw = plot_bounds if isinstance(made, BoundReport) else plot_tree
            quantiles = getattr(options, "quantiles", None)
            write_html(draw(made) if quantiles is None else plot_quantiles(made, quantiles), options.plot)
    if form is not None and (clear or options.verbose):
        print(_summary(options, made), file=sys.stderr)
    if options.json:
        record = {
            "exit_code": int(Exit.OK),
            "command": options.command,
            "warning": _warning(options),
            **note,
            "cost": decimal_texts(account.cost),
            "statement": made.statement.to_dict(),
            "left": None if account.ledger is None else decimal_texts(account.ledger.left()),
        }
        print(json.dumps(record), file=sys.stderr)
    return Exit.OK


def _ledger_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The total, the unit and the data set of the ledger, which must exist unless a total begins it."""
    total = {"epsilon": options.total_epsilon, "rho": options.total_rho, "delta": options.total_delta}
    total = {name: value for name, value in total.items() if value is not None}
    if not total and not Path(options.ledger).exists():
        raise CommandError(f"there is no ledger at {options.ledger} yet. Hint: --total-epsilon begins one")
    return {"total": total or None, "unit": unit_words(options.unit), "dataset": options.dataset}


def _open_ledger(options: argparse.Namespace, account: Account) -> Ledger:
    """The ledger, which can pay for the account."""
    settings = _ledger_settings(options)
    ledger = Ledger.open(options.ledger, **settings)
    ledger.check(account.cost, unit=settings["unit"])
    return ledger


def _encode(options: argparse.Namespace, form: str | None, made: Any) -> bytes:
    """The content of the output."""
    if form is None:
        return f"{_summary(options, made)}\n".encode()
    if options.quantiles is not None:
        return made_bytes(made, form, made.quantiles(options.quantiles))
    return made_bytes(made, form, made.to_frame(spreadsheet_safe=True) if options.spreadsheet_safe else None)


def _summary(options: argparse.Namespace, made: Any) -> str:
    """The largest nodes, the quantiles or the bounds as a table, and the release in words."""
    if isinstance(made, BoundReport):
        near = made.most - 1  # the report has it whatever its ladder of bounds, and it says no more than the largest
        left_out = 0 if made.most <= 10 or made.recommended == near else near
        report = made.to_frame().select("bound", "share", "lower", "upper").filter(pl.col("bound") != left_out)
        rows = [[bound, *(f"{100 * share:.1f} %" for share in shares)] for bound, *shares in report.rows()]
        return f"{made.describe()}\n\n{table(['bound', 'keeps', 'at least', 'at most'], rows)}"
    if options.quantiles is not None:
        frame = made.quantiles(options.quantiles)
        cells = [["" if cell is None else str(cell) for cell in row] for row in frame.rows()]
        return f"{table(frame.columns, cells)}\n\n{made.describe()}"
    return release_text(made, where=_output(options) or "the output")


def _kind(error: BaseException) -> str:
    """The kind of an error, but not its message, which may contain data."""
    return error.strerror or "OSError" if isinstance(error, OSError) else type(error).__name__
