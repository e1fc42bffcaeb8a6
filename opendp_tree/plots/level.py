"""One level of a release as bars with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree.arguments import check_integer
from opendp_tree.plots.nodes import SEPARATOR
from opendp_tree.plots.style import (
    INK,
    as_text,
    axis,
    confidence_text,
    graph_objects,
    layout,
    number,
    shorten,
    wrap,
)
from opendp_tree.release_words import cost_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from opendp_tree.release import TreeRelease

__all__ = ["plot_level"]

BAR, OTHER = "#78a9d1", "#c3cad1"


def plot_level(release: TreeRelease, level: int, *, top: int = 40, title: str | None = None) -> go.Figure:
    """The `top` largest nodes of one level as bars, each with its interval; the root's level is 0.

    What shown nodes leave unexplained, "(other)", is drawn in grey and without an interval unless it is certain.

    Needs Plotly: `pip install 'opendp-tree[plot]'`.

    >>> from opendp_tree import Tree, TreeRelease, plot_level
    >>> tree = Tree.from_paths([("north",), ("south",)])
    >>> counts = np.array([60.0, 45.0, 15.0])
    >>> release = TreeRelease(tree, counts, counts - 4, counts + 4, 0.95, None)
    >>> bars = plot_level(release, 1).data[0]
    >>> bars.x, bars.error_x.array
    ((45.0, 15.0), (4.0, 4.0))
    """
    go = graph_objects()
    frame = release.to_frame()
    deepest = int(frame["level"].to_numpy().max(initial=0))
    check_integer(level, name="level", least=0)
    if level > deepest:
        raise ValueError(f"level ({level}) must be an integer from 0 to {deepest}, the deepest that was released")
    check_integer(top, name="top", least=1)
    here = frame.filter((frame["level"] == level) & frame["shown"]).sort("estimate", descending=True, nulls_last=True)
    total, rows = here.height, here.head(top)
    paths = [path or "All" for path in rows["path"].to_list()]
    other = rows["other"].to_list()
    estimate = rows["estimate"].to_list()
    interval = confidence_text(release.confidence)
    above = [_length(value, end) for value, end in zip(estimate, rows["upper"].to_list())]
    below = [_length(end, value) for value, end in zip(estimate, rows["lower"].to_list())]
    bars = {
        "orientation": "h",
        "x": estimate,
        "y": list(range(rows.height)),
        "marker": {"color": [OTHER if muted else BAR for muted in other], "line": {"width": 0}},
        "error_x": {
            **{"type": "data", "symmetric": False, "array": above, "arrayminus": below},
            **{"color": INK, "thickness": 1.5, "width": 4},
        },
        "hovertext": [
            _hover(path, *figures, interval=interval)
            for path, figures in zip(paths, zip(estimate, rows["lower"].to_list(), rows["upper"].to_list()))
        ],
        "hoverinfo": "text",
    }
    what = f"the {top:,} largest of {total:,} nodes" if total > top else f"{total:,} node{'s' if total != 1 else ''}"
    look = layout(
        title=title or f"Private counts at level {level}",
        subtitle=f"{what[0].upper()}{what[1:]}. Bars: estimate. Lines: {interval}.",
        footer=[cost_words(None if release.statement is None else release.statement.to_dict())],
        below=16,
        height=max(360, 190 + 22 * rows.height),
    )
    ticks: dict[str, Any] = {
        "tickvals": list(range(rows.height)),
        "ticktext": [as_text(_tick(path)) for path in paths],
        **{"autorange": "reversed", "showgrid": False, "fixedrange": True, "ticklabelstandoff": 6},
    }
    look["xaxis"] = axis("estimate", tickformat=",", side="top", nticks=5) | {"zeroline": True, "zerolinecolor": "#7d8a96"}
    look["yaxis"] = axis("", **ticks)
    look["bargap"] = 0.35
    return go.Figure(go.Bar(bars), look)


def _length(low: float | None, high: float | None) -> float | None:
    """The length of an interval's arm; none where it has no end."""
    if low is None or high is None or not np.isfinite(high - low):
        return None
    return max(high - low, 0.0)


def _tick(path: str, width: int = 30) -> str:
    """A path that leaves room for its bar on a narrow screen; the last label gives way last.

    >>> _tick("Massachusetts / Middlesex County / Cambridge")
    'Mass… / Midd… / Cambridge'
    """
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
