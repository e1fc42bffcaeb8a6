"""Timing and tables, shared by all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def best_of(repeats: int, work: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of several runs, in seconds: the one that the machine disturbed least."""
    shortest = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        shortest = min(shortest, clock() - start)
    return shortest


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |", flush=True)
        if number == 0:
            print("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")


def write_lines(path: Path, lines: Mapping[str, Sequence[tuple[float, float]]], *, title: str, x: str) -> None:
    """A picture of lines over logarithmic axes. Names that differ in their last part alone share a colour."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    kinds = list(dict.fromkeys(name.rpartition(", ")[0] for name in lines))
    variants = list(dict.fromkeys(name.rpartition(", ")[2] for name in lines))
    for name, points in lines.items():
        kind, _, variant = name.rpartition(", ")
        dashes = ("-", "--", ":")[variants.index(variant)]
        axes.plot(*zip(*points, strict=True), f"{dashes}o", color=f"C{kinds.index(kind)}", label=name)
    axes.set(title=title, xlabel=x, xscale="log", yscale="log")
    ticks = sorted({point[0] for points in lines.values() for point in points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    print(f"\n![{title}]({path.name})", flush=True)
