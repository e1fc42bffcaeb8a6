"""The nodes of a release as rows of a frame, with what their children leave unexplained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Array, Ints
from opendp_tree.releases.node_columns import BETWEEN, node_columns
from opendp_tree.releases.values import values_of_rest
from opendp_tree.trees.shown_nodes import ShownCells, ShownNodes, contracted_parents
from opendp_tree.trees.tree import Tree

OTHER = "(other)"
"""What stands in the place of a label in rows for what is left unexplained."""
FIRST = ("path", "estimate", "lower", "upper", "level")
"""What a reader looks for comes first; then the place in columns, and the rest."""
_ROUNDING = 2.0**-40  # a difference below this share of what it is the difference of is none


def release_frame(
    nodes: ShownNodes,
    values: Mapping[str, Array],
    *,
    certain: bool,
    other: bool,
    counted: str | None = None,
    adds_up: bool = True,
    sums: Mapping[str, tuple[float, float]] | None = None,
) -> pl.DataFrame:
    """One row a node, in the order of the nodes."""
    sums = {} if sums is None else sums
    columns = [pl.Series(name, array) for name, array in values.items()]
    columns.append(pl.repeat(counted, nodes.size, dtype=pl.String, eager=True).alias("counted"))
    *places, path = node_columns(nodes)
    frame = pl.DataFrame([path, pl.Series("level", nodes.levels), *places, *columns])
    first = [*FIRST[:-1], *sums, *FIRST[-1:]]
    frame = frame.select(*first, pl.exclude(first))
    parents, public, shown = nodes.parents, isinstance(nodes.tree, Tree), values["shown"]
    if not public and not shown.all():
        parents, frame = contracted_parents(parents, shown), frame.filter(pl.Series(shown))
        values = {name: array[shown] for name, array in values.items()}
    if not other:
        return frame
    frame = frame.with_columns(other=pl.lit(False)).select(pl.exclude("counted"), "counted")
    if not adds_up:
        return frame
    above, rest = _unexplained(parents, values, certain=certain, public=public, sums=sums)
    if not above.size:
        return frame
    separator = "" if isinstance(nodes.tree, Tree) else nodes.tree.separator
    labels = [place.name for place in places]
    added = _other_rows(frame, labels, above, rest, separator=separator, public=public)
    # Parents never fall, so siblings end where their parent would be inserted.
    spots = np.searchsorted(parents, above, side="right") + np.arange(above.size)
    order = np.empty(frame.height + above.size, dtype=np.int64)
    kept = np.ones(order.size, dtype=np.bool_)
    kept[spots] = False
    order[kept], order[spots] = np.arange(frame.height), frame.height + np.arange(above.size)
    return pl.concat([frame, added])[order]


def cell_frame(cells: ShownCells) -> pl.DataFrame:
    """A row a cell, in depth-first order: its level, and its prefix or labels."""
    *places, _ = node_columns(cells.nodes)
    return pl.DataFrame([pl.Series("level", cells.nodes.levels), *places])[cells.cells()]


def _unexplained(
    parents: Ints, values: Mapping[str, Array], *, certain: bool, public: bool, sums: Mapping[str, tuple[float, float]]
) -> tuple[Ints, dict[str, Array]]:
    """The rows whose shown children do not explain all of them, and by how much.

    The rest is at least 0 and at most what the node counts, so its interval fails only if the node's own does. Where
    all intervals always hold, it is what they leave.
    """
    shown, size = values["shown"], parents.size
    children = np.flatnonzero(shown & (parents >= 0))
    at = parents[children]

    def children_of(array: Array) -> Array:
        return np.bincount(at, array[children], minlength=size)

    number = np.bincount(at, minlength=size)
    rest = values["estimate"] - children_of(values["estimate"])
    weight = np.abs(values["estimate"]) + children_of(np.abs(values["estimate"]))
    lacking = shown & (number > 0) & (np.abs(rest) > _ROUNDING * weight)
    if public:
        lacking &= number < np.bincount(parents[parents >= 0], minlength=size)
    above = np.flatnonzero(lacking)
    lower, upper = np.zeros(above.size), values["upper"][above]
    if certain:
        lower = np.maximum(values["lower"][above] - children_of(values["upper"])[above], 0.0)
        upper = np.maximum(values["upper"][above] - children_of(values["lower"])[above], 0.0)
    estimate = rest[above]
    left = {"estimate": estimate, "lower": np.minimum(lower, estimate), "upper": np.maximum(upper, estimate)}
    if "cells" in values:
        left["cells"] = (values["cells"] - children_of(values["cells"]).astype(np.int64))[above]
    of_values = {name: values[name] for name in sums}
    left |= values_of_rest(of_values, left["estimate"], lambda array: (array - children_of(array))[above], sums)
    return above, left


def _other_rows(
    frame: pl.DataFrame,
    labels: Sequence[str],
    above: Ints,
    rest: Mapping[str, Array],
    *,
    separator: str,
    public: bool,
) -> pl.DataFrame:
    """The parents' rows made into rows for the rest. Types stay: where a column holds no texts, it has null there."""
    parents = frame[above]
    below = pl.col("level") + 1
    if not public:  # of an open tree, perhaps not all levels are shown
        levels = frame["level"].unique(maintain_order=True)
        below = pl.col("level").replace(levels[:-1], levels[1:])
    columns = [pl.Series(name, array, nan_to_null=True) for name, array in rest.items()]
    changed: list[Any] = [
        below.alias("level"),
        pl.lit(True).alias("other"),
        pl.lit(True).alias("shown"),
        _below("path", BETWEEN),
    ]
    if separator:
        changed.append(_below("prefix", separator))
    elif labels[0] in ("prefix", "node") or (public and "low" in labels):
        changed += [pl.lit(None, dtype=frame.schema[name]).alias(name) for name in labels]
    else:
        changed += [
            pl.when(below == place + 1).then(pl.lit(OTHER)).otherwise(pl.col(name)).alias(name)
            for place, name in enumerate(labels)
            if frame.schema[name] == pl.String
        ]
    return parents.with_columns(changed).with_columns(columns)


def _below(name: str, separator: str) -> pl.Expr:
    """The text of a row that lies below this one and has no name."""
    inner = pl.concat_str(pl.col(name), pl.lit(separator + OTHER))
    return pl.when(pl.col("level") == 0).then(pl.lit(OTHER)).otherwise(inner).alias(name)
