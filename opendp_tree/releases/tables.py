"""Releases as small tables for people: by level, and next to the truth where it is known."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

__all__ = ["error_rows", "level_rows", "nested_rows", "with_truth"]


def level_rows(frame: pl.DataFrame) -> list[tuple[int, int, float, float]]:
    """For each level: how many nodes are shown, their largest estimate, and half of their median interval."""
    return (
        frame.filter(pl.col("shown") & ~pl.col("other"))
        .group_by("level")
        .agg(
            pl.len(),
            pl.col("estimate").max(),
            half=((pl.col("upper") - pl.col("lower")) / 2).median(),
        )
        .sort("level")
        .rows()
    )


def with_truth(frame: pl.DataFrame, rows: pl.LazyFrame, by: Sequence[str]) -> pl.DataFrame:
    """The shown nodes with `truth`, the number of rows at each, and `error`."""
    levels = [
        rows.group_by(by[:level]).agg(pl.len().alias("truth")).with_columns(pl.lit(level, pl.Int64).alias("level"))
        for level in range(1, len(by) + 1)
    ]
    root = rows.select(pl.len().alias("truth"), pl.lit(0, pl.Int64).alias("level"))
    truth = pl.concat([root, *levels], how="diagonal").collect()
    shown = frame.filter(pl.col("shown") & ~pl.col("other"))
    joined = shown.join(truth, on=["level", *by], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("truth").fill_null(0)).with_columns(error=pl.col("estimate") - pl.col("truth"))


def nested_rows(frame: pl.DataFrame, by: Sequence[str], *, most: int) -> list[tuple[str, float, float, int, float]]:
    """The `most` largest children of each node, and of each of those, under one another."""
    half = (pl.col("upper") - pl.col("lower")) / 2
    rows = frame.sort("estimate", descending=True).select("level", *by, "estimate", half, "truth", "error").rows()
    children: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    figures: dict[tuple[object, ...], tuple[float, float, int, float]] = {}
    for level, *labels, estimate, width, truth, error in rows:
        path = tuple(labels[:level])
        figures[path] = estimate, width, truth, error
        if path:
            children.setdefault(path[:-1], []).append(path)
    lines = []
    waiting: list[tuple[object, ...]] = [()]
    while waiting:
        path = waiting.pop()
        if path in figures:
            lines.append(("  " * len(path) + (str(path[-1]) if path else "all"), *figures[path]))
        waiting.extend(reversed(children.get(path, [])[:most]))
    return lines


def error_rows(frame: pl.DataFrame) -> list[tuple[int, int, float, float]]:
    """For each level: the nodes shown, the root of their mean squared error, the largest error."""
    error = pl.col("error")
    return (
        frame.group_by("level")
        .agg(pl.len(), error.pow(2).mean().sqrt(), error.abs().max().alias("largest"))
        .sort("level")
        .rows()
    )
