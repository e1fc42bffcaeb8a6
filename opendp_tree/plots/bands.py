"""Lines within the bands of their intervals: cumulative curves, and what bounds keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_type
from opendp_tree.plots import style
from opendp_tree.plots.nodes import release_footer
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease

if TYPE_CHECKING:
    import plotly.graph_objects as go

_POINTS = 1000
_GROUPS = 8


def plot_cdf(release: TreeRelease, *, title: str | None = None) -> go.Figure:
    """The share that lies below each value, within the band of its intervals; of groups the lines of the first eight.

    Parameters
    ----------
    release
        A release over a line, as of `Key.number`, or of groups with a number below them.
    title
        By default "Share below each value".

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import Key, release_tree
    >>> dp.enable_features("contrib")
    >>> ages = pl.DataFrame({"age": [20, 30, 30, 45, 70] * 500})
    >>> figure = plot_cdf(release_tree(ages, by=Key.number("age", low=0, high=100, bins=100), epsilon=1.0))
    >>> [line.name for line in figure.data]
    ['estimate', '95 % interval']

    """
    check_type(release, TreeRelease, name="release", hint="release_tree(..., by=Key.number(...))")
    interval, groups = (
        style.confidence_text(release.confidence),
        release.tree.names if release.curves is not None else (),
    )
    frame = release.cdf()
    parts = [frame]
    if groups:
        parts = frame.partition_by(groups, maintain_order=True) if frame.height else []
    traces: list[Any] = []
    for place, part in enumerate(parts[:_GROUPS]):
        thin = part[np.unique(np.linspace(0, max(part.height - 1, 0), _POINTS).astype(np.int64))]
        name = " / ".join(str(label) for label in thin.select(groups).row(0)) if groups else "estimate"
        values = thin["value"].to_list()
        low, middle, high = ([100 * value for value in thin[end].to_list()] for end in ("lower", "estimate", "upper"))
        stroke = {"color": style.LINES[place], "dash": style.DASHES[place], "width": 3}
        hover = "<b>below %{x}</b><br>%{y:.3~g} %<br>", "%{fullData.name}"
        line, band = _line_in_band(
            values, low, middle, high, interval, name=style.as_text(name), line=stroke, hover=hover
        )
        traces += [line] if groups else [line, band]
    more = f" The first {_GROUPS} of {len(parts):,} groups." if len(parts) > _GROUPS else ""
    look = _layout(
        title=style.text_or(title, default="Share below each value"),
        subtitle=("Lines: estimate." if groups else f"Line: estimate. Band: {interval} of each value.") + more,
        footer=release_footer(release),
        axes=(style.axis("value"), "share below"),
    )
    return style.graph_objects().Figure(traces, look)


def plot_bounds(report: BoundReport, *, title: str | None = None) -> go.Figure:
    """The share of rows that each bound keeps, within the band of its intervals; the recommended one is marked.

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
    go = style.graph_objects()
    low, middle, high = ((100 * part).tolist() for part in (report.lower, report.shares, report.upper))
    hover = "<b>at most %{x:,} rows</b><br>keeps %{y:.3~g} %<br>", ""
    stroke = {"color": style.BLUE, "width": 3}
    interval = style.confidence_text(report.confidence)
    traces = _line_in_band(
        report.bounds.tolist(), low, middle, high, interval, line=stroke, hover=hover, mode="lines+markers"
    )
    if report.recommended is not None:
        mark = {"color": style.QUIET, "dash": "dot", "width": 2}
        traces.append(go.Scatter(x=[report.recommended] * 2, y=[0, 100], name="recommended", mode="lines", line=mark))
    sentence, *rest = report.describe().splitlines()[1:]
    # 1, 2, 5, 10, ... up to the largest bound
    ticks = [step * 10**power for power in range(len(str(report.most))) for step in (1, 2, 5)]
    bounds = style.axis(
        "rows of each person that are kept", type="log", tickvals=[tick for tick in ticks if tick <= report.most]
    )
    look = _layout(
        title=style.text_or(title, default="What a bound keeps"),
        subtitle=sentence,
        footer=rest,
        axes=(bounds, "share of rows kept"),
    )
    return go.Figure(traces, look)


def _line_in_band(
    x: list[Any],
    low: list[float],
    middle: list[float],
    high: list[float],
    interval: str,
    *,
    line: dict[str, Any],
    hover: tuple[str, str],
    name: str = "estimate",
    mode: str = "lines",
) -> list[Any]:
    """Estimates as a line, and the band of their intervals, all in per cent."""
    go = style.graph_objects()
    ends = f"{interval} %{{customdata[0]:.3~g}} % to %{{customdata[1]:.3~g}} %<extra>{hover[1]}</extra>"
    return [
        go.Scatter(
            **{"x": x, "y": middle, "customdata": list(zip(low, high, strict=True))},
            **{"name": name, "mode": mode, "line": line, "hovertemplate": hover[0] + ends},
        ),
        go.Scatter(style.band(x, low, high, name=interval, fillcolor=style.BAND)),
    ]


def _layout(*, title: str, subtitle: str, footer: list[str], axes: tuple[dict[str, Any], str]) -> dict[str, Any]:
    """A sheet with shares from 0 to 100 % upward, and a legend below."""
    look = style.layout(title=title, subtitle=subtitle, footer=footer, below=100)
    look["xaxis"], look["yaxis"] = axes[0], style.axis(axes[1], range=[0, 102], ticksuffix=" %")
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.13, "yanchor": "top"}
    look["showlegend"] = True
    return look
