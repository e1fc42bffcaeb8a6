import csv
import io
import json
import zipfile
from dataclasses import replace
from datetime import date, time
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from opendp_tree import Tree, TreeRelease
from opendp_tree.releases import writing
from opendp_tree.releases.release import PrivacyStatement
from opendp_tree.releases.writing import STATEMENT, arrow_table, frame_bytes, pandas_frame

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128]
TIMES = [
    pl.Date,
    *(pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Brussels")),
    *(pl.Duration(unit) for unit in ("ms", "us", "ns")),
]


def sheets(content):
    """For each sheet its rows, as dictionaries from columns' letters to what cells hold."""
    book, word = zipfile.ZipFile(io.BytesIO(content)), "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    parts = {name: ElementTree.fromstring(book.read(name)) for name in book.namelist()}
    names, texts = parts["xl/workbook.xml"], parts["xl/sharedStrings.xml"]
    texts = ["".join(item.itertext()) for item in texts]
    found = {}
    for place, sheet in enumerate(names.iter(f"{word}sheet"), start=1):
        rows = parts[f"xl/worksheets/sheet{place}.xml"].iter(f"{word}row")
        found[sheet.get("name")] = [{cell.get("r")[0]: value(cell, texts) for cell in row} for row in rows]
    return found


def value(cell, texts):
    assert [child.tag.rsplit("}", 1)[1] for child in cell] in ([], ["v"])  # no formula
    if not len(cell):
        return None
    return texts[int(cell[0].text)] if cell.get("t") == "s" else float(cell[0].text)


EDGES = {
    pl.Boolean: [True, False, None],
    pl.String: ["", "a", "=1+1", "\0", "\n", '"', ",", "e\u0301", "x" * 40_000, None],
    pl.Time: [time(0), time(23, 59, 59, 999_999), time(1), None],
}


def extremes(dtype):
    if dtype in EDGES:
        return pl.Series("label", EDGES[dtype], dtype=dtype).to_frame()
    physical = pl.Series([], dtype=dtype).to_physical().dtype
    ends = pl.concat([pl.select(end).to_series().cast(physical) for end in (physical.min(), physical.max())])
    return ends.append(pl.Series([0, 1, None], dtype=physical)).cast(dtype).alias("label").to_frame()


@pytest.mark.parametrize("dtype", [*INTEGERS, *TIMES, *EDGES], ids=str)
@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "xlsx"])
def test_every_label_of_every_type_can_be_written_in_every_format(dtype, form, capfd):
    frame = extremes(dtype)
    content = frame_bytes(frame, file_format=form)
    assert capfd.readouterr().err == ""  # no panic that was caught
    if form == "parquet":
        assert pl.read_parquet(io.BytesIO(content)).equals(frame)
        return
    if form == "xlsx":
        cells = [row.get("A") for row in sheets(content)["counts"][1:]]
        assert len(set(cells)) == frame["label"].n_unique() - (dtype == pl.String)  # "" and null are both empty cells
        return
    if form == "ndjson":
        texts = [json.loads(line)["label"] for line in content.decode().split("\n")[:-1]]
    else:
        texts = [row[0] if row else None for row in csv.reader(io.StringIO(content.decode(), newline=""))][1:]
    assert len(set(texts)) == frame["label"].n_unique()
    if dtype in (pl.Int128, pl.UInt128):
        assert [int(text) for text in texts[:4]] == frame["label"].to_list()[:4]


@pytest.mark.parametrize("dtype", [*INTEGERS, *TIMES, pl.String, pl.Boolean, pl.Float64], ids=str)
def test_every_label_of_every_type_goes_to_arrow_and_pandas_and_comes_back(dtype):
    plain = isinstance(dtype, pl.DataType) or dtype in (*INTEGERS, pl.Date)
    frame = extremes(dtype) if plain else pl.DataFrame({"label": [1, 0, None]}).cast({"label": dtype})
    if dtype not in (*INTEGERS, pl.Date) and plain:
        frame = frame[1:]  # the least of 64 bits is how pandas writes null
    for label in (pl.DataFrame(arrow_table(frame))["label"], pl.from_pandas(pandas_frame(frame))["label"]):
        if dtype in (pl.Int128, pl.UInt128):
            assert label.to_list() == [None if value is None else str(value) for value in frame["label"].to_list()]
        else:
            assert label.cast(dtype).equals(frame["label"])


