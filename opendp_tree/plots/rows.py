"""Nodes or quantiles in rows, each with its interval: one level's counts, its means, and quantiles group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree.plots import style
from opendp_tree.plots.nodes import SEPARATOR, drawn_frame, release_footer
from opendp_tree.releases.release import TreeRelease

if TYPE_CHECKING:
    import plotly.graph_objects as go

BAR, OTHER = "#78a9d1", "#c3cad1"


def plot_level(release: TreeRelease, level: int | str, *, top: int = 40, title: str | None = None) -> go.Figure:
    """The largest nodes of one level as bars, each with its interval.

    What shown nodes leave unexplained, "(other)", is drawn in grey and without an interval unless it is certain.

    Parameters
    ----------
    release
        The release.
    level
        Which level: its number, the root's is 0; or the name of its column, such as "country".
    top
        How many bars at most. By default 40, which can be read on one screen; the subtitle says how many there are.
    title
        By default it names the level.

    >>> from opendp_tree import Tree, TreeRelease, plot_level
    >>> tree = Tree.from_paths([("north",), ("south",)])
    >>> counts = np.array([60.0, 45.0, 15.0])
    >>> release = TreeRelease(tree, counts, counts - 4, counts + 4, 0.95, None)
    >>> bars = plot_level(release, 1).data[0]
    >>> bars.x, bars.error_x.array
    ((45.0, 15.0), (4.0, 4.0))
    """
    check_type(release, TreeRelease, name="release", hint="what a mechanism gave")
    go = style.graph_objects()
    frame = drawn_frame(release)
    place = level_place(level, release.tree.names, int(frame["level"].to_numpy().max(initial=0)))
    check_integer(top, name="top", least=1)
    here = frame.filter((frame["level"] == place) & frame["shown"])
    total = int((~here["other"]).sum())
    largest = here["estimate"].arg_sort(descending=True).head(top)
    places = largest.sort() if release.tree.ordered else largest
    rows = here[places].select("path", "other", "estimate", "lower", "upper").rows()
    paths = [path or "All" for path, *_ in rows]
    interval = style.confidence_text(release.confidence)
    counted = style.counted_lines(None if release.statement is None else release.statement.counted)
    bars = {
        "orientation": "h",
        "x": [estimate for *_, estimate, _, _ in rows],
        "y": list(range(len(rows))),
        "marker": {"color": [OTHER if other else BAR for _, other, *_ in rows], "line": {"width": 0}},
        "error_x": _arms([row[2:] for row in rows]),
        "hovertext": [
            "<br>".join([_hover(path, *row[2:], interval=interval), *counted])
            for path, row in zip(paths, rows, strict=True)
        ],
        "hoverinfo": "text",
    }
    what = f"The {top:,} largest of {total:,} nodes" if total > top else f"{total:,} node{'s' if total != 1 else ''}"
    look = _layout(
        release,
        [tick_text(path) for path in paths],
        title=style.text_or(title, default="Private counts " + _level_text(place, release.tree.names)),
        subtitle=f"{what}. Bars: estimate. Lines: {interval}.",
        above=24,  # room for the axis, which is on top
    )
    look["xaxis"] |= {"zeroline": True, "zerolinecolor": "#7d8a96"}
    look["yaxis"] |= {"ticklabelstandoff": 6}
    look["bargap"] = 0.35
    return go.Figure(go.Bar(bars), look)


def plot_means(
    release: TreeRelease, level: int | str, *, value: str | None = None, top: int = 40, title: str | None = None
) -> go.Figure:
    """The means of the largest nodes of one level, the highest first, with intervals; the mean of all as a line.

    Parameters
    ----------
    release
        A release with a value: `release_tree(..., value=Value("amount", bounds=(0, 500)))`.
    level
        Which level: its number, the root's is 0; or the name of its column, such as "country".
    value
        Which value, by its column. By default the only one, or the first.
    top
        How many nodes at most, those with the most rows. By default 40, which can be read on one screen.
    title
        By default it names the value and the level.

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_tree import Value, release_tree
    >>> dp.enable_features("contrib")
    >>> rows = pl.DataFrame({"city": ["ghent"] * 4000 + ["liege"] * 4000, "age": [30] * 4000 + [50] * 4000})
    >>> release = release_tree(rows, by="city", epsilon=1.0, delta=1e-6, value=Value("age", bounds=(0, 100)))
    >>> plot_means(release, "city").layout.title.text
    'Private means of age by city'
    """
    check_type(release, TreeRelease, name="release", hint="what a mechanism gave")
    if not release.values:
        raise ValueError("release must have a value. Hint: release_tree(..., value=Value('amount', bounds=(0, 500)))")
    names = tuple(each.name for each in release.values)
    chosen = release.values[
        names.index(check_choice(names[0] if value is None else value, name="value", choices=names))
    ]
    go = style.graph_objects()
    frame = release.to_frame(other=False)
    place = level_place(level, release.tree.names, int(frame["level"].to_numpy().max(initial=0)))
    check_integer(top, name="top", least=1)
    before = f"{chosen.name}_" if len(names) > 1 else ""
    columns = [f"{before}{name}" for name in ("mean", "mean_lower", "mean_upper")]
    here = frame.filter((frame["level"] == place) & frame["shown"]).sort("estimate", descending=True)
    rows = here.head(top).sort(columns[0], descending=True).select("path", "estimate", *columns).rows()
    interval = style.confidence_text(release.confidence)
    points = {
        "x": [mean for _, _, mean, _, _ in rows],
        "y": list(range(len(rows))),
        "mode": "markers",
        "name": "mean",
        "marker": {"color": style.BLUE, "size": 9},
        "error_x": _arms([row[2:] for row in rows]),
        "hovertext": [
            _hover(path or "All", mean, lower, upper, interval=interval, what="mean")
            + f"<br>of about {style.number(count)} rows"
            for path, count, mean, lower, upper in rows
        ],
        "hoverinfo": "text",
    }
    traces = [go.Scatter(points)]
    if place and frame.height:
        line = {"color": style.QUIET, "dash": "dot", "width": 2}
        mean = frame[columns[0]][0]
        traces.append(
            go.Scatter(x=[mean, mean], y=[-0.5, len(rows) - 0.5], name="mean of all", mode="lines", line=line)
        )
    what = f"The {top:,} largest of {here.height:,} nodes" if here.height > top else f"{here.height:,} nodes"
    usual = f"Private means of {chosen.name} {_level_text(place, release.tree.names)}"
    look = _layout(
        release,
        [tick_text(path or "All") for path, *_ in rows],
        title=style.text_or(title, default=usual),
        subtitle=f"{what}. Points: means of {chosen.words()}. Lines: {interval}.",
    )
    look["yaxis"] |= {"ticklabelstandoff": 6}
    look["showlegend"] = False
    return go.Figure(traces, look)


def plot_quantiles(
    release: TreeRelease, at: Sequence[float] = (0.5,), *, top: int = 40, title: str | None = None
) -> go.Figure:
    """Quantiles as dots on the bars of their intervals, those of a group together.

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
    go = style.graph_objects()
    check_integer(top, name="top", least=1)
    groups = release.tree.names if release.curves is not None else ()
    every = release.quantiles(at)
    frame, interval = every.head(top), style.confidence_text(release.confidence)
    several = frame.height > 0 and frame["quantile"].n_unique() > 1
    names = [_row_name(row, groups, several=several or not groups) for row in frame.iter_rows(named=True)]
    places = list(range(frame.height))
    low, middle, high = (frame[name].to_list() if frame.height else [] for name in ("lower", "estimate", "upper"))
    bars = go.Scatter(
        x=[end for pair in zip(low, high, strict=True) for end in (*pair, None)],
        y=[end for place in places for end in (place, place, None)],
        **{"mode": "lines", "name": interval, "line": {"color": style.BAND, "width": 12}, "hoverinfo": "skip"},
    )
    dots = go.Scatter(
        x=middle,
        y=places,
        hovertext=[
            f"<b>{style.wrap(name)}</b><br>{middle[place]}<br>{interval} {low[place]} to {high[place]}"
            for place, name in enumerate(names)
        ],
        **{"mode": "markers", "name": "estimate", "hoverinfo": "text", "marker": {"color": style.BLUE, "size": 9}},
    )
    usual = "Medians" if not several and frame.height and frame["quantile"][0] == 0.5 else "Quantiles"
    shown = f"The first {top:,} of {every.height:,} rows. " if every.height > top else ""
    look = _layout(
        release,
        [style.shorten(name, 30) for name in names],
        title=style.text_or(title, default=usual + (f" by {', '.join(groups)}" if groups else "")),
        subtitle=f"{shown}Dots: estimate. Bars: {interval} of each.",
    )
    look["xaxis"] |= {"linecolor": style.INK}
    look["showlegend"] = False
    return go.Figure([bars, dots], look)


