"""The nodes of a release as a picture needs them: who is whose parent, and areas that fit into each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opendp_tree._types import Bools, Floats, Ints
from opendp_tree.releases.words import cost_words, counted_words
from opendp_tree.trees.shown_nodes import contracted_parents
from opendp_tree.trees.tree import Tree

if TYPE_CHECKING:
    import polars as pl

    from opendp_tree.releases.release import TreeRelease


SEPARATOR = " / "
MAX_CHILDREN = 400
"""A screen has no more rows than this to give to siblings; smaller ones are drawn together."""


@dataclass(frozen=True)
class Nodes:
    """One entry a drawn node, parents before children; the first is the root, whose parent is -1."""

    parents: Ints
    levels: Ints
    labels: list[str]
    paths: list[str]
    kind: list[str]
    estimate: Floats
    lower: Floats
    upper: Floats
    cells: Ints | None
    size: Floats
    undrawn: Ints
    """How many children are not drawn because all of a node's children are small."""
    without_area: int
    """How many released nodes have no area, because their estimates are not positive."""

    def __len__(self) -> int:
        """The number of drawn nodes."""
        return len(self.labels)

    def depth_within(self, count: int) -> int:
        """How many levels from the root, at least two, have no more than `count` nodes together."""
        totals = np.cumsum(np.bincount(self.levels))
        return max(2, int(np.searchsorted(totals, count, side="right")))


def drawn_frame(release: TreeRelease) -> pl.DataFrame:
    """The frame of a release; the interval of a row "(other)" is as long as the node above, and not drawn."""
    import polars as pl

    kept = ~pl.col("other") | (release.confidence == 1)
    return release.to_frame().with_columns(pl.when(kept).then(pl.col("lower", "upper")))


def read_nodes(release: TreeRelease, frame: pl.DataFrame, *, max_nodes: int) -> Nodes:
    """The nodes of a release with areas."""
    other = frame["other"].to_numpy()
    parents, levels = _parents(release, other), frame["level"].to_numpy().astype(np.int64)
    columns = {name: frame[name].to_numpy().astype(np.float64) for name in ("estimate", "lower", "upper")}
    columns["estimate"] = np.where(frame["shown"].to_numpy(), columns["estimate"], np.nan)
    cells = frame["cells"].to_numpy().astype(np.int64) if "cells" in frame.columns else None
    kind = np.where(other, "other", np.where(frame["shown"].to_numpy(), "node", "hidden"))
    paths = frame["path"].to_list()
    if not paths:
        # An open tree of which nothing is shown: draw the place where its root would be.
        parents, levels, kind, paths = np.array([-1]), np.array([0]), np.array(["hidden"]), [""]
        columns, cells = {name: np.array([np.nan]) for name in columns}, None
    size = areas(parents, levels, columns["estimate"], kind == "hidden")
    labels = [
        _label(path, paths[parent] if parent >= 0 else "") for path, parent in zip(paths, parents.tolist(), strict=True)
    ]
    nodes = Nodes(
        parents=parents,
        levels=levels,
        labels=labels,
        paths=paths,
        kind=kind.tolist(),
        **columns,
        cells=cells,
        size=size,
        undrawn=np.zeros(size.size, dtype=np.int64),
        without_area=int(np.count_nonzero((size <= 0) & (kind == "node"))),
    )
    return _fold(nodes, max_nodes)


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


def own_area(parents: Ints, size: Floats) -> Floats:
    """What of each node's area its children leave. Plotly's `remainder` adds these up, so rounding cannot break it."""
    children = np.zeros(size.size)
    np.add.at(children, parents[parents >= 0], size[parents >= 0])
    return np.maximum(size - children, 0)


