import duckdb
import polars as pl
import pytest

from opendp_tree import Unit, release_tree
from opendp_tree.engines import DuckDBTable
from tests.engines.laws import *  # noqa: F403 - the laws of every engine
from tests.engines.laws import counts_of, expected_records, records
from tests.engines.stores import DuckDBStore


@pytest.fixture
def store():
    with duckdb.connect() as connection:
        yield DuckDBStore(connection, connection.cursor())


def test_collations_merge_nothing(store):
    frame = pl.DataFrame({"k": ["a", "A", "á", "Á"] * 2, "user": ["p", "P", "p", "P"] * 2})
    table = store.table(frame, types={"k": "VARCHAR COLLATE NOCASE.NOACCENT", "user": "VARCHAR COLLATE NOCASE"})
    assert counts_of(table, ["k"]) == counts_of(frame, ["k"])
    assert records(table, ("k",)) == expected_records(frame, ("k",))
    store.connection.execute("SET default_collation = 'NOCASE'")
    assert counts_of(store.table(frame), ["k"]) == counts_of(frame, ["k"])


def test_wide_integers_enumerations_and_identifiers_are_read(store):
    store.connection.execute("CREATE TYPE colour AS ENUM ('red', 'Red')")
    store.connection.execute("CREATE TABLE wide (n HUGEINT, u UBIGINT, c colour, i UUID)")
    store.connection.execute(
        "INSERT INTO wide VALUES (170141183460469231731687303715884105727, 18446744073709551615, 'red', "
        "'00000000-0000-0000-0000-000000000001'), (-1, 0, 'Red', NULL)"
    )
    table = DuckDBTable(store.connection, ("main", "wide"))
    assert counts_of(table, ["n"]) == {(2**127 - 1,): 1, (-1,): 1}
    assert counts_of(table, ["u", "c"]) == {(2**64 - 1, "red"): 1, (0, "Red"): 1}
    assert counts_of(table, ["c"], Unit("i", rows=1)) == {("red",): 1}


def test_lists_of_an_enumeration_are_no_texts(store):
    store.connection.execute("CREATE TYPE mood AS ENUM ('a[]', ')')")
    store.connection.execute("CREATE TABLE moods (one mood, several mood[], pair mood[2], named STRUCT(x mood))")
    kinds = DuckDBTable(store.connection, "moods").column_types()
    assert kinds.pop("one") == pl.String
    assert [str(kind).startswith("engine type ") for kind in kinds.values()] == [True] * 3


def test_python_variables_and_files_are_no_tables(store, tmp_path):
    frame = query = pl.DataFrame({"k": [1]})
    frame.write_parquet(tmp_path / "k.parquet")
    for name in ("frame", "query", str(tmp_path / "k.parquet")):
        with pytest.raises(ValueError, match="must be a table or view"):
            DuckDBTable(store.connection, name).column_types()
    assert query.height == 1


def test_what_is_no_name_is_refused():
    for wrong in ("", "a\0b", ("a", ""), 3, ("a", "b", "c", "d")):
        with pytest.raises((TypeError, ValueError), match="table"):
            DuckDBTable(duckdb, wrong)


def test_a_result_that_the_caller_left_open_is_no_matter(store):
    table = store.table(pl.DataFrame({"k": [1, 1]}))
    store.connection.execute("SELECT * FROM range(100000)").fetchone()
    assert counts_of(table, ["k"]) == {(1,): 2}


def test_a_release_of_several_parts_is_read_from_one_snapshot(store, monkeypatch):
    """Rows that arrive after the first question are in none of the answers."""
    table = store.table(pl.DataFrame({"k": ["x"] * 900, "user": range(900)}))
    read, seen = DuckDBTable._read, []

    def arriving(self, query, columns):
        found = read(self, query, columns)
        store.other.execute(f"INSERT INTO {table.table} SELECT 'x', 5000 + range FROM range(900)")
        seen.append(found["people"].sum())
        return found

    monkeypatch.setattr(DuckDBTable, "_read", arriving)
    release_tree(table, by="k", epsilon=1.0, delta=1e-6, unit=Unit("user", rows=1), memory=20_000)
    assert len(seen) > 2
    assert seen[0] == sum(seen[1:]) == 900
