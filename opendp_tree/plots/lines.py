"""Lines within the bands of their intervals: cumulative curves, what bounds keep, and nodes over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._arguments import check_type
from opendp_tree._show import one_line
from opendp_tree.plots import style
from opendp_tree.releases.bound_report import BoundReport
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import ROOT
from opendp_tree.series import Series

if TYPE_CHECKING:
    import plotly.graph_objects as go

_POINTS, _FEW = 1000, 50
"""How many points of a line are drawn at most, and how few of them are marked."""
_MOST = len(style.LINES)
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
    for index, part in enumerate(parts[:_MOST]):
        thin = part[np.unique(np.linspace(0, max(part.height - 1, 0), _POINTS).astype(np.int64))]
        name = " / ".join(str(label) for label in thin.select(groups).row(0)) if groups else "estimate"
        traces += _line(thin, "value", index=index, name=name, interval=interval, hover="below %{x}")
    more = f" The first {_MOST} of {len(parts):,} groups." if len(parts) > _MOST else ""
    return style.figure(
        traces,
        title=title,
        usual="Share below each value",
        subtitle=f"{'Lines' if groups else 'Line'}: estimate. Band: {interval} of each value.{more}",
        footer=style.release_footer(release),
        xaxis=style.axis("value"),
        yaxis=style.axis("share below", **_SHARES),
        **_LOOK,
    )


def plot_bounds(report: BoundReport, *, title: str | None = None) -> go.Figure:
    """The share of rows that each bound keeps, with a band for its interval; the recommended bound is marked.

    :param report: The result of `bound_report`.
    :param title: By default "Share of rows kept by each bound".
    """
    check_type(report, BoundReport, name="report", hint="opendp_tree.bound_report(...)")
    interval, frame = style.confidence_text(report.confidence), report.to_frame().rename({"share": "estimate"})
    traces = _line(frame, "bound", name="estimate", interval=interval, hover="at most %{x:,} rows")
    if report.recommended is not None:
        mark = {"mode": "lines", "line": {"color": style.INK, "dash": "dot", "width": 2}}
        traces.append({"x": [report.recommended] * 2, "y": [0, 100], "name": "recommended", **mark})
    sentence, *rest = report.describe().splitlines()[1:]
    return style.figure(
        traces,
        title=title,
        usual="Share of rows kept by each bound",
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
    frame, periods = series.to_frame(), pl.DataFrame({"period": series.periods})
    if paths is None:
        first = frame.filter(frame["level"] == (1 if (frame["level"] == 1).any() else 0)).select("path", "estimate")
        sums = first.group_by("path").sum().sort("estimate", "path", descending=[True, False])
        paths = sums["path"].head(_MOST).to_list()
    known = set(frame["path"])
    for path in paths:
        if path not in known:
            raise ValueError(f"paths: no period shows {path!r}. Hint: series.to_frame()['path'].unique()")
    if not 1 <= len(paths) <= _MOST:
        raise ValueError(f"paths ({len(paths)}) must be 1 to {_MOST}. Hint: several pictures")
    interval = style.confidence_text(series[series.periods[-1]].confidence)
    traces: list[Any] = []
    for index, path in enumerate(paths):
        rows = periods.join(frame.filter(frame["path"] == path), on="period", how="left", maintain_order="left")
        look: dict[str, Any] = {"index": index, "interval": interval, "hover": "%{x}", "is_share": False}
        traces += _line(rows, "period", name=one_line(path or ROOT, 40), **look)
    return style.figure(
        traces,
        title=title,
        usual="Counts by period",
        subtitle=f"Lines: estimates. Bands: {interval} of each period separately.",
        footer=series.describe().splitlines()[1:],
        xaxis=style.axis("period", type="category", categoryorder="array", categoryarray=series.periods),
        yaxis=style.axis("count", rangemode="tozero"),
        **_LOOK,
    )


def _line(
    rows: pl.DataFrame, x: str, *, name: str, interval: str, hover: str, index: int = 0, is_share: bool = True
) -> list[dict[str, Any]]:
    """Estimates as a line with gaps where there are none, and a band for each run of intervals without a gap."""
    places, ends = rows[x].to_list(), rows.select("lower", "estimate", "upper")
    low, middle, high = (ends * 100 if is_share else ends).get_columns()
    figure = "%{{{}:.3~g}} %" if is_share else "%{{{}:,.1f}}"
    estimate, lower, upper = map(figure.format, ("y", "customdata[0]", "customdata[1]"))
    name = style.as_text(name)
    group = {"legendgroup": str(index)}
    line: dict[str, Any] = {"x": places, "y": middle.to_list(), "name": name, **group}
    line |= {"mode": "lines+markers" if rows.height < _FEW else "lines", "line": style.stroke(index, width=2.5)}
    line |= {"hovertemplate": f"<b>{hover}</b><br>{estimate}<br>{interval} {lower} to {upper}<extra>{name}</extra>"}
    look: dict[str, Any] = {"fill": "toself", "fillcolor": style.LINES[index], "opacity": 0.2, "line": {"width": 0}}
    look |= {"mode": "lines", "name": interval, "showlegend": index == 0, "hoverinfo": "skip"}
    bands = []
    for is_shown, run in groupby(zip(places, low, high, strict=True), key=lambda point: point[1] is not None):
        if is_shown:
            at, lows, highs = map(list, zip(*run, strict=True))
            bands.append({"x": [*at, *at[::-1]], "y": [*highs, *lows[::-1]], **look, **group})
    return [line | {"customdata": list(zip(low, high, strict=True))}, *bands]
