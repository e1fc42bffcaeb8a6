"""Spark against Polars on hostile rows: the same counts by key, and by person and key, whoever else is there."""

import os
import tempfile
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, Unit
from opendp_tree.engines.spark import SparkTable
from opendp_tree.rows.counting import RowCounter
from opendp_tree.rows.dtypes import kinds_of
from opendp_tree.rows.tables import Table
from tests.engines.laws import KEYS, counts_of, expected_records, records
from tests.engines.laws import test_keys_of_every_kind_are_counted_as_polars_does as every_kind
from tests.engines.laws import test_long_texts_are_known_by_their_beginning_and_a_digest as long_texts
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


def counted(data, schema, key, unit=None):
    """The leaf counts of a frame or table, as a list of paths and counts."""
    kinds = kinds_of(schema)
    used = {name: kinds[name] for name in (*key.columns_used, *([] if unit is None else [unit.column]))}
    counts = RowCounter.of(key, kinds, used, unit).count(data)
    occupied = counts.occupied
    if key.kind in ("bits", "ip"):
        labels = np.stack(counts.keys.to_the_right(key.width)).T.tolist()
    else:
        columns = [column.gather(pl.Series(counts.keys.rows)).to_list() for column in counts.keys.columns]
        labels = [row[:level] for row, level in zip(zip(*columns, strict=True), occupied.levels.tolist(), strict=True)]
    return list(zip(map(tuple, labels), occupied.counts.tolist(), strict=True))


TEXTS = ["a", "A", "á", "á", "a ", "", "a\0", "\ufeff", "𝔸", "ß", "SS", "/", "//", "/a/", "a/b/c/d", "NaN", None]
INSTANTS = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23),
    datetime(2024, 3, 31, 2, 30),
    datetime(2024, 10, 27, 2, 30),
    datetime(1879, 12, 31, 12),
    None,
]
INTEGERS = [0, 1, -1, 255, 256, LONG - 1, -LONG, 2**32, None]
FRAMES = {
    "texts": (pl.DataFrame({"a": TEXTS * 3, "b": TEXTS[::-1] * 3}), Key.columns("a", "b")),
    "texts, nulls dropped": (pl.DataFrame({"a": TEXTS * 3, "b": TEXTS[::-1] * 3}), Key.columns("a", "b", nulls="drop")),
    "integers": (
        pl.DataFrame(
            {"a": INTEGERS * 2, "b": [None if n is None else n % 100 for n in INTEGERS] * 2},
            schema={"a": pl.Int64, "b": pl.Int8},
        ),
        Key.columns("a", "b"),
    ),
    "truths and dates": (
        pl.DataFrame({"a": [True, False, None] * 2, "b": [date(1, 1, 1), None, date(9999, 12, 31)] * 2}),
        Key.columns("a", "b"),
    ),
    "times": (pl.DataFrame({"a": INSTANTS * 2}, schema={"a": pl.Datetime("us")}), Key.columns("a")),
    "paths": (pl.DataFrame({"a": TEXTS * 2}), Key.path("a", depth=3)),
    "bits": (pl.DataFrame({"a": INTEGERS * 2}, schema={"a": pl.Int64}), Key.bits("a", width=8)),
    "wide bits": (pl.DataFrame({"a": INTEGERS * 2}, schema={"a": pl.Int64}), Key.bits("a", width=63, stride=7)),
    "addresses": (pl.DataFrame({"a": ["10.0.0.1", "10.0.0.01", "::1", None, "1.2.3", "10.0.0.1"]}), Key.ip("a")),
    "addresses, six": (pl.DataFrame({"a": ["::1", "0::1", "1::%x", None, "::1.2.3.4"]}), Key.ip("a", version=6)),
    "days": (pl.DataFrame({"a": [date(1970, 1, 1), date(1, 1, 1), None, date(9999, 12, 31)] * 2}), Key.calendar("a")),
    "days of times": (pl.DataFrame({"a": INSTANTS * 2}, schema={"a": pl.Datetime("us")}), Key.calendar("a")),
    "hours of times": (
        pl.DataFrame({"a": INSTANTS * 2}, schema={"a": pl.Datetime("us")}),
        Key.calendar("a", levels=("month", "day", "hour")),
    ),
    "hours by a zone's clock": (
        pl.DataFrame(
            {"a": [datetime(2024, 10, 27, hour, 30, tzinfo=timezone.utc) for hour in range(4)]},
            schema={"a": pl.Datetime("us", "Europe/Brussels")},
        ),
        Key.calendar("a", levels=("day", "hour")),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_counts_are_those_of_polars(session, name):
    frame, key = FRAMES[name]
    table = SparkTable(as_spark(session, frame))
    assert isinstance(table, Table)
    assert kinds_of(table.column_types()) == kinds_of(frame.schema)
    expected = counted(frame, frame.schema, key)
    assert expected or name == "nothing"
    assert counted(table, frame.schema, key) == expected


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_kind_are_counted_as_polars_does(session, name):
    class Store:
        def table(self, frame):
            return SparkTable(as_spark(session, frame))

    every_kind(Store(), name)


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


@pytest.mark.parametrize("name", ["texts", "texts, nulls dropped", "paths", "bits", "addresses", "hours of times"])
def test_bounds_that_cut_nobody_change_no_count(session, name):
    frame, key = FRAMES[name]
    frame = frame.with_columns(user=pl.int_range(pl.len()) % 3)
    unit = Unit("user", rows=2**20)
    table = SparkTable(as_spark(session, frame))
    assert counted(table, frame.schema, key, unit) == counted(frame, frame.schema, key, unit)


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
            found = counted(table, table.column_types(), key)
            assert found[0] == ((None,), 2)
            assert found[1][1] == 1


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
    "integers": pl.Series([LONG - 1, -LONG, 0, None], dtype=pl.Int64),
    "texts": pl.Series(["a", "A", "", None]),
    "bytes": pl.Series([b"\xff", b"", b"a", None]),
    "floats": pl.Series([float("nan"), 0.0, 1.5, None], dtype=pl.Float64),
    "truths": pl.Series([True, False, None, None]),
    "days": pl.Series([date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), None]),
}


