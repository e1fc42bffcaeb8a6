"""OpenDP's b-ary tree and its consistency.

https://docs.opendp.org/en/stable/api/python/opendp.transformations.html: `make_b_ary_tree`, then
`make_consistent_b_ary_tree`, which returns the leaves. Ten children each, so that counties are nodes of the tree: less
error at states and counties, more at cities, than the 22 of `choose_branching_factor`, which is for quantiles.
"""

import job

# user code
import numpy as np
import opendp.prelude as dp
import polars as pl

# end
job.ready()
# user code
dp.enable_features("contrib")
by = ["state", "county", "city"]
keys = pl.read_parquet(job.KEYS).sort(by)
leaves = pl.read_parquet(job.ROWS).group_by(by).agg(pl.len().cast(pl.Int64))
counts = keys.join(leaves, on=by, how="left", maintain_order="left")["len"].fill_null(0)
space = dp.vector_domain(dp.atom_domain(T="i64"), size=keys.height), dp.l1_distance(T="i64")
tree = space >> dp.t.then_b_ary_tree(leaf_count=keys.height, branching_factor=10)
release = dp.binary_search_chain(lambda scale: tree >> dp.m.then_laplace(scale), d_in=1, d_out=1.0, T=float)
consistent = release >> dp.t.make_consistent_b_ary_tree(branching_factor=10, TIA="i64")
cities = keys.with_columns(count=np.array(consistent(counts.to_numpy().copy())))
counties = cities.group_by("state", "county").agg(pl.col("count").sum())
states = cities.group_by("state").agg(pl.col("count").sum())
# end
job.save(states, counties, cities)
