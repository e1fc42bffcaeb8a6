import ipaddress

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key, OpenTree, frame_domain, make_leaf_counts
from opendp_tree.rows import key_ranges
from opendp_tree.rows.key_ranges import count_keys
from tests.thoroughness import examples, thinned

TEXTS = ["10.0.0.1", "10.0.0.2", "192.168.7.1", "no address", "", "::1", "fe80::1", "2001:db8::8:800", None]
KINDS = {
    "8 bits": (Key.bits("k", width=8, stride=3), pl.Int64, st.integers(-3, 300)),
    "8 bits, unsigned": (Key.bits("k", width=8), pl.UInt8, st.integers(0, 255)),
    "8 bits, others dropped": (Key.bits("k", width=8, outside="drop"), pl.Int16, st.integers(-3, 300)),
    "64 bits": (Key.bits("k", width=64, stride=16), pl.UInt64, st.integers(0, 2**64 - 1)),
    "128 bits": (Key.bits("k", width=128, stride=32), pl.Int128, st.integers(-(2**127), 2**127 - 1)),
    "128 bits, unsigned": (Key.bits("k", width=128, stride=8), pl.UInt128, st.integers(0, 2**128 - 1)),
    "IPv4": (Key.ip("k"), pl.String, st.sampled_from(TEXTS)),
    "IPv4, categories": (Key.ip("k"), pl.Categorical, st.sampled_from(TEXTS)),
    "IPv6": (Key.ip("k", version=6), pl.String, st.sampled_from(TEXTS)),
}


def parts_of(counts):
    occupied, keys = counts.occupied, counts.keys
    arrays = (occupied.levels, occupied.meets, occupied.counts, keys.high, keys.low)
    return (counts.outside, *(array.tolist() for array in arrays))


def frame_of(values, dtype):
    return pl.DataFrame({"k": pl.Series(values, dtype=dtype)}).lazy()


def taken(monkeypatch):
    """How many ranges of keys were read, and how: each name is a reading."""
    seen = []
    for name in ("_sorted_rows", "group_rows"):
        plain = getattr(key_ranges, name)
        monkeypatch.setattr(
            key_ranges, name, lambda *given, plain=plain, name=name, **more: seen.append(name) or plain(*given, **more)
        )
    return seen


@pytest.mark.parametrize("kind", thinned(KINDS, 3))
@examples(60)
@given(data=st.data())
def test_the_number_of_ranges_changes_nothing(kind, data):
    """Counts of one pass, of some, and of as many as there can be are the same, to the last place."""
    key, dtype, values = KINDS[kind]
    drawn = data.draw(st.lists(st.none() | values, max_size=25))
    repeated = drawn + drawn * data.draw(st.integers(0, 3))  # sorted, and grouped
    frame = frame_of(repeated, dtype)
    whole = parts_of(count_keys(frame, key, 2**40))
    for memory in (1000, 300, 64, 1):
        assert parts_of(count_keys(frame, key, memory)) == whole


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(data=st.data())
def test_counts_are_those_of_the_tree_itself(kind, data):
    key, dtype, values = KINDS[kind]
    drawn = data.draw(st.lists(st.none() | values, max_size=25))
    version = {"IPv4": ipaddress.IPv4Address, "IPv6": ipaddress.IPv6Address}.get(kind.partition(",")[0])
    found = parts_of(count_keys(frame_of(drawn, dtype), key, 500))
    numbers = [_number(value, version) if version else value for value in drawn]
    assert found == parts_of(key.open_tree().count(numbers))


def _number(text, version):
    try:
        return int(version(text))
    except ValueError:
        return None


@pytest.mark.parametrize(("repeats", "how"), [(1, "_sorted_rows"), (5, "group_rows")])
def test_rows_are_sorted_where_keys_differ_and_grouped_where_they_repeat(repeats, how, monkeypatch):
    keys = np.random.default_rng(0).integers(0, 2**62, 4000)
    frame, key = frame_of(np.repeat(keys, repeats), pl.Int64), Key.bits("k", width=64)
    seen = taken(monkeypatch)
    whole = parts_of(count_keys(frame, key, 2**40))
    assert seen == [how]
    assert parts_of(count_keys(frame, key, 50_000)) == whole
    assert len(seen) > 4
    assert set(seen) == {how}


