from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, Tree, Unit
from opendp_tree.rows import parts, row_counts
from opendp_tree.rows.groups import kinds_of
from opendp_tree.rows.row_counts import RowCounter
from tests.frame_truth import as_paths
from tests.fuzz.frames import coupled
from tests.thoroughness import examples

SCHEMA = {"user": pl.Int64, "a": pl.String, "b": pl.Int64}
ROWS = st.lists(
    st.tuples(st.sampled_from([*range(8), None]), st.sampled_from(["x", "y", "x/y", None]), st.integers(0, 3)),
    max_size=40,
)
TREE = Tree.from_paths([("x",), ("y",), ("rest",)])
KEYS = {
    "columns": Key.columns("a", "b"),
    "no nulls": Key.columns("a", "b", nulls="drop"),
    "path": Key.path("a", depth=3),
    "bits": Key.bits("b", width=1),
    "public": Key.columns("a", tree=TREE, outside=("rest",)),
}
EDGES = {
    pl.Int8: [-128, 0, 127],
    pl.UInt64: [0, 1, 2**64 - 1],
    pl.Int64: [-(2**63), 0, 2**63 - 1],
    pl.String: ["", "a", "A", "é", "e\u0301", "\0", "long " * 9],
    pl.Categorical: ["", "a", "b"],
    pl.Enum(["q", "p"]): ["p", "q"],
    pl.Boolean: [False, True],
    pl.Binary: [b"", b"\xff", b"a" * 40],
    pl.Date: [date(1, 1, 1), date(1970, 1, 1)],
    pl.Datetime("us", "Europe/Brussels"): [datetime(2024, 3, 31, 1, 30), datetime(1970, 1, 1)],
    pl.Duration("ms"): [timedelta(0), timedelta(days=-3)],
}


def counter(key, unit, memory=None):
    kinds = kinds_of(SCHEMA)
    return RowCounter.of(key, kinds, {name: kinds[name] for name in (*key.columns_used, "user")}, unit, memory)


def counted(key, unit, rows, memory):
    found = counter(key, unit, memory).count(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
    return found.tolist() if isinstance(found, np.ndarray) else as_paths(found)


def one_by_one(data, unit, number):
    frame = data.lazy()
    salt = bytes(range(16))
    return [parts.people_part(frame, unit, salt, part, number).collect() for part in range(number)]


@pytest.mark.parametrize("dtype", EDGES, ids=str)
def test_every_row_of_a_person_is_in_one_part(dtype):
    values = EDGES[dtype]
    column = pl.Series("user", [*values, None], dtype=dtype)
    shuffled = pl.concat([column, column.reverse(), column.slice(1), column.head(2)], rechunk=False)
    frame = pl.DataFrame({"user": shuffled, "place": range(shuffled.len())})
    for number in (2, 5):
        found = one_by_one(frame, "user", number)
        for value in values:
            rows = [part.filter(pl.col("user") == pl.lit(value, column.dtype)).height for part in found]
            assert sorted(rows)[:-1] == [0] * (number - 1), value
        assert sum(part.drop_nulls("user").height for part in found) == frame.drop_nulls("user").height


def test_a_persons_part_is_the_same_in_memory_from_files_and_among_others(tmp_path):
    users = [f"user {number}" for number in range(500)]
    frame = pl.DataFrame({"user": users * 2})
    frame.write_parquet(tmp_path / "users.parquet", row_group_size=70)
    frame.write_csv(tmp_path / "users.csv")
    whole = [set(part["user"]) for part in one_by_one(frame, "user", 3)]
    assert sum(map(len, whole)) == 500
    assert min(map(len, whole)) > 100  # 166 are expected, with a standard deviation of 11
    scans = pl.scan_parquet(tmp_path / "users.parquet"), pl.scan_csv(tmp_path / "users.csv"), frame[::-7].lazy()
    for scan in scans:
        for engine in ("streaming", "in-memory"):
            for place, people in enumerate(whole):
                part = parts.people_part(scan, "user", bytes(range(16)), place, 3).collect(engine=engine)
                assert set(part["user"]) <= people


@pytest.mark.parametrize("name", KEYS)
@examples(25)
@given(rows=ROWS, most=st.integers(1, 3), seed=st.integers(0, 9))
def test_the_number_of_parts_changes_nothing(name, rows, most, seed):
    """With draws that belong to a person and a leaf, counts are the same whatever the memory is."""
    for unit in (Unit("user", rows=most), Unit("user", leaves=most, rows_per_leaf=2)):
        with coupled(seed):
            whole, some, many = (counted(KEYS[name], unit, rows, memory) for memory in (2**40, 3000, 700))
        assert whole == some == many


def test_little_memory_makes_many_parts(monkeypatch):
    seen = []
    grouped = row_counts.group_rows
    monkeypatch.setattr(row_counts, "group_rows", lambda *given: seen.append(1) or grouped(*given))
    rows = [(person, "x", 0) for person in range(100)]
    assert counted(Key.columns("a"), Unit("user", rows=1), rows, 3000) == {("x",): 100}
    assert len(seen) == parts.parts_for(100, 2, 3000) > 5


def test_identifiers_without_a_hash_are_taken_together():
    frame = pl.LazyFrame({"user": [1.0, -0.0, 0.0]})
    assert parts.frame_parts(frame, "user", 2, 1) == 1
    assert parts.people_part(frame, "user", bytes(16), 0, 1).collect().height == 3


@pytest.mark.parametrize(("given_memory", "meant"), [(7, 7), ("7", 7), ("2KiB", 2048), ("1.5 GB", 1_500_000_000)])
def test_memory_is_read(given_memory, meant):
    assert parts.read_memory(given_memory) == meant


def test_memory_by_default_is_an_eighth_of_the_machines_and_at_most_two_gib(monkeypatch):
    for machine, meant in ((8 * 2**30, 2**30), (2**40, 2 * 2**30)):
        monkeypatch.setattr(parts, "_machine_memory", lambda machine=machine: machine)
        assert parts.read_memory(None) == meant


@pytest.mark.parametrize("wrong", [0, -1, "", "GiB", "2gib", "1e9", "0", "9" * 15 + "TiB", "٣"])
def test_what_is_no_memory_is_refused(wrong):
    with pytest.raises(ValueError, match="memory"):
        parts.read_memory(wrong)
    with pytest.raises(TypeError, match="memory"):
        parts.read_memory(1.5)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=8)))
def test_people_of_all_parts_are_added_up(many):
    frames = [
        pl.DataFrame(rows, schema={"key_0": pl.Int64, "people": pl.Int64}, orient="row")
        .group_by("key_0")
        .agg(pl.col("people").sum())
        for rows in many
    ]
    if not frames:
        return
    found = dict(parts.added_up(iter(frames), ["key_0"]).rows())
    wanted = {}
    for key, people in (row for rows in many for row in rows):
        wanted[key] = wanted.get(key, 0) + people
    assert found == wanted
