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

BAR, OTHER = "rgba(47, 127, 193, 0.5)", "rgba(128, 128, 128, 0.4)"
_DOTS = {"mode": "markers", "marker": {"color": style.BLUE, "size": 9}}


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
    rows = frame[largest.sort() if release.tree.ordered else largest]
    colours = [OTHER if other else BAR for other in rows["other"]]
    counted = style.counted_lines(None if release.statement is None else release.statement.counted)
    return _figure(
        release,
        rows.select("path", "estimate", "lower", "upper").rows(),
        {"type": "bar", "orientation": "h", "marker": {"color": colours, "line": {"width": 0}}},
        more=[counted] * rows.height,
        title=title,
        usual=f"Private counts {_level_text(level, names)}",
        subtitle=f"{_top_words(int((~frame['other']).sum()), top)}. Bars: estimate.",
        above=24,  # room for the axis, which is on top
        axis={"zeroline": True, "zerolinecolor": style.EDGE},
        bargap=0.35,
    )


def plot_means(
    release: TreeRelease, level: int | str, *, value: str | None = None, top: int = 40, title: str | None = None
) -> go.Figure:
    """The means of the largest nodes of one level, the highest first, with intervals; the mean of all as a line.

    Other parameters: as for `plot_level`.

    :param release: A release with a value: `release_tree(..., value=Value("amount", bounds=(0, 500)))`.
    :param value: Which value, by its column. By default the only one, or the first.
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
    rows = here.head(top).sort(columns[0], descending=True)
    traces = []
    if level and frame.height:
        ends = {"x": [frame[columns[0]][0]] * 2, "y": [-0.5, rows.height - 0.5], "name": "mean of all"}
        traces.append({**ends, "mode": "lines", "line": {"color": style.INK, "dash": "dot", "width": 2}})
    return _figure(
        release,
        rows.select("path", *columns).rows(),
        _DOTS,
        traces,
        what="mean",
        more=[[f"of about {style.number(count)} rows"] for count in rows["estimate"]],
        title=title,
        usual=f"Private means of {chosen.name} {_level_text(level, places)}",
        subtitle=f"{_top_words(here.height, top)}. Points: means of {chosen.words()}.",
    )


def plot_quantiles(
    release: TreeRelease, at: Sequence[float] = (0.5,), *, top: int = 40, title: str | None = None
) -> go.Figure:
    """Quantiles as points with their intervals, those of a group together.

    :param release: A release over a line, as of `Key.number`, or of groups with a number below them.
    :param at: Shares from 0 to 1; by default the median.
    :param top: How many rows are drawn at most; 40, as many as fit on a screen.
    :param title: By default "Medians", or "Quantiles".
    """
    check_type(release, TreeRelease, name="release", hint="release_tree(..., by=Key.number(...))")
    check_integer(top, name="top", least=1)
    groups = release.tree.names if release.curves is not None else ()
    quantiles = release.quantiles(at)
    every = quantiles.rows(named=True)
    asked, rows = {row["quantile"] for row in every}, []
    for row in every[:top]:
        parts = [BETWEEN.join(str(row[group]) for group in groups)] if groups else []
        parts += [f"{row['quantile']:g}"] if len(asked) > 1 or not groups else []
        rows.append((", ".join(parts), *(row[end] for end in ("estimate", "lower", "upper"))))
    usual = "Medians" if asked == {0.5} else "Quantiles"
    shown = f"The first {top:,} of {quantiles.height:,} rows. " if quantiles.height > top else ""
    return _figure(
        release,
        rows,
        _DOTS,
        title=title,
        usual=usual + (f" by {', '.join(groups)}" if groups else ""),
        subtitle=f"{shown}Points: estimate.",
        axis={"linecolor": style.INK},
    )


def _figure(
    release: TreeRelease,
    rows: Sequence[tuple[Any, ...]],
    marks: dict[str, Any],
    traces: Sequence[dict[str, Any]] = (),
    *,
    what: str = "estimate",
    more: Sequence[list[str]] = (),
    axis: dict[str, Any] | None = None,
    subtitle: str,
    **look: Any,
) -> go.Figure:
    """A sheet that has the height of its rows, each a name, a figure and the ends of its interval."""
    interval, places, hovers = style.confidence_text(release.confidence), list(range(len(rows))), []
    for (name, *figures), extra in zip(rows, more or [[]] * len(rows), strict=True):
        middle, low, high = map(_figure_text, figures)
        ends = [f"{interval} {low} to {high}"] if None not in figures else []
        hovers.append("<br>".join([f"<b>{style.wrap(name or 'All')}</b>", f"{what} {middle}", *ends, *extra]))
    drawn = {"x": [row[1] for row in rows], "y": places, "hovertext": hovers, "hoverinfo": "text", **marks}
    lines: dict[str, Any] = {"x": [end for row in rows for end in (*row[2:], None)], "y": np.repeat(places, 3)}
    lines |= {"mode": "lines+markers", "line": {"color": style.INK, "width": 2}, "hoverinfo": "skip"}
    lines["marker"] = {"symbol": "line-ns-open", "size": 9, "line": {"width": 2}}
    texts = [style.short_text(row[0] or "All", 30) for row in rows]
    labels = {"tickvals": places, "ticktext": texts, "ticklabelstandoff": 6, "range": [len(rows) - 0.5, -0.5]}
    return style.figure(
        [drawn, lines, *traces],
        subtitle=f"{subtitle} Lines: {interval}.",
        footer=style.release_footer(release),
        below=16,
        height=max(360, 190 + 22 * len(rows)),
        xaxis=style.axis("", side="top", nticks=5, **axis or {}),
        yaxis=style.axis("", showgrid=False, fixedrange=True, **labels),
        showlegend=False,
        **look,
    )


def _figure_text(figure: Any) -> str:
    return style.number(figure) if isinstance(figure, (int, float)) else str(figure)


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
