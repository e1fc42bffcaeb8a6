"""Small tables for terminals and notebooks, whose labels stay plain text, and one line about long work."""

from __future__ import annotations

import html
import math
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WIDTH, _HEIGHT, _SHORT = 140, 14, 30
# Colours of the page itself, and one that is visible on white and on black: the notebook's theme does not matter.
_STYLE = """
.opendp-tree { max-width: 100%; overflow-x: auto; font-size: 13px; line-height: 1.45; }
.opendp-tree .opendp-tree-title { font-size: 15px; font-weight: 600; margin: 2px 0 4px; }
.opendp-tree p { margin: 2px 0; opacity: 0.75; overflow-wrap: anywhere; }
.opendp-tree table { border-collapse: collapse; margin: 6px 0 8px; border: 0; }
.opendp-tree th, .opendp-tree td { text-align: left; padding: 3px 16px 3px 0; border: 0; background: none;
  border-bottom: 1px solid rgba(128, 128, 128, 0.25); vertical-align: middle; }
.opendp-tree th { font-weight: 600; opacity: 0.75; border-bottom-color: rgba(128, 128, 128, 0.6); }
.opendp-tree .opendp-tree-number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.opendp-tree .opendp-tree-short { white-space: nowrap; }
.opendp-tree .opendp-tree-text { overflow-wrap: anywhere; min-width: 15em; max-width: 34em; }
.opendp-tree .opendp-tree-strong td { font-weight: 600; }
.opendp-tree svg { display: block; overflow: visible; }
"""


@dataclass(frozen=True)
class Bar:
    """A number, drawn as a bar from 0 with its interval as a line; all bars of a table share one scale."""

    value: float | None
    lower: float | None = None
    upper: float | None = None


Cell = str | float | Decimal | Bar | None


def one_line(text: str, width: int | None = None) -> str:
    """Text without control characters, on one line; its middle is left out if it is longer than the width."""
    clean = _CONTROLS.sub(" ", text)
    if width is None or len(clean) <= width:
        return clean
    head = (width - 1) * 2 // 5
    return clean[:head] + "…" + clean[head + 1 + len(clean) - width :]


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns side by side: texts to the left, numbers to the right, bars left out."""
    columns = []
    for head, cells in zip(heads, zip(*rows, strict=True) if rows else [()] * len(heads), strict=True):
        if any(isinstance(cell, Bar) for cell in cells):
            continue
        texts = [one_line(text) for text in (head, *map(_cell_text, cells))]
        width, align = max(map(len, texts)), str.rjust if rows and _kind(cells) == "number" else str.ljust
        columns.append([align(text, width) for text in texts])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def html_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    above: Sequence[str] = (),
    below: Sequence[str] = (),
    strong: int | None = None,
) -> str:
    """A table for a notebook, light or dark. Everything in it is escaped."""
    bars = [cell for row in rows for cell in row if isinstance(cell, Bar)]
    ends = [end for bar in bars for end in (bar.value, bar.lower, bar.upper) if end is not None and math.isfinite(end)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    kinds = [_kind(cells) for cells in zip(*rows, strict=True)]

    def row_html(tag: str, cells: Sequence[Cell]) -> str:
        inner = [_drawn(cell, low, high) if isinstance(cell, Bar) else _escaped(_cell_text(cell)) for cell in cells]
        kinded = zip(kinds, inner, strict=True)
        return "".join(f'<{tag} class="opendp-tree-{kind}">{each}</{tag}>' for kind, each in kinded)

    parts = [f'<div class="opendp-tree"><style>{_STYLE}</style>']
    parts += [f'<div class="opendp-tree-title">{_escaped(title)}</div>'] if title else []
    parts += [f"<p>{_escaped(line)}</p>" for line in above]
    if rows:
        parts.append(f"<table><thead><tr>{row_html('th', heads)}</tr></thead><tbody>")
        for index, row in enumerate(rows):
            opened = '<tr class="opendp-tree-strong">' if index == strong else "<tr>"
            parts.append(f"{opened}{row_html('td', row)}</tr>")
        parts.append("</tbody></table>")
    return "".join([*parts, *(f"<p>{_escaped(line)}</p>" for line in below), "</div>"])


def number_text(value: float) -> str:
    """Three digits of a number, and all digits of a thousand and more."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e15 else f"{value:.3g}"


