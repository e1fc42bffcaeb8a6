"""A first look: the predicted error, the release, and, because these data are public, the true counts."""

from __future__ import annotations

import opendp.prelude as dp
import polars as pl

from opendp_tree import OpenTree, plan, plot_tree, release_tree
from opendp_tree.data import example_flights
from opendp_tree.plots import write_html

BY = ["origin", "carrier", "dest"]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def main() -> None:
    dp.enable_features("contrib")
    flights = example_flights()
    print("Flights from New York City in 2013 by origin, carrier and destination, without a list of them.\n")
    print(plan(OpenTree.columns(BY), **BUDGET).describe())

    release = release_tree(flights, by=BY, **BUDGET)
    print(f"\n{release.describe()}\n")

    levels = [flights.group_by(BY[:depth]).agg(truth=pl.len()) for depth in (1, 2, 3)]
    truth = pl.concat([flights.select(truth=pl.len()), *levels], how="diagonal")
    nodes = release.to_frame(other=False).lazy().join(truth, on=BY, how="left", nulls_equal=True)
    error = pl.col("estimate") - pl.col("truth")
    shown = nodes.select("level", "path", "estimate", "truth", error.alias("error")).collect()
    with pl.Config(tbl_rows=20, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, float_precision=1):
        print(shown.sort("level", "estimate", descending=[False, True]).group_by("level", maintain_order=True).head(6))
        print(
            shown.group_by("level", maintain_order=True).agg(nodes=pl.len(), rmse=pl.col("error").pow(2).mean().sqrt())
        )

    print("\nThe picture:", write_html(plot_tree(release), "flights.html"))


if __name__ == "__main__":
    main()
