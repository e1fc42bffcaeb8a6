"""What every script here shares: where the data is, a clock, and how to hand over what was released.

Runs in the environments of all peers, so it imports nothing but the standard library.
"""

import json
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()
FOLDER, RESULT = map(Path, sys.argv[1:3])
ROWS, KEYS = str(FOLDER / "rows.parquet"), str(FOLDER / "keys.parquet")

_ready = [STARTED]


def ready() -> None:
    """Imports are done and engines run: from here on the job itself is timed."""
    _ready[0] = time.perf_counter()


def save(*levels: object) -> None:
    """Stops the clock; `levels` are tables with one row a place, its labels and then its count."""
    done = time.perf_counter()
    tables = [[[*row[:-1], float(row[-1])] for row in _rows(table)] for table in levels]
    times = {"start": _ready[0] - STARTED, "seconds": done - _ready[0]}
    RESULT.write_text(json.dumps({**times, "levels": tables}))


def by_level(frame: object) -> list:
    """The tables of the three levels from one Polars frame of all nodes, as `TreeRelease.to_frame` gives it."""
    count = "estimate" if "estimate" in frame.columns else "count"
    places = frame.columns[frame.columns.index("level") + 1 :]
    return [frame.filter(level=level).select(*places[:level], count) for level in (1, 2, 3)]


def _rows(table: object) -> list:
    for name in ("iter_rows", "itertuples"):  # Polars, pandas
        if hasattr(table, name):
            return list(table.iter_rows() if name == "iter_rows" else table.itertuples(index=False, name=None))
    return list(table)
