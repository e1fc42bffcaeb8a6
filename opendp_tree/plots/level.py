"""One level of a release as bars with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_integer, check_type
from opendp_tree.plots.nodes import SEPARATOR
from opendp_tree.plots.style import (
    INK,
    as_text,
    axis,
    confidence_text,
    counted_lines,
    graph_objects,
    layout,
    number,
    shorten,
    text_or,
    wrap,
)
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import footer_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["plot_level"]

BAR, OTHER = "#78a9d1", "#c3cad1"


def plot_level(release: TreeRelease, level: int | str, *, top: int = 40, title: str | None = None) -> go.Figure:
    """The largest nodes of one level as bars, each with its interval.

    What shown nodes leave unexplained, "(other)", is drawn in grey and without an interval unless it is certain.

    Needs Plotly: `pip install plotly`.

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
    go = graph_objects()
    frame = release.to_frame()
    deepest = int(frame["level"].to_numpy().max(initial=0))
    place = level_place(level, release.tree.names, deepest)
    check_integer(top, name="top", least=1)
    here = frame.filter((frame["level"] == place) & frame["shown"])
    total = int((~here["other"]).sum())
    largest = here["estimate"].arg_sort(descending=True).head(top)
    places = largest.sort() if release.tree.ordered else largest
    rows = here[places].select("path", "other", "estimate", "lower", "upper").rows()
    paths = [path or "All" for path, *_ in rows]
    interval = confidence_text(release.confidence)
    counted = counted_lines(None if release.statement is None else release.statement.counted)
    bars = {
        "orientation": "h",
        "x": [estimate for *_, estimate, _, _ in rows],
        "y": list(range(len(rows))),
        "marker": {"color": [OTHER if other else BAR for _, other, *_ in rows], "line": {"width": 0}},
        "error_x": {
            "array": [_length(estimate, upper) for *_, estimate, _, upper in rows],
            "arrayminus": [_length(lower, estimate) for *_, estimate, lower, _ in rows],
            **{"type": "data", "symmetric": False, "color": INK, "thickness": 1.5, "width": 4},
        },
        "hovertext": [
            "<br>".join([_hover(path, *row[2:], interval=interval), *counted])
            for path, row in zip(paths, rows, strict=True)
        ],
        "hoverinfo": "text",
    }
    what = f"The {top:,} largest of {total:,} nodes" if total > top else f"{total:,} node{'s' if total != 1 else ''}"
    look = layout(
        title=text_or(title, default=_title(place, release.tree.names)),
        subtitle=f"{what}. Bars: estimate. Lines: {interval}.",
        footer=footer_words(None if release.statement is None else release.statement.to_dict()),
        above=24,  # room for the axis, which is on top
        below=16,
        height=max(360, 190 + 22 * len(rows)),
    )
    ticks: dict[str, Any] = {
        "tickvals": list(range(len(rows))),
        "ticktext": [as_text(tick_text(path)) for path in paths],
        **{"autorange": "reversed", "showgrid": False, "fixedrange": True, "ticklabelstandoff": 6},
    }
    look["xaxis"] = axis("", side="top", nticks=5) | {"zeroline": True, "zerolinecolor": "#7d8a96"}
    look["yaxis"] = axis("", **ticks)
    look["bargap"] = 0.35
    return go.Figure(go.Bar(bars), look)


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


def _title(level: int, names: Sequence[str]) -> str:
    named = names[level - 1] if 0 < level <= len(names) and not names[level - 1].startswith("label_") else ""
    return f"Private counts by {named}" if named else f"Private counts at level {level}"


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
    last = shorten(last, width - 8 * len(above[-2:]))
    room = width - len(last) - len(SEPARATOR) * len(above[-2:])
    return SEPARATOR.join([*(shorten(label, room // len(above[-2:])) for label in above[-2:]), last])


def _hover(path: str, estimate: float | None, lower: float | None, upper: float | None, *, interval: str) -> str:
    lines = [f"<b>{wrap(path)}</b>", f"estimate {number(estimate)}"]
    if lower is not None and upper is not None:
        lines.append(f"{interval} {number(lower)} to {number(upper)}")
    return "<br>".join(lines)
