"""Tables of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from opendp_tree.engines.sql import Column, SqlTable, day_number, other_column, read_names, shortened, tick_number
from opendp_tree.rows.domains import INTEGERS, PEOPLE, guarded
from opendp_tree.rows.sources import arrow_frame

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_LISTED = (
    "SELECT database_name, schema_name, table_name FROM duckdb_tables() "
    "UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views()"
)
# As bytes: collations, of a column or of the whole database, would merge texts that differ.
_CAST = "CAST({0} AS VARCHAR)"
_TEXT = Column(pl.String(), f"encode({shortened(_CAST, size=f'strlen({_CAST})', digest=f'sha256({_CAST})')})")
_COLUMNS = {
    "VARCHAR": _TEXT,
    "UUID": _TEXT,
    "BOOLEAN": Column(pl.Boolean()),
    "HUGEINT": Column(pl.Int128(), shown="encode(CAST({0} AS VARCHAR))"),
    "DATE": Column(pl.Date(), day_number("{0}"), "CAST({0} AS INTEGER)"),
    "TIMESTAMP": Column(pl.Datetime("us"), tick_number("epoch_us({0})")),
    **{name: Column(dtype()) for name, dtype in zip(_INTEGERS, INTEGERS, strict=True)},
}


@dataclass(frozen=True)
class DuckDBTable(SqlTable):
    """A table or view of a DuckDB connection, for `release_tree`: its rows are counted there.

    Keys and identifiers may be texts, enumerations, integers, truth values, dates, and times without a zone; texts are
    compared byte by byte, whatever their collation. Dates outside the years 1 to 9999 count as null. For files, make
    a view: `CREATE VIEW visits AS FROM 'visits/*.parquet'`.

    :param connection: What `duckdb.connect` gives.
    :param table: The name of the table or view, or a tuple such as ("schema", "table").
    """

    hashed, divided = "hash({0})", "//"
    methods = ("execute", "sql")
    expected = "one of DuckDB's. Hint: duckdb.connect('visits.db')"

    def _columns(self) -> dict[str, Column]:
        # Not by DESCRIBE alone: DuckDB takes a name that it does not know for a Python variable of ours, or for a file.
        names = tuple(name.lower() for name in read_names(self.table))
        listed = guarded(lambda: self.connection.execute(_LISTED).fetchall())
        known = any(tuple(map(str.lower, row))[-len(names) :] == names for row in listed)
        described = f"DESCRIBE SELECT * FROM {self.name}"
        found = guarded(lambda: self.connection.execute(described).fetchall()) if known else []
        if not found:
            raise ValueError(f"table ({self.table!r}) must be a table or view of the connection. Hint: SHOW TABLES")
        # An enumeration's type is `ENUM(...)`; `ENUM(...)[]` is a list.
        enums = {kind: _TEXT for _, kind, *_ in found if kind.startswith("ENUM(") and kind.endswith(")")}
        return {name: (_COLUMNS | enums).get(kind) or other_column(kind) for name, kind, *_ in found}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction of DuckDB sees the rows from its beginning; one that is already open is used."""
        numbers = [guarded(lambda: self.connection.execute("SELECT txid_current()").fetchone()) for _ in range(2)]
        if numbers[0] == numbers[1]:  # else each statement has its own transaction
            yield
            return
        guarded(lambda: self.connection.execute("BEGIN TRANSACTION"))
        try:
            yield
        finally:
            guarded(lambda: self.connection.execute("ROLLBACK"))

    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        frame = guarded(lambda: arrow_frame(self.connection.sql(query)))
        wide = [pl.col(name).cast(pl.String, strict=False) for name in columns if columns[name].dtype == pl.Int128]
        types: dict[Any, Any] = {name: column.dtype for name, column in columns.items()}  # wide integers come as texts
        return frame.with_columns(wide).select(*columns, PEOPLE).cast({**types, PEOPLE: pl.Int64}, strict=False)
