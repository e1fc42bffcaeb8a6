"""opendp-tree on the public tree: Gaussian noise on the three levels, then least squares."""

import job

# user code
import opendp.prelude as dp
import polars as pl

from opendp_tree import Tree, leaf_domain, make_tree_gaussian

# end
job.ready()
# user code
dp.enable_features("contrib")
by = ["state", "county", "city"]
keys = pl.read_parquet(job.KEYS)
leaves = pl.read_parquet(job.ROWS).group_by(by).agg(pl.len().cast(pl.Int64))
counts = keys.join(leaves, on=by, how="left", maintain_order="left")["len"].fill_null(0).to_numpy()
tree = Tree.from_paths(keys.rows())


def approximate(scale):
    space = leaf_domain(tree), dp.l1_distance(T="i64")
    gaussian = make_tree_gaussian(*space, scale, weights=[0, 1, 1, 1], nonnegative=True)
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), delta=1e-6)


measure = dp.binary_search_chain(approximate, d_in=1, d_out=(1.0, 1e-6), T=float)
table = measure(counts).to_frame()
# end
job.save(*job.by_level(table))
