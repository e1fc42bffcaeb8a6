import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, OpenTree
from opendp_tree.rows.counting import RowCounter
from opendp_tree.rows.domains import kinds_of


def parts_of(counts):
    occupied, keys = counts.occupied, counts.keys
    arrays = (occupied.levels, occupied.meets, occupied.counts, keys.high, keys.low)
    return (counts.outside, *(array.tolist() for array in arrays))


def count_keys(frame, key):
    return RowCounter.of(key, kinds_of(frame.collect_schema()), None).count(frame)


def frame_of(values, dtype):
    return pl.DataFrame({"k": pl.Series(values, dtype=dtype)}).lazy()


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_plan_that_draws_is_counted_from_one_reading(repeats):
    """Keys that are drawn anew in each reading are those of one, whichever way it is found how they repeat."""
    keys = np.repeat(np.arange(2000), repeats)
    frame, reads = frame_of(keys, pl.Int64), []

    def drawn(rows):
        reads.append(1)
        return rows.select((pl.col("k") + 2001 * len(reads)) % 4001)

    plan = frame.map_batches(drawn, schema={"k": pl.Int64}, predicate_pushdown=False, projection_pushdown=False)
    counts = count_keys(plan, Key.bits("k", width=12))
    assert counts.occupied.counts.sum() == keys.size
    assert (counts.occupied.counts == repeats).all()


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128, pl.Int64])
@pytest.mark.parametrize("values", [range(101), [7] * 101, [None] * 101])
def test_wide_integers_of_files_are_counted(dtype, values, tmp_path):
    rows = pl.DataFrame({"k": pl.Series(values, dtype=dtype)})
    rows.write_parquet(tmp_path / "k.parquet")
    rows.write_ipc(tmp_path / "k.arrow")
    key = Key.bits("k", width=127)
    for frame in (pl.scan_parquet(tmp_path / "k.parquet"), pl.scan_ipc(tmp_path / "k.arrow"), rows.lazy()):
        assert count_keys(frame, key).occupied.counts.sum() == 101


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
@pytest.mark.parametrize("repeats", [1, 5])
@pytest.mark.parametrize("nulls", ["drop", "label"])
def test_addresses_count_the_same_whether_few_or_many_repeat(dtype, repeats, nulls):
    """Texts are counted before they are read, or read row by row: also those that are no address, and null."""
    numbers = np.random.default_rng(3).permutation(3000)
    texts = [f"10.0.{number // 256}.{number % 256}" for number in numbers.tolist()]
    frame = frame_of([*texts, "10.0.0.256", "none", None] * repeats, dtype)
    counts = count_keys(frame, Key.ip("k", version=4, nulls=nulls))
    expected = OpenTree.bits(32, 8, outside=nulls == "label").count(
        [*(10 * 2**24 + numbers).tolist(), *[-1] * 3] * repeats
    )
    assert parts_of(counts) == parts_of(expected)


def test_strides_beyond_the_width_leave_one_level():
    assert OpenTree.bits(8, stride=40_000).count([3, 4, 4]).occupied.meets.tolist() == [0]
