import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opendp_tree.saturate import LIMIT, add, clamp, range_sums

int64s = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, LIMIT, -LIMIT, LIMIT - 1, 0])


def exact_clamp(value):
    return max(-LIMIT, min(LIMIT, value))


@given(st.lists(st.integers(-LIMIT, LIMIT), min_size=1), st.data())
def test_add_is_the_exact_sum_clamped(values, data):
    noise = data.draw(st.lists(int64s, min_size=len(values), max_size=len(values)))
    added = add(np.array(values, dtype=np.int64), np.array(noise, dtype=np.int64))
    assert added.tolist() == [exact_clamp(a + b) for a, b in zip(values, noise, strict=True)]


@given(st.integers(-LIMIT, LIMIT), st.integers(2**63, 2**70))
def test_noise_beyond_int64_may_be_passed_as_the_nearest(value, noise):
    ends = np.array([2**63 - 1, -(2**63 - 1)], dtype=np.int64)
    added = add(np.array([value, value], dtype=np.int64), ends)
    assert added.tolist() == [exact_clamp(value + noise), exact_clamp(value - noise)]


@given(st.lists(int64s, min_size=1, max_size=20), st.data())
def test_range_sums_are_the_exact_sums_clamped(values, data):
    places = st.integers(0, len(values))
    first = data.draw(places)
    last = data.draw(st.integers(first, len(values)))
    sums = range_sums(np.array(values, dtype=np.int64), np.array([first, 0]), np.array([last, len(values)]))
    assert sums.tolist() == [exact_clamp(sum(values[first:last])), exact_clamp(sum(values))]


@given(hnp.arrays(st.sampled_from(["i1", "i4", "i8", "u1", "u4", "u8"]).map(np.dtype), 5))
def test_clamp_keeps_every_integer_type(values):
    assert clamp(values).tolist() == [exact_clamp(int(value)) for value in values]
    assert clamp(values).dtype == np.int64
