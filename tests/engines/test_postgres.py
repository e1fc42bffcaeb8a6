import polars as pl
import pytest

from opendp_tree import Unit
from opendp_tree.engines import PostgresTable
from tests.engines import servers
from tests.engines.laws import *  # noqa: F403 - the laws of every engine
from tests.engines.laws import counts_of, kept
from tests.engines.stores import PostgresStore

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: make test-engines")
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(servers.binaries() is None, reason="there are no server binaries of PostgreSQL"),
]


@pytest.fixture(scope="module")
def server():
    with servers.postgres() as settings:
        yield settings


@pytest.fixture
def store(server):
    with psycopg.connect(**server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield PostgresStore(connection)


def test_collations_merge_nothing_and_split_nothing(store):
    store.connection.execute(
        "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    frame = pl.DataFrame({"k": ["a", "A", "á", "a\u0301"] * 2, "user": ["p", "P", "p", "P"] * 2})
    for kind in ("text", "varchar(9)"):
        table = store.table(frame, types={"k": f"{kind} COLLATE loose", "user": f"{kind} COLLATE loose"})
        same = store.connection.execute(f"SELECT count(DISTINCT k) FROM {table.table}").fetchone()
        assert same == (1,)
        assert counts_of(table, ["k"]) == counts_of(frame, ["k"])
        assert sum(kept(table, Unit("user", leaves=1), by=("k",)).values()) == 2


def test_infinite_and_far_dates_are_null(store):
    for column, kind in (("day", "date"), ("time", "timestamp")):
        store.connection.execute(f"CREATE TABLE far_{column} ({column} {kind})")
        far = ["infinity", "-infinity", "2024-01-01", "4713-01-01 BC", "290000-01-01"]
        for value in [*far, "294276-12-31"]:
            store.connection.execute(f"INSERT INTO far_{column} VALUES ('{value}')")
        found = counts_of(PostgresTable(store.connection, f"far_{column}"), [column])
        assert sorted(found.values()) == [1, len(far)]


def test_enumerations_identifiers_domains_and_padded_texts_are_read(store):
    store.connection.execute("CREATE TYPE colour AS ENUM ('red', 'Red')")
    store.connection.execute("CREATE DOMAIN small AS integer CHECK (VALUE < 9)")
    store.connection.execute("CREATE TABLE wide (c colour, i uuid, p char(5), s small, n int2)")
    store.connection.execute("INSERT INTO wide VALUES ('red', '00000000-0000-0000-0000-000000000001', 'x', 3, -32768)")
    store.connection.execute("INSERT INTO wide VALUES ('Red', NULL, 'x ', NULL, 0)")
    table = PostgresTable(store.connection, ("public", "wide"))
    assert counts_of(table, ["c", "n"]) == {("red", -32768): 1, ("Red", 0): 1}
    assert counts_of(table, ["p"]) == {("x",): 2}
    assert counts_of(table, ["s"]) == {(3,): 1, (None,): 1}
    assert counts_of(table, ["c"], Unit("i", rows=1)) == {("red",): 1}


def test_the_callers_settings_change_nothing(server):
    from psycopg.rows import dict_row

    with psycopg.connect(**server, row_factory=dict_row) as connection:  # within a transaction that stays open
        connection.execute("SET DateStyle = 'German'")
        connection.execute("SET standard_conforming_strings = off")
        connection.execute("CREATE TEMP TABLE days (k date, t text)")
        connection.execute("INSERT INTO days VALUES ('2024-02-29', E'a\\\\b')")
        assert counts_of(PostgresTable(connection, "days"), ["t"]) == {("a\\b",): 1}
        assert len(counts_of(PostgresTable(connection, "days"), ["k"])) == 1
        connection.rollback()


def test_a_database_that_is_not_in_utf8_is_refused(server):
    with psycopg.connect(**server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bytes")
        connection.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0")
    with psycopg.connect(**{**server, "dbname": "bytes"}) as connection:
        connection.execute("CREATE TABLE t (k text)")
        with pytest.raises(ValueError, match="UTF8"):
            PostgresTable(connection, "t").column_types()


def test_what_is_no_connection_is_refused():
    with pytest.raises(TypeError, match="connection"):
        PostgresTable("dbname=visits", "visits")
