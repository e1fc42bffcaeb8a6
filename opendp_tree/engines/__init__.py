"""Tables that stay where they are: bounded leaf counts by a query that the package writes itself."""

from opendp_tree.engines.duckdb import DuckDBTable
from opendp_tree.engines.postgres import PostgresTable
from opendp_tree.engines.spark import SparkTable

__all__ = ["DuckDBTable", "PostgresTable", "SparkTable"]