def _cell_text(cell: Cell) -> str:
    """A number as a table shows it; a dash where there is none."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 10 else f"{cell:.3g}"
    return "-" if cell is None else cell if isinstance(cell, str) else f"{cell:,}"


def _escaped(text: str) -> str:
    # Notebooks typeset text between dollar signs as formulas.
    return html.escape(one_line(text)).replace("$", "<span>$</span>")


def _kind(cells: Sequence[Cell]) -> str:
    """How a column is aligned: numbers to the right, short texts on one line, long texts wrapped."""
    if not any(isinstance(cell, Bar) or (isinstance(cell, str) and not cell.endswith(" %")) for cell in cells):
        return "number"
    return "short" if all(not isinstance(cell, str) or len(cell) <= _SHORT for cell in cells) else "text"


def _drawn(bar: Bar, low: float, high: float) -> str:
    """The bar as a picture; an end that is not finite is drawn at the edge."""

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low) if high > low else 0.0
        return round(share * (_WIDTH - 2) + 1, 1)

    middle, marks = _HEIGHT / 2, []
    if bar.value is not None and math.isfinite(bar.value):
        left, right = sorted((at(0.0), at(bar.value)))
        size = f'width="{round(right - left, 1)}" height="{_HEIGHT - 4}"'
        marks.append(f'<rect x="{left}" y="2" {size} fill="#4a90d0" fill-opacity="0.6"/>')
    if bar.lower is not None and bar.upper is not None and not (math.isnan(bar.lower) or math.isnan(bar.upper)):
        left, right = at(bar.lower), at(bar.upper)
        path = f"M{left} {middle}H{right}M{left} {middle - 3}v6M{right} {middle - 3}v6"
        marks.append(f'<path d="{path}" stroke="currentColor" stroke-width="1.3" fill="none"/>')
    zero = f'<path d="M{at(0.0)} 0v{_HEIGHT}" stroke="currentColor" stroke-opacity="0.35"/>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">{"".join(marks)}{zero}</svg>'


LONG, _TICK = 2.5, 1.0
"""Seconds until long work is reported, and between two reports."""
_watched = threading.local()
"""In each thread: whether an outer call already reports."""


def clear_code() -> str | None:
    """The text that clears the current line of standard error; None if that is neither a terminal nor a notebook."""
    with suppress(AttributeError, ValueError):  # it is missing or closed
        if sys.stderr.isatty():
            return "\r\033[K"
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_notebook = "ipykernel" in sys.modules and hasattr(shell, "kernel")
    return "\r" + " " * 60 + "\r" if is_notebook else None  # notebooks do not know the codes of terminals


def show_status(clear: str | None, text: str) -> None:
    """Replace the current line of standard error by this text, if the line can be cleared."""
    if clear is not None:
        with suppress(OSError, ValueError):  # standard error was closed
            print(f"{clear}{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def progress(text: str, *, after: float = LONG) -> Iterator[None]:
    """Report the seconds that the enclosed or decorated work takes, if it takes long. Only the outermost reports."""
    clear, ended = clear_code(), threading.Event()
    if clear is None or getattr(_watched, "reports", False):
        yield
        return

    def report() -> None:
        start, wait = time.monotonic(), after
        while not ended.wait(wait):
            show_status(clear, f"{text} ... {time.monotonic() - start:.0f} s")
            wait = _TICK
        if wait == _TICK:
            show_status(clear, "")

    thread = threading.Thread(target=report, daemon=True)
    _watched.reports = True
    try:
        thread.start()
        yield
    finally:
        ended.set()
        thread.join()
        _watched.reports = False
