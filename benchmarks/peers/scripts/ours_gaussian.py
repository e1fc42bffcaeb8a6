"""opendp-tree on the public tree with Gaussian noise; the three levels are those that the others release."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import Key, Tree, TreeNoise, release_tree

# end
job.ready()
# user code
dp.enable_features("contrib")
tree = Tree.from_paths(pl.read_parquet(job.KEYS).rows())
release = release_tree(
    pl.scan_parquet(job.ROWS),
    by=Key.columns("state", "county", "city", tree=tree),
    method=TreeNoise("gaussian", weights=[0.05, 1, 1, 1], nonnegative=True),
    epsilon=1.0,
    delta=1e-6,
)
table = release.to_frame()
# end
job.save(*job.by_level(table))
