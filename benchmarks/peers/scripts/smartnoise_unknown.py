"""SmartNoise SQL with unknown keys.

https://docs.smartnoise.org/sql/: metadata with `row_privacy`, and `censor_dims` (the default), which drops groups that
are too rare to be shown. Epsilon and delta are per query; its odometer adds half a delta more to the sum of three.
"""

import job

# user code
import pandas as pd
from snsql import Privacy, from_df

# end
job.ready()
# user code
column = {"type": "string"}
table = {"row_privacy": True, "rows": 1_000_000, "state": column, "county": column, "city": column}
reader = from_df(
    pd.read_parquet(job.ROWS),
    privacy=Privacy(epsilon=1 / 3, delta=1e-6 / 3.5),
    metadata={"": {"data": {"rows": table}}},
)


def release(by):
    return reader.execute_df(f"SELECT {by}, COUNT(*) AS n FROM data.rows GROUP BY {by}")


states = release("state")
counties = release("state, county")
cities = release("state, county, city")
# end
job.save(states, counties, cities)
