"""A tour: every kind of frame and key, people, a ledger, a Context, several hierarchies, printing and pictures."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import duckdb
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa

from opendp_tree import (
    Key,
    Ledger,
    Tree,
    TreeRelease,
    Unit,
    bound_report,
    frame_context,
    plan,
    plot_level,
    plot_tree,
    read_source,
    release_tree,
    release_trees,
)
from opendp_tree.ledger import BudgetError
from opendp_tree.plots import write_html

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
CITIES = [("be", "ghent"), ("be", "liege"), ("lu", "lux")]


def visits() -> pl.DataFrame:
    """Six thousand visits by two thousand people; some have no city."""
    rows = range(6000)
    return pl.DataFrame(
        {
            "user": [row % 2000 for row in rows],
            "country": ["be" if row % 3 else "lu" for row in rows],
            "city": [None if row % 10 == 0 else ("ghent", "liege")[row % 2] if row % 3 else "lux" for row in rows],
            "page": [f"/shop/{('shoes', 'hats')[row % 2]}/{row % 4}" for row in rows],
            "address": [f"10.{row % 3}.{row % 7}.{row % 200}" for row in rows],
            "url": [f"https://www.shop.example/{('shoes', 'hats')[row % 2]}" for row in rows],
            "mixed": [f"10.0.0.{row % 9}" if row % 2 else f"2001:db8::{row % 9}" for row in rows],
            "day": [dt.date(2026, 1 + row % 3, 1 + row % 28) for row in rows],
            "age": [18 + 10 * (row % 4) for row in rows],
        }
    )


def section(title: str) -> None:
    print(f"\n== {title}")


def frames(rows: pl.DataFrame, folder: Path) -> None:
    """The same release from every kind of frame, and results in other libraries."""
    section("Frames in and out")
    rows.write_parquet(folder / "visits.parquet")
    rows.write_csv(folder / "visits.csv")
    table: pa.Table = rows.to_arrow()
    sources = {
        "polars": rows,
        "polars, lazy": rows.lazy(),
        "pandas": pd.DataFrame({"country": pd.array(rows["country"].to_list(), dtype="string")}),
        "pyarrow": table,
        "a stream": table.to_reader(),
        "duckdb": duckdb.from_arrow(table),
        "rows": read_source([{"country": each} for each in rows["country"]], schema={"country": pl.String}),
        "parquet": folder / "visits.parquet",
        "csv, by a pattern": str(folder / "*.csv"),
    }
    for name, source in sources.items():
        release = release_tree(source, by="country", **BUDGET)
        print(f"{name:18}", release.to_frame(other=False)["path"].to_list())
    print(type(release.to_pandas()).__name__, type(release.to_arrow()).__name__, type(release.to_frame()).__name__)


def keys(rows: pl.DataFrame) -> None:
    """One line per kind of key."""
    section("Keys")
    kinds = {
        "columns": Key.columns("country", "city"),
        "a public tree": Key.columns("country", "city", tree=Tree.from_paths(CITIES)),
        "paths": Key.path("page", depth=4),
        "addresses": Key.ip("address", stride=8),
        "bits": Key.bits("age", width=7),
        "dates": Key.calendar("day", levels=["year", "month"]),
        "web addresses": Key.url("url"),
        "both IP versions": Key.ip("mixed", version="both"),
        "numbers in ranges": Key.number("age", low=0, high=120, width=20),
        "one below another": Key.nested(Key.columns("country"), Key.path("page", depth=3)),
    }
    for name, key in kinds.items():
        release = release_tree(rows, by=key, **BUDGET)
        deepest = release.to_frame(other=False).filter(pl.col("level") == pl.col("level").max())
        print(f"{name:18}", f"{release.tree.depth} levels, the deepest begins", deepest["path"].to_list()[:2])


def outside(rows: pl.DataFrame) -> None:
    """Rows outside a public tree are counted at a leaf of their own, so the total counts all rows."""
    section("Rows outside the tree")
    key = Key.columns("country", "city", tree=Tree.from_paths(CITIES))
    release = release_tree(rows, by=key, epsilon=1.0)
    nowhere = release.estimates[release.tree.node(("(outside)",))]
    print(f"of {release.estimates[0]:,.0f} rows, {nowhere:,.0f} are in no listed city")


def people(rows: pl.DataFrame) -> None:
    """Choose a bound, and see what is counted."""
    section("People")
    report = bound_report(rows, unit="user", most=10, epsilon=0.5)
    print("a bound of", report.recommended, "keeps nearly all rows")
    release = release_tree(rows, by="country", unit=Unit("user", rows=2), **BUDGET)
    print("counted:", release.statement.counted)
    print("protected:", release.statement.unit)


def accounts(rows: pl.DataFrame, folder: Path) -> None:
    """A ledger on disk, shared by single releases and a Context."""
    section("A ledger for releases and a Context")
    ledger = Ledger.open(folder / "ledger.db", total={"epsilon": "2", "delta": "1e-5"}, unit="one row")
    release_tree(rows, by="country", **BUDGET, ledger=ledger)
    context = frame_context(
        rows,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**BUDGET),
        ledger=ledger,
    )
    adults = context.query(epsilon=0.5, delta=1e-7).filter(pl.col("age") >= 21)
    print("the first query of the Context:", adults.tree_counts(by=["country", "city"]).release().statement.mechanism)
    cities = context.query(epsilon=0.5, delta=1e-7).tree_counts(by="city").release()
    print("the second query shows", cities.to_frame(other=False).height, "nodes")
    try:
        release_tree(rows, by="country", **BUDGET, ledger=ledger.path)
    except BudgetError as refusal:
        print("refused:", str(refusal).split("Hint: ")[1])
    print(ledger.describe().split("\n\n")[-1])


def several(rows: pl.DataFrame) -> None:
    """Two hierarchies of one frame under one budget."""
    section("Several hierarchies under one budget")
    by = {"place": ["country", "city"], "time": Key.calendar("day", levels=["year", "month"])}
    print(release_trees(rows, by=by, weights={"place": 2, "time": 1}, **BUDGET))


def looks(rows: pl.DataFrame, folder: Path) -> TreeRelease:
    """Output in notebooks and terminals, and pictures."""
    section("Printing and pictures")
    release = release_tree(rows, by=["country", "city"], **BUDGET)
    print(release)
    shown = {"release": release, "plan": plan(release.tree, **BUDGET)}
    print({name: "<table" in value._repr_html_() for name, value in shown.items()})
    page = write_html([plot_tree(release), plot_level(release, "city")], folder / "visits.html")
    print(page.name, "contains two pictures and one copy of Plotly")
    return release


def main() -> None:
    dp.enable_features("contrib")
    rows = visits()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frames(rows, folder)
        keys(rows)
        outside(rows)
        people(rows)
        accounts(rows, folder)
        several(rows)
        release = looks(rows, folder)
        again = TreeRelease.from_json(release.to_json())
        print("read back from JSON:", again.statement == release.statement)


if __name__ == "__main__":
    main()
