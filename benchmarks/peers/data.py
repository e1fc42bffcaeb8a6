"""The job's data: a skewed hierarchy of 50 states, 20 counties each, 10 cities each, and a million rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

LEVELS = ("state", "county", "city")
SIZES = (50, 20, 10)
ROWS = 1_000_000
SEED = 20  # for the data alone; no noise is ever seeded
SPREAD = 1.1  # of the logarithm of a place's size within the place above it


@dataclass(frozen=True)
class Job:
    """Rows that are private, and the list of all cities, which is public where a peer can use one."""

    rows: pl.DataFrame
    keys: pl.DataFrame

    def write(self, folder: Path) -> None:
        """What every peer reads."""
        folder.mkdir(parents=True, exist_ok=True)
        self.rows.write_parquet(folder / "rows.parquet")
        self.keys.write_parquet(folder / "keys.parquet")

    def truth(self) -> list[dict[tuple[str, ...], int]]:
        """For each level the number of rows of every place that has any."""
        levels = []
        for depth in range(1, len(LEVELS) + 1):
            counted = self.rows.group_by(LEVELS[:depth]).agg(pl.len())
            levels.append({row[:-1]: row[-1] for row in counted.iter_rows()})
        return levels


def generate(rows: int = ROWS, *, sizes: tuple[int, int, int] = SIZES) -> Job:
    """Sizes are log-normal at every level, rows in random order; county and city names repeat, as they do."""
    rng = np.random.default_rng(SEED)
    logs = [rng.normal(0, SPREAD, (*sizes[:depth], *(1,) * (3 - depth))) for depth in (1, 2, 3)]
    weights = np.exp(logs[0] + logs[1] + logs[2]).ravel()
    counts = rng.multinomial(rows, weights / weights.sum())
    places = np.indices(sizes).reshape(3, -1)
    keys = pl.DataFrame(
        {name: [f"{name} {number:02d}" for number in column] for name, column in zip(LEVELS, places, strict=True)}
    )
    return Job(keys[rng.permutation(np.repeat(np.arange(counts.size), counts))], keys)
