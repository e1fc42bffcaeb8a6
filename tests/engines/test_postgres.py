import polars as pl
import pytest

from opendp_tree import Unit
from opendp_tree.engines import PostgresTable
from tests.engines import servers
from tests.engines.laws import *  # noqa: F403 - the laws of every engine
from tests.engines.laws import counts_of, expected_records, records
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
    with psycopg.connect(**server, autocommit=True) as connection, psycopg.connect(**server, autocommit=True) as other:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield PostgresStore(connection, other)


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
        assert records(table, ("k",)) == expected_records(frame, ("k",))


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


def test_types_are_known_by_the_catalogue_and_not_by_their_names(store):
    store.connection.execute("DROP SCHEMA IF EXISTS ev CASCADE")
    store.connection.execute("CREATE SCHEMA ev")
    for name in ("int8", "text", "date", "citext"):
        store.connection.execute(f"CREATE TYPE ev.{name} AS (x pg_catalog.int4)")
    store.connection.execute('CREATE TABLE own (a ev.int8, b ev.text, c ev.date, d ev.citext, e "char", f int8[])')
    kinds = PostgresTable(store.connection, "own").column_types().values()
    assert all(str(kind).startswith("engine type ") for kind in kinds)


def test_one_text_of_half_a_gibibyte_decides_nothing(store):
    store.connection.execute("CREATE TABLE long (k text)")
    store.connection.execute("INSERT INTO long SELECT 'a' FROM generate_series(1, 3)")
    store.connection.execute("INSERT INTO long SELECT repeat('a', 540000000)")
    assert sorted(counts_of(PostgresTable(store.connection, "long"), ["k"]).values()) == [1, 3]


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
