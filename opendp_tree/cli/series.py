"""`opendp-tree series run CONFIG`, for a nightly scheduler: releases the periods that are due, and writes files."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, fields
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote

import polars as pl

from opendp_tree._interrupts import heard
from opendp_tree._show import table
from opendp_tree.cli.commands import check_packages, first_sentence, typed
from opendp_tree.cli.terminal import CommandError, Exit, log_line, require, silenced, terminated_by, write_file
from opendp_tree.keys.text import read_key
from opendp_tree.ledger import BudgetError, LedgerError, amounts_of, checked_file, decimal_texts, show, spent
from opendp_tree.planning.methods import Auto
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.writing import FORMATS, frame_bytes, made_bytes
from opendp_tree.rows.domains import read_source
from opendp_tree.rows.period import Period
from opendp_tree.rows.sources import UnreadableError, file_format, texts_as
from opendp_tree.rows.unit import Unit, Value
from opendp_tree.series import Series, expected_entries, shown_nodes

PATHS = ("file", "source", "output", "ready")
NEEDED = ("file", "source", "by", "period", "output")
OPTIONAL = "first periods wait ready epsilon delta rho total unit value method nonnegative integers confidence"
NAMES = (*NEEDED, *OPTIONAL.split(), "measuring", "pooled", "format")
_EXAMPLES = {
    "period": '{column = "date", every = "week"}',
    "unit": '{column = "user", rows = 5}',
    "value": '{column = "hours", bounds = [0, 24]}',
}
MOST_DAYS = 10_000
"""The longest wait for rows."""
Made = TypeVar("Made")
_HINT = (
    'a configuration has file = "weeks.db", source = "rows.parquet", by = "city", '
    f'period = {_EXAMPLES["period"]}, first = "2026-W01", epsilon = 1, delta = 1e-6, output = "weeks"'
)


def run_series(options: argparse.Namespace) -> Exit:
    """Release what is due and write what is missing; SIGTERM stops it as Ctrl-C does, which waits while OpenDP runs."""
    terminated: list[int] = []

    def terminate(number: int, frame: Any) -> None:
        terminated.append(number)
        signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)  # type: ignore[operator, misc]

    try:
        with heard(), terminated_by(terminate):
            _run_due(options)
    except KeyboardInterrupt:
        require(not terminated, "terminated", Exit.TERMINATED)
        raise
    return Exit.OK


def _run_due(options: argparse.Namespace) -> None:
    try:
        config, today = _read(Path(options.config), options.ready), options.today or Period.today()
        _try(config, today)
        is_trial = options.dry_run and checked_file(config["file"])[1]
        with TemporaryDirectory() if is_trial else nullcontext() as folder:
            series = _open(config if folder is None else {**config, "file": Path(folder, "trial.db")})
            due, quarters, marker = _due(config, series, today, options.most)
            if options.dry_run:
                _print_costs(series, due, quarters)
    except LedgerError:
        raise
    except (TypeError, ValueError, KeyError) as error:  # about the configuration: no data has been read
        raise CommandError(f"{options.config}: {first_sentence(error)} Hint: {_HINT}") from None
    if not options.dry_run:
        _run(config, series, due, quarters)
    hint = "create it when all rows of its period are there, and try again"
    require(marker is None, f"waiting for {marker}; nothing was spent for its period. Hint: {hint}", Exit.AGAIN)


def _read(path: Path, ready: str | None) -> dict[str, Any]:
    """The configuration; its paths are relative to its folder."""
    require(path.is_file(), f"there is no file {path}. Hint: check the name")
    is_json = path.suffix == ".json"
    readable = is_json or find_spec("tomllib") is not None
    require(readable, f"{path} must be JSON before Python 3.11. Hint: {path.with_suffix('.json')}")
    config = import_module("json" if is_json else "tomllib").loads(path.read_text("utf-8"))
    if not isinstance(config, dict):
        raise ValueError("a configuration must be an object")
    if ready is not None:
        config["ready"] = ready
    if missing := [name for name in NEEDED if name not in config]:
        raise ValueError(f"{missing[0]} is missing")
    _check_names(config, NAMES)
    if config.setdefault("format", "parquet") not in FORMATS:
        raise CommandError(f'format ({config["format"]!r}) must be one of {", ".join(FORMATS)}. Hint: format = "csv"')
    check_packages(config["format"])
    if "{period}" not in str(config.get("ready", "{period}")):
        raise ValueError(f"ready ({config['ready']!r}) must contain {{period}}, such as 'in/{{period}}.ready'")
    return {**config, **{name: str(path.parent / str(config[name])) for name in PATHS if name in config}}


def _check_names(given: Collection[str], known: Collection[str], where: str = "") -> None:
    """Refuse a setting that does not exist."""
    for name in given:
        if name not in known:
            hint = ", ".join(get_close_matches(name, known, n=1) or known)
            raise CommandError(f"{where}there is no setting {name!r}. Hint: {hint}")


def _from_table(kind: type[Made], given: Any, name: str) -> Made:
    """An object from a table of the configuration."""
    known = {field.name: field.default is MISSING for field in fields(kind)}  # type: ignore[arg-type]  # dataclasses
    needed = [each for each, is_needed in known.items() if is_needed]
    if not isinstance(given, dict) or not given.keys() >= set(needed):
        raise CommandError(f"{name} must be a table with {' and '.join(needed)}. Hint: {name} = {_EXAMPLES[name]}")
    _check_names(given, known, f"{name}: ")
    return kind(**given)


def _try(config: Mapping[str, Any], today: date) -> None:
    """Before a file is begun, check everything in a temporary one, so that a wrong configuration leaves none behind."""
    file = Path(config["file"])
    if not checked_file(file)[1] or not os.access(file.parent, os.W_OK):  # opening it reports that
        return
    with TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        trial = Path(folder, file.name)
        series = _open({**config, "file": trial})
        due, *_ = _due(config, series, today)
        try:
            if due:
                _made(config, series.check, _source(config, series), due[0])
        except BudgetError as error:
            raise BudgetError(str(error).replace(str(trial), str(file))) from None


def _open(config: Mapping[str, Any]) -> Series:
    rule, by, values, unit = config["period"], config["by"], config.get("value") or [], config.get("unit")
    polish = {name: config[name] for name in ("nonnegative", "integers") if name in config}
    if polish and (values or config.get("method", "auto") != "auto"):
        raise CommandError("nonnegative and integers are for counts by method auto. Hint: leave them out")
    try:
        amounts_of(config.get("total", {"epsilon": 1}), name="total")
    except LedgerError as error:
        raise ValueError(str(error)) from None
    plain = ("total", "method", "confidence", "measuring", "pooled")
    options = {name: config[name] for name in plain if name in config}
    values = values if isinstance(values, list) else [values]
    options |= {"method": Auto(**polish)} if polish else {}
    options |= {name: _number(config, name) for name in ("epsilon", "delta", "rho") if name in config}
    return Series.open(
        config["file"],
        by=read_key(by) if isinstance(by, str) else by,
        period=Period(rule) if isinstance(rule, str) else _from_table(Period, rule, "period"),
        unit=None if unit is None else _from_table(Unit, unit, "unit"),
        value=[_from_table(Value, each, "value") for each in values] or None,
        **options,
    )


def _number(config: Mapping[str, Any], name: str) -> float:
    try:
        return float(str(config[name]))  # which refuses true
    except ValueError:
        raise ValueError(f"{name} ({config[name]!r}) must be a number") from None


def _due(
    config: Mapping[str, Any], series: Series, today: date, most: int | None = None
) -> tuple[list[str], list[str], Path | None]:
    """The periods that are due, ready and within the limit, their quarters, and the first marker that is missing."""
    due: list[str] = []
    released, number, marker = set(series.periods), 0, None
    for name in _over(config, series.period, today):
        if name not in released:
            if number == most:
                break
            marker = Path(config["ready"].replace("{period}", quote(name, safe=""))) if "ready" in config else None
            if marker is not None and not marker.exists():
                break
            number, marker = number + 1, None
        due.append(name)
    _check_outputs(config, due)
    if series.pooled is None:
        return due, [], marker
    first = series.period.name(config["first"])
    until = series.period.first_day(series.period.next(due[-1]) if due else first)
    quarter = series.quarter.name(series.period.first_day(first))
    return due, series.quarter.due(quarter, today=until), marker


def _check_outputs(config: Mapping[str, Any], due: list[str]) -> None:
    """Refuse outputs that would replace the file, or that the source would read."""
    files = {os.path.realpath(config["file"]) + beside for beside in ("", "-journal", "-wal", "-shm")}
    source = os.path.realpath(config["source"])
    for output in (_output(config), *(_output(config, name) for name in due)):
        path = Path(os.path.realpath(output))
        if str(path) in files:
            raise CommandError(f"file ({config['file']}) must not be an output of the job. Hint: another name")
        # A star of fnmatch also stands for slashes, as two stars of a pattern do.
        if fnmatchcase(str(path), source.replace("**/", "*")) if "**" in source else path.match(source):
            raise CommandError(f"source must not match the job's outputs, such as {output}. Hint: another folder")


def _output(config: Mapping[str, Any], name: str | None = None) -> Path:
    """The file of a period, or the table of all periods; JSON is for single releases."""
    form = "ndjson" if name is None and config["format"] == "json" else config["format"]
    return Path(config["output"], f"{quote(name or 'series', safe='')}.{form}")


def _print_costs(series: Series, due: list[str], quarters: list[str]) -> None:
    """Print what is due, and what each and all would cost; refused if that is more than what is left."""
    expected, kept = expected_entries(series, due, quarters), series.ledger.entries()
    left, then = series.ledger.left_after(kept), series.ledger.left_after([*kept, *expected])
    cost = show({name: amount - then[name] for name, amount in left.items()})
    print(table(["due", "cost"], [[entry.name, show(entry.cost)] for entry in expected]))
    shared = ", because a row is in one period" if any(entry.disjoint for entry in expected) else ""
    print(f"All {len(expected)} together: {cost}{shared}. Left: {show(left)}. Nothing was read or spent.")
    is_enough = all(amount >= 0 for amount in then.values())
    require(is_enough, f"only {show(left)} are left. Hint: --most N, or a later first period", Exit.BUDGET)


def _over(config: Mapping[str, Any], period: Period, today: date) -> list[str]:
    """The periods to be released by now, from the calendar alone or as listed."""
    if period.every is None:
        if "first" in config or "wait" in config or not isinstance(config.get("periods"), list):
            raise ValueError("periods must list the periods that are over, because the column has no calendar")
        names = [period.name(each) for each in config["periods"]]
        if "series" in map(str.lower, names):
            raise ValueError("periods must not list 'series', which is the file of all periods")
        return names
    if "periods" in config or "first" not in config:
        raise ValueError("first must be the first period: later ones follow the calendar")
    wait = config.get("wait", 0)
    if type(wait) is not int or not 0 <= wait <= MOST_DAYS:
        raise ValueError(f"wait ({wait!r:.30}) must be a whole number of days, from 0 to {MOST_DAYS:,}")
    return period.due(config["first"], today=today, wait=wait)


def _run(config: Mapping[str, Any], series: Series, due: list[str], quarters: list[str]) -> None:
    form, everything = config["format"], _output(config)
    released, pooled = set(series.periods), series.quarters
    unpooled = [name for name in quarters if name not in pooled]
    frame = _source(config, series) if unpooled or not released.issuperset(due) else None
    everything.parent.mkdir(parents=True, exist_ok=True)
    write_file(everything, None)

    def pool(before: date) -> None:
        """Pool the quarters that end before this day."""
        while unpooled and series.quarter.first_day(series.quarter.next(unpooled[0])) <= before:
            name = unpooled.pop(0)
            _log(series, name, _made(config, series.pool, frame, name), "pooled")

    def write_all() -> None:
        """Write the table of all periods."""
        written: list[str] = []
        while written != (periods := series.periods):  # another process may have released more in the meantime
            write_file(everything, frame_bytes(series.to_frame(), file_format=everything.suffix[1:]))
            written = periods

    for name in due:
        if name not in released and unpooled:
            pool(series.period.first_day(name))
        path = _output(config, name)
        if name in released and path.exists():
            continue
        write_file(path, None)  # fails before anything is spent if it cannot be written
        try:
            release = series[name] if name in released else _made(config, series.release, frame, name)
        except BudgetError:  # what was released before is in the table all the same
            write_all()
            raise
        write_file(path, made_bytes(release, form))
        _log(series, name, release, "written" if name in released else "released")
    pool(date.max)
    write_all()


def _source(config: Mapping[str, Any], series: Series) -> pl.LazyFrame:
    """The rows; files that are missing or incomplete may be there later."""
    try:
        with silenced():
            frame = read_source(config["source"]).lazy()  # type: ignore[union-attr]
    except (OSError, ValueError) as error:
        if isinstance(error, (ValueError, IsADirectoryError)) and not isinstance(error, UnreadableError):
            raise CommandError(str(error)) from None  # a later try would end in the same way
        raise CommandError(
            f"{first_sentence(error)} Hint: try again when all files are there and complete", Exit.AGAIN
        ) from None
    assert series.key is not None
    frame = typed(frame, series.key, series.value if file_format(Path(config["source"])) == "csv" else ())
    if series.period.every is not None and series.period.column in frame.collect_schema():
        frame = texts_as(frame, {series.period.column: pl.Date()})
    return frame


def _made(config: Mapping[str, Any], make: Callable[[Any, str], Made], frame: Any, name: str) -> Made:
    try:
        with silenced():
            return make(frame, name)
    except (KeyboardInterrupt, LedgerError):
        raise
    except (TypeError, ValueError) as error:  # about columns and arguments: no message contains data
        hint = "change the configuration, or the columns of the source"
        is_clear = "there is no column" in str(error)  # whose hint is not about Python
        raise CommandError(str(error) if is_clear else f"{first_sentence(error)} Hint: {hint}") from None
    except BaseException:  # a panic of Polars is not an Exception
        problem, hint = "could not be read in full; nothing was spent", "is it damaged, or still being written?"
        raise CommandError(f"{config['source']} {problem}. Hint: {hint}", Exit.AGAIN) from None


def _log(series: Series, name: str, release: TreeRelease, status: str) -> None:
    """Print one line of JSON."""
    ledger, entries = series.ledger, series.ledger.entries()
    left = ledger.left_after(entries)
    line = log_line(
        status,
        period=name,
        nodes=int(shown_nodes(release).sum()),
        cost=next(decimal_texts(entry.cost) for entry in entries if entry.name == name),
        spent=decimal_texts(spent(ledger.total, left)),
        left=decimal_texts(left),
    )
    print(line, file=sys.stderr, flush=True)
