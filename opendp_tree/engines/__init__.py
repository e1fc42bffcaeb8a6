"""Tables that stay where they are: rows are counted by key, or by person and key, by the package's own queries."""

from opendp_tree.engines.duckdb import DuckDBTable
from opendp_tree.engines.postgres import PostgresTable
from opendp_tree.engines.spark import SparkTable

__all__ = ["DuckDBTable", "PostgresTable", "SparkTable"]
