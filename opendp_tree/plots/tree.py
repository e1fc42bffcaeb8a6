"""A release as one picture: nested areas, with the error in the colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree._types import Floats
from opendp_tree.plots import style
from opendp_tree.plots.nodes import Nodes, drawn_frame, own_area, read_nodes, release_footer
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import NO_SUMS
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#14477a", "#2a76a8", "#62adbb", "#b3dac1", "#f7f1c9")
"""From sure to unsure. Lightness rises all the way, so it reads the same in grey and to the colour-blind."""
DARK = "#0e161d"
SURE, UNSURE = 1e-3, 1.0
FIRST_VIEW = 1500
"""More marks at once make browsers slow; deeper levels come by a click."""


def plot_tree(
    release: TreeRelease, *, kind: str = "icicle", max_nodes: int = 1500, title: str | None = None
) -> go.Figure:
    """A release as nested areas: estimates are sizes, relative errors are colours, everything else is in the hover.

    A click on a node zooms in. Areas have to add up where noisy estimates need not: children that together exceed their
    parent are shrunk to fit it, and nodes with estimates of zero or less have no area. The hover always tells the
    released figures. The relative error is half the width of a node's interval, divided by its estimate.

    Parameters
    ----------
    release
        The release.
    kind
        "icicle", "treemap" or "sunburst". An icicle by default: of the three it has most room for labels.
    max_nodes
        Of more nodes than this, or than 400 siblings, the smallest are drawn together. By default 1500: more make
        browsers slow.
    title
        By default it names the columns that the counts are by.

    >>> from opendp_tree import Tree, TreeRelease, plot_tree
    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c")])
    >>> counts = np.array([60.0, 45.0, 30.0, 15.0, 14.0, 14.0])
    >>> release = TreeRelease(tree, counts, counts - 4, counts + 4, 0.95, None)
    >>> figure = plot_tree(release, kind="treemap")
    >>> figure.data[0].labels
    ('All', 'north', 'south', 'a', 'b', 'c')
    """
    check_type(release, TreeRelease, name="release", hint="what a mechanism gave")
    check_choice(kind, name="kind", choices=("icicle", "treemap", "sunburst"))
    check_integer(max_nodes, name="max_nodes", least=2)
    go = style.graph_objects()
    frame = drawn_frame(release)
    nodes = read_nodes(release, frame, max_nodes=max_nodes)
    interval = style.confidence_text(release.confidence)
    size = own_area(nodes.parents, nodes.size)
    if not nodes.size[0] > 0:
        size[0] = 1.0  # nothing has an area: show at least the root
    trace: dict[str, Any] = {
        "ids": [str(row) for row in range(len(nodes))],
        "parents": ["" if parent < 0 else str(parent) for parent in nodes.parents.tolist()],
        "labels": [style.as_text(style.shorten(label, 28)) for label in nodes.labels],
        "values": size,
        "branchvalues": "remainder",
        "text": _texts(nodes, kind),
        "texttemplate": "%{text}",
        "hovertext": _hovers(nodes, interval, None if release.statement is None else release.statement.counted),
        "hoverinfo": "text",
        "marker": (marker := _marker(nodes, interval)),
        "textfont": {"size": 12 if kind == "sunburst" else 13, "color": [_ink(colour) for colour in marker["colors"]]},
        "maxdepth": nodes.depth_within(FIRST_VIEW),
        "sort": not release.tree.ordered,
    }
    if kind == "treemap":
        trace["marker"]["pad"] = {"t": 20, "l": 3, "r": 3, "b": 3}
    if kind != "sunburst":
        trace |= {"tiling": {"pad": 2} if kind == "treemap" else {"orientation": "h", "pad": 0}}
        trace |= {"pathbar": {"side": "top", "thickness": 24, "textfont": {"size": 12}}}
    else:
        trace |= {"insidetextorientation": "auto", "leaf": {"opacity": 1}}
    footer = release_footer(release)
    if not release.adds_up:
        footer.append(f"{NO_SUMS} Areas are shrunk to fit.")
    if nodes.without_area:
        verb = "node has" if nodes.without_area == 1 else "nodes have"
        footer.append(f"{nodes.without_area:,} {verb} an estimate of zero or less and no area.")
    rows = int(np.count_nonzero(nodes.levels == 1))
    look = style.layout(
        title=style.text_or(title, default=_title(release.tree)),
        subtitle=f"Area: estimate. Colour: how sure it is.{style.CLICK}",
        footer=footer,
        above=0 if kind == "sunburst" else 26,  # the path bar, once one has gone into a node
        below=60,
        # Rows of the first level that have the height of their text, if there are not too many.
        height=min(1400, 180 + 20 * rows) if kind == "icicle" and rows > 25 else None,
    )
    # Too small a sector shows no text, rather than text that cannot be read.
    look["uniformtext"] = {"minsize": 10, "mode": "hide"}
    return go.Figure({"icicle": go.Icicle, "treemap": go.Treemap, "sunburst": go.Sunburst}[kind](trace), look)


def relative_error(estimate: Floats, lower: Floats, upper: Floats) -> Floats:
    """Half the interval's width over the estimate; infinite where that is not positive, nan without an interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Floats = np.where(estimate > 0, (upper - lower) / 2 / estimate, np.inf)
    error[np.isnan(lower) | np.isnan(upper)] = np.nan
    return error


