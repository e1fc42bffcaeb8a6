"""What the user sees: errors of one line, progress, tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

__all__ = ["CommandError", "Exit", "Progress", "silenced", "table"]


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
        """Say what begins now, in place of what was said before."""
        if self.shown:
            print(f"\r\033[K{text} ...", end="", file=sys.stderr, flush=True)

    def end(self, text: str = "") -> None:
        """Leave this behind instead."""
        if self.shown:
            print(f"\r\033[K{text}", end="\n" if text else "", file=sys.stderr, flush=True)


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
