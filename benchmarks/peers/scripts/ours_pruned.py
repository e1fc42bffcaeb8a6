"""opendp-tree with unknown keys, by pruned descent as the planner sets it."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import release_tree

# end
job.ready()
# user code
dp.enable_features("contrib")
release = release_tree(
    pl.scan_parquet(job.ROWS),
    by=["state", "county", "city"],
    method="pruned_laplace",
    epsilon=1.0,
    delta=1e-6,
)
table = release.to_frame()
# end
job.save(*job.by_level(table))
