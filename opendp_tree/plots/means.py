"""One level of a release as means with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree.plots.level import level_place, tick_text
from opendp_tree.plots.style import (
    BLUE,
    INK,
    QUIET,
    as_text,
    axis,
    confidence_text,
    graph_objects,
    layout,
    number,
    text_or,
    wrap,
)
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import footer_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["plot_means"]


def plot_means(
    release: TreeRelease, level: int | str, *, value: str | None = None, top: int = 40, title: str | None = None
) -> go.Figure:
    """The means of the largest nodes of one level, the highest first, with intervals; the mean of all as a line.

    Needs Plotly: `pip install plotly`.

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
    go = graph_objects()
    frame = release.to_frame(other=False)
    place = level_place(level, release.tree.names, int(frame["level"].to_numpy().max(initial=0)))
    check_integer(top, name="top", least=1)
    before = f"{chosen.name}_" if len(names) > 1 else ""
    columns = [f"{before}{name}" for name in ("mean", "mean_lower", "mean_upper")]
    here = frame.filter((frame["level"] == place) & frame["shown"]).sort("estimate", descending=True)
    rows = here.head(top).sort(columns[0], descending=True).select("path", "estimate", *columns).rows()
    interval = confidence_text(release.confidence)
    traces = [go.Scatter(_points(rows, interval))]
    if place and frame.height:
        line = {"color": QUIET, "dash": "dot", "width": 2}
        mean = frame[columns[0]][0]
        traces.append(
            go.Scatter(x=[mean, mean], y=[-0.5, len(rows) - 0.5], name="mean of all", mode="lines", line=line)
        )
    what = f"The {top:,} largest of {here.height:,} nodes" if here.height > top else f"{here.height:,} nodes"
    look = layout(
        title=text_or(title, default=_title(chosen.name, place, release.tree.names)),
        subtitle=f"{what}. Points: means of {chosen.words()}. Lines: {interval}.",
        footer=footer_words(None if release.statement is None else release.statement.to_dict()),
        below=16,
        height=max(360, 190 + 22 * len(rows)),
    )
    ticks: dict[str, Any] = {
        "tickvals": list(range(len(rows))),
        "ticktext": [as_text(tick_text(path or "All")) for path, *_ in rows],
        **{"autorange": "reversed", "showgrid": False, "fixedrange": True, "ticklabelstandoff": 6},
    }
    look["xaxis"] = axis("", side="top", nticks=5)
    look["yaxis"] = axis("", **ticks)
    look["showlegend"] = False
    return go.Figure(traces, look)


def _points(rows: list[tuple[Any, ...]], interval: str) -> dict[str, Any]:
    return {
        "x": [mean for _, _, mean, _, _ in rows],
        "y": list(range(len(rows))),
        "mode": "markers",
        "name": "mean",
        "marker": {"color": BLUE, "size": 9},
        "error_x": {
            "array": [upper - mean for _, _, mean, _, upper in rows],
            "arrayminus": [mean - lower for _, _, mean, lower, _ in rows],
            **{"type": "data", "symmetric": False, "color": INK, "thickness": 1.5, "width": 4},
        },
        "hovertext": [
            f"<b>{wrap(path or 'All')}</b><br>mean {number(mean)}<br>{interval} {number(lower)} to {number(upper)}"
            f"<br>of about {number(count)} rows"
            for path, count, mean, lower, upper in rows
        ],
        "hoverinfo": "text",
    }


def _title(value: str, level: int, names: Any) -> str:
    named = names[level - 1] if 0 < level <= len(names) and not names[level - 1].startswith("label_") else ""
    return f"Private means of {value} by {named}" if named else f"Private means of {value} at level {level}"
