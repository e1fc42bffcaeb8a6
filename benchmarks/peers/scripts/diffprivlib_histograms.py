"""diffprivlib: three histograms over the positions of public keys.

https://diffprivlib.readthedocs.io/en/latest/modules/tools.html: `histogram` with `bins` and `range` known, and a
`BudgetAccountant` that holds all three to the budget. It has no mechanism for keys that are not known.
"""

import job

# user code
import polars as pl
from diffprivlib import BudgetAccountant
from diffprivlib.tools import histogram

# end
job.ready()
# user code
rows, keys = pl.read_parquet(job.ROWS), pl.read_parquet(job.KEYS)
accountant = BudgetAccountant(epsilon=1.0)


def release(by):
    bins = keys.select(by).unique().with_row_index("bin")
    where = rows.join(bins, on=by)["bin"].to_numpy()
    size = bins.height
    counts, _ = histogram(where, epsilon=1 / 3, bins=size, range=(0, size), accountant=accountant)
    return bins.drop("bin").with_columns(count=counts)


states = release(["state"])
counties = release(["state", "county"])
cities = release(["state", "county", "city"])
# end
job.save(states, counties, cities)
