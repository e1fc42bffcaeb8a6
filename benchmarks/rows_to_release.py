"""Rows to a release frame, against the plain Polars roll-up of all levels and against OpenDP's group-bys, in one run.

The roll-up is what anybody would write without privacy: the rows once by city, then counties, states and the total from
that. OpenDP's group-bys are timed once, as they take seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import opendp.prelude as dp
import polars as pl

from benchmarks.peers.data import LEVELS, generate
from benchmarks.timing import best_of, print_table
from opendp_tree import Key, Tree, release_tree

EPSILON, DELTA = 1.0, 1e-6
SIZES = (1_000_000, 10_000_000)
REPEATS = 5
Source = Callable[[], pl.LazyFrame]


def run() -> None:
    dp.enable_features("contrib")
    rows = []
    for size in SIZES:
        job = generate(size)
        with tempfile.TemporaryDirectory() as folder:
            job.write(Path(folder))
            sources: dict[str, Source] = {
                "memory": job.rows.lazy,
                "Parquet": lambda folder=folder: pl.scan_parquet(Path(folder) / "rows.parquet"),
            }
            for place, source in sources.items():
                rows += [(f"{size:,}", place, *cells) for cells in measure(source, job.keys, size == SIZES[0])]
    header = (
        "rows",
        "from",
        "keys",
        "roll-up, ms",
        "release, ms",
        "release / roll-up",
        "OpenDP, s",
        "OpenDP / release",
    )
    print_table(header, rows)


def measure(source: Source, public: pl.DataFrame, against_opendp: bool) -> list[tuple[str, ...]]:
    """Times and ratios for one source of rows, with public keys and with unknown ones."""
    plain = best_of(REPEATS, lambda: roll_up(source()))
    rows = []
    for name, release in (("public", public_release), ("unknown", open_release)):
        ours = best_of(REPEATS, lambda release=release: release(source(), public))
        cells = (name, f"{plain * 1000:.0f}", f"{ours * 1000:.0f}", f"{ours / plain:.2f}", "", "")
        if against_opendp:
            theirs = best_of(1, lambda name=name: group_bys(source(), name, public))
            cells = (*cells[:4], f"{theirs:.1f}", f"{theirs / ours:.0f}")
        rows.append(cells)
    return rows


def roll_up(frame: pl.LazyFrame) -> pl.DataFrame:
    """The count of every place at every level, without privacy."""
    below = frame.group_by(LEVELS).agg(pl.len().alias("count")).collect()
    levels = [below]
    for depth in (2, 1, 0):
        total = pl.col("count").sum()
        below = below.group_by(LEVELS[:depth]).agg(total) if depth else below.select(total)
        levels.append(below)
    return pl.concat(levels, how="diagonal")


def public_release(frame: pl.LazyFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Consistent counts of the public tree; making the tree is part of it."""
    return release_tree(
        frame, by=Key.columns(*LEVELS, tree=Tree.from_paths(keys.rows())), epsilon=EPSILON, delta=DELTA
    ).to_frame()


def open_release(frame: pl.LazyFrame, _keys: pl.DataFrame) -> pl.DataFrame:
    """Counts of the places that are found."""
    return release_tree(frame, by=LEVELS, epsilon=EPSILON, delta=DELTA).to_frame()


def group_bys(frame: pl.LazyFrame, keys: str, public: pl.DataFrame) -> list[pl.DataFrame]:
    """OpenDP's own three group-bys, with public keys or without."""
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON) if keys == "public" else dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=len(LEVELS),
    )
    levels = []
    for depth in range(1, len(LEVELS) + 1):
        query = context.query().group_by(LEVELS[:depth]).agg(dp.len(signed=False))
        if keys == "public":
            query = query.with_keys(public.select(LEVELS[:depth]).unique())
        levels.append(query.release().collect())
    return levels
