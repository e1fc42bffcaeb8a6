import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree.rows.urls import split_urls
from tests.frame_truth import url_path
from tests.thoroughness import examples


def paths(texts, count=9):
    columns, lengths = split_urls(pl.Series(texts, dtype=pl.String), count)
    return [tuple(column[row] for column in columns[:length]) for row, length in enumerate(lengths.tolist())]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("https://www.example.com/a/b?q=1#f", ("com", "example", "www", "/a", "/b")),
        ("HTTP://Example.COM:8080", ("com", "example")),
        ("ftp://me:secret@files.example.org/pub/", ("org", "example", "files", "/pub")),
        ("//cdn.example.com/x", ("com", "example", "cdn", "/x")),
        ("example.com/x", ("com", "example", "/x")),
        ("/only/a/path", ("/only", "/a", "/path")),
        ("http://10.0.0.1:80/a", ("10.0.0.1", "/a")),
        ("http://[2001:db8::1]:443/a", ("[2001:db8::1]", "/a")),
        ("https://example.com.", ("com", "example")),
        ("https://example.com//a", ("com", "example", "/", "/a")),
        ("https://münchen.example/ä", ("example", "münchen", "/ä")),
        ("?q", ("",)),
        ("", ("",)),
        ("/", ("",)),
        (None, (None,)),
    ],
)
def test_a_web_address_is_its_host_from_the_end_and_then_its_path(text, path):
    assert paths([text]) == [path]


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