def _title(tree: Tree | OpenTree) -> str:
    named = [name for name in tree.names or () if not name.startswith("label_")]
    return "Private counts by " + ", ".join(named) if named else "Private counts"


def _marker(nodes: Nodes, interval: str) -> dict[str, Any]:
    error = np.log10(np.clip(relative_error(nodes.estimate, nodes.lower, nodes.upper), SURE, UNSURE)).round(3)
    coloured = (np.asarray(nodes.kind) == "node") & ~np.isnan(error)
    share = nodes.size / max(nodes.size[0], np.finfo(np.float64).tiny)
    # White lines around slivers would make them look less sure than they are. (Widths of its own for each node would
    # do as well, but they break Plotly's path bar.)
    opacity = np.select([share < 1e-3, share < 4e-3], [0.0, 0.2], 0.6).tolist()
    return {
        "colors": [value if has else style.MUTED for has, value in zip(coloured.tolist(), error.tolist(), strict=True)],
        "colorscale": [[place / (len(COLOURS) - 1), colour] for place, colour in enumerate(COLOURS)],
        **{"cmin": np.log10(SURE), "cmax": np.log10(UNSURE), "showscale": True},
        "line": {"width": 1, "color": [f"rgba(255, 255, 255, {each})" for each in opacity]},
        "colorbar": {
            **{"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yanchor": "top", "ypad": 4, "xpad": 24},
            **{"lenmode": "pixels", "len": 340},
            **{"thickness": 12, "outlinewidth": 0, "ticklen": 4, "tickcolor": style.QUIET},
            "title": {"text": f"Relative error: half the {interval} ÷ estimate", "side": "top", "font": {"size": 12}},
            "tickvals": [-3, -2, -1, 0],
            "ticktext": ["≤ 0.1 %", "1 %", "10 %", "≥ 100 %"],
            "tickfont": {"size": 12, "color": style.INK},
        },
    }


def _ink(colour: float | str) -> str:
    """Dark or white, whichever reads better on a node's colour."""
    if isinstance(colour, str):
        return DARK
    at = np.linspace(np.log10(SURE), np.log10(UNSURE), len(COLOURS))
    light = 0.0
    for weight, place in ((0.2126, 1), (0.7152, 3), (0.0722, 5)):
        channel = [int(each[place : place + 2], 16) / 255 for each in COLOURS]
        light += weight * float(np.interp(colour, at, channel)) ** 2.2
    return "white" if light < 0.2 else DARK


def _texts(nodes: Nodes, kind: str) -> list[str]:
    """What is written on each node: label and estimate, in one line where nodes are low rows."""
    low = (nodes.size < nodes.size[0] / 12) & (kind == "icicle")
    breaks = np.where(low, "\u2002", "<br>").tolist()
    figures = [style.number(value) for value in nodes.estimate.tolist()]
    labels = [style.as_text(style.shorten(label, 28)) for label in nodes.labels]
    return ["".join(parts) for parts in zip(labels, breaks, figures, strict=True)]


def _hovers(nodes: Nodes, interval: str, counted: str | None) -> list[str]:
    """For each node what was released about it, in words."""
    errors = relative_error(nodes.estimate, nodes.lower, nodes.upper)
    more = style.counted_lines(counted)
    return ["<br>".join([*_hover(nodes, row, float(errors[row]), interval), *more]) for row in range(len(nodes))]


def _hover(nodes: Nodes, row: int, error: float, interval: str) -> list[str]:
    kind, parent = nodes.kind[row], int(nodes.parents[row])
    estimate = float(nodes.estimate[row])
    lines = [f"<b>{style.wrap(nodes.paths[row] or nodes.labels[row])}</b>"]
    if kind == "hidden":
        return [*lines, "not released; nodes below it are"]
    lines.append(f"estimate {style.number(estimate)}")
    if not np.isnan(error):
        sure = f" (±{style.percent(error)})" if np.isfinite(error) else ""
        lines.append(
            f"{interval} {style.number(float(nodes.lower[row]))} to {style.number(float(nodes.upper[row]))}{sure}"
        )
    if parent >= 0 and nodes.estimate[parent] > 0:
        lines.append(
            f"{style.percent(estimate / float(nodes.estimate[parent]))} of {style.wrap(nodes.labels[parent], 36)}"
        )
    if nodes.cells is not None and kind != "other":
        lines.append(f"{int(nodes.cells[row]):,} cell{'s' if nodes.cells[row] != 1 else ''}")
    if nodes.undrawn[row]:
        lines.append(f"{int(nodes.undrawn[row]):,} nodes below are too small to draw")
    if kind == "other":
        lines.append("what the shown nodes beside it leave")
    if kind == "smaller":
        lines.append("drawn together because they are small")
    return lines
