"""What every script here shares: where the data is, a clock, and how to hand over what was released.

`python job.py FOLDER RESULT SCRIPT RELEASES SECONDS` runs a script again and again in one process: RELEASES times, and
not again after SECONDS. Runs in the environments of all peers, so it imports nothing but the standard library.
"""

import json
import runpy
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()
FOLDER, RESULT = map(Path, sys.argv[1:3])
ROWS, KEYS = str(FOLDER / "rows.parquet"), str(FOLDER / "keys.parquet")

_ready: list = []
_seconds: list = []
_releases: list = []


def ready() -> None:
    """Imports are done and engines run: from here on the job itself is timed."""
    _ready.append(time.perf_counter())


def save(*levels: object) -> None:
    """Stops the clock; `levels` are tables with one row per place, its labels and then its count."""
    _seconds.append(time.perf_counter() - _ready[-1])
    _releases.append([[[*row[:-1], float(row[-1])] for row in _rows(table)] for table in levels])


def repeat(script: str, releases: int, seconds: float) -> None:
    """Runs a script until there are enough releases or enough seconds are over, and writes what was released."""
    while len(_releases) < releases and (not _ready or time.perf_counter() - _ready[0] < seconds):
        runpy.run_path(script)
    times = {"start": _ready[0] - STARTED, "seconds": _seconds[0]}
    RESULT.write_text(json.dumps({**times, "releases": _releases}))


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


if __name__ == "__main__":
    import job  # the module that scripts import, not this one

    job.repeat(sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
