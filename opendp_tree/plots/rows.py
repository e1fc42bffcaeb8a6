"""Nodes or quantiles in rows, each with its interval: one level's counts, its means, and quantiles group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree.plots import style
from opendp_tree.releases.frame import BETWEEN
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ENDS = ("estimate", "lower", "upper")
BAR, OTHER = "rgba(47, 127, 193, 0.5)", "rgba(128, 128, 128, 0.4)"


def plot_level(release: TreeRelease, level: int | str, *, top: int = 40, title: str | None = None) -> go.Figure:
    """The largest nodes of one level as bars, each with its interval.

    What shown nodes leave unexplained, "(other)", is drawn in grey and without an interval unless it is certain.

    :param release: The release.
    :param level: Which level: its number, the root's is 0; or the name of its column, such as "country".
    :param top: How many bars at most. By default 40, which can be read on one screen.
    :param title: By default it names the level.
    """
    level, names = _level(release, level), release.tree.names
    check_integer(top, name="top", least=1)
    frame = style.drawn_frame(release).filter(pl.col("shown") & (pl.col("level") == level))
    largest = frame["estimate"].arg_sort(descending=True).head(top)
    rows = frame[largest.sort() if release.tree.ordered else largest].select("path", *_ENDS, "other").rows()
    interval = style.confidence_text(release.confidence)
    counted = style.counted_lines(None if release.statement is None else release.statement.counted)
    bars = {
        **{"type": "bar", "orientation": "h"},
        **_points(rows, interval, more=[counted] * len(rows)),
        "marker": {"color": [OTHER if row[-1] else BAR for row in rows], "line": {"width": 0}},
    }
    return _figure(
        [bars],
        release,
        [row[0] or "All" for row in rows],
        title=title,
        usual=f"Private counts {_level_text(level, names)}",
        subtitle=f"{_top_words(int((~frame['other']).sum()), top)}. Bars: estimate. Lines: {interval}.",
        above=24,  # room for the axis, which is on top
        axis={"zeroline": True, "zerolinecolor": style.EDGE},
        bargap=0.35,
    )


def plot_means(
    release: TreeRelease, level: int | str, *, value: str | None = None, top: int = 40, title: str | None = None
) -> go.Figure:
    """The means of the largest nodes of one level, the highest first, with intervals; the mean of all as a line.

    :param release: A release with a value: `release_tree(..., value=Value("amount", bounds=(0, 500)))`.
    :param level: Which level: its number, the root's is 0; or the name of its column, such as "country".
    :param value: Which value, by its column. By default the only one, or the first.
    :param top: How many nodes at most, those with the most rows. By default 40, which can be read on one screen.
    :param title: By default it names the value and the level.
    """
    level, places = _level(release, level), release.tree.names
    if not release.values:
        raise ValueError("release must have a value. Hint: release_tree(..., value=Value('amount', bounds=(0, 500)))")
    names = tuple(each.name for each in release.values)
    name = check_choice(names[0] if value is None else value, name="value", choices=names)
    chosen = release.values[names.index(name)]
    check_integer(top, name="top", least=1)
    columns = [f"{name}_{end}" if len(names) > 1 else end for end in ("mean", "mean_lower", "mean_upper")]
    frame = release.to_frame(other=False)
    here = frame.filter(pl.col("shown") & (pl.col("level") == level)).sort("estimate", descending=True)
    rows = here.head(top).sort(columns[0], descending=True).select("path", *columns, "estimate").rows()
    interval = style.confidence_text(release.confidence)
    more = [[f"of about {style.number(row[-1])} rows"] for row in rows]
    points = {**_points(rows, interval, what="mean", more=more), "mode": "markers", "name": "mean"}
    traces: list[dict[str, Any]] = [{**points, "marker": {"color": style.BLUE, "size": 9}}]
    if level and frame.height:
        ends = {"x": [frame[columns[0]][0]] * 2, "y": [-0.5, len(rows) - 0.5], "name": "mean of all", "mode": "lines"}
        traces.append({**ends, "line": {"color": style.INK, "dash": "dot", "width": 2}})
    return _figure(
        traces,
        release,
        [row[0] or "All" for row in rows],
        title=title,
        usual=f"Private means of {chosen.name} {_level_text(level, places)}",
        subtitle=f"{_top_words(here.height, top)}. Points: means of {chosen.words()}. Lines: {interval}.",
    )


def plot_quantiles(
    release: TreeRelease, at: Sequence[float] = (0.5,), *, top: int = 40, title: str | None = None
) -> go.Figure:
    """Quantiles as dots on the bars of their intervals, those of a group together.

    :param release: A release over a line, as of `Key.number`, or of groups with a number below them.
    :param at: Shares from 0 to 1; by default the median.
    :param top: How many rows are drawn at most; 40, as many as fit on a screen.
    :param title: By default "Medians", or "Quantiles".
    """
    check_type(release, TreeRelease, name="release", hint="release_tree(..., by=Key.number(...))")
    check_integer(top, name="top", least=1)
    groups = release.tree.names if release.curves is not None else ()
    quantiles = release.quantiles(at)
    frame, interval = quantiles.head(top), style.confidence_text(release.confidence)
    several = frame.height > 0 and frame["quantile"].n_unique() > 1
    rows = frame.rows(named=True)
    names = []
    for row in rows:
        parts = [BETWEEN.join(str(row[name]) for name in groups)] if groups else []
        names.append(", ".join([*parts, *([f"{row['quantile']:g}"] if several or not groups else [])]))
    bars: dict[str, Any] = {
        "x": [end for row in rows for end in (row["lower"], row["upper"], None)],
        "y": [end for index in range(len(rows)) for end in (index, index, None)],
        **{"mode": "lines", "name": interval, "line": {"color": style.BAND, "width": 12}, "hoverinfo": "skip"},
    }
    dots: dict[str, Any] = {
        "x": [row["estimate"] for row in rows],
        "y": list(range(len(rows))),
        "hovertext": [
            f"<b>{style.wrap(name)}</b><br>{row['estimate']}<br>{interval} {row['lower']} to {row['upper']}"
            for name, row in zip(names, rows, strict=True)
        ],
        **{"mode": "markers", "name": "estimate", "hoverinfo": "text", "marker": {"color": style.BLUE, "size": 9}},
    }
    usual = "Medians" if not several and frame.height and frame["quantile"][0] == 0.5 else "Quantiles"
    shown = f"The first {top:,} of {quantiles.height:,} rows. " if quantiles.height > top else ""
    return _figure(
        [bars, dots],
        release,
        names,
        title=title,
        usual=usual + (f" by {', '.join(groups)}" if groups else ""),
        subtitle=f"{shown}Dots: estimate. Bars: {interval} of each.",
        axis={"linecolor": style.INK},
    )


def _figure(
    traces: list[dict[str, Any]],
    release: TreeRelease,
    names: Sequence[str],
    *,
    axis: dict[str, Any] | None = None,
    **look: Any,
) -> go.Figure:
    """A sheet that has the height of its rows, named at the left, with the axis on top."""
    rows: dict[str, Any] = {"autorange": "reversed", "showgrid": False, "fixedrange": True, "ticklabelstandoff": 6}
    rows |= {"tickvals": list(range(len(names))), "ticktext": [style.short_text(name, 30) for name in names]}
    return style.figure(
        traces,
        footer=style.release_footer(release),
        below=16,
        height=max(360, 190 + 22 * len(names)),
        xaxis=style.axis("", side="top", nticks=5, **axis or {}),
        yaxis=style.axis("", **rows),
        showlegend=False,
        **look,
    )


def _points(rows: list[Any], interval: str, *, more: list[list[str]], what: str = "estimate") -> dict[str, Any]:
    """Figures with their intervals as lines, from rows of path, figure, lower and upper end."""
    hovers = []
    for (path, figure, lower, upper, *_), lines in zip(rows, more, strict=True):
        first = [f"<b>{style.wrap(path or 'All')}</b>", f"{what} {style.number(figure)}"]
        if lower is not None and upper is not None:
            first.append(f"{interval} {style.number(lower)} to {style.number(upper)}")
        hovers.append("<br>".join([*first, *lines]))
    return {
        "x": [row[1] for row in rows],
        "y": list(range(len(rows))),
        "hovertext": hovers,
        "hoverinfo": "text",
        "error_x": {
            "array": [_length(row[1], row[3]) for row in rows],
            "arrayminus": [_length(row[2], row[1]) for row in rows],
            **{"type": "data", "symmetric": False, "color": style.INK, "thickness": 2, "width": 4},
        },
    }


def _length(low: float | None, high: float | None) -> float | None:
    """The length of an interval's arm; none where it has no end."""
    return None if low is None or high is None or not np.isfinite(high - low) else max(high - low, 0.0)


def _top_words(count: int, top: int) -> str:
    return f"The {top:,} largest of {count:,} nodes" if count > top else f"{count:,} node{'s' if count != 1 else ''}"


def _level_text(level: int, names: Sequence[str]) -> str:
    named = names[level - 1] if 0 < level <= len(names) and not names[level - 1].startswith("label_") else ""
    return f"by {named}" if named else f"at level {level}"


def _level(release: TreeRelease, level: int | str) -> int:
    """The number of a level that is given by its number or by its column's name."""
    check_type(release, TreeRelease, name="release", hint="the result of release_tree(...)")
    shown = release.levels if release.shown is None or isinstance(release.tree, Tree) else release.levels[release.shown]
    names, deepest = release.tree.names, int(shown.max(initial=0))
    if isinstance(level, str):
        if level not in names:
            allowed = f"one of {', '.join(map(repr, names))}" if names else "a number: levels have no names here"
            raise ValueError(f"level ({level[:40]!r}) must be {allowed}. Hint: a number from 0 to {deepest}")
        level = names.index(level) + 1
    check_integer(level, name="level", least=0)
    if level > deepest:
        raise ValueError(f"level ({level}) must be an integer from 0 to {deepest}, the deepest that was released")
    return int(level)
