"""What people see in terminals and notebooks: small tables, whose labels stay text, and one line on long work."""

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

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WIDTH, _HEIGHT, _SHORT = 140, 14, 30
# Colours of the page itself, and one that is seen on white and on black: no notebook's theme has to be known.
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
    """A number as a bar from 0, with its interval as a line, on a scale that all bars of a table share."""

    value: float | None
    lower: float | None = None
    upper: float | None = None

    def ends(self) -> list[float]:
        """The numbers that the scale must hold."""
        return [end for end in (self.value, self.lower, self.upper) if end is not None and math.isfinite(end)]


Cell = str | float | Bar | None


def one_line(text: str, width: int | None = None) -> str:
    r"""Text that stays on its line in any terminal, with its middle left out where it is too long."""
    clean = _CONTROLS.sub(" ", text)
    if width is None or len(clean) <= width:
        return clean
    head = (width - 1) * 2 // 5
    return clean[:head] + "…" + clean[head + 1 + len(clean) - width :]


def figure_text(value: float | None) -> str:
    """A number as a table shows it; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"
    return f"{value:,}"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns side by side: texts to the left, numbers to the right."""
    texts = [[one_line(head) for head in heads], *([_text(cell) for cell in row] for row in rows)]
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
    ends = [end for row in rows for cell in row if isinstance(cell, Bar) for end in cell.ends()]
    scale = min(ends, default=0.0), max(ends, default=0.0)
    kinds = [_kind([row[place] for row in rows]) for place in range(len(heads))]
    parts = ['<div class="opendp-tree">', f"<style>{_STYLE}</style>"]
    parts += [f'<div class="opendp-tree-title">{_escaped(title)}</div>'] if title else []
    parts += [f"<p>{_escaped(line)}</p>" for line in above]
    if rows:
        parts.append("<table><thead><tr>")
        parts += [_cell("th", _escaped(head), kind) for head, kind in zip(heads, kinds, strict=True)]
        parts.append("</tr></thead><tbody>")
        for place, row in enumerate(rows):
            parts.append('<tr class="opendp-tree-strong">' if place == strong else "<tr>")
            parts += [_cell("td", _inner(cell, scale), kind) for cell, kind in zip(row, kinds, strict=True)]
            parts.append("</tr>")
        parts.append("</tbody></table>")
    parts += [f"<p>{_escaped(line)}</p>" for line in below]
    return "".join([*parts, "</div>"])


def _text(cell: object) -> str:
    return one_line(cell) if isinstance(cell, str) else figure_text(cell)  # type: ignore[arg-type]


def _escaped(text: str) -> str:
    # Notebooks typeset what is between dollar signs.
    return html.escape(one_line(text)).replace("$", "<span>$</span>")


def _kind(cells: Sequence[Cell]) -> str:
    """How a column is set: numbers to the right, short texts on one line, long ones wrapped."""
    if not any(isinstance(cell, (str, Bar)) for cell in cells):
        return "number"
    return "short" if all(not isinstance(cell, str) or len(cell) <= _SHORT for cell in cells) else "text"


def _cell(tag: str, inner: str, kind: str) -> str:
    return f'<{tag} class="opendp-tree-{kind}">{inner}</{tag}>'


def _inner(cell: Cell, scale: tuple[float, float]) -> str:
    if isinstance(cell, Bar):
        return _drawn(cell, *scale)
    if cell is None:
        return "–"
    return _escaped(cell) if isinstance(cell, str) else figure_text(cell).replace("-", "−", 1)


def _drawn(bar: Bar, low: float, high: float) -> str:
    """The bar as a picture; an end that is not finite lies at the edge."""
    low, high = min(low, 0.0), max(high, 0.0)

    def at(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low) if high > low else 0.0
        return round(share * (_WIDTH - 2) + 1, 1)

    middle, marks = _HEIGHT / 2, []
    if bar.value is not None and math.isfinite(bar.value):
        left, right = sorted((at(0.0), at(bar.value)))
        marks.append(
            f'<rect x="{left}" y="2" width="{round(right - left, 1)}" height="{_HEIGHT - 4}" fill="#4a90d0" '
            'fill-opacity="0.6"/>'
        )
    if bar.lower is not None and bar.upper is not None and not (math.isnan(bar.lower) or math.isnan(bar.upper)):
        left, right = at(bar.lower), at(bar.upper)
        path = f"M{left} {middle}H{right}M{left} {middle - 3}v6M{right} {middle - 3}v6"
        marks.append(f'<path d="{path}" stroke="currentColor" stroke-width="1.3" fill="none"/>')
    zero = f'<path d="M{at(0.0)} 0v{_HEIGHT}" stroke="currentColor" stroke-opacity="0.35"/>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">{"".join(marks)}{zero}</svg>'


LONG = 2.5
"""Seconds after which people wonder whether anything happens."""
_TICK = 1.0


class StatusLine:
    """One line on standard error that is written over and over; nothing at all where nobody watches."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.terminal = _is_terminal()
        self.shown = not quiet and (self.terminal or _is_notebook())
        self._width = 0

    def write(self, text: str) -> None:
        """Say this in place of what was said before."""
        self.end(text, end="")

    def end(self, text: str = "", *, end: str | None = None) -> None:
        """Leave this behind instead; nothing by default."""
        if not self.shown:
            return
        # Notebooks know the return to the line's start, and no codes of terminals.
        clear = "\r\033[K" if self.terminal else "\r" + " " * self._width + "\r"
        self._width = len(text)
        with suppress(OSError, ValueError):  # nobody is there any more
            print(f"{clear}{text}", end=("\n" if text else "") if end is None else end, file=sys.stderr, flush=True)


_watched = threading.local()
"""Of each thread: whether somebody further out tells already."""


@contextmanager
def progress(text: str, *, after: float = LONG) -> Iterator[None]:
    """While inside, or in a function that it decorates: once it takes long, say what is done. The outermost says."""
    line = StatusLine()
    if getattr(_watched, "told", False) or not line.shown:
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(line, text, after, ended), daemon=True)
    _watched.told = True
    try:
        teller.start()
        yield
    finally:
        ended.set()
        teller.join()
        _watched.told = False


def _tell(line: StatusLine, text: str, after: float, ended: threading.Event) -> None:
    start = time.monotonic()
    if ended.wait(after):
        return
    while True:
        line.write(f"{text} ... {time.monotonic() - start:.0f} s")
        if ended.wait(_TICK):
            line.end()
            return


def _is_terminal() -> bool:
    try:
        return bool(sys.stderr is not None and sys.stderr.isatty())
    except ValueError:  # it is closed
        return False


def _is_notebook() -> bool:
    """Whether standard error goes to a notebook's page."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and hasattr(shell, "kernel")