def _fold(nodes: Nodes, max_nodes: int) -> Nodes:
    """Drop nodes without area, and draw the smallest siblings together where there are too many."""
    rank = np.empty(len(nodes), dtype=np.int64)
    by_size = np.lexsort((nodes.levels, -nodes.size))
    rank[by_size] = np.arange(len(nodes))
    order = np.lexsort((rank, nodes.parents))
    first = np.flatnonzero(np.diff(nodes.parents[order], prepend=-2))
    sibling = np.empty(len(nodes), dtype=np.int64)
    sibling[order] = np.arange(len(nodes)) - np.repeat(first, np.diff(first, append=len(nodes)))
    keep = ((rank < max_nodes) & (sibling < MAX_CHILDREN) & (nodes.size > 0)) | (nodes.parents < 0)
    for level in range(1, int(nodes.levels.max(initial=0)) + 1):
        rows = np.flatnonzero(nodes.levels == level)
        keep[rows] &= keep[nodes.parents[rows]]
    rows = np.flatnonzero(keep)
    position = np.full(len(nodes) + 1, -1)
    position[rows] = np.arange(rows.size)

    folded = np.flatnonzero(~keep & (nodes.size > 0) & (nodes.parents >= 0))
    folded = folded[keep[nodes.parents[folded]]]
    # Where all children are small there is nothing to tell them from: their parent is drawn without any.
    branches = np.zeros(len(nodes), dtype=np.bool_)
    branches[nodes.parents[rows[nodes.parents[rows] >= 0]]] = True
    undrawn = np.bincount(nodes.parents[folded], minlength=len(nodes)) * ~branches
    folded = folded[branches[nodes.parents[folded]]]
    under, inverse, counts = np.unique(nodes.parents[folded], return_inverse=True, return_counts=True)
    names = [f"({count:,} smaller)" for count in counts.tolist()]
    blank = np.full(under.size, np.nan)

    def joined(column: Any, more: Any) -> Any:
        return np.concatenate((column[rows], more))

    def summed(column: Floats) -> Floats:
        sums: Floats = np.zeros(under.size, dtype=np.float64)
        np.add.at(sums, inverse, column[folded])
        return sums

    return Nodes(
        parents=joined(position[nodes.parents], position[under]),
        levels=joined(nodes.levels, nodes.levels[under] + 1),
        labels=[nodes.labels[row] for row in rows] + names,
        paths=[nodes.paths[row] for row in rows]
        + [_join(nodes.paths[row], name) for row, name in zip(under.tolist(), names, strict=True)],
        kind=[nodes.kind[row] for row in rows] + ["smaller"] * under.size,
        estimate=joined(nodes.estimate, summed(nodes.estimate)),
        lower=joined(nodes.lower, blank),
        upper=joined(nodes.upper, blank),
        cells=None if nodes.cells is None else joined(nodes.cells, summed(nodes.cells.astype(np.float64))).astype(int),
        size=joined(nodes.size, summed(nodes.size)),
        undrawn=joined(undrawn, np.zeros(under.size, dtype=np.int64)),
        without_area=nodes.without_area,
    )


def release_footer(release: TreeRelease) -> list[str]:
    """What is counted, if the statement says so, and the cost."""
    statement = None if release.statement is None else release.statement.to_dict()
    return [*counted_words(statement), cost_words(statement)]


def _join(path: str, label: str) -> str:
    return f"{path}{SEPARATOR}{label}" if path else label


def _label(path: str, parent: str) -> str:
    """A node's own label: its path without its parent's."""
    return (path.removeprefix(parent + SEPARATOR) if parent else path) or ("All" if not parent else path)


def _parents(release: TreeRelease, other: Bools) -> Ints:
    """For each row of the frame its parent's row, or -1. Rows "(other)" follow their siblings."""
    # The frame keeps the order of an open tree's arrays.
    if isinstance(release.tree, Tree):
        above = release.tree.level_order.parents
    else:
        above = release.parents if release.shown is None else contracted_parents(release.parents, release.shown)
    place = np.append(np.flatnonzero(~other), -1)
    parents = np.empty(other.size, dtype=np.int64)
    parents[~other] = place[above]
    for row in np.flatnonzero(other).tolist():
        parents[row] = parents[row - 1]
    return parents
