"""Leaf counts: time from rows to counts, against a plain Polars group-by of the same columns."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import best_of, print_table
from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts

BY = ["state", "county", "city"]
ROWS = (1_000_000, 10_000_000)


def run() -> None:
    dp.enable_features("contrib")
    table = []
    for rows in ROWS:
        frame = rows_of(rows)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            frame.write_parquet(path)
            for place, lazy in (("memory", frame.lazy()), ("disk", pl.scan_parquet(path))):
                for name, plain, counts in variants(frame):
                    theirs = best_of(3, lambda lazy=lazy, plain=plain: lazy.group_by(plain).agg(pl.len()).collect())
                    ours = best_of(3, lambda lazy=lazy, counts=counts: counts(lazy))
                    table.append((f"{rows:,}", place, name, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.2f}"))
    print_table(("rows", "in", "key", "seconds to group", "seconds to count", "ratio"), table)


def rows_of(rows: int) -> pl.DataFrame:
    """Three columns of texts with 10,000 keys, and other kinds of keys."""
    rng = np.random.default_rng(7)  # data, not noise
    columns = {name: pl.Series(rng.integers(0, size, rows)) for name, size in zip(BY, (50, 20, 10), strict=True)}
    frame = pl.DataFrame(columns).cast(pl.String)
    return frame.with_columns(
        path=pl.concat_str(BY, separator="/"),
        day=pl.Series(rng.integers(0, 3_650, rows, dtype=np.int32)).cast(pl.Date),
        number=pl.Series(rng.integers(0, 1_000_000, rows)),
        person=pl.Series(rng.integers(0, rows // 10, rows)),
    )


def variants(frame: pl.DataFrame) -> list[tuple[str, list[str], dp.Transformation]]:
    """Each kind of key, the columns of the plain group-by, and the leaf counts."""
    space = frame_domain(frame), dp.symmetric_distance()
    tree = Tree.from_paths(frame.select(BY).unique().rows())
    people = frame_domain(frame), dp.symmetric_id_distance("person")
    return [
        ("3 columns, open", BY, make_leaf_counts(*space, by=BY)),
        ("3 columns, public", BY, make_leaf_counts(*space, by=Key.columns(*BY, tree=tree))),
        ("path", ["path"], make_leaf_counts(*space, by=Key.path("path", depth=4))),
        ("date", ["day"], make_leaf_counts(*space, by=Key.calendar("day"))),
        ("bits, up to 10^6 distinct", ["number"], make_leaf_counts(*space, by=Key.bits("number", width=20))),
        ("3 columns, 5 rows a person", ["person", *BY], make_leaf_counts(*people, by=BY, unit=Unit("person", rows=5))),
    ]
