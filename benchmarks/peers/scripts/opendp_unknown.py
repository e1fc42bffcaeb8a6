"""OpenDP's Polars group-bys with unknown keys.

https://docs.opendp.org/en/stable/getting-started/tabular-data/grouping.html: with a delta, keys whose noisy count
reaches a threshold are released. The budget is split evenly.
"""

import job

# user code
import opendp.prelude as dp
import polars as pl

# end
job.ready()
# user code
dp.enable_features("contrib")
context = dp.Context.compositor(
    data=pl.scan_parquet(job.ROWS),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
    split_evenly_over=3,
)


def release(by):
    return context.query().group_by(by).agg(dp.len(signed=False)).release().collect()


states = release(["state"])
counties = release(["state", "county"])
cities = release(["state", "county", "city"])
# end
job.save(states, counties, cities)
