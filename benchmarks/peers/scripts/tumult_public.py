"""Tumult Analytics with key sets.

https://github.com/opendp/tumult-analytics, doc/tutorials/groupby-queries.rst: `KeySet.from_dataframe` for many keys.
doc/deployment/spark.rst: more memory than Spark's default.
"""

import job

# user code
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

spark = SparkSession.builder.config("spark.driver.memory", "4g").getOrCreate()
# end
job.ready()
# user code
keys = spark.read.parquet(job.KEYS)
session = Session.from_dataframe(
    privacy_budget=PureDPBudget(1.0),
    source_id="rows",
    dataframe=spark.read.parquet(job.ROWS),
    protected_change=AddOneRow(),
)


def release(by):
    query = QueryBuilder("rows").groupby(KeySet.from_dataframe(keys.select(by).distinct())).count()
    return session.evaluate(query, PureDPBudget(1 / 3)).toPandas()


states = release(["state"])
counties = release(["state", "county"])
cities = release(["state", "county", "city"])
# end
job.save(states, counties, cities)
