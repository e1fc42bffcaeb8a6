"""OpenDP's contingency table: marginals made consistent by a graphical model.

https://docs.opendp.org/en/stable/getting-started/tabular-data/contingency-tables.html calls it a good basis for
hierarchical queries: keys given, the wanted marginals as queries, no budget for keys that are known already.
"""

import job

# user code
import opendp.prelude as dp
import polars as pl

# end
job.ready()
# user code
dp.enable_features("contrib")
by = ["state", "county", "city"]
keys = pl.read_parquet(job.KEYS)
context = dp.Context.compositor(
    data=pl.scan_parquet(job.ROWS),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=1,
)
queries = [dp.mbi.Count(tuple(by[:depth])) for depth in (1, 2, 3)]
algorithm = dp.mbi.Fixed(queries=queries, oneway="unkeyed")
columns = {name: keys[name].unique().to_list() for name in by}
table = context.query().select(by).contingency_table(keys=columns, algorithm=algorithm).release()
states, counties, cities = (table.project_melted(tuple(by[:depth])) for depth in (1, 2, 3))
# end
job.save(states, counties, cities)
