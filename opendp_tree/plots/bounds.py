"""A report on bounds as a line in its band: the share of rows kept against the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendp_tree._arguments import check_type
from opendp_tree.plots.style import BLUE, QUIET, axis, confidence_text, graph_objects, layout, text_or
from opendp_tree.releases.bound_report import BoundReport

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["plot_bounds"]

_BAND = "rgba(29, 91, 143, 0.18)"


def plot_bounds(report: BoundReport, *, title: str | None = None) -> go.Figure:
    """The share of rows that each bound keeps, within the band of its intervals; the recommended one is marked.

    Needs Plotly: `pip install plotly`.

    Parameters
    ----------
    report
        What `bound_report` gave.
    title
        By default "What a bound keeps".

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import bound_report
    >>> dp.enable_features("contrib")
    >>> figure = plot_bounds(bound_report(pl.DataFrame({"user": list(range(20_000)) * 2}), most=4))
    >>> figure.layout.title.text, [line.name for line in figure.data]
    ('What a bound keeps', ['estimate', '95 % interval', 'recommended'])
    """
    check_type(report, BoundReport, name="report", hint="opendp_tree.bound_report(...)")
    go = graph_objects()
    bounds, interval = report.bounds.tolist(), confidence_text(report.confidence)
    low, middle, high = ((100 * part).tolist() for part in (report.lower, report.shares, report.upper))
    band = go.Scatter(
        x=[*bounds, *bounds[::-1]],
        y=[*high, *low[::-1]],
        **{"name": interval, "fill": "toself", "fillcolor": _BAND, "line": {"width": 0}, "hoverinfo": "skip"},
        mode="lines",
    )
    line = go.Scatter(
        x=bounds,
        y=middle,
        customdata=list(zip(low, high, strict=True)),
        name="estimate",
        mode="lines+markers",
        line={"color": BLUE, "width": 3},
        hovertemplate="<b>at most %{x:,} rows</b><br>keeps %{y:.3~g} %<br>"
        + f"{interval} %{{customdata[0]:.3~g}} % to %{{customdata[1]:.3~g}} %<extra></extra>",
    )
    traces, found = [line, band], report.recommended
    if found is not None:
        mark = {"color": QUIET, "dash": "dot", "width": 2}
        traces.append(go.Scatter(x=[found, found], y=[0, 100], name="recommended", mode="lines", line=mark))
    sentence, *rest = report.describe().splitlines()[1:]
    look = layout(title=text_or(title, default="What a bound keeps"), subtitle=sentence, footer=rest, below=100)
    look["xaxis"] = axis("rows of each person that are kept", type="log", tickvals=_ticks(report.most))
    look["yaxis"] = axis("share of rows kept", range=[0, 102], ticksuffix=" %")
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.13, "yanchor": "top"}
    look["showlegend"] = True
    return go.Figure(traces, look)


def _ticks(most: int) -> list[int]:
    """1, 2, 5, 10, ... up to the largest bound."""
    found = [step * 10**power for power in range(len(str(most))) for step in (1, 2, 5)]
    return [tick for tick in found if tick <= most]
