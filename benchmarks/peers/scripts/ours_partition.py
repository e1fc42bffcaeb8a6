"""opendp-tree with unknown keys: the private tree partition."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import OpenTree, leaf_domain, then_partition_estimator

# end
job.ready()
# user code
dp.enable_features("contrib")
rows = pl.read_parquet(job.ROWS)
tree = OpenTree.columns(3)
measure = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_partition_estimator(epsilon=1.0, delta=1e-6)
table = measure(tree.count(rows)).to_frame()
# end
job.save(*job.by_level(table))
