"""People with many rows: weighed in layers, against keeping some of their rows, in one run.

200,000 people have from 1 to 200 rows, with a heavy tail, mostly at home. Off: the root of the mean square error of the
nodes of a level against all rows, all people, or all shares there; nodes that are not shown count as 0. Held: the
intervals of the nodes that are shown which hold what is counted there. "Keep k" is the tree partition on k rows of
each person.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import print_table
from opendp_tree import TreeEstimator, TreeRelease, Unit, release_tree

PEOPLE, MOST, RUNS = 200_000, 200, 4
BY = ["continent", "country", "city"]
COUNTRIES, CITIES = 20, 25  # in a continent, in a country
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BOUNDS = (6, 12, 20)
METHODS = [
    ("shares", "keep 1", Unit("user", rows=1), TreeEstimator()),
    ("shares", "shares", Unit("user", count="shares"), "auto"),
    ("people", "keep 1", Unit("user", rows=1), TreeEstimator()),
    ("people", "keep 5", Unit("user", rows=5), TreeEstimator()),
    ("people", "people, Laplace", Unit("user", count="people", nodes=BOUNDS), "people_laplace"),
    ("people", "people, Gaussian", Unit("user", count="people", nodes=BOUNDS), "people_gaussian"),
    ("people", "people", Unit("user", count="people", nodes=BOUNDS), "auto"),
    ("rows", "keep 5", Unit("user", rows=5), TreeEstimator()),
    ("rows", "keep 10", Unit("user", rows=10), TreeEstimator()),
    ("rows", "rows, 10", Unit("user", rows=10), "auto"),
    ("rows", "rows, 200", Unit("user", rows=200), "auto"),
    ("rows", "rows, 200 / 200 / 200 / 50", Unit("user", rows=(200, 200, 200, 50)), "auto"),
]


def made_up_visits(generator: np.random.Generator) -> pl.DataFrame:
    each = np.minimum(np.floor(generator.pareto(0.9, PEOPLE) + 1).astype(np.int64), MOST)
    user = np.repeat(np.arange(PEOPLE), each)
    number = 6 * COUNTRIES * CITIES
    weights = 1 / np.arange(1, number + 1) ** 1.05
    popular = generator.permutation(number)
    home = popular[generator.choice(number, PEOPLE, p=weights / weights.sum())][user]
    anywhere = popular[generator.choice(number, user.size, p=weights / weights.sum())]
    near = home // CITIES * CITIES + generator.integers(0, CITIES, user.size)
    kind = generator.random(user.size)
    city = np.where(kind < 0.75, home, np.where(kind < 0.95, near, anywhere))
    return pl.DataFrame(
        {"user": user, "continent": city // (CITIES * COUNTRIES), "country": city // CITIES, "city": city}
    )


def truth(visits: pl.DataFrame, count: str) -> list[pl.DataFrame]:
    """All rows, people or shares at every node of each level."""
    weighed = visits.with_columns(weight=1 / pl.len().over("user") if count == "shares" else pl.lit(1.0))
    found = []
    for level in range(len(BY) + 1):
        names = BY[:level]
        rows = weighed.unique(["user", *names]) if count == "people" else weighed
        found.append(rows.group_by(names or [pl.lit(0).alias("all")]).agg(pl.col("weight").sum()))
    return found


def counted(visits: pl.DataFrame, unit: Unit, level: int, shown: pl.DataFrame, *, squared: bool) -> pl.DataFrame:
    """What a release counts at the shown nodes of a level."""
    names = BY[:level]
    rows = visits.join(shown, on=names, how="semi") if names else visits
    if unit.count == "people":
        most = unit.bounds(len(BY) + 1)[level]
        own = rows.unique(["user", *names]).with_columns(held=pl.len().over("user"))
        share = pl.min_horizontal(pl.lit(1.0), most / pl.col("held"))
        own = own.with_columns(weight=share.sqrt() if squared else share)
    else:
        total = visits.select("user", total=pl.len().over("user")).unique()
        most = unit.bounds(len(BY) + 1)[level]
        share = (
            1 / pl.col("total") if unit.count == "shares" else pl.min_horizontal(pl.lit(1.0), most / pl.col("total"))
        )
        own = rows.join(total, on="user").with_columns(weight=share)
    return own.group_by(names or [pl.lit(0).alias("all")]).agg(pl.col("weight").sum())


def errors(release: TreeRelease, wanted: Sequence[pl.DataFrame]) -> tuple[list[float], int]:
    frame = release.to_frame(other=False)
    found = []
    for level, true in enumerate(wanted):
        here, names = frame.filter(level=level), BY[:level]
        if names:
            joined = true.join(here.select(*names, "estimate"), on=names, how="left")
        else:
            joined = true.with_columns(estimate=pl.lit(here["estimate"][0] if here.height else 0.0))
        off = (joined["estimate"].fill_null(0.0) - joined["weight"]).to_numpy()
        found.append(float((off**2).mean()))
    return found, frame.filter(level=len(BY)).height


def held(visits: pl.DataFrame, unit: Unit, release: TreeRelease) -> list[tuple[int, int]]:
    """By level, how many shown intervals hold what is counted, of how many."""
    frame, found = release.to_frame(other=False), []
    assert release.statement is not None
    squared = release.statement.parameters["noise"] == "gaussian"
    for level in range(len(BY) + 1):
        here, names = frame.filter(level=level), BY[:level]
        true = counted(visits, unit, level, here.select(names), squared=squared)
        joined = true.join(here, on=names) if names else pl.concat([true, here], how="horizontal")
        slack = 0.01 + 1e-4 * joined["weight"]  # what is rounded down to units
        inside = (joined["lower"] - slack <= joined["weight"]) & (joined["weight"] <= joined["upper"] + slack)
        found.append((int(inside.sum()), joined.height))
    return found


def run() -> None:
    dp.enable_features("contrib")
    visits = made_up_visits(np.random.default_rng(16))
    print(f"{PEOPLE:,} people, {visits.height:,} rows, {visits['city'].n_unique():,} cities; {RUNS} runs; epsilon 1\n")
    wanted = {count: truth(visits, count) for count in ("shares", "people", "rows")}
    kept: dict[tuple[str, str], list[TreeRelease]] = {}
    rows = []
    for count, name, unit, method in METHODS:
        key = (str(unit), str(method))
        if key not in kept:
            kept[key] = [release_tree(visits, by=BY, unit=unit, method=method, **BUDGET) for _ in range(RUNS)]
        found = [errors(release, wanted[count]) for release in kept[key]]
        rms = np.sqrt(np.mean([each for each, _ in found], axis=0))
        shown = np.mean([cities for _, cities in found])
        share = "-"
        if not isinstance(method, TreeEstimator):
            levels = zip(*(held(visits, unit, release) for release in kept[key]), strict=True)
            shares = [sum(one for one, _ in level) / max(1, sum(of for _, of in level)) for level in levels]
            share = " / ".join(f"{each:.2f}" for each in shares)
        rows.append((count, name, " / ".join(_short(each) for each in rms), f"{shown:,.0f}", share))
    print_table(("wanted", "method", "off: root / continent / country / city", "cities shown", "held, by level"), rows)


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
