"""Sums and means: the error of means by level against the usual ways to spend the same budget, in one run.

The flights that left New York City in 2013, by origin, carrier and destination, each with a made-up delay of a long
tail, clipped to [-30, 180]. RMSE is of means, over nodes with at least 100 flights that are shown. *Even split*: the
same nodes and the same share of epsilon for each level, half of it for a noisy count and half for a noisy sum of
clipped delays; a mean is their ratio, clipped. *OpenDP*: per level a quarter of the budget, `dp.len` and `dp.sum` of a
grouping by keys that are not known, as its Polars Context releases them. Coverage is of intervals of confidence 0.95,
over all nodes that are shown.
"""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.timing import print_table
from opendp_tree import Value, release_tree
from opendp_tree.budget import Budget
from opendp_tree.data import example_flights
from opendp_tree.mechanisms.means import choose_shares

BY = ["origin", "carrier", "dest"]
LEVELS = ("all", *BY)
LOW, HIGH = -30, 180
EPSILON, DELTA, RUNS, LEAST = 1.0, 1e-6, 40, 100
OPENDP_RUNS = 10
DELAY = Value("delay", bounds=(LOW, HIGH))


def made_up() -> pl.DataFrame:
    """The flights with a delay: a few minutes early at the median, and a long tail that differs by carrier."""
    generator = np.random.default_rng(2013)
    frame = example_flights().select(BY).collect()
    tail = frame["carrier"].rank("dense").to_numpy() % 5
    delay = generator.normal(-4, 8, frame.height) + generator.gamma(0.4, 30 + 15 * tail, frame.height)
    return frame.with_columns(delay=np.rint(delay).astype(np.int64))


def truths(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The true count, sum and mean of clipped delays at every node of each level."""
    clipped = frame.with_columns(pl.col("delay").clip(LOW, HIGH)).with_columns(root=pl.lit(0))
    figures = {"rows": pl.len(), "true_sum": pl.col("delay").sum(), "true_mean": pl.col("delay").mean()}
    return [clipped.group_by(BY[:level] or "root").agg(**figures) for level in range(len(LEVELS))]


def joined(shown: pl.DataFrame, truth: pl.DataFrame, level: int) -> pl.DataFrame:
    if level == 0:
        return shown.join(truth, how="cross")
    return shown.join(truth, on=BY[:level], how="inner")


def even_split(rows: pl.DataFrame, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    """Errors of means of a noisy sum over a noisy count, each with half of an epsilon."""
    size = rows.height
    count = rows["rows"].to_numpy() + generator.laplace(scale=2 / epsilon, size=size)
    total = rows["true_sum"].to_numpy() + generator.laplace(scale=2 * max(-LOW, HIGH) / epsilon, size=size)
    mean = np.clip(total / np.maximum(count, 1), LOW, HIGH)
    return np.asarray(mean - rows["true_mean"].to_numpy())


def opendp_means(frame: pl.DataFrame, truth: pl.DataFrame, level: int) -> np.ndarray:
    """Errors of means as OpenDP's Context gives them for a quarter of the budget."""
    largest = frame.height
    margins = [dp.polars.Margin(max_length=largest)]
    if level:
        margins.append(dp.polars.Margin(by=BY[:level], max_length=largest, max_groups=1_000))
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON / len(LEVELS), delta=DELTA / len(LEVELS)),
        split_evenly_over=1,
        margins=margins,
    )
    figures = dp.len(signed=True).alias("len"), pl.col("delay").fill_null(0).dp.sum((LOW, HIGH)).alias("total")
    query = context.query()
    released = (query.group_by(BY[:level]).agg(*figures) if level else query.select(*figures)).release().collect()
    rows = joined(released, truth.filter(pl.col("rows") >= LEAST), level)
    mean = np.clip(rows["total"].to_numpy() / np.maximum(rows["len"].to_numpy(), 1), LOW, HIGH)
    return np.asarray(mean - rows["true_mean"].to_numpy())


def rmse(errors: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def run() -> None:
    dp.enable_features("contrib")
    frame, generator = made_up(), np.random.default_rng(16)
    truth = truths(frame)
    shares = choose_shares(len(LEVELS), Budget.of(epsilon=EPSILON, delta=DELTA))
    print(f"{frame.height:,} rows, epsilon {EPSILON:g}, delta {DELTA:g}, {RUNS} runs, {OPENDP_RUNS} of OpenDP.")
    parts = f"{shares.pairs:.0%} measure pairs of three levels, {shares.cells:.0%} sums in the cells"
    print(f"Of epsilon {shares.finding:.0%} find, {parts}.\n")
    mine: list[list[np.ndarray]] = [[] for _ in LEVELS]
    even: list[list[np.ndarray]] = [[] for _ in LEVELS]
    theirs: list[list[np.ndarray]] = [[] for _ in LEVELS]
    held: list[list[np.ndarray]] = [[] for _ in LEVELS]
    for number in range(RUNS):
        shown = release_tree(frame, by=BY, epsilon=EPSILON, delta=DELTA, value=DELAY).to_frame(other=False)
        for level in range(len(LEVELS)):
            here = shown.filter(pl.col("level") == level)
            rows = joined(here, truth[level], level)
            held[level].append(coverage(rows))
            rows = rows.filter(pl.col("rows") >= LEAST)
            mine[level].append((rows["mean"] - rows["true_mean"]).to_numpy())
            part = shares.cells if level == len(BY) else shares.pairs / len(BY)
            even[level].append(even_split(rows, part * EPSILON, generator))
            if number < OPENDP_RUNS:
                theirs[level].append(opendp_means(frame, truth[level], level))
    table = []
    for level, name in enumerate(LEVELS):
        ours, usual, opendp = rmse(mine[level]), rmse(even[level]), rmse(theirs[level])
        counts, sums, means = np.concatenate(held[level]).mean(axis=0)
        sizes = [f"{np.mean([part.size for part in parts]):.0f}" for parts in (mine[level], theirs[level])]
        figures = (
            f"{ours:.3f}",
            f"{usual:.3f}",
            f"{ours / usual:.2f}",
            f"{opendp:.3f}",
            f"{ours / opendp:.2f}",
            *sizes,
        )
        table.append((name, *figures, f"{counts:.3f}", f"{sums:.3f}", f"{means:.3f}"))
        if level == len(BY):
            assert ours < 0.36 * usual, "leaves must have about a third of the error of an even split"
        least = 0.95 - 6 * np.sqrt(0.05 * 0.95 / sum(map(len, held[level])))
        assert min(means, sums) > least, "intervals miss too often"
    print_table(
        (
            *("level", "RMSE", "even split", "ratio", "OpenDP", "ratio", "nodes", "OpenDP's"),
            *("counts held", "sums held", "means held"),
        ),
        table,
    )


def coverage(rows: pl.DataFrame) -> np.ndarray:
    """Which intervals of counts, sums and means hold."""
    pairs = (("", "rows"), ("sum_", "true_sum"), ("mean_", "true_mean"))
    held = [((rows[f"{name}lower"] <= rows[true]) & (rows[true] <= rows[f"{name}upper"])) for name, true in pairs]
    return np.column_stack([each.to_numpy() for each in held])
