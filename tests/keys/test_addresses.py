import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from opendp_tree.keys.addresses import read_ipv4, read_ipv6
from opendp_tree.keys.paths import split_urls
from tests.frame_truth import address, url_path
from tests.thoroughness import examples

PIECES = st.lists(
    st.sampled_from(["0", "1", "ff", "FFFF", "00000", "256", ":", "::", ".", "1.2.3.4", "%", " ", "g", "+"])
)
TEXTS = st.lists(st.none() | PIECES.map("".join) | st.ip_addresses().map(str) | st.text(max_size=8), max_size=20)


@given(TEXTS)
@example([])
@example(["::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "::1.2.3.4:1", "1.2.3.4"])
@example(["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8", "::", ":", "", ":::", "1::2::3", ":1", "1:"])
@example(["1.2.3.4\n", "\n1.2.3.4", "1.2.3.4.", "01.2.3.4", "١.2.3.4", "::1\n", "fe80::1%eth0", "::١"])
def test_addresses_are_read_as_the_standard_library_reads_them(texts):
    series = pl.Series(texts, dtype=pl.String)
    _, low, valid = read_ipv4(series)
    assert [int(n) if ok else None for n, ok in zip(low, valid, strict=True)] == [number(text, 32) for text in texts]
    high, low, valid = read_ipv6(series)
    found = [(int(h) << 64) + int(n) if ok else None for h, n, ok in zip(high, low, valid, strict=True)]
    assert found == [number(text, 128) for text in texts]


def number(text, width):
    return None if text is None else address(text, width)


def paths(texts, count=9):
    columns, lengths = split_urls(pl.Series(texts, dtype=pl.String), count)
    return [tuple(column[row] for column in columns[:length]) for row, length in enumerate(lengths.tolist())]


URLS = {
    "https://www.example.com/a/b?q=1#f": ("com", "example", "www", "/a", "/b"),
    "HTTP://Example.COM:8080": ("com", "example"),
    "ftp://me:secret@files.example.org/pub/": ("org", "example", "files", "/pub"),
    "//cdn.example.com/x": ("com", "example", "cdn", "/x"),
    "example.com/x": ("com", "example", "/x"),
    "/only/a/path": ("/only", "/a", "/path"),
    "http://10.0.0.1:80/a": ("10.0.0.1", "/a"),
    "http://[2001:db8::1]:443/a": ("[2001:db8::1]", "/a"),
    "https://example.com.": ("com", "example"),
    "https://example.com//a": ("com", "example", "/", "/a"),
    "https://münchen.example/ä": ("example", "münchen", "/ä"),
    "?q": ("",),
    "": ("",),
    "/": ("",),
    None: (None,),
}


def test_a_web_address_is_its_host_from_the_end_and_then_its_path():
    assert dict(zip(URLS, paths(list(URLS)), strict=True)) == URLS


@examples(300)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.text("ab.:/?#@[]1é\n", max_size=20), max_size=5))
def test_every_text_is_read_alone_and_as_plain_python_reads_it(texts):
    found = paths(texts, 200)
    assert found == [url_path(text)[:200] for text in texts]
    assert found == [path for text in texts for path in paths([text], 200)]


def test_labels_are_cut_at_the_depth_and_columns_at_the_longest():
    columns, lengths = split_urls(pl.Series(["https://a.b/c/d", "https://b"]), 3)
    assert [column.to_list() for column in columns] == [["b", "b"], ["a", None], ["/c", None]]
    assert lengths.tolist() == [3, 1]
    assert len(split_urls(pl.Series(["b"]), 999)[0]) == 1
    assert split_urls(pl.Series([], dtype=pl.String), 3)[1].tolist() == []
