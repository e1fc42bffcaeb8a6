import csv
import io

import polars as pl
import pytest

from opendp_tree.releases.writing import frame_bytes, spreadsheet_safe
from opendp_tree.rows.sources import file_format, scan_file, scan_files, texts_as

FRAME = pl.DataFrame({"a": ["x", None, "ä"], "b": ["1", "2", ""]})


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("name", ["frame", "a*", "[a]", "a?"])
def test_frames_go_to_files_and_back_whatever_the_name(tmp_path, form, name):
    for other in (f"ab.{form}", f"a.{form}"):
        (tmp_path / other).write_bytes(frame_bytes(FRAME[:1], file_format=form))
    path = tmp_path / f"{name}.{form}"
    path.write_bytes(frame_bytes(FRAME, file_format=form))
    assert file_format(path) == form
    assert scan_file(path, file_format=form).collect().equals(FRAME)


@pytest.mark.parametrize("ending", ["arrow", "feather", "ipc"])
def test_ipc_keeps_types_and_rows(tmp_path, ending):
    frame, path = FRAME.with_columns(n=pl.Series([1, None, 3])), tmp_path / f"a.{ending}"
    frame.write_ipc(path)
    assert file_format(path) == "ipc"
    assert scan_file(path, file_format="ipc").collect().equals(frame)


def test_a_pattern_is_all_files_in_the_order_of_their_names_and_a_name_is_one(tmp_path):
    for name in ("b.parquet", "a.parquet", "[ab].parquet"):
        FRAME.with_columns(a=pl.lit(name)).write_parquet(tmp_path / name)
    (tmp_path / "deep").mkdir()
    FRAME.with_columns(a=pl.lit("deep")).write_ipc(tmp_path / "deep" / "c.arrow")

    def names(pattern):
        return scan_files(tmp_path / pattern).collect()["a"].unique(maintain_order=True).to_list()

    assert names("?.parquet") == ["a.parquet", "b.parquet"]
    assert names("[ab].parquet") == ["[ab].parquet"]
    assert names("**/?.[ap]*") == ["a.parquet", "b.parquet", "deep"]


def test_files_of_one_pattern_have_one_schema(tmp_path):
    for place, header in enumerate(["a,b", "b,a", "a,c"]):
        (tmp_path / f"{place}.csv").write_text(f"{header}\n1,2\n")
    assert scan_files(tmp_path / "[01].csv").collect().rows() == [("1", "2"), ("2", "1")]
    with pytest.raises(ValueError, match=r"2\.csv' must have the columns and data types of '.*0\.csv'\. H") as caught:
        scan_files(tmp_path / "*.csv")
    assert "'c'" not in str(caught.value)  # without a heading, it would be of the first row


def test_no_row_of_a_text_file_is_an_error_for_its_type_or_length(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b\n1,2\nx,y\n3\n4,5,6\n")
    assert scan_file(path, file_format="csv").collect().rows() == [("1", "2"), ("x", "y"), ("3", None), ("4", "5")]
    path.write_bytes(b"a,b\n1,2\n\xff\xfe,3\n\xc3\x28,\x00\n")
    rows = scan_file(path, file_format="csv").collect().rows()
    assert rows == [("1", "2"), ("\ufffd\ufffd", "3"), ("\ufffd(", "\x00")]


ODD = [b"", b",", b"\xff,\xfe\xff", b",,,,,,,", b'"",""', b'"a\nb",c', b'"a""b"', b"x" * 300_000, b"\x00"]
ODD += [b"10" * 40, b"\xf0\x9f"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 1, 2000, 3999])
def test_no_record_of_a_csv_file_changes_how_others_are_read(tmp_path, odd, place):
    """Anywhere among 4,000 records, in either engine: the rest is as without it."""
    records = [b'%d,"%d"' % (number, number) for number in range(4000)]
    path = tmp_path / "odd.csv"
    path.write_bytes(b"\n".join([b"a,b", *records[:place], odd, *records[place:]]) + b"\n")
    usual = [f"{number}" for number in range(4000)]
    for engine in ("streaming", "in-memory"):
        frame = scan_file(path, file_format="csv").collect(engine=engine)
        assert frame.height == 4001
        assert frame["a"].to_list()[:place] + frame["a"].to_list()[place + 1 :] == usual
        assert frame["b"].to_list()[:place] + frame["b"].to_list()[place + 1 :] == usual


TIMES = ["", "2024-02-30", "0000-00-00", "-999-01-01", "+99999-01-01", "２０２４-01-01", "2024-01-01T24", "🙂" * 20]


@pytest.mark.parametrize("dtype", [pl.Date(), pl.Datetime("us")])
def test_texts_that_are_no_times_are_null_and_change_no_other(dtype):
    def read(texts):
        # As integers, because Python has no years below 1.
        return texts_as(pl.LazyFrame({"day": texts}), {"day": dtype}).collect()["day"].to_physical().to_list()

    texts = [*TIMES, "2024-01-01T23:59", "2024-01-01 07:30"]
    assert read(texts) == [each for text in texts for each in read([text])]
    assert read(["", "2024-02-30", "0000-00-00", "x"]) == [None] * 4


def test_times_are_read_to_the_second_whatever_follows():
    texts = ["2024-01-01", "2024-01-01T07", "2024-01-01 07:30", "2024-01-01T07:30:15", "2024-01-01T07:30Z"]
    texts += ["2024-01-01 07:30:15.5+02:00", "2024-01-01 07:3", "2024-01-01 07:30:155", "2024-01-01x07"]
    read = texts_as(pl.LazyFrame({"at": texts}), {"at": pl.Datetime("us")}).collect()["at"]
    times = ["00:00:00", "07:00:00", "07:30:00", "07:30:15", "07:30:00", "07:30:15", None, None, None]
    assert read.dt.strftime("%H:%M:%S").to_list() == times


MORE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", " =1+1"]
MORE += ["\ufeff=1", "\u200b+1", "\xa0 @a", "\u3164=1"]


def test_no_cell_of_a_safe_frame_begins_a_formula():
    plain = ["a=1", "", "1-1", "ä", None]
    kinds = pl.Series(MORE + plain, dtype=pl.Categorical)
    frame = pl.DataFrame({"=label": MORE + plain, "kind": kinds, "estimate": -1.5})
    safe = spreadsheet_safe(frame)
    assert safe.columns == ["'=label", "kind", "estimate"]
    for name in safe.columns[:2]:
        assert safe[name].to_list() == [f"'{text}" for text in MORE] + plain
    assert safe["estimate"].to_list() == frame["estimate"].to_list()
    read = list(csv.reader(io.StringIO(frame_bytes(safe, file_format="csv").decode(), newline="")))
    assert not [cell for row in read for cell in row[:2] if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n", "＝")]


@pytest.mark.parametrize(
    ("form", "content"),
    [("csv", b'a,b\n1,"2\n'), ("csv", b'a,b\n"1"2,3\n'), ("csv", b'a,b\n1"2,3\n4,5\n'), ("parquet", b""), ("csv", b"")],
)
def test_reading_all_finds_damage(tmp_path, form, content):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises((pl.exceptions.PolarsError, ValueError)):
        scan_file(path, file_format=form).select("a").collect()
