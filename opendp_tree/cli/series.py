"""`opendp-tree series run CONFIG`: what a scheduler runs every night. Due periods are released, and files written."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree.cli.commands import first_sentence, typed
from opendp_tree.cli.options import INPUTS
from opendp_tree.cli.terminal import CommandError, Exit, silenced, termination_deferred
from opendp_tree.keys.text import read_key
from opendp_tree.ledger import LedgerError, LockedError, decimal_texts
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.writing import frame_bytes
from opendp_tree.rows.period import Period
from opendp_tree.rows.sources import read_source, with_numbers, with_times
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value
from opendp_tree.series import Series

if TYPE_CHECKING:
    import polars as pl

__all__ = ["run_series"]

NEEDED = ("file", "source", "by", "period", "output")
OPTIONAL = "first periods wait epsilon delta rho total unit method confidence value measuring pooled format"
NAMES = (*NEEDED, *OPTIONAL.split())


def run_series(options: argparse.Namespace) -> Exit:
    """Release what is due and write what is missing; run twice at once, or again after a crash, it does the same."""
    with _terminated_as_interrupted():
        try:
            config = _read(Path(options.config))
            series = _open(config)
            today = options.today or datetime.now().date()
            due = _due(config, series.period, today)
            quarters = _due_quarters(config, series, today)
        except (LedgerError, CommandError):
            raise
        except (TypeError, ValueError, KeyError) as error:  # about the configuration: no data has been read
            raise CommandError(Exit.USAGE, f"{options.config}: {first_sentence(error)} Hint: {_HINT}") from None
        try:
            _run(config, series, due, quarters)
        except LockedError as error:
            raise CommandError(Exit.AGAIN, str(error)) from None
    return Exit.OK


_HINT = "docs/every_week.md shows a configuration"


def _read(path: Path) -> dict[str, Any]:
    """The configuration, whose paths are beside its file."""
    if not path.is_file():
        raise CommandError(Exit.USAGE, f"there is no file {path}. Hint: check the name")
    if path.suffix != ".json" and find_spec("tomllib") is None:
        raise CommandError(Exit.USAGE, f"{path} must be JSON before Python 3.11. Hint: {path.with_suffix('.json')}")
    config = import_module("json" if path.suffix == ".json" else "tomllib").loads(path.read_text("utf-8"))
    if not isinstance(config, dict):
        raise ValueError("a configuration must be an object")
    for name in NEEDED:
        if name not in config:
            raise ValueError(f"{name} is missing")
    if unknown := [name for name in config if name not in NAMES]:
        raise ValueError(f"{unknown[0]!r} must be one of {', '.join(NAMES)}")
    if config.get("format", "parquet") not in INPUTS:
        raise ValueError(f"format ({config['format']!r}) must be one of {', '.join(INPUTS)}")
    return {**config, **{name: str(path.parent / str(config[name])) for name in ("file", "source", "output")}}


def _open(config: Mapping[str, Any]) -> Series:
    rule, by, values = config["period"], config["by"], config.get("value")
    others: dict[str, Any] = {name: float(config[name]) for name in ("epsilon", "delta", "rho") if name in config}
    others |= {
        name: config[name] for name in ("total", "method", "confidence", "measuring", "pooled") if name in config
    }
    try:
        return Series.open(
            config["file"],
            by=read_key(by) if isinstance(by, str) else by,
            period=Period(**rule) if isinstance(rule, dict) else Period(rule),
            unit=Unit(**config["unit"]) if "unit" in config else None,
            value=None if values is None else [Value(**each) for each in values],
            **others,
        )
    except LockedError as error:
        raise CommandError(Exit.AGAIN, str(error)) from None


def _due(config: Mapping[str, Any], period: Period, today: Any) -> list[str]:
    """The periods that are to be released by now: by the calendar alone, or those that are listed."""
    if period.every is None:
        if "first" in config or "wait" in config or not isinstance(config.get("periods"), list):
            raise ValueError("periods must list the names of those that are over, as the column has no calendar")
        return [period.name(each) for each in config["periods"]]
    if "periods" in config or "first" not in config:
        raise ValueError("first must be the first period: later ones follow the calendar")
    return period.due(config["first"], today=today, wait=int(config.get("wait", 0)))


def _due_quarters(config: Mapping[str, Any], series: Series, today: Any) -> list[str]:
    """The quarters that are to be pooled by now."""
    if series.pooled is None:
        return []
    quarter, first = series.quarter, series.period.first_day(series.period.name(config["first"]))
    return quarter.due(quarter.name(first), today=today, wait=int(config.get("wait", 0)))


def _run(config: Mapping[str, Any], series: Series, due: list[str], quarters: list[str]) -> None:
    folder, form = Path(config["output"]), config.get("format", "parquet")
    released, pooled = set(series.periods), series.quarters
    waiting = [name for name in due if name not in released]
    unpooled = [name for name in quarters if name not in pooled]
    frame = _source(config, series) if waiting or unpooled else None
    folder.mkdir(parents=True, exist_ok=True)

    def pool(before: Any) -> None:
        while unpooled and (before is None or series.quarter.first_day(series.quarter.next(unpooled[0])) <= before):
            stop_if_interrupted()
            name = unpooled.pop(0)
            _log(series, name, _made(series.pool, frame, name), "pooled")

    for name in due:
        if name not in released and unpooled:
            pool(series.period.first_day(name))
        stop_if_interrupted()
        path = folder / f"{_file_name(name)}.{form}"
        if name in released and path.exists():
            continue
        release = series[name] if name in released else _made(series.release, frame, name)
        _write(path, frame_bytes(release.to_frame(), file_format=form, statement=release.statement))
        _log(series, name, release, "written" if name in released else "released")
    pool(None)
    _write_table(series, folder / f"series.{form}", form)


def _source(config: Mapping[str, Any], series: Series) -> pl.LazyFrame:
    """The rows; files that are not there, or not whole, may be so later."""
    try:
        with silenced():
            frame = read_source(config["source"])
    except (OSError, ValueError) as error:
        raise CommandError(Exit.AGAIN, f"{first_sentence(error)} Hint: try again when it is there") from None
    assert series.key is not None
    frame = typed(frame.lazy(), series.key)  # type: ignore[union-attr]
    if series.period.every is not None and series.period.column in frame.collect_schema():
        frame = with_times(frame, series.period.column, hours=False)
    return with_numbers(frame, [each.column for each in series.value])


def _made(make: Callable[[Any, str], TreeRelease], frame: Any, name: str) -> TreeRelease:
    try:
        with silenced():
            return make(frame, name)
    except LedgerError:
        raise
    except (TypeError, ValueError) as error:  # about columns and arguments: what the data hold is in no message
        raise CommandError(Exit.USAGE, f"{first_sentence(error)} Hint: {_HINT}") from None


def _write_table(series: Series, path: Path, form: str) -> None:
    """The long table; again if another process has released more in the meantime."""
    written: list[str] = []
    while written != (periods := series.periods):
        _write(path, frame_bytes(series.to_frame(), file_format=form))
        written = periods


def _write(path: Path, content: bytes) -> None:
    with termination_deferred(), PendingFile(path) as output:
        output.commit(content)


def _file_name(name: str) -> str:
    """A period's name as that of a file: letters, digits, - and _; others by their numbers."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_") else f"%{ord(letter):x}%" for letter in name
    )


def _log(series: Series, name: str, release: TreeRelease, status: str) -> None:
    """One line of JSON, of what is public."""
    shown = release.estimates.size if release.shown is None else int(release.shown.sum())
    line = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "period": name,
        "status": status,
        "nodes": shown,
        "left": decimal_texts(series.ledger.left()),
    }
    print(json.dumps(line), file=sys.stderr, flush=True)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM is what Ctrl-C is: it waits while OpenDP runs, and nothing that it ends has cost anything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)
