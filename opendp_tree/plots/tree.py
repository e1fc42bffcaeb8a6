"""A release as one picture: nested boxes, with the error in the colour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.plots import style
from opendp_tree.releases.frame import BETWEEN
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.words import NO_SUMS
from opendp_tree.trees.nodes import contracted_parents
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#14477a", "#2a76a8", "#62adbb", "#b3dac1", "#f7f1c9")
"""From small to large errors. Lightness increases, so that it reads the same in grey and for the colour-blind."""
DARK, TURNS = "#0e161d", -2.087
"""Texts are white where the error is below this power of ten, and dark elsewhere."""
SMALL, LARGE = 1e-3, 1.0
_TALLEST, _ROW = 1400, 20
VIEW = 5
"""Levels in one view, so that labels fit beside each other on a narrow screen; a click opens deeper ones."""
MAX_SIBLINGS = 400
"""A screen has no more lines than this."""
_BORDER, _CLEAR = "rgba(255, 255, 255, 0.6)", "rgba(0, 0, 0, 0)"
_LISTED = 12
"""How many of small siblings together are named in their box at most."""
_COLOUR_BAR: dict[str, Any] = {
    **{"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yanchor": "top", "ypad": 8, "xpad": 24},
    **{"lenmode": "pixels", "len": 340, "thickness": 12, "outlinewidth": 0, "ticklen": 4, "tickcolor": style.INK},
    **{"tickvals": [-3, -2, -1, 0], "ticktext": ["≤ 0.1 %", "1 %", "10 %", "≥ 100 %"]},
    "tickfont": {"size": 12, "color": style.INK},
}


def plot_tree(
    release: TreeRelease, *, kind: str = "icicle", max_nodes: int = 1500, title: str | None = None
) -> go.Figure:
    """A release as nested areas: sizes are estimates, colours are relative errors, everything else is in the hover.

    A click on a node zooms in. Siblings that are too small for a label are drawn together as "(n more)"; a click opens
    them. Areas add up, but noisy estimates need not: children that together exceed their parent are shrunk to fit it,
    and nodes with estimates of zero or less have no area. The hover shows the released figures.

    :param release: The release.
    :param kind: "icicle", "treemap" or "sunburst". An icicle by default: it has the most room for labels.
    :param max_nodes: The largest number of nodes in the figure. By default 1500: more make browsers slow.
    :param title: By default it names the columns that the counts are by.
    """
    check_type(release, TreeRelease, name="release", hint="the result of release_tree(...)")
    check_choice(kind, name="kind", choices=("icicle", "treemap", "sunburst"))
    check_integer(max_nodes, name="max_nodes", least=2)
    nodes = read_nodes(release)
    rows = int(np.count_nonzero((nodes.levels == 1) & (nodes.size > 0)))
    height = max(style.TREE_HEIGHT, min(_TALLEST, 200 + _ROW * rows)) if kind == "icicle" else style.TREE_HEIGHT
    view = min(VIEW, int(nodes.levels.max(initial=0)) + 1)
    room = _room(nodes, kind, height - 200)
    boxes = pack(nodes, room=room, view=view, max_nodes=max_nodes, ordered=release.tree.ordered)
    interval = style.confidence_text(release.confidence)
    counted = "" if release.statement is None else release.statement.counted or ""
    unit = next((word for word in ("rows", "people", "shares") if counted.startswith(word)), "")
    errors = [np.log10(np.clip(_error(nodes, box), SMALL, LARGE)).round(3) for box in boxes]
    grey = ' Grey: no interval, as for "(other)".' if np.isnan(errors).any() else ""
    own_area = np.array([box.size for box in boxes])
    for box in boxes[1:]:
        own_area[box.parent] -= box.size
    # Plotly's `remainder` adds up what children leave of each area, so that rounding cannot break it.
    own_area = np.maximum(own_area, 0) if boxes[0].size > 0 else np.array([1.0])  # show at least the root
    error_title = f"Relative error: half the {interval} ÷ estimate"
    trace: dict[str, Any] = {
        "type": kind,
        "ids": [str(index) for index in range(len(boxes))],
        "parents": ["" if box.parent < 0 else str(box.parent) for box in boxes],
        "labels": [style.short_text(_label(nodes, box)) for box in boxes],
        "values": own_area,
        "branchvalues": "remainder",
        "text": [_text(nodes, box, kind, box.size / (room * boxes[0].size or 1.0), view, unit) for box in boxes],
        "texttemplate": "%{text}",
        "hovertext": [_hover(nodes, box, interval, release) for box in boxes],
        "hoverinfo": "text",
        "marker": {
            "colors": [style.MUTED if np.isnan(error) else float(error) for error in errors],
            "colorscale": [[index / (len(COLOURS) - 1), colour] for index, colour in enumerate(COLOURS)],
            **{"cmin": np.log10(SMALL), "cmax": np.log10(LARGE), "showscale": True},
            # A box that only extends the one above it has no border, so that both look like one.
            "line": {"width": 1, "color": [_BORDER if box.below is None else _CLEAR for box in boxes]},
            "colorbar": {"title": {"text": error_title, "side": "top", "font": {"size": 12}}, **_COLOUR_BAR},
        },
        "textfont": {"size": 12, "color": ["white" if error < TURNS else DARK for error in errors]},
        "maxdepth": view,
        "sort": False,  # they are sorted, and "(n more)" come last
    }
    if kind == "treemap":
        trace["marker"]["pad"] = {"t": 20, "l": 3, "r": 3, "b": 3}
        trace["tiling"] = {"pad": 2}
    elif kind == "icicle":
        trace["tiling"] = {"orientation": "h", "pad": 0}
    if kind == "sunburst":
        trace |= {"insidetextorientation": "auto", "leaf": {"opacity": 1}}
    else:
        trace["pathbar"] = {"side": "top", "thickness": 24, "textfont": {"size": 12}}
    footer = style.release_footer(release) + ([] if release.adds_up else [f"{NO_SUMS} Areas are shrunk to fit."])
    if without_area := int(np.count_nonzero((nodes.size <= 0) & nodes.shown & ~nodes.other)):
        verb = "node has" if without_area == 1 else "nodes have"
        footer.append(f"{without_area:,} {verb} an estimate of zero or less and no area.")
    names = [name for name in release.tree.names or () if not name.startswith("label_")]
    return style.figure(
        [trace],
        title=title,
        usual="Private counts" + (f" by {', '.join(names)}" if names else ""),
        subtitle=f"Area: estimate. Colour: relative error.{grey}",
        footer=footer,
        above=0 if kind == "sunburst" else 26,  # the path bar, once one has gone into a node
        below=64,
        height=height,
        # Too small a box shows no text, rather than text that cannot be read.
        uniformtext={"minsize": 10, "mode": "hide"},
    )


def _room(nodes: Nodes, kind: str, height: int) -> float:
    """The least share of a picture in which a label can be read."""
    if kind == "sunburst":
        return 1 / 60
    if kind == "icicle":
        return 18 / height
    lengths = np.array([len(path) for path in nodes.paths])
    own = lengths - np.where(nodes.levels > 1, lengths[nodes.parents] + len(BETWEEN), 0)
    # A letter is about 7 pixels wide; with the margins of the boxes around it, a label needs 40 pixels of height.
    return (8 + 7 * min(float(np.median(own)), 28)) * 40 / (950 * height)


@dataclass(frozen=True)
class Nodes:
    """The rows of a release's frame, parents before children; the first is the root, whose parent is -1."""

    parents: Ints
    levels: Ints
    paths: list[str]
    shown: Bools
    other: Bools
    estimate: Floats
    lower: Floats
    upper: Floats
    error: Floats
    """Relative; nan for nodes without an interval of their own."""
    cells: Ints | None
    size: Floats
    """Areas in proportion to estimates, which add up to at most the parent's."""


