"""Rows to count, and the command line in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl

from opendp_tree.releases.writing import frame_bytes
from tests.faults.processes import PATIENCE

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]

ROWS = pl.DataFrame(
    {
        "region": ["north"] * 3000 + ["south"] * 2000,
        "city": ["aä"] * 2000 + ["b"] * 1000 + ["c"] * 2000,
        "person": [f"p{number}" for number in range(2500)] * 2,
        "url": ["/shop/books"] * 4000 + ["/about"] * 1000,
        "address": ["10.0.0.1"] * 4000 + ["192.168.1.1"] * 1000,
        "address6": ["2001:db8::1"] * 4000 + ["fe80::1"] * 1000,
        "day": ["2024-05-17T08:30:00"] * 4000 + ["2023-01-02 23:59:59"] * 1000,
    }
)


def write_rows(folder, form="parquet", frame=ROWS):
    path = folder / f"rows.{form}"
    path.write_bytes(frame_bytes(frame, file_format=form))
    return str(path)


def command(*words):
    return [sys.executable, "-m", "opendp_tree", *map(str, words)]


def spawn(*words, **settings):
    return subprocess.run(
        command(*words), capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=PATIENCE, **settings
    )
