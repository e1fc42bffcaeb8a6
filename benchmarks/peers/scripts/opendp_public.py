"""OpenDP's Polars group-bys with public keys.

https://docs.opendp.org/en/stable/getting-started/tabular-data/grouping.html: `with_keys` for keys that are known, and
a context whose budget is split evenly. Laplace noise: at three queries it is less than Gaussian noise would be.
"""

import job

# user code
import opendp.prelude as dp
import polars as pl

# end
job.ready()
# user code
dp.enable_features("contrib")
keys = pl.read_parquet(job.KEYS)
context = dp.Context.compositor(
    data=pl.scan_parquet(job.ROWS),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=3,
)


def release(by):
    query = context.query().group_by(by).agg(dp.len(signed=False))
    return query.with_keys(keys.select(by).unique()).release().collect()


states = release(["state"])
counties = release(["state", "county"])
cities = release(["state", "county", "city"])
# end
job.save(states, counties, cities)
