"""Rows to a release frame, against the plain Polars roll-up of all levels and against OpenDP's group-bys, in one run.

The roll-up is what anybody would write without privacy: the rows once by city, then counties, states and the total from
that. Milliseconds are of CPU, of all threads. OpenDP's group-bys run once, because they take seconds.
"""

from __future__ import annotations

import tempfile
import time
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
        "roll-up, CPU ms",
        "release, CPU ms",
        "release / roll-up",
        "OpenDP, CPU s",
        "OpenDP / release",
    )
    print_table(header, rows)


def measure(source: Source, public: pl.DataFrame, against_opendp: bool) -> list[tuple[str, ...]]:
    """CPU times and ratios for one source of rows, with unknown keys and with public ones."""
    at_hand = Key.columns(*LEVELS, tree=Tree.from_paths(public.rows()))
    jobs: dict[str, Callable[[], object]] = {
        "unknown": lambda: release(source(), LEVELS),
        "public, tree at hand": lambda: release(source(), at_hand),
        "public, tree made": lambda: release(source(), Key.columns(*LEVELS, tree=Tree.from_paths(public.rows()))),
    }
    plain = best_of(REPEATS, lambda: roll_up(source()), clock=time.process_time)
    rows = []
    for name, job in jobs.items():
        ours = best_of(REPEATS, job, clock=time.process_time)
        cells = (name, f"{plain * 1000:.0f}", f"{ours * 1000:.0f}", f"{ours / plain:.2f}", "", "")
        if against_opendp and name != "public, tree at hand":
            theirs = best_of(1, lambda name=name: group_bys(source(), name, public), clock=time.process_time)
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


def release(frame: pl.LazyFrame, by: Key | list[str]) -> pl.DataFrame:
    """Counts of the places of a public tree, or of those that are found."""
    return release_tree(frame, by=by, epsilon=EPSILON, delta=DELTA).to_frame()


def group_bys(frame: pl.LazyFrame, keys: str, public: pl.DataFrame) -> list[pl.DataFrame]:
    """OpenDP's own three group-bys, with public keys or without."""
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON) if keys != "unknown" else dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=len(LEVELS),
    )
    levels = []
    for depth in range(1, len(LEVELS) + 1):
        query = context.query().group_by(LEVELS[:depth]).agg(dp.len(signed=False))
        if keys != "unknown":
            query = query.with_keys(public.select(LEVELS[:depth]).unique())
        levels.append(query.release().collect())
    return levels
