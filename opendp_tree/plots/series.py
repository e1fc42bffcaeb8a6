"""Nodes over time, each with the band of its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opendp_tree._arguments import check_type
from opendp_tree.plots import style
from opendp_tree.releases.words import ROOT
from opendp_tree.series import Series

if TYPE_CHECKING:
    import plotly.graph_objects as go


def plot_series(series: Series, paths: Sequence[str] | None = None, *, title: str | None = None) -> go.Figure:
    """Nodes over time: a line of estimates per node, within the band of its intervals. Needs Plotly.

    A line has a gap where a period does not show its node.

    Parameters
    ----------
    series
        The series.
    paths
        Up to eight nodes, as the column `path` of its table has them; the root's is "". By default None: of the first
        level below the root those with the largest estimates.
    title
        By default "Counts by period".

    Examples
    --------
    >>> import polars as pl
    >>> import opendp.prelude as dp
    >>> from tempfile import TemporaryDirectory
    >>> from opendp_tree import Period, Series
    >>> dp.enable_features("contrib")
    >>> visits = pl.DataFrame({"week": ["W1", "W2"] * 650, "city": ["ghent"] * 800 + ["liege"] * 500})
    >>> with TemporaryDirectory() as folder:
    ...     series = Series.open(folder + "/visits.db", by="city", period=Period("week"), epsilon=1.0, delta=1e-6)
    ...     for week in ("W1", "W2"):
    ...         release = series.release(visits, week)
    ...     figure = plot_series(series)
    >>> [line.name for line in figure.data if line.mode == "lines+markers"]
    ['ghent', 'liege']

    """
    check_type(series, Series, name="series", hint="Series.open('visits.db')")
    frame, periods = series.to_frame(), series.periods
    chosen = _largest(frame) if paths is None else list(paths)
    known = set(frame["path"])
    for path in chosen:
        if path not in known:
            raise ValueError(f"paths: no period shows {path!r}. Hint: series.to_frame()['path'].unique()")
    if not 1 <= len(chosen) <= len(style.LINES):
        raise ValueError(f"paths ({len(chosen)}) must be 1 to {len(style.LINES)}. Hint: several pictures")
    interval = style.confidence_text(series[periods[-1]].confidence)
    traces = [trace for place, path in enumerate(chosen) for trace in _traces(frame, periods, path, place, interval)]
    look = style.layout(
        title=style.text_or(title, default="Counts by period"),
        subtitle=f"Lines: estimates. Bands: {interval}, of each period for itself.",
        footer=series.describe().splitlines()[1:],
        below=110,
    )
    look["xaxis"] = style.axis("period", type="category", categoryorder="array", categoryarray=periods)
    look["yaxis"] = style.axis("count", rangemode="tozero")
    look["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.14, "yanchor": "top"}
    return style.graph_objects().Figure(traces, {**look, "showlegend": True})


def _largest(frame: Any) -> list[str]:
    """The nodes of the first level below the root with the largest estimates in all periods together."""
    level = 1 if (frame["level"] == 1).any() else 0
    nodes = frame.filter(frame["level"] == level).select("path", "estimate")
    sums = nodes.group_by("path").sum().sort("estimate", "path", descending=[True, False])
    largest: list[str] = sums["path"].head(len(style.LINES)).to_list()
    return largest


def _traces(frame: Any, periods: list[str], path: str, place: int, interval: str) -> list[Any]:
    """A line with gaps, and for each run of periods without one a band."""
    go, colour, name = style.graph_objects(), style.LINES[place], style.as_text(style.shorten(path or ROOT, 40))
    rows = {row["period"]: row for row in frame.filter(frame["path"] == path).iter_rows(named=True)}
    ends = [(rows[each]["lower"], rows[each]["upper"]) if each in rows else (None, None) for each in periods]
    hover = f"<b>%{{x}}</b><br>%{{y:,.1f}}<br>{interval} %{{customdata[0]:,.1f}} to %{{customdata[1]:,.1f}}"
    line = go.Scatter(
        x=periods,
        y=[rows[each]["estimate"] if each in rows else None for each in periods],
        customdata=ends,
        **{"name": name, "mode": "lines+markers", "line": {"color": colour, "dash": style.DASHES[place], "width": 2.5}},
        **{"hovertemplate": f"{hover}<extra>{name}</extra>", "legendgroup": str(place)},
    )
    runs: list[list[str]] = [[]]
    for each in periods:
        if each in rows:
            runs[-1].append(each)
        elif runs[-1]:
            runs.append([])
    look: dict[str, Any] = {"fillcolor": colour, "opacity": 0.18, "showlegend": False, "legendgroup": str(place)}
    both = ("lower", "upper")
    bands = [style.band(run, *([rows[each][end] for each in run] for end in both), **look) for run in runs if run]
    return [line, *map(go.Scatter, bands)]
