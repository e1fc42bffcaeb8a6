"""A Polars pipeline in OpenDP's Context: several queries, a weighted split, and one of OpenDP's own queries."""

from __future__ import annotations

import opendp.prelude as dp
import polars as pl

from opendp_tree import Key, Tree, tree_counts
from opendp_tree.data import example_flights

DAYS = Tree.from_paths([(month, day) for month in range(1, 13) for day in range(1, 32)], names=["month", "day"])


def main() -> None:
    dp.enable_features("contrib")
    flights = example_flights().cast({pl.Int8: pl.Int32})  # OpenDP's domains have no shorter integers
    context = dp.Context.compositor(
        data=flights,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_by_weights=[3, 2, 1],
        margins=[dp.polars.Margin(max_length=1_000_000)],
    )

    # Three parts of the budget: every airline and route. They are not listed in advance.
    early = context.query().filter(pl.col("hour") < 9)
    routes = tree_counts(early, by=["origin", "carrier", "dest"]).release()
    largest = routes.to_frame(other=False).filter(pl.col("level") == 2).top_k(3, by="estimate").sort("path")
    print("Flights before nine, by origin, carrier and destination:", routes.statement.mechanism)
    for path, estimate in largest.select("path", "estimate").iter_rows():
        print(f"  {path:12} {estimate:.0f}")

    # Two parts: the days of the year. They are public, so every day gets a count.
    days = tree_counts(context.query(), by=Key.columns("month", "day", tree=DAYS)).release()
    print("Flights by month and day:", days.statement.mechanism)
    for month in (1, 7):
        place = days.tree.node((month,))
        print(f"  month {month}: {days.estimates[place]:.0f}, from {days.lower[place]:.0f} to {days.upper[place]:.0f}")

    # One part: a query of OpenDP's own, under the same budget.
    hours = pl.col("hour").cast(int).fill_null(0).dp.mean((0, 23))
    mean = context.query().select(hours).release().collect().item()
    print(f"The mean hour, from OpenDP's own query: {mean:.1f}")

    try:
        tree_counts(context.query(), by="origin").release()
    except ValueError as refusal:
        print("A fourth query is refused:", refusal)


if __name__ == "__main__":
    main()
