"""opendp-tree on the public tree: Laplace noise on the three levels, then least squares."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import Tree, leaf_domain, then_tree_laplace

# end
job.ready()
# user code
dp.enable_features("contrib")
by = ["state", "county", "city"]
keys = pl.read_parquet(job.KEYS)
leaves = pl.read_parquet(job.ROWS).group_by(by).agg(pl.len().cast(pl.Int64))
counts = keys.join(leaves, on=by, how="left", maintain_order="left")["len"].fill_null(0).to_numpy()
tree = Tree.from_paths(keys.rows())
measure = (leaf_domain(tree), dp.l1_distance(T="i64")) >> then_tree_laplace(3.0, weights=[0, 1, 1, 1], nonnegative=True)
table = measure(counts).to_frame()
# end
job.save(*job.by_level(table))
