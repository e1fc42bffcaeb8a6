from collections import Counter
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, Unit, read_source
from opendp_tree.rows import counting, people
from opendp_tree.rows.counting import FrameRows
from opendp_tree.rows.domains import narrowed
from tests.fuzz.frames import coupled
from tests.rows.test_row_counts import KEYS, ROWS, by_leaf, counter, frame_of
from tests.thoroughness import examples

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


def one_part(data, unit, part, number):
    """Whose the rows of one part are: columns `unit`, and `key_0` with the row's number."""
    return FrameRows(data.lazy(), salt=7).rows_per_person(Key.columns("row"), unit, part, number)


def one_by_one(data, unit, number):
    frame = data.with_row_index("row")
    return [one_part(frame, unit, part, number).collect() for part in range(number)]


@pytest.mark.parametrize("dtype", EDGES, ids=str)
def test_every_row_of_a_person_is_in_one_part(dtype):
    values = EDGES[dtype]
    column = pl.Series("user", [*values, None], dtype=dtype)
    shuffled = pl.concat([column, column.reverse(), column.slice(1), column.head(2)], rechunk=False)
    frame = pl.DataFrame({"user": shuffled, "place": range(shuffled.len())})
    for number in (2, 5):
        found = one_by_one(frame, "user", number)
        for value in values:
            rows = [part.filter(pl.col("unit") == pl.lit(value, column.dtype)).height for part in found]
            assert sorted(rows)[:-1] == [0] * (number - 1), value
        assert sum(part.height for part in found) == frame.drop_nulls("user").height


def test_a_persons_part_is_the_same_in_memory_from_files_and_among_others(tmp_path):
    users = [f"user {number}" for number in range(500)]
    frame = pl.DataFrame({"user": users * 2})
    frame.write_parquet(tmp_path / "users.parquet", row_group_size=70)
    frame.write_csv(tmp_path / "users.csv")
    whole = [set(part["unit"]) for part in one_by_one(frame, "user", 3)]
    assert sum(map(len, whole)) == 500
    assert min(map(len, whole)) > 100  # 166 are expected, with a standard deviation of 11
    scans = pl.scan_parquet(tmp_path / "users.parquet"), pl.scan_csv(tmp_path / "users.csv"), frame[::-7].lazy()
    for scan in scans:
        for engine in ("streaming", "in-memory"):
            for place, persons in enumerate(whole):
                part = one_part(scan.with_row_index("row"), "user", place, 3).collect(engine=engine)
                assert set(part["unit"]) <= persons


@pytest.mark.parametrize("name", KEYS)
@examples(25)
@given(rows=ROWS, most=st.integers(1, 3), seed=st.integers(0, 9))
def test_the_number_of_parts_changes_nothing(name, rows, most, seed):
    """With draws that belong to a person and a leaf, counts are the same whatever the memory is."""
    for unit in (Unit("user", rows=most), Unit("user", leaves=most, rows_per_leaf=2)):
        with coupled(seed):
            found = [counter(KEYS[name], unit, memory).count(frame_of(rows)) for memory in (2**40, 3000, 700)]
        whole, some, many = map(by_leaf, found)
        assert whole == some == many


def test_identifiers_without_a_hash_are_taken_together():
    frame = pl.DataFrame({"user": [1.0, -0.0, 0.0]})
    assert [part.height for part in one_by_one(frame, "user", 3)] == [3, 0, 0]


@pytest.mark.parametrize(("given_memory", "meant"), [(7, 7), ("7", 7), ("2KiB", 2048), ("1.5 GB", 1_500_000_000)])
def test_memory_is_read(given_memory, meant):
    assert counting.read_memory(given_memory) == meant


def test_memory_by_default_is_an_eighth_of_the_machines_and_at_most_two_gib(monkeypatch):
    for machine, meant in ((8 * 2**30, 2**30), (2**40, 2 * 2**30)):
        monkeypatch.setattr(counting, "_machine_memory", lambda machine=machine: machine)
        assert counting.read_memory(None) == meant


