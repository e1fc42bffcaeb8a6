"""The same rows in several engines."""

from itertools import count

import polars as pl

from opendp_tree.engines import DuckDBTable, PostgresTable

_TYPES = {
    pl.String: ("VARCHAR", "text"),
    pl.Boolean: ("BOOLEAN", "boolean"),
    pl.Int16: ("SMALLINT", "smallint"),
    pl.Int32: ("INTEGER", "integer"),
    pl.Int64: ("BIGINT", "bigint"),
    pl.Date: ("DATE", "date"),
    pl.Datetime("us"): ("TIMESTAMP", "timestamp"),
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Store:
    """Makes tables by a connection; `other` is another one to the same database."""

    def __init__(self, connection, other=None):
        self.connection, self.other = connection, other
        self.numbers = count()

    def table(self, frame, *, name=None, types=None):
        """A table of the rows of a Polars frame; `types` says how columns are declared, beside the usual."""
        name = f"rows_{next(self.numbers)}" if name is None else name
        declared = {column: self.type_of(dtype) for column, dtype in frame.schema.items()} | (types or {})
        self.connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
        listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in declared.items())
        self.connection.execute(f"CREATE TABLE {quoted(name)} ({listed})")
        self.fill(name, frame)
        return self.kind(self.connection, name)


class DuckDBStore(Store):
    kind = DuckDBTable
    far = (("DATE", ("0044-03-15 (BC)", "5000000-01-01")), ("TIMESTAMP", ("0044-03-15 (BC)", "290000-01-01 00:00:00")))

    def type_of(self, dtype):
        return _TYPES[dtype][0]

    def fill(self, name, frame):
        self.connection.register("rows_to_fill", frame.to_arrow())
        self.connection.execute(f"INSERT INTO {quoted(name)} SELECT * FROM rows_to_fill")
        self.connection.unregister("rows_to_fill")


class PostgresStore(Store):
    kind = PostgresTable
    far = tuple((kind, ("4713-01-01 BC", "290000-01-01", "294276-12-31")) for kind in ("date", "timestamp"))

    def type_of(self, dtype):
        return _TYPES[dtype][1]

    def fill(self, name, frame):
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {quoted(name)} FROM STDIN") as copy:
            for row in frame.iter_rows():
                copy.write_row(row)
