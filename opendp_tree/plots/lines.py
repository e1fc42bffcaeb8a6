"""Lines within the bands of their intervals: cumulative curves, what bounds keep, and nodes over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_type
from opendp_tree.plots import style
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import ROOT
from opendp_tree.series import Series

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

_POINTS = 1000
_SHARES = {"range": [0, 102], "ticksuffix": " %"}
_LOOK: dict[str, Any] = {"below": 105, **style.legend(-0.135)}


def plot_cdf(release: TreeRelease, *, title: str | None = None) -> go.Figure:
    """The share of rows below each value, with a band for its interval. Of groups, the lines of the first eight.

    :param release: A release over a line, as of `Key.number`, or of groups with a number below them.
    :param title: By default "Share below each value".
    """
    check_type(release, TreeRelease, name="release", hint="release_tree(..., by=Key.number(...))")
    interval = style.confidence_text(release.confidence)
    groups = release.tree.names if release.curves is not None else ()
    frame = release.cdf()
    parts = [frame] if not groups else frame.partition_by(groups, maintain_order=True) if frame.height else []
    traces: list[Any] = []
    for index, part in enumerate(parts[: len(style.LINES)]):
        thin = part[np.unique(np.linspace(0, max(part.height - 1, 0), _POINTS).astype(np.int64))]
        name = " / ".join(str(label) for label in thin.select(groups).row(0)) if groups else "estimate"
        ends = [(100 * thin[end]).to_list() for end in ("lower", "estimate", "upper")]
        look = {"name": style.as_text(name), "mode": "lines", "line": style.stroke(index, width=3)}
        hover = "<b>below %{x}</b><br>%{y:.3~g} %<br>"
        values = thin["value"].to_list()
        line, band = _share_line(values, ends, interval, hover=hover, extra="%{fullData.name}", **look)
        traces += [line] if groups else [line, band]
    more = f" The first {len(style.LINES)} of {len(parts):,} groups." if len(parts) > len(style.LINES) else ""
    return style.figure(
        traces,
        title=title,
        usual="Share below each value",
        subtitle=("Lines: estimate." if groups else f"Line: estimate. Band: {interval} of each value.") + more,
        footer=style.release_footer(release),
        xaxis=style.axis("value"),
        yaxis=style.axis("share below", **_SHARES),
        **_LOOK,
    )


def plot_bounds(report: BoundReport, *, title: str | None = None) -> go.Figure:
    """The share of rows that each bound keeps, with a band for its interval; the recommended bound is marked.

    :param report: The result of `bound_report`.
    :param title: By default "What a bound keeps".
    """
    check_type(report, BoundReport, name="report", hint="opendp_tree.bound_report(...)")
    ends = [(100 * part).tolist() for part in (report.lower, report.shares, report.upper)]
    hover = "<b>at most %{x:,} rows</b><br>keeps %{y:.3~g} %<br>"
    look: dict[str, Any] = {"name": "estimate", "mode": "lines+markers", "line": style.stroke(0, width=3)}
    interval = style.confidence_text(report.confidence)
    traces = _share_line(report.bounds.tolist(), ends, interval, hover=hover, **look)
    if report.recommended is not None:
        mark = {"color": style.INK, "dash": "dot", "width": 2}
        traces.append(
            {"x": [report.recommended] * 2, "y": [0, 100], "name": "recommended", "mode": "lines", "line": mark}
        )
    sentence, *rest = report.describe().splitlines()[1:]
    return style.figure(
        traces,
        title=title,
        usual="What a bound keeps",
        subtitle=sentence,
        footer=rest,
        xaxis=style.log_axis("rows of each person that are kept", report.bounds),
        yaxis=style.axis("share of rows kept", **_SHARES),
        **_LOOK,
    )


def plot_series(series: Series, paths: Sequence[str] | None = None, *, title: str | None = None) -> go.Figure:
    """Nodes over time: a line of estimates per node, with a band for the intervals. Needs Plotly.

    A line has a gap where a period does not show its node.

    :param series: The series.
    :param paths: Up to eight nodes, as the column `path` of its table has them; the root's is "". By default None: of
        the first level below the root those with the largest estimates.
    :param title: By default "Counts by period".
    """
    check_type(series, Series, name="series", hint="Series.open('visits.db')")
    frame, periods = series.to_frame(), series.periods
    if paths is None:
        first = frame.filter(frame["level"] == (1 if (frame["level"] == 1).any() else 0)).select("path", "estimate")
        sums = first.group_by("path").sum().sort("estimate", "path", descending=[True, False])
        paths = sums["path"].head(len(style.LINES)).to_list()
    known = set(frame["path"])
    for path in paths:
        if path not in known:
            raise ValueError(f"paths: no period shows {path!r}. Hint: series.to_frame()['path'].unique()")
    if not 1 <= len(paths) <= len(style.LINES):
        raise ValueError(f"paths ({len(paths)}) must be 1 to {len(style.LINES)}. Hint: several pictures")
    interval = style.confidence_text(series[periods[-1]].confidence)
    return style.figure(
        [trace for index, path in enumerate(paths) for trace in _path_lines(frame, periods, path, index, interval)],
        title=title,
        usual="Counts by period",
        subtitle=f"Lines: estimates. Bands: {interval} of each period separately.",
        footer=series.describe().splitlines()[1:],
        xaxis=style.axis("period", type="category", categoryorder="array", categoryarray=periods),
        yaxis=style.axis("count", rangemode="tozero"),
        **_LOOK,
    )


def _path_lines(frame: pl.DataFrame, periods: list[str], path: str, index: int, interval: str) -> list[Any]:
    """A line with gaps where a period does not show the node, and a band for each run of periods without a gap."""
    name = style.short_text(path or ROOT, 40)
    group: dict[str, Any] = {"legendgroup": str(index)}
    rows = {row["period"]: row for row in frame.filter(frame["path"] == path).iter_rows(named=True)}
    ends = [[rows[each][end] if each in rows else None for each in periods] for end in ("lower", "estimate", "upper")]
    low, middle, high = ends
    hover = f"<b>%{{x}}</b><br>%{{y:,.1f}}<br>{interval} %{{customdata[0]:,.1f}} to %{{customdata[1]:,.1f}}"
    line = {"x": periods, "y": middle, "customdata": list(zip(low, high, strict=True)), "name": name, **group}
    line |= {"mode": "lines+markers", "line": style.stroke(index, width=2.5)}
    line |= {"hovertemplate": f"{hover}<extra>{name}</extra>"}
    group |= {"fillcolor": style.LINES[index], "opacity": 0.18, "showlegend": False}
    runs = groupby(zip(periods, low, high, strict=True), key=lambda point: point[1] is not None)
    return [line, *(_band(*map(list, zip(*run, strict=True)), **group) for is_shown, run in runs if is_shown)]


def _share_line(
    x: list[Any], ends: list[list[float]], interval: str, *, hover: str, extra: str = "", **look: Any
) -> list[dict[str, Any]]:
    """Estimates as a line, and the band of their intervals, all in per cent."""
    low, middle, high = ends
    also = f"{interval} %{{customdata[0]:.3~g}} % to %{{customdata[1]:.3~g}} %<extra>{extra}</extra>"
    line = {"x": x, "y": middle, "customdata": list(zip(low, high, strict=True)), "hovertemplate": hover + also, **look}
    return [line, _band(x, low, high, name=interval, fillcolor=style.BAND)]


def _band(x: list[Any], low: list[float], high: list[float], **more: Any) -> dict[str, Any]:
    """The area between two lines."""
    shape = {"x": [*x, *x[::-1]], "y": [*high, *low[::-1]], "fill": "toself", "line": {"width": 0}}
    return {**shape, "mode": "lines", "hoverinfo": "skip", **more}
