"""Spark against Polars on hostile rows: the same counts by key, and by person and key, whoever else is there."""

import os
import tempfile
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, frame_domain
from opendp_tree.engines.spark import SparkTable
from opendp_tree.rows.domains import Table
from opendp_tree.rows.leaf_counts import make_rows_per_unit
from tests.engines.laws import (  # noqa: F401 - the laws that need no SQL, but those that take minutes
    counts_of,
    expected_records,
    records,
    test_an_empty_table_has_no_leaves,
    test_bounds_that_are_never_reached_change_nothing,
    test_counts_are_those_of_polars_on_hostile_values,
    test_dates_and_times_are_those_of_polars,
    test_keys_of_every_kind_are_counted_as_polars_does,
    test_keys_that_share_leaves_are_counted_as_polars_does,
    test_long_texts_are_known_by_their_beginning_and_a_digest,
    test_records_are_those_of_polars,
    test_the_report_counts_the_people_whom_bounds_hold_for,
    visits,
)
from tests.engines.spark_session import LOG, spark_session

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
LONG = 2**63


@pytest.fixture(scope="module")
def session():
    return spark_session()


def as_spark(session, frame):
    """By a file: on other ways PySpark itself reads times by the session's clock."""
    path = f"{tempfile.mkdtemp()}/rows.parquet"
    frame.write_parquet(path)
    return session.read.parquet(path)


class SparkStore:
    """Makes tables of a session, as the laws want them."""

    def __init__(self, session):
        self.session = session

    def table(self, frame):
        return SparkTable(as_spark(self.session, frame))


@pytest.fixture
def store(session):
    return SparkStore(session)


def test_texts_numbers_and_hours_that_other_engines_have_not_are_those_of_polars(store):
    texts = pl.DataFrame({"a": ["a", "a\0", "", None] * 2, "b": pl.Series([-128, 127, 0, None] * 2, dtype=pl.Int8)})
    assert counts_of(store.table(texts), ["a", "b"]) == counts_of(texts, ["a", "b"])
    hours = [datetime(2024, 10, 27, hour, 30, tzinfo=timezone.utc) for hour in range(4)]
    clock = pl.DataFrame({"a": hours}, schema={"a": pl.Datetime("us", "Europe/Brussels")})
    table, by = store.table(clock), Key.calendar("a", levels=("day", "hour"))
    assert isinstance(table, Table)
    assert table.column_types() == clock.schema
    assert counts_of(table, by) == counts_of(clock, by)


def test_numbers_of_every_type_are_in_the_ranges_that_polars_finds(session):
    doubles = [0.0, -0.0, 0.1, 0.3, 0.30000000000000004, -5e-324, 1.0, float("nan"), float("inf"), None]
    decimals = [
        Decimal(text) for text in ("0", "0.1", "0.3", "0.299999999999999999", "1", "-1", "-0.000000000000000001")
    ]
    frame = pl.DataFrame(
        {"double": doubles, "float": doubles, "decimal": [*decimals, None, None, None]},
        schema={"double": pl.Float64, "float": pl.Float32, "decimal": pl.Decimal(38, 18)},
    )
    table = SparkTable(as_spark(session, frame))
    for column in frame.columns:
        for outside in ("leaf", "ends", "drop"):
            by = Key.number(column, low=0, high=1, bins=10, outside=outside)
            assert counts_of(table, by) == counts_of(frame, by), column
    assert sum(counts_of(table, Key.number("double", low=0, high=1, bins=10))) == len(doubles)


def test_texts_are_told_apart_byte_by_byte_whatever_the_collation(session):
    rows = "VALUES ('a'), ('A'), ('a '), ('a')"
    for collation in ("UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM", "UTF8_BINARY"):
        frame = session.sql(f"SELECT collate(col1, '{collation}') AS a FROM {rows}")
        found = SparkTable(frame).rows_per_key(Key.columns("a"))
        assert dict(found.rows()) == {"a": 2, "A": 1, "a ": 1}, collation


def test_what_is_no_text_counts_as_null(session):
    frame = session.sql("SELECT cast(col1 AS STRING) AS a FROM VALUES (X'FF'), (X'61FE'), (X'61'), (NULL)")
    assert dict(SparkTable(frame).rows_per_key(Key.columns("a")).rows()) == {None: 3, "a": 1}


def test_times_beyond_the_calendar_raise_nothing(session):
    for zone in (None, "UTC"):
        ticks = pl.Series("a", [LONG - 1, -LONG + 1, 0], dtype=pl.Int64).cast(pl.Datetime("us", zone))
        table = SparkTable(as_spark(session, ticks.to_frame()))
        for key in (Key.calendar("a"), Key.calendar("a", levels=("year", "hour"))):
            assert sorted(counts_of(table, key).values()) == [1, 2]
            assert counts_of(table, key)[(None,)] == 2


def test_columns_are_found_whatever_their_names(session):
    names = ["a", "A", "a.b", "`", "people", "key_0", "unit", "place", "rank"]
    frame = session.range(1).selectExpr(*(f"{place} AS c{place}" for place in range(len(names)))).toDF(*names)
    found = SparkTable(frame).rows_per_key(Key.columns(*names)).rows()
    assert found == [(*range(len(names)), 1)]
    for name, unit in (("A", "a"), ("unit", "people"), ("key_0", "unit")):
        found = SparkTable(frame).rows_per_person(Key.columns(name), unit, 0, 1).collect().rows()
        assert found == [(names.index(unit), names.index(name), 1)]


# People.


USERS = {
    "integers": [LONG - 1, -LONG, 0, None],
    "texts": ["a", "A", "", None],
    "bytes": [b"\xff", b"", b"a", None],
    "floats": [float("nan"), 0.0, 1.5, None],
    "days": [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), None],
}