@pytest.mark.parametrize(
    ("missing", "write"), [("pyarrow", arrow_table), ("pandas", pandas_frame), ("pyarrow", pandas_frame)]
)
def test_what_is_not_installed_is_named(monkeypatch, missing, write):
    real = writing.importlib.import_module

    def absent(name):
        if name == missing:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(writing.importlib, "import_module", absent)
    method = "to_arrow" if write is arrow_table else "to_pandas"
    with pytest.raises(ImportError, match=rf"{method} needs {missing}, which .* Hint: pip install {missing}"):
        write(pl.DataFrame({"estimate": [1.0]}))


def test_parquet_says_what_is_counted_and_what_it_cost():
    statement = PrivacyStatement("none", "max_divergence()", 1, {"epsilon": 1.0}, {}, "one row", "rows")
    content = frame_bytes(pl.DataFrame({"path": ["a"]}), file_format="parquet", statement=statement)
    assert json.loads(pl.read_parquet_metadata(io.BytesIO(content))[STATEMENT]) == statement.to_dict()
    plain = frame_bytes(pl.DataFrame({"path": ["a"]}), file_format="parquet")
    assert STATEMENT not in pl.read_parquet_metadata(io.BytesIO(plain))


STATED = PrivacyStatement("none", "max_divergence()", 1, {"epsilon": 1.0}, {"scale": 2.0}, "one row", "=rows")


def test_excel_holds_the_rows_and_the_statement_and_no_formula():
    frame = pl.DataFrame({"path": ["=1+1", "http://a.b", "12"], "estimate": [1.5, float("inf"), float("nan")]})
    found = sheets(frame_bytes(frame, file_format="xlsx", statement=STATED, words="Counts.\nPrivacy: little."))
    assert found["counts"] == [
        {"A": "path", "B": "estimate"},
        {"A": "=1+1", "B": 1.5},
        {"A": "http://a.b", "B": None},
        {"A": "12", "B": None},
    ]
    said = [(row["A"], row["B"]) for row in found["statement"]]
    assert said[1:3] == [(None, "Counts."), ("Privacy", "little.")]
    assert {("loss epsilon", "1"), ("scale", "2.0"), ("counted", "=rows"), ("d_in", "1")} <= set(said)


def test_excel_keeps_columns_whose_names_are_odd_and_rows_beyond_a_sheet(monkeypatch):
    monkeypatch.setattr(writing, "_SHEET_ROWS", 2)
    names = ["path", "Path", "PATH", "", "x" * 300, "x" * 299, "a\x01\uffff", "<&>'[#@"]
    found = sheets(frame_bytes(pl.DataFrame({name: [1, 2, 3] for name in names}), file_format="xlsx"))
    assert list(found) == ["counts", "counts 2"]
    headers = list(found["counts"][0].values())
    assert headers[:4] == ["path", "Path_2", "PATH_3", "(no name)"]
    assert len({header.casefold() for header in headers}) == len(names)
    assert headers[-2:] == ["a  ", names[-1]]
    assert [list(row.values()) for row in found["counts"][1:] + found["counts 2"][1:]] == [[n] * 8 for n in (1, 2, 3)]


def test_excel_has_dates_from_the_day_on_that_it_counts_right():
    days = [date(1900, 2, 28), date(1900, 3, 1)]
    for frame, cells in ((pl.DataFrame({"day": days}), [*map(str, days)]), (pl.DataFrame({"day": days[1:]}), [61.0])):
        assert [row["A"] for row in sheets(frame_bytes(frame, file_format="xlsx"))["counts"][1:]] == cells


