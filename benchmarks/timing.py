"""Timing and tables, shared by all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """The shortest of several runs, in seconds: the one that the machine disturbed least."""
    shortest = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |", flush=True)
        if number == 0:
            print("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
