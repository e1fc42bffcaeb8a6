"""Releases over time: errors by level, names shown and flicker of a series, against independent releases, in one run.

26 weeks of a tree of 50 x 20 x 10 nodes, of which nothing is known at the start. A series knows what it has shown, by
the rule that `Series` has; its dial is a fifth in four weeks and then a half, or that of a single release all the time.
Errors are over nodes with people, in weeks 8 to 25; what is not shown counts as 0. "flicker" is the share of shown
cities that the next week does not show. "pooled": weeks have 0.85 of the budget, and one find in the people of the
first 13 weeks has 0.15 of it; its figures are of weeks 13 to 25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import print_table
from opendp_tree import Key, OpenTree, TreeRelease, leaf_domain
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.series import EXPLORE, MEMORY, POOLED_MEASURING, remembered
from opendp_tree.trees.nodes import KnownNodes, SparseCounts

EPSILON, DELTA, WEEKS, QUARTER, RUNS = 1.0, 1e-6, 26, 13, 1
SIZES = (50, 20, 14)
LIVE = 10
"""Of so many cities per county people are at, at any time; drift lets some die and others be born."""
NAMES = ("state", "county", "city")
Counts = npt.NDArray[np.int64]


def run(runs: int = RUNS) -> None:
    dp.enable_features("contrib")
    rows = []
    for shape, weeks in SHAPES.items():
        for words in DIALS:
            figures = np.mean([measured(weeks(np.random.default_rng(seed)), words) for seed in range(runs)], axis=0)
            rows.append([shape, words, *(f"{figure:.1f}" for figure in figures[:4]), f"{figures[4]:,.0f}"])
            rows[-1] += [f"{figures[5]:,.0f}", f"{100 * figures[6]:.1f} %"]
    heads = ["shape", "releases", "root", "state", "county", "city", "cities shown", "of them empty", "flicker"]
    print_table(heads, rows)


PUBLIC = "independent, states and counties known"
POOLED = "series, pooled find after 13 weeks"
DIALS: dict[str, Sequence[float | None] | None] = {
    "independent": None,
    PUBLIC: None,
    "series, default dial": [None],
    "series, explores first": EXPLORE,
    POOLED: EXPLORE,
}


def weights(rng: np.random.Generator, kind: str) -> npt.NDArray[np.float64]:
    """How likely each city is; those beyond the first ten of a county have nobody."""
    found = rng.lognormal(0, 1.8, SIZES) if kind == "log-normal" else rng.pareto(1.1, SIZES) + 0.02
    found[..., LIVE:] = 0
    return found


def steady(kind: str, people: int) -> Callable[[np.random.Generator], Iterator[Counts]]:
    def weeks(rng: np.random.Generator) -> Iterator[Counts]:
        chances = weights(rng, kind)
        for _ in range(WEEKS):
            yield rng.multinomial(people, (chances / chances.sum()).ravel()).reshape(SIZES)

    return weeks


def drifting(people: int) -> Callable[[np.random.Generator], Iterator[Counts]]:
    """Weights move by a tenth per week; one name in a hundred dies, and as many are born."""

    def weeks(rng: np.random.Generator) -> Iterator[Counts]:
        chances = weights(rng, "log-normal").ravel()
        unborn = list(rng.permutation(np.flatnonzero(chances == 0)))
        for _ in range(WEEKS):
            yield rng.multinomial(people, chances / chances.sum()).reshape(SIZES)
            chances *= np.exp(rng.normal(0, 0.1, chances.size))
            dead = np.flatnonzero((chances > 0) & (rng.random(chances.size) < 0.01))[: len(unborn)]
            chances[dead] = 0
            chances[[unborn.pop() for _ in dead]] = rng.lognormal(0, 1.8, dead.size)

    return weeks


SHAPES = {
    "log-normal, 1,000,000": steady("log-normal", 10**6),
    "Pareto, 1,000,000": steady("Pareto", 10**6),
    "log-normal, 100,000": steady("log-normal", 10**5),
    "drifting, 1,000,000": drifting(10**6),
}


def measured(weeks: Iterator[Counts], words: str) -> npt.NDArray[np.float64]:
    """The errors by level, the cities shown, those of them that are empty, and the flicker."""
    recent: list[TreeRelease] = []
    shares = DIALS[words]
    counties = [(state, county) for state in range(SIZES[0]) for county in range(SIZES[1])]
    public = Key.columns(*NAMES, known=counties).known if words == PUBLIC else None
    errors, shown_before, figures = [], None, []
    together, part = np.zeros(SIZES, dtype=np.int64), 0.85 if words == POOLED else 1.0
    for number, people in enumerate(weeks):
        known = public
        if recent:
            names = [replace(recent[-1], shown=remembered(recent))]
            if words == POOLED and number == QUARTER:
                names.append(release(together, Key.columns(*NAMES, known=names).known, POOLED_MEASURING, 0.15))
            known = Key.columns(*NAMES, known=names).known
        together += people
        released = release(people, known, None if shares is None else shares[min(number, len(shares) - 1)], part)
        recent = [] if shares is None else [*recent[1 - MEMORY :], released]
        estimates = placed(released)
        shown = ~np.isnan(estimates[-1])
        if number >= (QUARTER if words == POOLED else 8):
            truth = [np.asarray(people.sum(axis=tuple(range(level, 3)))) for level in range(4)]
            at = [
                np.nan_to_num(mine[exact > 0]) - exact[exact > 0] for mine, exact in zip(estimates, truth, strict=True)
            ]
            errors.append([np.mean(each**2) for each in at])
            lost = np.mean(~shown[shown_before]) if shown_before is not None and shown_before.any() else 0.0
            figures.append([shown.sum(), (shown & (people == 0)).sum(), lost])
        shown_before = shown
    return np.concatenate([np.sqrt(np.mean(errors, axis=0)), np.mean(figures, axis=0)])


def release(people: Counts, known: KnownNodes | None, share: float | None, part: float = 1.0) -> TreeRelease:
    tree = OpenTree.columns(NAMES)
    places = np.nonzero(people)
    columns = [pl.Series(name, place.astype(np.int64)) for name, place in zip(NAMES, places, strict=True)]
    counts = SparseCounts.of_labels(tree, columns, np.full(places[0].size, 3), people[places])
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    measurement = make_tree_estimator(*space, epsilon=part * EPSILON, delta=part * DELTA, known=known, measuring=share)
    made: TreeRelease = measurement(counts)
    return made


def placed(released: TreeRelease) -> list[Any]:
    """The estimates by level, nan where nothing is shown."""
    frame = released.to_frame(other=False)
    found = []
    for level in range(4):
        array = np.full(SIZES[:level], np.nan)
        rows = frame.filter(pl.col("level") == level)
        estimates = rows["estimate"].to_numpy()
        array[tuple(rows[name].to_numpy() for name in NAMES[:level])] = estimates if level else estimates[0]
        found.append(array)
    return found


if __name__ == "__main__":
    run()