def _layout(release: TreeRelease, names: Sequence[str], *, title: str, subtitle: str, above: int = 0) -> dict[str, Any]:
    """A sheet that has the height of its rows, named at the left, with the axis on top."""
    height = max(360, 190 + 22 * len(names))
    look = style.layout(
        title=title, subtitle=subtitle, footer=release_footer(release), above=above, below=16, height=height
    )
    ticks = {"tickvals": list(range(len(names))), "ticktext": [style.as_text(name) for name in names]}
    look["xaxis"] = style.axis("", side="top", nticks=5)
    look["yaxis"] = style.axis("", autorange="reversed", showgrid=False, fixedrange=True, **ticks)
    return look


def _arms(rows: Sequence[tuple[float | None, float | None, float | None]]) -> dict[str, Any]:
    """Intervals as lines around their estimates, from rows of estimate, lower and upper end."""
    return {
        "array": [_length(estimate, upper) for estimate, _, upper in rows],
        "arrayminus": [_length(lower, estimate) for estimate, lower, _ in rows],
        **{"type": "data", "symmetric": False, "color": style.INK, "thickness": 1.5, "width": 4},
    }


def _level_text(level: int, names: Sequence[str]) -> str:
    named = names[level - 1] if 0 < level <= len(names) and not names[level - 1].startswith("label_") else ""
    return f"by {named}" if named else f"at level {level}"