def read_nodes(release: TreeRelease) -> Nodes:
    """The nodes of a release with their areas."""
    frame = style.drawn_frame(release)
    if not frame.height:  # an open tree of which nothing is shown: draw the place where its root would be
        no, nothing = np.array([False]), np.array([np.nan])
        return Nodes(np.array([-1]), np.array([0]), [""], no, no, nothing, nothing, nothing, nothing, None, np.zeros(1))
    other, shown = frame["other"].to_numpy(), frame["shown"].to_numpy()
    if isinstance(release.tree, Tree):
        above = release.tree.level_order.parents
    else:  # the frame keeps the order of an open tree's arrays
        above = release.parents if release.shown is None else contracted_parents(release.parents, release.shown)
    # Rows "(other)" follow their siblings.
    parents = np.append(np.flatnonzero(~other), -1)[above][np.cumsum(~other) - 1]
    levels = frame["level"].to_numpy().astype(np.int64)
    estimate, lower, upper = (frame[name].to_numpy().astype(np.float64) for name in ("estimate", "lower", "upper"))
    estimate = np.where(shown, estimate, np.nan)
    error = np.where(shown & ~other, relative_error(estimate, lower, upper), np.nan)
    cells = frame["cells"].to_numpy() if "cells" in frame.columns else None
    size = areas(parents, levels, estimate, ~shown)
    return Nodes(parents, levels, frame["path"].to_list(), shown, other, estimate, lower, upper, error, cells, size)