@pytest.mark.parametrize("users", USERS.values(), ids=USERS)
def test_a_person_is_a_value_and_null_is_nobody(store, users):
    frame = pl.DataFrame({"user": pl.Series(users * 10), "a": np.arange(40) // 4})
    found = records(store.table(frame), ["a"], parts=3)
    assert sum(found.values()) == 30
    assert len({repr(person) for person, _ in found}) == 3


def test_people_whose_identifiers_are_no_texts_are_reported_one_by_one(session):
    """One person more moves the report by one: as keys, all such identifiers are null."""
    rows = "(X'FF'), (X'FF'), (X'FF'), (X'FE'), (X'FE'), (X'61FE'), (X'61'), (NULL)"
    table = SparkTable(session.sql(f"SELECT cast(col1 AS STRING) AS user FROM VALUES {rows}"))
    report = make_rows_per_unit(frame_domain(table), dp.symmetric_id_distance("user"), most=4)
    assert report(table) == [2, 1, 1, 0]


def test_zeros_are_one_person_and_so_is_what_is_no_number(session):
    frame = session.sql("SELECT col1 AS user, 'x' AS a FROM VALUES (0.0D), (-0.0D), (double('nan')), (-double('nan'))")
    for parts in (1, 7):
        assert sorted(records(SparkTable(frame), ["a"], parts=parts).values()) == [2, 2]


VISITS = visits(4, people=90, rows=3000)


def test_mutant_parts_by_key_are_rejected(store, monkeypatch):
    from pyspark.sql import functions

    hashed = functions.xxhash64
    monkeypatch.setattr(functions, "xxhash64", lambda *columns: hashed("key_1"))
    with pytest.raises(AssertionError):
        records(store.table(VISITS), ("a", "b"), parts=3)


# Failure.


def killed_once(frame, folder):
    """The frame, with a worker that dies at its first attempt, after half of its rows."""

    def run(batches):
        from pyspark import TaskContext

        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            mark = os.path.join(folder, str(TaskContext.get().partitionId()))
            if not os.path.exists(mark):
                with open(mark, "w"):
                    os._exit(1)
            yield batch.slice(batch.num_rows // 2)

    return frame.mapInArrow(run, frame.schema)


def test_retried_tasks_count_the_same_rows(session, tmp_path):
    frame = killed_once(as_spark(session, VISITS).repartition(3, "a"), str(tmp_path))
    assert records(SparkTable(frame), ("a", "b")) == expected_records(VISITS, ("a", "b"))
    assert any(tmp_path.iterdir())


def test_words_of_a_failure_hold_no_data(session):
    frame = session.sql("SELECT cast(col1 AS INT) AS a FROM VALUES ('hemlock-secret')")
    with pytest.raises(RuntimeError, match="details are withheld") as raised:
        SparkTable(frame).rows_per_key(Key.columns("a"))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_speculative_execution_is_refused(session):
    frame = session.range(3)
    table = SparkTable(frame)
    session.sparkContext._conf.set("spark.speculation", "true")
    try:
        with pytest.raises(ValueError, match=r"spark.speculation \(true\) must be false.*Hint"):
            SparkTable(frame)
        with pytest.raises(ValueError, match=r"spark\.speculation"):
            table.rows_per_key(Key.columns("id"))
    finally:
        session.sparkContext._conf.set("spark.speculation", "false")


def test_frames_that_change_when_read_again_are_refused(session):
    from pyspark.sql import functions as f

    drawn = f.udf(lambda x: x, "long").asNondeterministic()
    for frame in (session.range(3).select(f.rand().alias("a")), session.range(3).select(drawn("id").alias("a"))):
        with pytest.raises(ValueError, match=r"not deterministic\. Hint"):
            SparkTable(frame)


def test_what_is_no_frame_is_refused(session):
    with pytest.raises(TypeError, match=r"frame \(str\) must be a Spark frame. Hint: spark.table\('visits'\)"):
        SparkTable("visits")
    with pytest.raises(ValueError, match="must not be a stream"):
        SparkTable(session.readStream.format("rate").load())
    with pytest.raises(ValueError, match="different names"):
        SparkTable(session.range(2).selectExpr("id", "id"))


def test_zones_without_a_name_are_refused(session):
    kept = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "+05:30")
    try:
        with pytest.raises(ValueError, match=r"must be a zone.s name\. Hint"):
            SparkTable(session.sql("SELECT current_timestamp() AS a")).column_types()
    finally:
        session.conf.set("spark.sql.session.timeZone", kept)


def test_people_with_a_collation_are_refused(session):
    frame = session.sql("SELECT collate('Ann', 'UTF8_LCASE') AS user, 1 AS a")
    with pytest.raises(ValueError, match=r"byte by byte.*Hint"):
        records(SparkTable(frame), ["a"])


def test_other_types_are_nobodys_key(session):
    frame = session.sql("SELECT array(1) AS a, map(1, 2) AS b, named_struct('x', 1) AS c, INTERVAL '1' DAY AS d")
    assert set(SparkTable(frame).column_types().values()) == {pl.Object}


def test_nothing_is_cached(session):
    SparkTable(as_spark(session, VISITS)).rows_per_key(Key.columns("a", "b"))
    assert session.sparkContext._jsc.sc().getPersistentRDDs().size() == 0


def test_logs_hold_none_of_the_rows(session):
    """Runs last in this module: the JVM wrote down failures of all tests before."""
    labels = pl.DataFrame({"a": ["hemlock-label"] * 5, "user": [1] * 5})
    assert len(records(SparkTable(as_spark(session, labels)), ["a"])) == 1
    assert "hemlock-label" not in LOG.read_text(errors="replace")
