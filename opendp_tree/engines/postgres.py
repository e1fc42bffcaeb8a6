"""Tables of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl

from opendp_tree.engines.sql import Column, SqlTable, day_number, other_column, shortened, tick_number
from opendp_tree.rows.domains import PEOPLE, guarded

# Byte by byte: under other collations, different texts may be equal. Only digits and letters are sent, without quotes.
_HEX = "encode(convert_to({0}, 'UTF8'), 'hex')"
_CAST = 'CAST({0} AS text) COLLATE "C"'
_DIGEST = f"encode(sha256(convert_to({_CAST}, 'UTF8')), 'hex')"
_TEXT = Column(pl.String(), shortened(_CAST, size="octet_length(CAST({0} AS text))", digest=_DIGEST), f"'x' || {_HEX}")
_TICKS = "CAST(extract(epoch FROM {0}) * 1000000 AS bigint)"
# By the fixed numbers of the catalogue: users may name their own types int8.
_COLUMNS = {
    **dict.fromkeys((19, 25, 1042, 1043, 2950), _TEXT),  # name, text, bpchar, varchar, uuid
    16: Column(pl.Boolean(), shown="CAST({0} AS integer)"),
    21: Column(pl.Int16()),
    23: Column(pl.Int32()),
    20: Column(pl.Int64()),
    1082: Column(pl.Date(), day_number("{0}")),
    1114: Column(pl.Datetime("us"), tick_number(_TICKS)),
}


@dataclass(frozen=True)
class PostgresTable(SqlTable):
    """A table or view of PostgreSQL 14 or later, for `release_tree`: its rows are counted there.

    Columns are read as those of `DuckDBTable`. The database must be encoded in UTF-8.

    :param connection: What `psycopg.connect` of psycopg 3 gives. Rows are read in one transaction, or in the one that
        is already open; nothing is written.
    :param table: The name of the table or view, or a tuple such as ("schema", "table").
    """

    # What PostgreSQL itself hashes rows by, from version 14 on.
    hashed, divided = "(hash_record_extended(ROW({0}), 0) & 9223372036854775807)", "/"
    methods = ("cursor", "transaction")
    expected = "one of psycopg 3. Hint: psycopg.connect('dbname=visits')"

    def _columns(self) -> dict[str, Column]:
        encoding, version, found = guarded(self._described)
        if encoding != "UTF8" or version < 140_000:
            raise ValueError(f"connection ({encoding}, {version}) must be to PostgreSQL 14 or later, encoded in UTF8")
        if not found:
            raise ValueError(f"table ({self.table!r}) must be one that the connection may read. Hint: \\dt in psql")
        return {
            name: _TEXT if is_enum else _COLUMNS.get(kind) or other_column(f"with the oid {kind}")
            for name, kind, is_enum in found
        }

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction that sees the rows from its beginning; one that is already open is used."""
        from psycopg.pq import TransactionStatus

        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            yield
            return
        with self.connection.transaction(force_rollback=True):
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def _described(self) -> tuple[str, int, list[tuple[str, int, bool]]]:
        """The encoding, the version, and each column's name, type, and whether that is an enumeration; reads no row."""
        with self.connection.transaction(), self._cursor() as cursor:
            cursor.execute("SELECT current_setting('server_encoding'), current_setting('server_version_num')::int")
            encoding, version = cursor.fetchone()
            cursor.execute("SELECT to_regclass(%s)::text", (self.name,))
            if cursor.fetchone()[0] is None:
                return encoding, version, []
            cursor.execute(f"SELECT * FROM {self.name} LIMIT 0")
            columns = [(column.name, column.type_code) for column in cursor.description]
            enumerations = "SELECT oid FROM pg_catalog.pg_type WHERE oid = ANY(%s) AND typtype = 'e'"
            cursor.execute(enumerations, ([kind for _, kind in columns],))
            known = {kind for (kind,) in cursor.fetchall()}
        return encoding, version, [(name, kind, kind in known) for name, kind in columns]

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.connection.cursor(row_factory=tuple_row)

    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        sent = {name: pl.String() if column.dtype == pl.String else pl.Int64() for name, column in columns.items()}
        frame = guarded(lambda: self._copied(query, pl.Schema({**sent, PEOPLE: pl.Int64()})))
        return frame.select(
            *(_as_type(pl.col(name), column.dtype).alias(name) for name, column in columns.items()), PEOPLE
        )

    def _copied(self, query: str, schema: pl.Schema) -> pl.DataFrame:
        """The rows of a query. Only digits and letters are sent, so that the ends of rows are certain."""
        buffer = BytesIO()
        copied = f"COPY ({query}) TO STDOUT (FORMAT csv)"
        with self.connection.transaction(), self._cursor() as cursor, cursor.copy(copied) as copy:
            for block in copy:
                buffer.write(block)
        if not buffer.tell():
            return pl.DataFrame(schema=schema)
        return pl.read_csv(buffer.getvalue(), has_header=False, schema=schema, quote_char=None)


def _as_type(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """A column of an answer, cast to the type of its values."""
    if dtype == pl.String:
        return value.str.slice(1).str.decode("hex", strict=False).cast(pl.String, strict=False)
    return value.cast(pl.Int32).cast(dtype) if dtype == pl.Date else value.cast(dtype, strict=False)
