"""Which group a key belongs to: labels of places, of shown groups and of leaves, matched with one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Ints
from opendp_tree.releases.release import TreeRelease
from opendp_tree.trees.sparse_counts import LabelKeys, SparseCounts
from opendp_tree.trees.tree import Tree


def place_labels(counts: SparseCounts) -> list[pl.Series]:
    """The labels of each place, level by level.

    Parameters
    ----------
    counts
        Leaf counts of an open tree of columns.
    """
    assert isinstance(counts.keys, LabelKeys)
    return [
        (column if isinstance(column, pl.Series) else pl.Series(column, strict=False)).gather(counts.keys.rows)
        for column in counts.keys.columns
    ]


def shown_groups(release: TreeRelease, levels: int) -> pl.DataFrame:
    """The labels of the shown groups, and the place of each in the release's arrays.

    Parameters
    ----------
    release
        Of the groups.
    levels
        The level of the groups, the root's being 0.
    """
    order = np.arange(release.estimates.size) if release.nodes is not None else release.tree.level_order.nodes  # type: ignore[union-attr]
    frame = release.to_frame(other=False).with_columns(node=order)
    found = frame.filter((pl.col("level") == levels) & pl.col("shown"))
    labels = {name: f"label_{at}" for at, name in enumerate(release.tree.names)}
    found = found.select(*labels, "node").rename(labels)
    return found.unique(list(labels.values()), keep="none", maintain_order=True)  # a row is in one group


def leaf_groups(tree: Tree) -> pl.DataFrame:
    """The labels of the leaves of a public tree.

    Parameters
    ----------
    tree
        The tree, with labels.
    """
    paths = [tree.path(int(node)) for node in tree.leaves]
    columns: Mapping[str, Any] = {f"label_{at}": [path[at] for path in paths] for at in range(tree.depth - 1)}
    return pl.DataFrame(columns)


def owners_of(columns: Sequence[pl.Series], levels: Ints, groups: pl.DataFrame) -> Ints:
    """For each place the row of its group; -1 for a place that is in none of them.

    Parameters
    ----------
    columns
        The labels of the places, level by level.
    levels
        How many labels each place has.
    groups
        The labels of each group, all different.
    """
    names = [f"label_{at}" for at in range(len(columns))]
    left = pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
    right = groups.select(names).with_row_index("group")
    left = left.cast({pl.Categorical: pl.String, pl.Enum: pl.String})
    for name in names:
        kinds = left[name].dtype, right[name].dtype
        if kinds[0] != kinds[1] and not (kinds[0].is_integer() and kinds[1].is_integer()):
            return np.full(levels.size, -1)  # labels of another kind are other labels
    left = left.cast({name: right[name].dtype for name in names}, strict=False)
    found = left.join(right, on=names, how="left", nulls_equal=True, maintain_order="left")["group"]
    owners: Ints = found.cast(pl.Int64).fill_null(-1).to_numpy().copy()
    owners[levels < len(columns)] = -1
    return owners


def places_among(labels: pl.Series, names: Sequence[str]) -> Ints:
    """Where each label is among some names; -1 for one that is none of them.

    Parameters
    ----------
    labels
        Texts, or categories.
    names
        The names, all different.

    >>> places_among(pl.Series(["b", None, "x", "a"]), ["a", "b"])
    array([ 1, -1, -1,  0])
    """
    texts = labels.cast(pl.String).cast(pl.Enum(names), strict=False)
    found: Ints = texts.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return found