def level_place(level: int | str, names: Sequence[str], deepest: int) -> int:
    """The number of a level that is given by its number or by its column's name."""
    if isinstance(level, str):
        if level not in names:
            told = f"one of {', '.join(map(repr, names))}" if names else "a number, because levels have no names here"
            raise ValueError(f"level ({level[:40]!r}) must be {told}. Hint: a number from 0 to {deepest}")
        level = names.index(level) + 1
    check_integer(level, name="level", least=0)
    if level > deepest:
        raise ValueError(f"level ({level}) must be an integer from 0 to {deepest}, the deepest that was released")
    return int(level)


def _length(low: float | None, high: float | None) -> float | None:
    """The length of an interval's arm; none where it has no end."""
    if low is None or high is None or not np.isfinite(high - low):
        return None
    return max(high - low, 0.0)


def tick_text(path: str, width: int = 30) -> str:
    """A path that leaves room for its bar on a narrow screen; the last label gives way last."""
    if len(path) <= width:
        return path
    *above, last = path.split(SEPARATOR)
    last = style.shorten(last, width - 8 * len(above[-2:]))
    room = width - len(last) - len(SEPARATOR) * len(above[-2:])
    return SEPARATOR.join([*(style.shorten(label, room // len(above[-2:])) for label in above[-2:]), last])


def _hover(path: str, figure: float | None, *ends: float | None, interval: str, what: str = "estimate") -> str:
    (lower, upper), lines = ends, [f"<b>{style.wrap(path)}</b>", f"{what} {style.number(figure)}"]
    if lower is not None and upper is not None:
        lines.append(f"{interval} {style.number(lower)} to {style.number(upper)}")
    return "<br>".join(lines)


def _row_name(row: dict[str, Any], groups: Sequence[str], *, several: bool) -> str:
    parts = [" / ".join(str(row[name]) for name in groups)] if groups else []
    return ", ".join([*parts, *([f"{row['quantile']:g}"] if several else [])])
