from ipaddress import ip_address

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import Key
from opendp_tree.keys.kind import Labels
from opendp_tree.rows.grouping import group_rows


def grouped(values, dtype, key):
    return group_rows(pl.LazyFrame({"k": values}, schema={"k": dtype}), key)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.integers(1, 128))
def test_integers_are_words_where_they_fit(values, width):
    groups = grouped(values, pl.Int64, Key.bits("k", width=width))
    high, low, valid = Key.bits("k", width=width).words(groups)
    for value, *words, fits in zip(groups["key_0"], high.tolist(), low.tolist(), valid, strict=True):
        assert fits == (0 <= value < 2**width)
        if fits:
            assert words[0] << 64 | words[1] == value


@given(st.lists(st.integers(0, 2**128 - 1), min_size=1, unique=True), st.integers(1, 63))
def test_labels_of_bits_spell_the_number(values, stride):
    key = Key.bits("k", width=128, stride=stride)
    groups = grouped(values, pl.UInt128, key)
    labels = key.labels(groups)
    assert (labels.lengths == key.depth - 1).all()
    for place, value in enumerate(groups["key_0"].to_list()):
        digits = [column[place] for column in labels.columns]
        widths = [min(stride, 128 - start) for start in range(0, 128, stride)]
        spelled = 0
        for digit, bits in zip(digits, widths, strict=True):
            spelled = spelled << bits | digit
        assert spelled == value


@pytest.mark.parametrize(("version", "texts"), [(4, ["10.0.0.1", "255.255.255.255"]), (6, ["::1", "fe80::"])])
def test_addresses_are_the_words_of_their_numbers(version, texts):
    key = Key.ip("k", version=version)
    groups = grouped([*texts, "no address", None], pl.String, key)
    high, low, valid = key.words(groups)
    for text, upper, lower, fits in zip(groups["key_0"], high.tolist(), low.tolist(), valid, strict=True):
        assert fits == (text in texts)
        assert not fits or upper << 64 | lower == int(ip_address(text))


def test_paths_end_where_their_labels_do():
    key = Key.path("k", depth=3)
    groups = grouped(["a/b/c", "a", ""], pl.String, key)
    labels = key.labels(groups)
    ends = dict(zip(groups["key_0"], labels.lengths.tolist(), strict=True))
    assert ends["a/b/c"] == 2
    assert ends["a"] == 1


def test_days_outside_the_calendar_have_one_label_null():
    key = Key.calendar("k")
    groups = grouped([0, 2**31 - 1, None], pl.Int32, key).with_columns(pl.col("key_0").cast(pl.Date))
    labels = key.labels(groups)
    found = {
        tuple(column[place] for column in labels.columns[: labels.lengths[place]]) for place in range(groups.height)
    }
    assert found == {(1970, 1, 1), (None,)}


def test_null_is_a_label_before_the_end_alone():
    columns = (pl.Series(["a", None, "b"]), pl.Series([None, None, "c"]))
    labels = Labels(columns, np.array([1, 1, 2]))
    assert labels.with_null().tolist() == [False, True, False]


def test_categories_and_enumerations_are_their_texts():
    for dtype in (pl.Categorical, pl.Enum(["b", "a"])):
        key = Key.columns("k")
        assert sorted(key.labels(grouped(["a", "b"], dtype, key)).columns[0].to_list()) == ["a", "b"]
