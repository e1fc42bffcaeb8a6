"""How pictures look, and how they write texts and figures."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._show import one_line
from opendp_tree._types import Array
from opendp_tree.budget import cost_words, counted_words
from opendp_tree.releases.release import TreeRelease

INK, BLUE, MUTED = "#6f7781", "#2f7fc1", "#e3e6ea"
"""Pictures have no background of their own: these can be read on white and on black, whatever the notebook's theme."""
BAND, GRID, EDGE = "rgba(47, 127, 193, 0.22)", "rgba(128, 128, 128, 0.25)", "rgba(128, 128, 128, 0.6)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
LINES = (BLUE, "#d55e00", "#009e73", "#b0508f", "#b58100", "#3d95cf", "#8f6cc2", INK)
"""Distinguishable for colour-blind readers; lines also differ by dash."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")
HEAD = 64
"""The height of a title and its subtitle in pixels."""
HEIGHT, TREE_HEIGHT = 560, 700
"""The heights of pictures in pixels, where a notebook shows them."""
FOOTER = "opendp-tree-footer"
"""The name of the annotation that holds a picture's footer; `write_html` sets it as text below the picture."""
GAP = "\u2002"  # between a name and its figure, which a narrow page leaves out
SOFT_BREAK = " <br>"
"""A break inside a line of the footer, which a page of another width need not keep."""


def graph_objects() -> Any:
    """Plotly's graph objects; an error with a hint if Plotly is not installed."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise ImportError("pictures need Plotly. Hint: pip install plotly") from None
    return go


def as_text(text: str) -> str:
    """Text that Plotly shows as it is: markup and formulas are escaped, control characters are spaces."""
    return html.escape(one_line(text), quote=False).replace("$", "&#36;")


def short_text(text: str, width: int = 28) -> str:
    """Escaped text with its middle left out where it is too long."""
    return as_text(one_line(text, width))


def wrap(text: str, width: int = 36) -> str:
    """Escaped text in lines."""
    return "<br>".join(as_text(line) for line in textwrap.wrap(one_line(text), width)) or " "


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
    return [] if counted in (None, "rows") else [wrap(f"Counted: {counted}")]


def drawn_frame(release: TreeRelease) -> pl.DataFrame:
    """The frame of a release; the interval of a row "(other)" is as long as the node above, and not drawn."""
    kept = ~pl.col("other") | (release.confidence == 1)
    return release.to_frame().with_columns(pl.when(kept).then(pl.col("lower", "upper")))


def release_footer(release: TreeRelease) -> list[str]:
    """What is counted, if the statement says so, and the cost."""
    return [*counted_words(release.statement), cost_words(release.statement)]


def figure(
    traces: Sequence[dict[str, Any]],
    *,
    title: str | None,
    usual: str,
    subtitle: str,
    footer: Sequence[str],
    below: int,
    above: int = 0,
    height: int = HEIGHT,
    **look: Any,
) -> Any:
    """Traces on a clear sheet, with a title above and a footer."""
    if not isinstance(title, (str, type(None))):
        raise TypeError(f"title ({type(title).__name__}) must be a text. Hint: leave it out for {usual!r}")
    wrapped = [textwrap.wrap(one_line(text), 110) for text in footer]
    font = {"family": FONT, "size": 13, "color": INK}
    foot = {
        "name": FOOTER,
        "text": "<br>".join(SOFT_BREAK.join(map(as_text, lines)) for lines in wrapped),
        **{"showarrow": False, "align": "left", "font": {**font, "size": 12}},
        **{"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 0, "yanchor": "top", "yshift": -below},
    }
    sheet = {
        "template": "none",
        "font": font,
        "title": {
            **{"text": as_text(title or usual), "x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yanchor": "top"},
            **{"pad": {"t": 18}, "font": {**font, "size": 19, "weight": 600}},
            "subtitle": {"text": as_text(subtitle), "font": font},
        },
        "annotations": [foot],
        "margin": {"l": 24, "r": 24, "t": HEAD + 4 + above, "b": below + foot_height(sum(map(len, wrapped)))},
        **{"height": height, "paper_bgcolor": "rgba(0, 0, 0, 0)", "plot_bgcolor": "rgba(0, 0, 0, 0)"},
        "hoverlabel": {
            **{"bgcolor": "white", "bordercolor": "#9aa7b3", "align": "left", "namelength": -1},
            "font": {**font, "color": "#24313d"},
        },
    }
    return graph_objects().Figure(list(traces), {**sheet, **look})


def foot_height(lines: int) -> int:
    """The height of a footer in pixels."""
    return 16 + 17 * lines


def legend(y: float, yanchor: str = "top") -> dict[str, Any]:
    """The names of lines beside each other, at this height."""
    place = {"orientation": "h", "traceorder": "normal", "x": 0, "xanchor": "left", "y": y, "yanchor": yanchor}
    return {"showlegend": True, "legend": place}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a light grid."""
    return {
        "title": {"text": as_text(title), "standoff": 10, "font": {"size": 13}},
        **{"gridcolor": GRID, "zeroline": False, "linecolor": EDGE, "ticks": "", "automargin": True},
        **{"tickangle": 0, "exponentformat": "SI", "separatethousands": True},
        **more,
    }


def log_axis(title: str, values: Array, *, spare: float = 0.0) -> dict[str, Any]:
    """A log axis over all values: ticks at powers of ten, and at multiples of these if there are few."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    edge = max(spare * (high - low), 0.02)
    steps = range(1, 10) if high - low <= 0.8 else (1, 2, 5) if high - low <= 2.5 else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return axis(title, type="log", range=[low - edge, high + edge], tickvals=ticks)


def stroke(index: int, *, width: float) -> dict[str, Any]:
    """The look of the line with this index."""
    return {"color": LINES[index % len(LINES)], "dash": DASHES[index % len(DASHES)], "width": width}
