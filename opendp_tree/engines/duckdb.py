"""Tables of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from opendp_tree.engines.sql import OTHER, Column, SqlTable, day_number, read_names, shortened, tick_number
from opendp_tree.rows.grouping import PEOPLE, guarded
from opendp_tree.rows.sources import arrow_frame

__all__ = ["DuckDBTable"]

_INTEGERS = {
    "TINYINT": pl.Int8,
    "SMALLINT": pl.Int16,
    "INTEGER": pl.Int32,
    "BIGINT": pl.Int64,
    "UTINYINT": pl.UInt8,
    "USMALLINT": pl.UInt16,
    "UINTEGER": pl.UInt32,
    "UBIGINT": pl.UInt64,
}
# As bytes: collations, of a column or of the whole database, would merge texts that differ.
_CAST = "CAST({0} AS VARCHAR)"
_TEXT = Column(pl.String(), f"encode({shortened(_CAST, size=f'strlen({_CAST})', digest=f'sha256({_CAST})')})", "{0}")
_COLUMNS = {
    "VARCHAR": _TEXT,
    "UUID": _TEXT,
    "BOOLEAN": Column(pl.Boolean(), "{0}", "{0}"),
    "HUGEINT": Column(pl.Int128(), "{0}", "encode(CAST({0} AS VARCHAR))"),
    "DATE": Column(pl.Date(), day_number("{0}"), "CAST({0} AS INTEGER)"),
    "TIMESTAMP": Column(pl.Datetime("us"), tick_number("epoch_us({0})"), "{0}"),
    **{name: Column(dtype(), "{0}", "{0}") for name, dtype in _INTEGERS.items()},
}


@dataclass(frozen=True)
class DuckDBTable(SqlTable):
    """A table or view of a DuckDB connection, for `release_tree`: its rows are counted there.

    Keys and identifiers may be texts, enumerations, integers, truth values, dates, and times without a zone; texts are
    told apart byte by byte, whatever their collation. Dates outside the years 1 to 9999 count as null. The names and
    types of columns are public. For files, make a view: `CREATE VIEW visits AS FROM 'visits/*.parquet'`.

    Parameters
    ----------
    connection
        What `duckdb.connect` gives.
    table
        The name of the table or view, or a tuple such as ("schema", "table").

    Examples
    --------
    >>> import duckdb
    >>> import opendp.prelude as dp
    >>> from opendp_tree import Unit, release_tree
    >>> dp.enable_features("contrib")
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE visits AS SELECT i % 900 AS person, 'be' AS country FROM range(2000) t(i)")
    >>> visits = DuckDBTable(connection, "visits")
    >>> release = release_tree(visits, by="country", epsilon=1.0, delta=1e-6, unit=Unit("person", rows=1))
    >>> release.to_frame(other=False)["country"].to_list()
    [None, 'be']

    """

    hashed, divided = "hash({0})", "//"
    methods = ("execute", "sql")
    expected = "one of DuckDB's. Hint: duckdb.connect('visits.db')"

    def _columns(self) -> dict[str, Column]:
        # Not by DESCRIBE alone: DuckDB takes a name that it does not know for a Python variable of ours, or for a file.
        known = guarded(self._is_known)
        described = f"DESCRIBE SELECT * FROM {self.name}"
        found = guarded(lambda: self.connection.execute(described).fetchall()) if known else []
        if not found:
            raise ValueError(f"table ({self.table!r}) must be a table or view of the connection. Hint: SHOW TABLES")
        return {name: _column(kind) for name, kind, *_ in found}

    def _is_known(self) -> bool:
        *place, name = read_names(self.table)
        listed = (
            "SELECT database_name, schema_name, table_name FROM duckdb_tables() "
            "UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views()"
        )
        rows = self.connection.execute(listed).fetchall()
        return any(row[-1].lower() == name.lower() and _ends_with(row[:-1], place) for row in rows)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction of DuckDB sees the rows that were there when it began; the one that is open, if there is."""
        numbers = [guarded(lambda: self.connection.execute("SELECT txid_current()").fetchone()) for _ in range(2)]
        if numbers[0] == numbers[1]:  # else each statement is a transaction of its own
            yield
            return
        guarded(lambda: self.connection.execute("BEGIN TRANSACTION"))
        try:
            yield
        finally:
            guarded(lambda: self.connection.execute("ROLLBACK"))

    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        frame = guarded(lambda: arrow_frame(self.connection.sql(query)))
        shown = [_as_type(pl.col(name), column.dtype).alias(name) for name, column in columns.items()]
        return frame.select(*shown, pl.col(PEOPLE).cast(pl.Int64))


def _column(kind: str) -> Column:
    """How a type is read, by the name that DuckDB describes it with; `ENUM(...)[]` is a list."""
    return _TEXT if kind.startswith("ENUM(") and kind.endswith(")") else _COLUMNS.get(kind, OTHER)


def _ends_with(place: tuple[str, ...], wanted: list[str]) -> bool:
    """Whether a database and a schema are the wanted ones, as far as these are given."""
    given = [each.lower() for each in place[len(place) - len(wanted) :]]
    return len(wanted) <= len(place) and given == [each.lower() for each in wanted]


def _as_type(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """What came back, as what it stands for; wide integers come as texts."""
    return (value.cast(pl.String, strict=False) if dtype == pl.Int128 else value).cast(dtype, strict=False)
