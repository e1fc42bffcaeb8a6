import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opendp_tree.rows.addresses import read_ipv4, read_ipv6
from tests.frame_truth import address

PIECES = st.lists(
    st.sampled_from(["0", "1", "ff", "FFFF", "00000", "256", ":", "::", ".", "1.2.3.4", "%", " ", "g", "+"])
)
TEXTS = st.lists(st.none() | PIECES.map("".join) | st.ip_addresses().map(str) | st.text(max_size=8), max_size=20)


@given(TEXTS)
@example(["::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "::1.2.3.4:1", "1.2.3.4"])
@example(["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8", "::", ":", "", ":::", "1::2::3", ":1", "1:"])
@example(["1.2.3.4\n", "\n1.2.3.4", "1.2.3.4.", "01.2.3.4", "١.2.3.4", "::1\n", "fe80::1%eth0", "::١"])
def test_addresses_are_read_as_the_standard_library_reads_them(texts):
    series = pl.Series(texts, dtype=pl.String)
    low, valid = read_ipv4(series)
    assert [int(n) if ok else None for n, ok in zip(low, valid, strict=True)] == [number(text, 32) for text in texts]
    high, low, valid = read_ipv6(series)
    found = [(int(h) << 64) + int(n) if ok else None for h, n, ok in zip(high, low, valid, strict=True)]
    assert found == [number(text, 128) for text in texts]


def number(text, width):
    return None if text is None else address(text, width)


@pytest.mark.parametrize("read", [read_ipv4, read_ipv6])
def test_no_addresses_at_all(read):
    for texts in ([], [None], ["x"]):
        assert not read(pl.Series(texts, dtype=pl.String))[-1].any()
