"""opendp-tree with unknown keys: pruned descent, hardly any of epsilon for the total, most for counties and cities."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import OpenTree, leaf_domain, then_pruned_descent

# end
job.ready()
# user code
dp.enable_features("contrib")
rows = pl.read_parquet(job.ROWS)
tree = OpenTree.columns(3)
measure = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_pruned_descent(
    1.0, delta=1e-6, weights=[0.01, 0.2, 0.39, 0.4]
)
table = measure(tree.count(rows)).to_frame()
# end
job.save(*job.by_level(table))
