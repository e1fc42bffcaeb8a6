"""How pictures look, and how they write texts and figures."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

INK = "#24313d"
QUIET = "#5b6875"
GRID = "#e6eaee"
BLUE = "#1d5b8f"
MUTED = "#e3e6ea"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
LINES = (BLUE, "#d55e00", "#009e73", "#b0508f", "#c28a00", "#4aa3df", "#6b4c9a", "#5b6875")
"""Told apart by people who see fewer colours; lines also differ by dash."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")

BAND = "rgba(29, 91, 143, 0.18)"

HEAD = 64
"""The height of a title and its subtitle in pixels."""
HEIGHT = 560
"""The height of a picture in pixels, where a notebook shows it."""
CLICK = " Click to zoom."
"""What a page can do and a picture on paper cannot."""
FOOTER = "opendp-tree-footer"
"""The name of the annotation that holds a picture's footer; `write_html` sets it as text below the picture."""
SOFT_BREAK = " <br>"
"""A break inside a line of the footer, which a page of another width need not keep."""

_WRAP = 36
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def graph_objects() -> Any:
    """Plotly's graph objects; an error with a hint if Plotly is not there."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise ImportError("pictures need Plotly. Hint: pip install plotly") from None
    return go


def text_or(title: str | None, *, default: str) -> str:
    """The title that was given, or the usual one."""
    if not isinstance(title, (str, type(None))):
        raise TypeError(f"title ({type(title).__name__}) must be a text")
    return title or default


def as_text(text: str) -> str:
    """Text that Plotly shows as it is: markup and formulas are escaped, what would break or reorder lines a space."""
    return html.escape(_CONTROLS.sub(" ", text), quote=False).replace("$", "&#36;")


def shorten(text: str, width: int) -> str:
    """A text cut to fit, whose last character says that some are missing."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def wrap(text: str, width: int = _WRAP) -> str:
    """Escaped text in lines."""
    return "<br>".join(as_text(line) for line in textwrap.wrap(_CONTROLS.sub(" ", text), width)) or " "


def number(value: float | None) -> str:
    """A figure with thousands separators, and one decimal where that can matter."""
    if value is None or not math.isfinite(value):
        return "–"
    digits = 0 if abs(value) >= 1000 or float(value).is_integer() else 1
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(share: float) -> str:
    """A share in per cent, with at most two digits that matter; beyond ten times as a multiple."""
    if not math.isfinite(share):
        return "–"
    if abs(share) >= 10:
        return f"{share:,.0f} times"
    return f"{Decimal(100 * share).normalize(Context(prec=2 if abs(share) < 0.995 else 3)):f} %"


def confidence_text(confidence: float) -> str:
    """What an interval is called."""
    return "certain interval" if confidence >= 1 else f"{100 * confidence:.4g} % interval"


def counted_lines(counted: str | None) -> list[str]:
    """What a hover adds where not all rows are counted."""
    return [] if counted in (None, "rows") else [wrap(f"of {counted}")]


def layout(
    *, title: str, subtitle: str, footer: Sequence[str], below: int, above: int = 0, height: int | None = None
) -> dict[str, Any]:
    """What all pictures share: a quiet white sheet, a title above, and a footer."""
    wrapped = [textwrap.wrap(_CONTROLS.sub(" ", text), 110) for text in footer]
    font = {"family": FONT, "size": 13, "color": INK}
    foot = {
        "name": FOOTER,
        "text": "<br>".join(SOFT_BREAK.join(map(as_text, lines)) for lines in wrapped),
        "showarrow": False,
        "align": "left",
        "font": {**font, "size": 12, "color": QUIET},
        **{"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 0, "yanchor": "top", "yshift": -below},
    }
    return {
        "template": "none",
        "font": font,
        "title": {
            **{"text": as_text(title), "x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yanchor": "top"},
            **{"pad": {"t": 18}, "font": {**font, "size": 19}},
            "subtitle": {"text": as_text(subtitle), "font": {**font, "color": QUIET}},
        },
        "annotations": [foot],
        "margin": {"l": 24, "r": 24, "t": HEAD + 4 + above, "b": below + foot_height(sum(map(len, wrapped)))},
        "height": height or HEIGHT,
        "hoverlabel": {
            **{"bgcolor": "white", "bordercolor": "#9aa7b3", "align": "left", "namelength": -1},
            "font": {**font, "color": INK},
        },
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
    }


def foot_height(lines: int) -> int:
    """The height of a footer in pixels."""
    return 16 + 17 * lines


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a light grid."""
    return {
        "title": {"text": as_text(title), "standoff": 10, "font": {"size": 13, "color": QUIET}},
        **{"gridcolor": GRID, "zeroline": False, "linecolor": "#b8c2cc", "ticks": "", "automargin": True},
        **{"tickangle": 0, "exponentformat": "SI", "separatethousands": True},
        **more,
    }


def band(x: list[Any], low: list[float], high: list[float], **more: Any) -> dict[str, Any]:
    """The area between two lines, as a trace."""
    shape = {"x": [*x, *x[::-1]], "y": [*high, *low[::-1]], "fill": "toself", "line": {"width": 0}}
    return {**shape, "mode": "lines", "hoverinfo": "skip", **more}