def areas(parents: Ints, levels: Ints, estimates: Floats, hidden: Bools) -> Floats:
    """Areas in proportion to estimates, which add up to at most the parent's."""
    raw = np.where(np.isfinite(estimates), np.maximum(estimates, 0), 0)
    children = np.zeros(raw.size)
    by_level = [np.flatnonzero(levels == level) for level in range(int(levels.max(initial=0)) + 1)]
    for rows in reversed(by_level):
        grows = rows[hidden[rows] | ((parents[rows] < 0) & (raw[rows] <= 0))]
        raw[grows] = children[grows]
        below = rows[parents[rows] >= 0]
        np.add.at(children, parents[below], raw[below])
    size = raw.copy()
    widest = np.maximum(np.maximum(raw, children), np.finfo(np.float64).tiny)
    for rows in by_level:
        below = rows[parents[rows] >= 0]
        size[below] = raw[below] * (size[parents[below]] / widest[parents[below]])
    return size


@dataclass(frozen=True)
class Box:
    """What is drawn as one: a node, or small siblings together."""

    parent: int
    rows: Ints
    """The node's row, or those of the siblings."""
    size: float
    alone: bool = True
    """Of siblings together, whether no other is drawn beside them."""
    below: int | None = None
    """Of a box that only extends the box above it by one level: the number of nodes there."""
    undrawn: int = 0
    """How many children are not in the picture."""


def pack(nodes: Nodes, *, room: float, view: int, max_nodes: int, ordered: bool = False) -> list[Box]:
    """The boxes of a picture until there are `max_nodes`: the first view first; in it, the largest.

    A view has `view` levels. Siblings smaller than `room` of it are one box, which the last level of the view opens.
    """
    order = np.lexsort((np.zeros(nodes.size.size) if ordered else -nodes.size, nodes.parents))
    starts = np.searchsorted(nodes.parents[order], np.arange(nodes.parents.size + 1))
    boxes = [Box(-1, np.array([0]), float(nodes.size[0]))]
    # For each box that waits: its size and index, and of the rows below it their view, its size and their level in it.
    waiting = [(0, -boxes[0].size, 0, order[starts[0] : starts[1]], boxes[0].size, 1)]
    while waiting:
        number, negative, index, rows, whole, level = heappop(waiting)
        rows = rows[nodes.size[rows] > 0]
        if len(boxes) >= max_nodes:
            boxes[index] = replace(boxes[index], undrawn=rows.size)
            continue
        if level >= view:
            whole, level = -negative, 1
        small = nodes.size[rows] < room * whole
        if level == 1 and small.all():  # nothing tells them apart
            small[:] = False
        limit = min(MAX_SIBLINGS, max_nodes - len(boxes))
        small[np.argsort(-nodes.size[rows], kind="stable")[limit:]] = True
        if np.count_nonzero(small) == 1:
            small[:] = False
        for row in rows[~small].tolist():
            size = float(nodes.size[row])
            inner = order[starts[row] : starts[row + 1]]
            heappush(waiting, (number + (level + 1 >= view), -size, len(boxes), inner, whole, level + 1))
            boxes.append(Box(index, np.array([row]), size))
        if small.any():
            rest, alone = rows[small], bool(small.all())
            box = Box(index, rest, float(nodes.size[rest].sum()), alone)
            boxes.append(box)
            deeper = rest
            for _ in range(view - 1 - level):
                deeper = np.concatenate([order[starts[row] : starts[row + 1]] for row in deeper] or [deeper])
                boxes.append(replace(box, parent=len(boxes) - 1, below=int((nodes.size[deeper] > 0).sum())))
            heappush(waiting, (number + 1, -box.size, len(boxes) - 1, rest, box.size, view))
    return boxes


