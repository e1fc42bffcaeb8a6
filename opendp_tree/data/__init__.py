"""Public data to try things on, with their sources beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["example_flights"]

FLIGHTS = Path(__file__).with_name("flights.parquet")


def example_flights() -> pl.LazyFrame:
    """All 336,776 flights that left New York City's airports in 2013: public data, so errors can be seen.

    Columns: `month`, `day` and `hour` of the planned departure, `origin`, `carrier`, `dest`, and `tailnum`, the
    aircraft, null where it is not known. Source and licence (CC0) are beside the file.
    """
    from opendp_tree.rows.sources import scan_file

    return scan_file(FLIGHTS, file_format="parquet")
