"""Tumult Analytics with `get_groups`, which finds the keys that are frequent enough.

https://docs.tmlt.dev/analytics/latest/reference/query_builder/: keys of the cities for half of the budget and all of
delta; the counties and states are those that have such a city, for free; then three counts.
"""

import job

# user code
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, ApproxDPBudget, KeySet, QueryBuilder, Session

spark = SparkSession.builder.config("spark.driver.memory", "4g").getOrCreate()
# end
job.ready()
# user code
session = Session.from_dataframe(
    privacy_budget=ApproxDPBudget(1.0, 1e-6),
    source_id="rows",
    dataframe=spark.read.parquet(job.ROWS),
    protected_change=AddOneRow(),
)
groups = QueryBuilder("rows").get_groups(["state", "county", "city"])
keys = session.evaluate(groups, ApproxDPBudget(1 / 2, 1e-6))


def release(by):
    query = QueryBuilder("rows").groupby(KeySet.from_dataframe(keys.select(by).distinct())).count()
    return session.evaluate(query, ApproxDPBudget(1 / 6, 0)).toPandas()


states = release(["state"])
counties = release(["state", "county"])
cities = release(["state", "county", "city"])
# end
job.save(states, counties, cities)
