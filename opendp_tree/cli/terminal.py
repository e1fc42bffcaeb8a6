"""Exit codes, errors, standard streams, output files and signals."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any

from opendp_tree._files import PendingFile
from opendp_tree._interrupts import interruptible


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    BUDGET = 3
    INFEASIBLE = 4
    AGAIN = 75
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """An error with a message of one line, which contains no data and a hint."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


def failed(message: str) -> CommandError:
    """A failure that is not due to an argument."""
    return CommandError(message, Exit.FAILURE)


def require(condition: object, message: str, code: Exit = Exit.USAGE) -> None:
    """End with this message unless the condition holds."""
    if not condition:
        raise CommandError(message, code)


def log_line(status: str, **fields: Any) -> str:
    """One line of JSON for a log, of public facts."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return json.dumps({"time": now, "status": status, **fields})


def open_streams() -> None:
    """Open the null device for closed standard streams, so that no other file takes their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives


def print_bytes(content: bytes = b"") -> None:
    """Write to standard output now, while an error can be reported. It may be slow, so interrupts are let through."""
    try:
        with interruptible():
            sys.stdout.flush()
            left = memoryview(content)
            while left:  # an unbuffered stream may take only a part
                left = left[sys.stdout.buffer.write(left) :]
            sys.stdout.buffer.flush()
    except BaseException:
        drop_output()
        raise


def drop_output() -> None:
    """Discard what standard output did not take: Python would try again at exit, and wait or complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def terminated_by(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Let SIGTERM call this handler. Elsewhere it ends the process at once, with code 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)


def write_file(path: str | Path, content: bytes | None) -> None:
    """Write a file, whole or not at all; without content, only check that it can be written. SIGTERM waits."""
    noted: list[int] = []
    try:
        with terminated_by(lambda number, _: noted.append(number)), PendingFile(path) as output:
            if content is not None:
                output.commit(content)
    finally:
        if noted:
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress standard error: when a damaged file makes Polars panic, it writes there, row counts too."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