@pytest.mark.parametrize("wrong", [0, -1, "", "GiB", "2gib", "1e9", "0", "9" * 15 + "TiB", "٣"])
def test_what_is_no_memory_is_refused(wrong):
    with pytest.raises(ValueError, match="memory"):
        counting.read_memory(wrong)
    with pytest.raises(TypeError, match="memory"):
        counting.read_memory(1.5)


def test_frames_in_memory_and_own_scans_are_read_again_and_any_other_plan_is_run_once(tmp_path):
    rows = pl.DataFrame({"user": [1, 2], "a": ["x", "2"]})
    for name, write in (("k.parquet", rows.write_parquet), ("k.arrow", rows.write_ipc), ("k.csv", rows.write_csv)):
        write(tmp_path / name)
    own = [rows, *(read_source(tmp_path / name) for name in ("k.parquet", "k.arrow", "k.csv", "*.csv"))]
    own.append(read_source(tmp_path / "k.csv", schema={"a": int}))
    for source in own:
        frame = narrowed(source, ["a"])
        assert counting._same_when_read_again(frame) is frame
        assert counting._same_when_read_again(frame.filter(True)) is not frame  # whatever a caller adds
    for other in (pl.scan_parquet(tmp_path / "k.parquet"), rows.lazy(), own[1].filter(pl.col("user") > 1)):
        frame = narrowed(other, ["a"])
        assert "DF [" in counting._same_when_read_again(frame).explain(optimized=False).splitlines()[0]


NUMBERS = {
    "near": pl.Series([7, 9, 7, 8], dtype=pl.Int64),
    "far": pl.Series([-(2**63), 2**63 - 1, -(2**63), 0], dtype=pl.Int64),
    "short": pl.Series([-128, 127, -128, 0], dtype=pl.Int8),
    "unsigned": pl.Series([0, 2**64 - 1, 0, 2**63], dtype=pl.UInt64),
    "unsigned, near": pl.Series([2**64 - 2, 2**64 - 1, 2**64 - 2, 2**64 - 3], dtype=pl.UInt64),
    "long": pl.Series([-(2**100), 2**100, -(2**100), 0], dtype=pl.Int128),
    "text": pl.Series(["ann", "", "ann", "Ann"]),
    "float": pl.Series([0.0, float("nan"), -0.0, 1.0]),
}


@pytest.mark.parametrize("bits", [2, 32, 63])
@pytest.mark.parametrize("name", NUMBERS)
def test_people_are_told_apart_by_small_numbers_whatever_names_them(name, bits):
    first, second, third, fourth = people.person_numbers(NUMBERS[name], bits).tolist()
    assert first == third
    assert len({first, second, fourth}) == 3
    assert all(0 <= number < 2**bits for number in (first, second, fourth))
    assert people.person_numbers(NUMBERS[name].clear(), bits).tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 3)), max_size=15), st.sampled_from([5, 8])
)
def test_groups_of_rows_have_the_records_of_their_rows(groups, size):
    given_rows = [(person, leaf) for person, leaf, rows in groups for _ in range(rows)]
    units, leaves = (np.array([row[place] for row in given_rows], dtype=np.int64) for place in (0, 1))
    whole = people.people_records(size, pl.Series(units), leaves)
    units, leaves, rows = (np.array([row[place] for row in groups], dtype=np.int64) for place in range(3))
    found = people.people_records(size, pl.Series(units), leaves, rows)
    for name in ("starts", "leaves", "rows", "people", "totals"):
        assert getattr(found, name).tolist() == getattr(whole, name).tolist()
    counts = Counter(given_rows)
    assert found.rows.tolist() == [counts[pair] for pair in sorted(counts)]
    assert found.leaves.tolist() == [leaf for _, leaf in sorted(counts)]