def relative_error(estimate: Floats, lower: Floats, upper: Floats) -> Floats:
    """Half the interval's width over the estimate; infinite where that is not positive, nan without an interval."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Floats = np.where(estimate > 0, (upper - lower) / 2 / estimate, np.inf)
    return np.where(np.isnan(lower) | np.isnan(upper), np.nan, error)


def _error(nodes: Nodes, box: Box) -> float:
    """The relative error of a node, or the median of those of siblings together; nan if it has no interval."""
    errors = nodes.error[box.rows]
    errors = errors[~np.isnan(errors)]
    return float(np.median(errors)) if errors.size else np.nan


def _name(nodes: Nodes, row: int) -> str:
    """A node's own label: its path without its parent's."""
    path, above = nodes.paths[row], nodes.paths[max(nodes.parents[row], 0)]
    return (path.removeprefix(above + BETWEEN) if above else path) or ("All" if not above else path)


def _label(nodes: Nodes, box: Box) -> str:
    if box.rows.size == 1:
        return _name(nodes, box.rows[0])
    return _nodes_text(box.rows.size) if box.alone else f"({box.rows.size:,} more)"


def _nodes_text(count: int) -> str:
    return f"({count:,} {'node' if count == 1 else 'nodes'})"


def _text(nodes: Nodes, box: Box, kind: str, rooms: float, view: int, unit: str) -> str:
    """What is written on a box that has room for this many labels: label and estimate, as far as they fit."""
    # A letter is about 7 pixels wide. A ring has its share of 270 pixels; boxes of a treemap are about square.
    width = {"sunburst": 270 // (7 * view), "treemap": int(10 * max(rooms, 1) ** 0.5), "icicle": 28}[kind]
    label = style.short_text(_label(nodes, box), min(max(width, 13 if kind == "sunburst" else 8), 28))
    figure = style.number(_estimate(nodes, box)) + (f"{style.GAP}{unit}" if box.parent < 0 and unit else "")
    several = box.rows.size > 1
    lines = [label] if several and box.alone else [label, figure]
    if box.below is not None:
        return _nodes_text(box.below) if box.below else ""
    if kind == "icicle":
        limit = int(1.2 * rooms - 0.2)
        if several and (limit > 1 or box.alone):  # a line for each of the largest, too
            lines += map(style.short_text, _largest(nodes, box, min(max(limit, 1), _LISTED), style.GAP))
        return "<br>".join(lines[:limit]) if limit > 1 else style.GAP.join(lines)
    return "<br>".join(lines) if rooms > (2.6 if kind == "treemap" else 1.8) else label


def _largest(nodes: Nodes, box: Box, count: int, space: str) -> list[str]:
    """The largest nodes of a box, each with its estimate."""
    by_size = box.rows[np.argsort(-nodes.size[box.rows], kind="stable")][:count]
    return [f"{_name(nodes, row)}{space}{style.number(float(nodes.estimate[row]))}" for row in by_size]


def _estimate(nodes: Nodes, box: Box) -> float:
    one = box.rows.size == 1
    return float(nodes.estimate[box.rows[0]] if one else np.nansum(nodes.estimate[box.rows]))


def _hover(nodes: Nodes, box: Box, interval: str, release: TreeRelease) -> str:
    """What was released about a box, in words."""
    row, several = box.rows[0], box.rows.size > 1
    parent, error, estimate = nodes.parents[row], _error(nodes, box), _estimate(nodes, box)
    path = nodes.paths[row] or "All"
    if several:
        path = BETWEEN.join(part for part in (nodes.paths[parent], _label(nodes, box)) if part)
    lines = [f"<b>{style.wrap(path)}</b>"]
    if not nodes.shown[row] and not several:
        return "<br>".join([*lines, "not released; nodes below it are"])
    lines.append(f"{'sum of their estimates' if several else 'estimate'} {style.number(estimate)}")
    if several and np.isfinite(error):
        lines.append(f"median of their relative errors {style.percent(error)}")
    elif not np.isnan(nodes.lower[row]):
        sure = f" (±{style.percent(error)})" if np.isfinite(error) else ""
        lines.append(f"{interval} {style.number(nodes.lower[row])} to {style.number(nodes.upper[row])}{sure}")
    if parent >= 0 and nodes.estimate[parent] > 0:
        share = estimate / float(nodes.estimate[parent])
        lines.append(f"{style.percent(share)} of {style.wrap(_name(nodes, parent))}")
    if nodes.cells is not None and not nodes.other[box.rows].any():
        cells = int(nodes.cells[box.rows].sum())
        lines.append(f"{cells:,} cell{'s' if cells != 1 else ''}")
    if several:
        lines.append(style.wrap("; ".join([*_largest(nodes, box, 5, " "), *(["..."] if box.rows.size > 5 else [])])))
        lines.append("too many to draw" if box.undrawn else "a click opens them")
    elif box.undrawn:
        lines.append(f"{box.undrawn:,} nodes below are too small to draw")
    elif nodes.other[row]:
        lines.append("what the shown nodes beside it leave")
    counted = None if release.statement is None else release.statement.counted
    return "<br>".join([*lines, *style.counted_lines(counted)])