@pytest.mark.parametrize("kind", USERS)
def test_a_person_is_a_value_and_null_is_nobody(session, kind):
    users = USERS[kind].gather(np.arange(40) % 4).alias("user")
    frame = pl.DataFrame([users, pl.Series("a", np.arange(40) // 4)])
    people = users.drop_nulls().n_unique()
    found = records(SparkTable(as_spark(session, frame)), ["a"], parts=3)
    assert sum(found.values()) == frame["user"].drop_nulls().len()
    assert len({repr(person) for person, _ in found}) == people


def test_zeros_are_one_person_and_so_is_what_is_no_number(session):
    frame = session.sql("SELECT col1 AS user, 'x' AS a FROM VALUES (0.0D), (-0.0D), (double('nan')), (-double('nan'))")
    for parts in (1, 7):
        assert sorted(records(SparkTable(frame), ["a"], parts=parts).values()) == [2, 2]


@pytest.fixture(scope="module")
def visits():
    """Uneven people at places of their own: leaf counts tell what is kept of each."""
    rng = np.random.default_rng(4)
    user = rng.zipf(1.5, 3000).clip(0, 400)
    return pl.DataFrame({"user": user, "region": user, "city": rng.integers(0, 9, 3000).astype(str)})


CITY = ("region", "city")


@pytest.mark.parametrize("parts", [1, 3])
def test_records_are_those_of_polars(session, visits, parts):
    frame = visits.with_columns(user=pl.when(pl.col("user") == 3).then(None).otherwise("user"))
    for rows in (frame, frame.filter(pl.col("user") != 1), frame.sample(fraction=1.0, shuffle=True, seed=1)):
        table = SparkTable(as_spark(session, rows).repartition(5))
        assert records(table, CITY, parts=parts) == expected_records(rows, CITY)


def test_mutant_parts_by_key_are_rejected(session, visits, monkeypatch):
    from pyspark.sql import functions

    hashed = functions.xxhash64
    monkeypatch.setattr(functions, "xxhash64", lambda *columns: hashed("key_1"))
    with pytest.raises(AssertionError):
        records(SparkTable(as_spark(session, visits)), CITY, parts=3)


def test_long_texts_are_known_by_their_beginning_and_a_digest(session):
    class Store:
        def table(self, frame):
            return SparkTable(as_spark(session, frame))

    long_texts(Store())


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


def test_retried_tasks_count_the_same_rows(session, visits, tmp_path):
    frame = killed_once(as_spark(session, visits).repartition(3, "city"), str(tmp_path))
    assert records(SparkTable(frame), CITY) == expected_records(visits, CITY)
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


def test_nothing_is_cached(session, visits):
    SparkTable(as_spark(session, visits)).rows_per_key(Key.columns(*CITY))
    assert session.sparkContext._jsc.sc().getPersistentRDDs().size() == 0


def test_logs_hold_none_of_the_rows(session):
    """Runs last in this module: the JVM wrote down failures of all tests before."""
    labels = pl.DataFrame({"a": ["hemlock-label"] * 5, "user": [1] * 5})
    assert len(records(SparkTable(as_spark(session, labels)), ["a"])) == 1
    assert "hemlock-label" not in LOG.read_text(errors="replace")
