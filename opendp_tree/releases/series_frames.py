"""Releases over time as frames, and which names a series remembers: functions of releases alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import polars as pl

from opendp_tree._types import Bools
from opendp_tree.releases.release import TreeRelease
from opendp_tree.releases.values import value_columns
from opendp_tree.trees.shown_nodes import contracted_parents
from opendp_tree.trees.tree import Tree

MEMORY = 4
"""A name is forgotten by the mean of so many estimates in a row."""
QUIET = 1.5
"""In standard deviations of that mean: a smaller mean is hard to tell from nobody."""
NEW = "new"
_FIGURES = ("estimate", "lower", "upper")
_NO_PLACE = (*_FIGURES, "cells", "shown", "counted", NEW, "period")


def node_frame(release: TreeRelease) -> pl.DataFrame:
    """One row per shown node: where it is, its estimate and its interval."""
    frame = release.to_frame(other=False).filter("shown")
    return frame.select(*place_columns(frame, release), *_FIGURES)


def place_columns(frame: pl.DataFrame, release: TreeRelease) -> list[str]:
    """The columns that say which node a row is: its path, its level and its labels."""
    values = value_columns(release.values)
    return [name for name in frame.columns if name not in _NO_PLACE and name not in values]


def path_text(path: Sequence[Any]) -> str:
    """A path as text, the same for the same path of one key."""
    return json.dumps(list(path), default=str)


def public_nodes(release: TreeRelease, public: AbstractSet[str]) -> Bools:
    """Which shown nodes of a release were public before it, by the rows of its `node_frame`: the root always."""
    if isinstance(release.tree, Tree):
        return np.ones(node_frame(release).height, dtype=np.bool_)
    assert release.nodes is not None
    known = np.zeros(release.levels.size, dtype=np.bool_)
    if public:
        known[:] = [path_text(path) in public for path in release.nodes.paths()]
    known[release.levels == 0] = True
    return known if release.shown is None else known[release.shown]


def remembered(releases: Sequence[TreeRelease], public: AbstractSet[str] = frozenset()) -> Bools:
    """Which shown nodes of the last of some releases are known to the next, by the rows of its `node_frame`.

    All, but those that were shown `MEMORY` times in a row with a mean estimate below `QUIET` standard deviations of
    that mean, and that were not public before. A node above a known one is known.
    """
    last = releases[-1]
    frame = node_frame(last)
    kept = np.ones(frame.height, dtype=np.bool_)
    if len(releases) < MEMORY or isinstance(last.tree, Tree):
        return kept
    places = [name for name in frame.columns if name not in _FIGURES]
    # Noise is taken for that of Laplace, whose interval reaches ln(1/beta)/sqrt(2) standard deviations.
    reach = math.log(1 / max(1 - last.confidence, 1e-300)) / math.sqrt(2)
    spread = ((pl.col("upper") - pl.col("lower")) / (2 * reach)).pow(2)
    recent = pl.concat([node_frame(each) for each in releases[-MEMORY:]], how="vertical_relaxed")
    mean = recent.group_by(places).agg(
        pl.len(), pl.col("estimate").mean().alias("mean"), spread.sum().sqrt().alias("deviation")
    )
    is_quiet = (pl.col("len") == MEMORY) & (pl.col("mean") < QUIET * pl.col("deviation") / MEMORY)
    joined = frame.select(places).join(mean, on=places, how="left", nulls_equal=True, maintain_order="left")
    kept = ~joined.select(is_quiet.fill_null(False)).to_series().to_numpy() | public_nodes(last, public)
    shown = np.ones(last.parents.size, dtype=np.bool_) if last.shown is None else last.shown
    parents, levels = contracted_parents(last.parents, shown), last.levels[shown]
    for level in range(int(levels.max(initial=0)), 0, -1):
        below = np.flatnonzero(kept & (levels == level))
        kept[parents[below]] = True
    return kept


def long_frame(releases: Mapping[str, TreeRelease], public: AbstractSet[str] = frozenset()) -> pl.DataFrame:
    """One row per period and shown node, in the order of the releases; `new` where it was not known before."""
    frames: list[pl.DataFrame] = []
    known: pl.DataFrame | None = None
    made: list[TreeRelease] = []
    for name, release in releases.items():
        made = [*made[1 - MEMORY :], release]
        frame = node_frame(release)
        places = [column for column in frame.columns if column not in _FIGURES]
        seen = pl.lit(pl.Series(public_nodes(release, public)))
        if known is not None:
            frame = frame.join(known, on=places, how="left", nulls_equal=True, maintain_order="left")
            seen = seen | pl.col("known").fill_null(False)
        frame = frame.select(pl.lit(name).alias("period"), *places, *_FIGURES, (~seen).alias(NEW))
        frames.append(frame)
        known = frame.select(places).filter(remembered(made, public)).with_columns(known=pl.lit(True))
    return pl.concat(frames, how="vertical_relaxed")


def changes(frame: pl.DataFrame, before: Mapping[str, str | None], *, confidence: float) -> pl.DataFrame:
    """Every row next to that of the same node in the period which `before` names: the difference, and its interval.

    It holds unless one of the two intervals does not.
    """
    places = [name for name in frame.columns if name not in _NO_PLACE]
    pairs = pl.DataFrame(list(before.items()), schema={"period": pl.String, "against": pl.String}, orient="row")
    other = frame.select(
        pl.col("period").alias("against"), *places, *(pl.col(name).alias(f"{name}_before") for name in _FIGURES)
    )
    joined = frame.join(pairs, on="period", how="inner", maintain_order="left").filter(pl.col("against").is_not_null())
    joined = joined.join(other, on=["against", *places], how="inner", nulls_equal=True, maintain_order="left")
    return joined.select(
        "period",
        "against",
        *places,
        "estimate",
        pl.col("estimate_before").alias("before"),
        (pl.col("estimate") - pl.col("estimate_before")).alias("change"),
        (pl.col("lower") - pl.col("upper_before")).alias("lower"),
        (pl.col("upper") - pl.col("lower_before")).alias("upper"),
        pl.lit(_at_least(confidence, 2)).alias("confidence"),
    )


def moving_sums(frame: pl.DataFrame, runs: Sequence[Sequence[str]], n: int, *, confidence: float) -> pl.DataFrame:
    """For every period the sum of the estimates of `n` periods of its run up to it, of nodes that all of them show."""
    places = [name for name in frame.columns if name not in _NO_PLACE]
    ends = [
        {"period": each, "end": run[last]}
        for run in runs
        for last in range(n - 1, len(run))
        for each in run[last - n + 1 : last + 1]
    ]
    windows = pl.DataFrame(ends, schema={"period": pl.String, "end": pl.String})
    joined = windows.join(frame, on="period", how="inner", maintain_order="left")
    sums = joined.group_by("end", *places, maintain_order=True).agg(
        pl.len(), *(pl.col(name).sum() for name in _FIGURES)
    )
    return sums.filter(pl.col("len") == n).select(
        pl.col("end").alias("period"),
        *places,
        *_FIGURES,
        pl.lit(_at_least(confidence, n)).alias("confidence"),
    )


def _at_least(confidence: float, n: int) -> float:
    """The chance that all of `n` intervals hold."""
    return round(max(0.0, 1 - n * (1 - confidence)), 12)
