"""Tumult Analytics with `get_groups`, which finds the keys that are frequent enough.

https://github.com/opendp/tumult-analytics, `QueryBuilder.get_groups`; no split is recommended. Half of epsilon and all
of delta find the cities; counties and states are those that have such a city, for free; then three counts.
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
