"""What the user sees: errors of one line, progress, tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum

from opendp_tree._interrupts import interruptible, stop_if_interrupted

__all__ = [
    "CommandError",
    "Exit",
    "Progress",
    "drop_output",
    "flush_output",
    "open_streams",
    "print_bytes",
    "silenced",
    "table",
]


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    BUDGET = 3
    INFEASIBLE = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """An end with a message of one line, which holds no data and says what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


class Progress:
    """What is being done, on one line of a terminal; nothing at all where nobody watches."""

    def __init__(self, *, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()

    def step(self, text: str) -> None:
        """Say what begins now, in place of what was said before; or, if that was interrupted, begin nothing."""
        stop_if_interrupted()
        if self.shown:
            print(f"\r\033[K{text} ...", end="", file=sys.stderr, flush=True)

    def end(self, text: str = "") -> None:
        """Leave this behind instead."""
        if self.shown:
            print(f"\r\033[K{text}", end="\n" if text else "", file=sys.stderr, flush=True)


def open_streams() -> None:
    """Have something behind standard input, output and error.

    Whoever closed one would otherwise find the next file that is opened in its place: a ledger, to which errors are
    written. `sys.stdout` stays None, so that a release into it can be refused.
    """
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


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns side by side: texts to the left, numbers to the right.

    >>> print(table(["level", "nodes"], [["origin", 3], ["dest", 105]]))
    level   nodes
    origin      3
    dest      105
    """
    texts = [list(heads), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(not isinstance(row[place], str) for row in rows) and bool(rows) for place in range(len(heads))]
    lines = []
    for row in texts:
        cells = [
            cell.rjust(width) if numbers else cell.ljust(width)
            for cell, width, numbers in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 10 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
