"""What the user sees: errors of one line, and progress."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

from opendp_tree._interrupts import interruptible, stop_if_interrupted
from opendp_tree._show import StatusLine

__all__ = [
    "CommandError",
    "Exit",
    "Progress",
    "drop_output",
    "flush_output",
    "open_streams",
    "print_bytes",
    "silenced",
    "termination_deferred",
]


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    BUDGET = 3
    INFEASIBLE = 4
    AGAIN = 75
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """An end with a message of one line, which holds no data and says what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


class Progress(StatusLine):
    """What is being done, on one line of a terminal; nothing at all where nobody watches."""

    def step(self, text: str) -> None:
        """Say what begins now, in place of what was said before; or, if that was interrupted, begin nothing."""
        stop_if_interrupted()
        self.write(f"{text} ...")


def open_streams() -> None:
    """Have something behind standard input, output and error."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives


def print_bytes(content: bytes) -> None:
    """Write to standard output, which may be slow, so that interrupts are let through."""
    try:
        with interruptible():
            left = memoryview(content)
            while left:  # unbuffered, as Python may be told to be, it takes as much as there is room for
                left = left[sys.stdout.buffer.write(left) :]
            sys.stdout.buffer.flush()
    except BaseException:
        drop_output()
        raise


def flush_output() -> None:
    """Write what was printed now, while an error can still be told."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except BaseException:
            drop_output()
            raise


def drop_output() -> None:
    """Forget what standard output did not take: Python would try again at its end, and wait or complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def termination_deferred() -> Iterator[None]:
    """SIGTERM waits while a file is written beside its target. Elsewhere it ends the process at once, with code 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)
        if noted:
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def silenced() -> Iterator[None]:
    """Nothing reaches standard error: Polars writes there, row counts too, when damaged files make it panic."""
    try:
        kept = os.dup(2)
    except OSError:  # it is closed: silent already
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
