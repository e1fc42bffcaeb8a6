import io

import polars as pl
import pytest
from opendp_tree.frames.writing import frame_bytes

from opendp_tree.rows.files import file_format, read_all, scan_file

FRAME = pl.DataFrame({"a": ["x", None, "ä"], "b": ["1", "2", ""]})


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_frames_go_to_files_and_back(tmp_path, form):
    path = tmp_path / f"frame.{form}"
    path.write_bytes(frame_bytes(FRAME, file_format=form))
    assert file_format(path) == form
    assert scan_file(path, file_format=form).collect().equals(FRAME)
    read_all(scan_file(path, file_format=form))


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_names_with_stars_are_names(tmp_path, form):
    for name in ("a*", "ab", "[a]", "a?"):
        (tmp_path / name).write_bytes(frame_bytes(FRAME.with_columns(a=pl.lit(name)), file_format=form))
    for name in ("a*", "[a]", "a?"):
        assert scan_file(tmp_path / name, file_format=form).collect()["a"].to_list() == [name] * FRAME.height


def test_no_row_of_a_text_file_is_an_error_for_its_type_or_length(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b\n1,2\nx,y\n3\n4,5,6\n")
    assert scan_file(path, file_format="csv").collect().rows() == [("1", "2"), ("x", "y"), ("3", None), ("4", "5")]
    path = tmp_path / "odd.ndjson"
    path.write_text('{"a": 1}\n{"a": "x", "b": 2}\n{"a": 2.5}\n')
    assert scan_file(path, file_format="ndjson").select("a").collect()["a"].to_list() == ["1", "x", "2.5"]


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", b"a,b\n1,2\n" + b"\xff\xfe,3\n"),
        ("csv", b'a,b\n1,"2\n'),
        ("ndjson", b'{"a": "1"}\n{"a": "\xff"}\n'),
        ("ndjson", b'{"a": "1"}\n{"a": \n'),
        ("parquet", b""),
        ("csv", b""),
    ],
)
def test_reading_all_finds_damage(tmp_path, form, content):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(pl.exceptions.PolarsError):
        read_all(scan_file(path, file_format=form).select("a"))


def test_parquet_keeps_types():
    frame = pl.DataFrame({"level": [0, 1], "estimate": [1.5, None], "shown": [True, False]})
    assert pl.read_parquet(io.BytesIO(frame_bytes(frame, file_format="parquet"))).equals(frame)