def test_ranges_are_about_equal_where_keys_are_not_spread_evenly_nor_in_order(monkeypatch):
    sizes = []
    plain = key_ranges._sorted_rows
    monkeypatch.setattr(key_ranges, "_sorted_rows", lambda numbers: _noted(plain(numbers), sizes))
    rng = np.random.default_rng(1)
    keys = np.sort((np.exp(40 * rng.random(20_000))).astype(np.int64) * 1000 + rng.integers(0, 1000, 20_000))
    count_keys(frame_of(keys, pl.Int64), Key.bits("k", width=62), 20_000 * key_ranges._BYTES_SORTED // 8)
    assert len(sizes) == 8
    assert max(sizes) < 1.1 * 20_000 / 8


def _noted(frame, sizes):
    sizes.append(frame.height)
    return frame


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_plan_that_draws_is_counted_from_one_reading(repeats):
    """Read range by range, a key that is drawn anew each time would be counted in several ranges or in none."""
    keys = np.repeat(np.arange(2000), repeats)
    frame, reads = frame_of(keys, pl.Int64), []

    def drawn(rows):
        reads.append(1)
        return rows.select((pl.col("k") + 2001 * len(reads)) % 4001)

    plan = frame.map_batches(drawn, schema={"k": pl.Int64}, predicate_pushdown=False, projection_pushdown=False)
    counts = count_keys(plan, Key.bits("k", width=12), 2000)
    assert counts.occupied.counts.sum() == keys.size
    assert (counts.occupied.counts == repeats).all()


def test_one_key_of_many_rows_is_one_range():
    counts = count_keys(frame_of([7] * 1000, pl.Int64), Key.bits("k", width=8), 1)
    assert counts.occupied.counts.tolist() == [1000]


def test_files_are_read_range_by_range(tmp_path):
    keys = np.random.default_rng(2).integers(0, 2**40, 5000)
    pl.DataFrame({"k": keys}).write_parquet(tmp_path / "keys.parquet", row_group_size=700)
    key, scan = Key.bits("k", width=40, stride=8), pl.scan_parquet(tmp_path / "keys.parquet")
    assert parts_of(count_keys(scan, key, 30_000)) == parts_of(key.open_tree().count(keys))


def test_memory_reaches_from_leaf_counts():
    import opendp.prelude as dp

    frame = frame_of(np.random.default_rng(3).integers(0, 2**40, 3000), pl.Int64)
    space, key = (frame_domain(frame), dp.symmetric_distance()), Key.bits("k", width=40)
    whole, some = (make_leaf_counts(*space, by=key, memory=memory)(frame) for memory in ("1GiB", "20KiB"))
    assert parts_of(whole) == parts_of(some)


def test_errors_hold_no_data():
    frame = frame_of(["secret"], pl.String).with_columns(k=pl.col("k").str.to_integer())
    with pytest.raises(RuntimeError, match="withheld") as found:
        count_keys(frame, Key.bits("k", width=8), 2**30)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128, pl.Int64])
@pytest.mark.parametrize("values", [range(101), [7] * 101, [None] * 101])
def test_wide_integers_of_files_are_counted_whatever_the_memory(dtype, values, tmp_path):
    """Polars cannot filter 128-bit integers while it reads them from Parquet."""
    rows = pl.DataFrame({"k": pl.Series(values, dtype=dtype)})
    rows.write_parquet(tmp_path / "k.parquet")
    rows.write_ipc(tmp_path / "k.arrow")
    key = Key.bits("k", width=127)
    for frame in (pl.scan_parquet(tmp_path / "k.parquet"), pl.scan_ipc(tmp_path / "k.arrow"), rows.lazy()):
        counts = [key_ranges.count_keys(frame, key, memory).occupied.counts.tolist() for memory in (10**9, 6400, 100)]
        assert counts[0] == counts[1] == counts[2]
        assert sum(counts[0]) == 101


def test_strides_beyond_the_width_leave_one_level():
    assert OpenTree.bits(8, stride=40_000).count([3, 4, 4]).occupied.meets.tolist() == [0]
