"""`opendp-tree series run CONFIG`, for a nightly scheduler: releases the periods that are due, and writes files."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import date
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote

import polars as pl

from opendp_tree._interrupts import heard
from opendp_tree.cli.commands import first_sentence, typed
from opendp_tree.cli.options import INPUTS
from opendp_tree.cli.terminal import CommandError, Exit, log_line, require, silenced, terminated_by, write_file
from opendp_tree.keys.text import read_key
from opendp_tree.ledger import BudgetError, LedgerError, SettingsError, amounts_of, checked_file, decimal_texts, spent
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.writing import frame_bytes
from opendp_tree.rows.domains import read_source
from opendp_tree.rows.period import Period
from opendp_tree.rows.sources import file_format, texts_as
from opendp_tree.rows.unit import Unit, Value
from opendp_tree.series import Series, shown_nodes

PATHS = ("file", "source", "output", "ready")
NEEDED = ("file", "source", "by", "period", "output")
OPTIONAL = "first periods wait ready epsilon delta rho total unit method confidence value measuring pooled format"
NAMES = (*NEEDED, *OPTIONAL.split())
MOST_DAYS = 10_000
"""The longest wait for rows."""
Made = TypeVar("Made")
_HINT = "docs/nightly.md shows a configuration"


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
        series = _open(config)
        due, quarters, marker = _due(config, series, today)
    except SettingsError as error:
        raise CommandError(str(error)) from None
    except LedgerError:
        raise
    except (TypeError, ValueError, KeyError) as error:  # about the configuration: no data has been read
        raise CommandError(f"{options.config}: {first_sentence(error)} Hint: {_HINT}") from None
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
    if unknown := [name for name in config if name not in NAMES]:
        raise ValueError(f"{unknown[0]!r} must be one of {', '.join(NAMES)}")
    if config.setdefault("format", "parquet") not in INPUTS:
        raise ValueError(f"format ({config['format']!r}) must be one of {', '.join(INPUTS)}")
    if "{period}" not in str(config.get("ready", "{period}")):
        raise ValueError(f"ready ({config['ready']!r}) must contain {{period}}, such as 'in/{{period}}.ready'")
    return {**config, **{name: str(path.parent / str(config[name])) for name in PATHS if name in config}}


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
    rule, by, values, unit = config["period"], config["by"], config.get("value"), config.get("unit")
    if unit is not None and not isinstance(unit, dict):
        raise ValueError("unit must be an object such as {column = 'user', rows = 5}")
    try:
        amounts_of(config.get("total", {"epsilon": 1}), name="total")
    except LedgerError as error:
        raise ValueError(str(error)) from None
    plain = ("total", "method", "confidence", "measuring", "pooled")
    options = {name: config[name] for name in plain if name in config}
    options |= {name: _number(config, name) for name in ("epsilon", "delta", "rho") if name in config}
    return Series.open(
        config["file"],
        by=read_key(by) if isinstance(by, str) else by,
        period=Period(**rule) if isinstance(rule, dict) else Period(rule),
        unit=None if unit is None else Unit(**unit),
        value=None if values is None else [Value(**each) for each in values],
        **options,
    )


def _number(config: Mapping[str, Any], name: str) -> float:
    try:
        return float(str(config[name]))  # which refuses true
    except ValueError:
        raise ValueError(f"{name} ({config[name]!r}) must be a number") from None


def _due(config: Mapping[str, Any], series: Series, today: date) -> tuple[list[str], list[str], Path | None]:
    """The periods that are due and ready, the quarters that end with them, and the first marker that is missing."""
    due, released, marker = _over(config, series.period, today), set(series.periods), None
    for number, name in enumerate(due if "ready" in config else ()):
        marker = Path(config["ready"].replace("{period}", quote(name, safe="")))
        if name not in released and not marker.exists():
            due = due[:number]
            break
        marker = None
    if series.pooled is None:
        return due, [], marker
    first = series.period.name(config["first"])
    until = series.period.first_day(series.period.next(due[-1]) if due else first)
    quarter = series.quarter.name(series.period.first_day(first))
    return due, series.quarter.due(quarter, today=until), marker


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
    folder, form = Path(config["output"]), config["format"]
    released, pooled = set(series.periods), series.quarters
    unpooled = [name for name in quarters if name not in pooled]
    frame = _source(config, series) if unpooled or not released.issuperset(due) else None
    folder.mkdir(parents=True, exist_ok=True)
    everything = folder / f"series.{form}"
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
            write_file(everything, frame_bytes(series.to_frame(), file_format=form))
            written = periods

    for name in due:
        if name not in released and unpooled:
            pool(series.period.first_day(name))
        path = folder / f"{quote(name, safe='')}.{form}"
        if name in released and path.exists():
            continue
        write_file(path, None)  # fails before anything is spent if it cannot be written
        try:
            release = series[name] if name in released else _made(config, series.release, frame, name)
        except BudgetError:  # what was released before is in the table all the same
            write_all()
            raise
        write_file(path, frame_bytes(release.to_frame(), file_format=form, statement=release.statement))
        _log(series, name, release, "written" if name in released else "released")
    pool(date.max)
    write_all()


def _source(config: Mapping[str, Any], series: Series) -> pl.LazyFrame:
    """The rows; files that are missing or incomplete may be there later."""
    try:
        with silenced():
            frame = read_source(config["source"]).lazy()  # type: ignore[union-attr]
    except (OSError, ValueError) as error:
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
        raise CommandError(f"{first_sentence(error)} Hint: {_HINT}") from None
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