@pytest.mark.parametrize("ending", ["parquet", "pq", "csv", "ndjson", "jsonl", "json", "xlsx", "XLSX", "txt", "md"])
def test_a_release_is_written_in_the_format_of_the_ending(tmp_path, ending):
    release = TreeRelease(Tree.from_paths([("=a",), ("b",)]), *np.ones((3, 3)), confidence=0.9, statement=STATED)
    path = tmp_path / f"out.{ending}"
    path.write_text("before")
    release.write(path, other=False)
    content, frame = path.read_bytes(), release.to_frame(other=False)
    if ending == "json":
        assert TreeRelease.from_json(content).to_frame(other=False).equals(frame)
    elif ending in ("txt", "md"):
        assert [line for line in content.decode().split("\n") if line] == release.describe().splitlines()
    elif ending.lower() == "xlsx":
        assert [row["A"] for row in sheets(content)["counts"]] == ["path", None, "=a", "b"]
        assert ("Privacy", "epsilon 1 for adding or removing one row.") in [
            tuple(row.values()) for row in sheets(content)["statement"]
        ]
    else:
        form = {"pq": "parquet", "jsonl": "ndjson"}.get(ending, ending)
        assert content == frame_bytes(frame, file_format=form, statement=STATED)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_loss_in_a_sheet_is_short_and_never_less(tmp_path):
    given = TreeRelease(Tree.from_parents([-1]), *np.ones((3, 1)), confidence=0.9, statement=STATED)
    for loss, shown in ((0.9999999999993605, "1"), (0.1, "0.1"), (1.0000001, "1.00001"), (1e-6, "1e-06")):
        stated = replace(STATED, loss={"epsilon": loss}, parameters={"scale": 3.0})
        replace(given, statement=stated).write(tmp_path / "out.xlsx")
        cells = [tuple(row.values()) for row in sheets((tmp_path / "out.xlsx").read_bytes())["statement"]]
        assert ("loss epsilon", shown) in cells
        heading = [row[0] for row in cells].index("Technical parameters")
        assert cells[heading + 1 :] == [("scale", "3.0")]


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_whole_estimates_are_integers_with_wider_intervals(tmp_path, ending):
    tree = Tree.from_paths([("a",), ("b",)])
    given = TreeRelease(tree, *np.array([[5.0, 3, 2], [4.2, 2.5, -np.inf], [6.1, 3.0, 2.5]]), 0.9, STATED, whole=True)
    again = TreeRelease.from_json(given.to_json())
    assert again.whole
    assert again.lower[0] == 4.2  # JSON has the numbers themselves
    frame = again.to_frame()
    assert frame.select("estimate", "lower", "upper").rows() == [(5, 4, 7), (3, 2, 3), (2, None, 3)]
    assert set(frame.schema.values()) >= {pl.Int64}
    assert replace(given, whole=False).to_frame().schema["estimate"] == pl.Float64
    given.write(tmp_path / f"out.{ending}")
    read = {"csv": pl.read_csv, "ndjson": pl.read_ndjson, "parquet": pl.read_parquet}[ending]
    assert read(tmp_path / f"out.{ending}").select("estimate", "upper").dtypes == [pl.Int64] * 2


def test_an_unknown_ending_is_refused(tmp_path):
    release = TreeRelease(Tree.from_parents([-1]), *np.ones((3, 1)), confidence=0.9, statement=None)
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*nodir.*\. Hint: check the name and"):
        release.write(tmp_path / "nodir" / "out.csv")
    with pytest.raises(ValueError, match=r"path \('.*out.doc'\) must end in one of \.parquet, .* Hint: 'counts.csv'"):
        release.write(tmp_path / "out.doc")


def test_excel_holds_texts_of_any_characters_and_cuts_them_at_its_limit():
    texts = [f"a{chr(code)}b" for code in (*range(32), 0x7F, 0x2028, 0xFFFE, 0xFFFF, 0x10FFFF)]
    texts += ["\U0001f600" * 20_000]
    cells = [row["A"] for row in sheets(frame_bytes(pl.DataFrame({"path": texts}), file_format="xlsx"))["counts"][1:]]
    assert len(set(cells)) == len(texts)
    assert cells[-1] == texts[-1][:16_383]
