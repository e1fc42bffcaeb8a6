"""Intervals of user-level releases: how often each level's hold what they claim, the rows that are kept, in one run.

People have from 1 to 30 rows. "Held" is the share of nodes, over all runs, whose interval holds the count of the rows
kept; "of all rows" is how often the same interval would hold the count of all rows, which no release claims.
"""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import print_table
from opendp_tree import Key, Tree, Unit, frame_domain, make_leaf_counts
from opendp_tree._types import Floats
from opendp_tree.planning import make_tree_counts

RUNS, PEOPLE, CONFIDENCE = 100, 3_000, 0.95
BOUNDS = (Unit("user", rows=2), Unit("user", rows=5), Unit("user", leaves=3, rows_per_leaf=2))


def run() -> None:
    dp.enable_features("contrib")
    generator = np.random.default_rng(15)
    each = np.minimum(np.floor(generator.pareto(1.0, PEOPLE) + 1).astype(np.int64), 30)
    cities = generator.integers(0, 64, each.sum())
    frame = pl.DataFrame({"user": np.repeat(np.arange(PEOPLE), each), "region": cities // 8, "city": cities})
    tree = Tree.from_paths([(city // 8, city) for city in range(64)], names=["region", "city"])
    everything = node_counts(tree, tree.count(frame.select("region", "city").rows()))
    print(f"{PEOPLE:,} people, {each.sum():,} rows, epsilon 1, confidence {CONFIDENCE}, {RUNS} runs\n")
    rows = []
    for unit in BOUNDS:
        held, of_all = coverage(frame, tree, unit, everything)
        for level, name in enumerate(("all", "region", "city")):
            rows.append((unit.counted(), name, f"{held[level]:.3f}", f"{of_all[level]:.3f}"))
            assert held[level] >= CONFIDENCE - 0.1, "intervals do not hold what they claim"
    print_table(("counted", "level", "held", "of all rows"), rows)


def coverage(frame: pl.DataFrame, tree: Tree, unit: Unit, everything: Floats) -> tuple[Floats, Floats]:
    """By level, how often intervals hold the rows kept, and how often they would hold all rows."""
    counts = make_leaf_counts(
        frame_domain(frame),
        dp.symmetric_id_distance(identifier=unit.column),
        by=Key.columns("region", "city", tree=tree, outside="drop"),
        unit=unit,
    )
    space = counts.output_domain, counts.output_metric
    released = make_tree_counts(*space, epsilon=1.0, d_in=counts.map(1), confidence=CONFIDENCE, tree=tree)
    held, of_all = np.zeros(tree.depth), np.zeros(tree.depth)
    for _ in range(RUNS):
        kept = counts(frame)
        release = released(kept)
        for totals, truth in ((held, node_counts(tree, kept)), (of_all, everything)):
            inside = (release.lower <= truth) & (truth <= release.upper)
            totals += [inside[level].mean() / RUNS for level in tree.levels]
    return held, of_all


def node_counts(tree: Tree, leaves: Floats) -> Floats:
    """The counts of all nodes."""
    totals = np.zeros(tree.node_count)
    totals[tree.leaves] = leaves
    for level in reversed(tree.levels[1:]):
        np.add.at(totals, tree.parents[level], totals[level])
    return totals
