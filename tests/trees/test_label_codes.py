import numpy as np
import polars as pl

from opendp_tree.trees.label_codes import decode, label_series


def test_decoding_gives_null_where_a_key_ended():
    for labels in (["x", "y"], pl.Series(["x", "y"])):
        assert decode(labels, np.array([1, -1, 0])).to_list() == ["y", None, "x"]
        assert decode(labels[:0], np.array([-1])).to_list() == [None]


def test_decoding_keeps_times_to_the_nanosecond():
    times = pl.Series([1, 1_000_000_001], dtype=pl.Int64)
    for dtype in (pl.Datetime("ns"), pl.Datetime("ns", "Europe/Berlin"), pl.Duration("ns")):
        found = decode(times.cast(dtype), np.array([1, -1, 0]))
        assert found.dtype == dtype
        assert found.to_physical().to_list() == [1_000_000_001, None, 1]


def test_a_level_without_labels_is_one_of_texts():
    assert label_series([]).dtype == label_series([None]).dtype == pl.String
    assert label_series([1, None]).dtype == pl.Int64
    assert label_series([1, "x"]).to_list() == ["1", "x"]
