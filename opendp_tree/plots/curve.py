"""A number's cumulative curve with its band, and its quantiles with their intervals, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_integer, check_type
from opendp_tree.plots.style import (
    BLUE,
    DASHES,
    INK,
    LINES,
    as_text,
    axis,
    confidence_text,
    graph_objects,
    layout,
    shorten,
    text_or,
    wrap,
)
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import footer_words

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

__all__ = ["plot_cdf", "plot_quantiles"]

_BAND = "rgba(29, 91, 143, 0.18)"
_POINTS = 1000
_GROUPS = 8


def plot_cdf(release: TreeRelease, *, title: str | None = None) -> go.Figure:
    """The share that lies below each value, within the band of its intervals; of groups the lines of the first eight.

    Needs Plotly: `pip install plotly`.

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
    go = graph_objects()
    interval, groups = confidence_text(release.confidence), release.tree.names if release.curves is not None else ()
    frame = release.cdf()
    parts = [frame]
    if groups:
        parts = frame.partition_by(groups, maintain_order=True) if frame.height else []
    traces: list[Any] = []
    for place, part in enumerate(parts[:_GROUPS]):
        thin = part[np.unique(np.linspace(0, max(part.height - 1, 0), _POINTS).astype(np.int64))]
        name = _group_name(thin, groups) if groups else "estimate"
        traces.append(_line(go, thin, as_text(name), interval, place))
        if not groups:
            traces.append(_band(go, thin, interval))
    more = f" The first {_GROUPS} of {len(parts):,} groups." if len(parts) > _GROUPS else ""
    look = layout(
        title=text_or(title, default="Share below each value"),
        subtitle=("Lines: estimate." if groups else f"Line: estimate. Band: {interval} of each value.") + more,
        footer=footer_words(None if release.statement is None else release.statement.to_dict()),
        below=100,
    )
    look["xaxis"] = axis("value")
    look["yaxis"] = axis("share below", range=[0, 102], ticksuffix=" %")
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.13, "yanchor": "top"}
    look["showlegend"] = True
    return go.Figure(traces, look)


def plot_quantiles(
    release: TreeRelease, at: Sequence[float] = (0.5,), *, top: int = 40, title: str | None = None
) -> go.Figure:
    """Quantiles as dots on the bars of their intervals, those of a group together.

    Needs Plotly: `pip install plotly`.

    Parameters
    ----------
    release
        A release over a line, as of `Key.number`, or of groups with a number below them.
    at
        Shares from 0 to 1; by default the median.
    top
        How many rows are drawn at most; 40, as many as fit on a screen.
    title
        By default "Medians", or "Quantiles".

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import Key, release_tree
    >>> dp.enable_features("contrib")
    >>> ages = pl.DataFrame({"age": [20, 30, 30, 45, 70] * 500})
    >>> release = release_tree(ages, by=Key.number("age", low=0, high=100, bins=100), epsilon=1.0)
    >>> plot_quantiles(release, [0.25, 0.5]).layout.yaxis.ticktext
    ('0.25', '0.5')

    """
    check_type(release, TreeRelease, name="release", hint="release_tree(..., by=Key.number(...))")
    go = graph_objects()
    check_integer(top, name="top", least=1)
    groups = release.tree.names if release.curves is not None else ()
    every = release.quantiles(at)
    frame, interval = every.head(top), confidence_text(release.confidence)
    several = frame.height > 0 and frame["quantile"].n_unique() > 1
    names = [_row_name(row, groups, several=several or not groups) for row in frame.iter_rows(named=True)]
    places = list(range(frame.height))
    low, middle, high = (frame[name].to_list() if frame.height else [] for name in ("lower", "estimate", "upper"))
    bars = go.Scatter(
        x=[end for pair in zip(low, high, strict=True) for end in (*pair, None)],
        y=[end for place in places for end in (place, place, None)],
        **{"mode": "lines", "name": interval, "line": {"color": _BAND, "width": 12}, "hoverinfo": "skip"},
    )
    dots = go.Scatter(
        x=middle,
        y=places,
        hovertext=[
            f"<b>{wrap(name)}</b><br>{middle[place]}<br>{interval} {low[place]} to {high[place]}"
            for place, name in enumerate(names)
        ],
        **{"mode": "markers", "name": "estimate", "hoverinfo": "text", "marker": {"color": BLUE, "size": 9}},
    )
    usual = "Medians" if not several and frame.height and frame["quantile"][0] == 0.5 else "Quantiles"
    shown = f"The first {top:,} of {every.height:,} rows. " if every.height > top else ""
    look = layout(
        title=text_or(title, default=usual + (f" by {', '.join(groups)}" if groups else "")),
        subtitle=f"{shown}Dots: estimate. Bars: {interval} of each.",
        footer=footer_words(None if release.statement is None else release.statement.to_dict()),
        below=16,
        height=max(360, 190 + 22 * len(names)),
    )
    ticks = {"tickvals": places, "ticktext": [as_text(shorten(name, 30)) for name in names]}
    look["xaxis"] = axis("", side="top", nticks=5) | {"linecolor": INK}
    look["yaxis"] = axis("", autorange="reversed", showgrid=False, fixedrange=True, **ticks)
    look["showlegend"] = False
    return go.Figure([bars, dots], look)


def _line(go: Any, part: pl.DataFrame, name: str, interval: str, place: int) -> Any:
    ends = [[100 * value for value in part[side].to_list()] for side in ("lower", "upper")]
    return go.Scatter(
        x=part["value"].to_list(),
        y=[100 * value for value in part["estimate"].to_list()],
        customdata=list(zip(*ends, strict=True)),
        name=name,
        mode="lines",
        line={"color": LINES[place], "dash": DASHES[place], "width": 3},
        hovertemplate="<b>below %{x}</b><br>%{y:.3~g} %<br>"
        + f"{interval} %{{customdata[0]:.3~g}} % to %{{customdata[1]:.3~g}} %<extra>%{{fullData.name}}</extra>",
    )


def _band(go: Any, part: pl.DataFrame, interval: str) -> Any:
    at, low, high = (part[name].to_list() for name in ("value", "lower", "upper"))
    return go.Scatter(
        x=[*at, *at[::-1]],
        y=[100 * value for value in [*high, *low[::-1]]],
        **{"name": interval, "fill": "toself", "fillcolor": _BAND, "line": {"width": 0}, "hoverinfo": "skip"},
        mode="lines",
    )


def _group_name(part: pl.DataFrame, groups: Sequence[str]) -> str:
    return " / ".join(str(label) for label in part.select(groups).row(0))


def _row_name(row: dict[str, Any], groups: Sequence[str], *, several: bool) -> str:
    parts = [" / ".join(str(row[name]) for name in groups)] if groups else []
    return ", ".join([*parts, *([f"{row['quantile']:g}"] if several else [])])
