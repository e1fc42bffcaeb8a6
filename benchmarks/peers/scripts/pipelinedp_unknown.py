"""PipelineDP on its local backend with private partition selection.

https://pipelinedp.io/key-definitions/ and the examples: without `public_partitions` the engine selects them privately;
rows are bounded already, one for each person.
"""

import job

# user code
import pipeline_dp
import polars as pl

# end
job.ready()
# user code
rows = pl.read_parquet(job.ROWS).rows()
accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
parameters = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.COUNT],
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    max_partitions_contributed=1,
    max_contributions_per_partition=1,
    contribution_bounds_already_enforced=True,
)


def aggregate(depth):
    extractors = pipeline_dp.DataExtractors(partition_extractor=lambda row: row[:depth], value_extractor=lambda _: 0)
    return engine.aggregate(rows, parameters, extractors)


results = [aggregate(depth) for depth in (1, 2, 3)]
accountant.compute_budgets()
states, counties, cities = ([(*place, metrics.count) for place, metrics in result] for result in results)
# end
job.save(states, counties, cities)
