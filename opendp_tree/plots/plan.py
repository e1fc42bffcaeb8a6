"""Plans as lines: error against weight, and error against depth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree.plots.style import DASHES, LINES, as_text, axis, graph_objects, layout

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

__all__ = ["plot_depths", "plot_plan"]


def plot_plan(plan: Any, *, title: str | None = None) -> go.Figure:
    """The error of each mechanism of a plan against a node's weight, on log axes.

    `plan` is what `plan(...)` gives, or anything with its `candidates`, `best` and `curves()`. The best mechanism has
    the thick line; those that are not possible are named below with the reason.

    Needs Plotly: `pip install 'opendp-tree[plot]'`.

    >>> from types import SimpleNamespace as Plan
    >>> import polars as pl
    >>> from opendp_tree import plot_plan
    >>> curves = pl.DataFrame({"mechanism": ["a", "a", "b", "b"], "weight": [1, 10] * 2, "error": [3.0, 3.0, 1.0, 2.0]})
    >>> a, b = (Plan(name=name, feasible=True, reason="") for name in "ab")
    >>> [line.name for line in plot_plan(Plan(candidates=(b, a), best=b, curves=lambda: curves)).data]
    ['b (best)', 'a']
    """
    possible = [candidate for candidate in plan.candidates if candidate.feasible]
    footer = [f"Not possible: {each.name} ({each.reason})." for each in plan.candidates if not each.feasible]
    best = None if plan.best is None else plan.best.name
    return _lines(
        plan.curves(),
        "weight",
        names=[candidate.name for candidate in possible],
        best=best,
        title=title or "Error before any data is touched",
        subtitle=f"Best: {best}." if best else "No mechanism is possible.",
        horizontal="true count of a node",
        footer=footer,
    )


def plot_depths(frame: pl.DataFrame, *, title: str | None = None) -> go.Figure:
    """The error of each mechanism against the depth of the tree, from a frame of `depth`, `mechanism` and `error`.

    Needs Plotly: `pip install 'opendp-tree[plot]'`.

    >>> import polars as pl
    >>> from opendp_tree import plot_depths
    >>> errors = pl.DataFrame({"depth": [4, 8, 4, 8], "mechanism": ["a", "a", "b", "b"], "error": [3.0, 4.0, 2.0, 8.0]})
    >>> [line.name for line in plot_depths(errors).data]
    ['a', 'b']
    """
    wanted = ("depth", "mechanism", "error")
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(f"frame must have the columns {', '.join(wanted)}; missing: {', '.join(missing)}")
    return _lines(
        frame,
        "depth",
        names=frame["mechanism"].unique(maintain_order=True).to_list(),
        best=None,
        title=title or "Error against depth",
        subtitle="Lower is better.",
        horizontal="levels of the tree",
        footer=[],
    )


def _lines(
    frame: pl.DataFrame,
    across: str,
    *,
    names: list[str],
    best: str | None,
    title: str,
    subtitle: str,
    horizontal: str,
    footer: list[str],
) -> go.Figure:
    go = graph_objects()
    traces = [_line(go, frame, across, name, place, best) for place, name in enumerate(_best_first(names, best))]
    look = layout(title=title, subtitle=subtitle, footer=footer, below=100)
    look["xaxis"] = _log_axis(horizontal, frame[across].to_list())
    look["yaxis"] = _log_axis("error", frame["error"].to_list())
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.13, "yanchor": "top"}
    return go.Figure(traces, look)


def _best_first(names: list[str], best: str | None) -> list[str]:
    return sorted(names, key=lambda name: name != best)


def _line(go: Any, frame: pl.DataFrame, across: str, name: str, place: int, best: str | None) -> Any:
    rows = frame.filter(frame["mechanism"] == name).sort(across)
    at, error = (rows[column].cast(float).to_numpy().copy() for column in (across, "error"))
    error[~(np.isfinite(error) & (error > 0))] = np.nan  # a log axis has no place for these: the line breaks
    return go.Scatter(
        x=at[at > 0],
        y=error[at > 0],
        name=as_text(f"{name} (best)" if name == best else name),
        mode="lines+markers" if across == "depth" else "lines",
        line={
            **{"color": LINES[place % len(LINES)], "dash": DASHES[place % len(DASHES)]},
            "width": 4 if name == best else 2,
        },
        hovertemplate=f"<b>{as_text(name)}</b><br>{across} %{{x:,.4~g}}<br>error %{{y:,.3~g}}<extra></extra>",
    )


def _log_axis(title: str, values: list[float]) -> dict[str, Any]:
    """A log axis with a tick at each power of ten, and at twice and five times it if there are few of those."""
    drawn = [value for value in values if value is not None and 0 < value < np.inf] or [1.0]
    first, last = math.floor(math.log10(min(drawn))), math.ceil(math.log10(max(drawn)))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return axis(title, type="log", tickvals=ticks, ticktext=[_short(tick) for tick in ticks])


def _short(value: float) -> str:
    """A tick's figure.

    >>> [_short(value) for value in (0.05, 20.0, 1000.0, 5e4, 1e6, 1e12)]
    ['0.05', '20', '1,000', '50k', '1M', '1e+12']
    """
    if 1e4 <= value < 1e9:
        return f"{value / 1e3:g}k" if value < 1e6 else f"{value / 1e6:g}M"
    return f"{value:,.10g}" if value < 1e9 else f"{value:.0e}"
