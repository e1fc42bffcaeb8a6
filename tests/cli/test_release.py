"""Releases end to end. What is about files and processes runs in processes of its own."""

import io
import json
import os
import re
import shlex
import subprocess

import polars as pl
import pytest

from opendp_tree import Ledger, TreeRelease, Value, release_tree
from opendp_tree.cli import main
from opendp_tree.prepare import Account
from tests.cli.helpers import BUDGET, ENVIRONMENT, PATIENCE, ROWS, command, spawn, write_rows

FAR = 300
"""No estimate here is so wrong: the noise has scales below 10."""


def read(path):
    form = path.suffix[1:]
    if form == "json":
        return TreeRelease.from_json(path.read_text()).to_frame()
    if form == "csv":
        return pl.read_csv(path, schema_overrides={"shown": pl.Boolean, "other": pl.Boolean})
    return {"parquet": pl.read_parquet, "ndjson": pl.read_ndjson}[form](path)


def estimates(path):
    frame = read(path).filter(~pl.col("other") & pl.col("shown"))
    # CSV has no empty text that is not null
    return {place or "": estimate for place, estimate in frame.select("path", "estimate").rows()}


def near(found, truth):
    return found.keys() == truth.keys() and all(abs(found[place] - truth[place]) < FAR for place in truth)


TRUTH = {"": 5000, "north": 3000, "south": 2000, "north / aä": 2000, "north / b": 1000, "south / c": 2000}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_format_in_and_out(tmp_path, form):
    source = write_rows(tmp_path, form)
    for ending in ("parquet", "csv", "json", "ndjson"):
        out = tmp_path / f"out.{ending}"
        assert main(["release", source, "--by", "region,city", *BUDGET, "-o", str(out)]) == 0
        assert near(estimates(out), TRUTH)


KEYS = [
    (["--by", "path(url)"], {"": 5000, "shop": 4000, "about": 1000, "shop / books": 4000}),
    (["--by", "path(url, separator='/', depth=2)"], {"": 5000, "shop": 4000, "about": 1000}),
    (["--by", "calendar(day)"], {"": 5000, "2023": 1000, "2024": 4000, "2023 / 1": 1000, "2024 / 5": 4000}),
    (["--by", "calendar(day, levels=(month, hour))"], {"": 5000, "1": 1000, "5": 4000, "1 / 23": 1000, "5 / 8": 4000}),
    (["--by", "calendar(day, levels=(quarter, weekday))"], {"": 5000, "Q1 / Mon": 1000, "Q2": 4000, "Q2 / Fri": 4000}),
    (["--by", "url(url)"], {"": 5000, "/shop": 4000, "/shop / /books": 4000, "/about": 1000}),
    (["--by", "ip(address, version=both)"], {"": 5000, "IPv4": 5000, "IPv4 / 10.0.0.0/8": 4000}),
    (["--by", "region, path(url)"], {"": 5000, "north / shop": 3000, "south / about": 1000}),
    (["--by", "ip(address, version=6)"], {"": 5000, "(outside)": 5000}),
    (["--by", "ip(address)"], {"10.0.0.0/8": 4000, "192.168.1.1/32": 1000}),
    (["--by", "ip(address6, version=6, stride=32)"], {"2001:db8::/32": 4000}),
    (
        ["--by", "number(day, low=2023-01-01, high=2024-12-31, bins=2)"],
        {"": 5000, "[2023-01-01, 2024-01-01)": 1000, "[2024-01-01, 2024-12-31]": 4000},
    ),
    (
        ["--by", "number(day, low=2024-05-17, high=2024-05-18, width=8h)"],
        {"": 5000, "[2024-05-17 08:00:00, 2024-05-17 16:00:00)": 4000, "(outside)": 1000},
    ),
    (["--by", "region", "--unit", "person", "--rows-per-unit", "2"], {"": 5000, "north": 3000, "south": 2000}),
    (["--by", "region", "--unit", "person", "--leaves-per-unit", "2"], {"": 4500, "north": 2500, "south": 2000}),
    (["--by", "region", "--unit", "person", "--rows-per-unit", "1"], {"": 2500}),
    (["--by", "region", "--unit", "person", "--rows-per-unit", "2,1"], {"": 5000}),
    (["--by", "region", "--unit", "person", "--count", "shares"], {"": 2500}),
    (["--by", "region", "--unit", "person", "--count", "people", "--nodes-per-unit", "2"], {"": 2500, "north": 2500}),
]


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize(("words", "truth"), KEYS)
def test_every_kind_of_hierarchy(tmp_path, form, words, truth):
    out = tmp_path / "out.ndjson"
    assert main(["release", write_rows(tmp_path, form), *words, *BUDGET, "-o", str(out)]) == 0
    found = estimates(out)
    assert near({place: found.get(place, -FAR) for place in truth}, truth)


@pytest.mark.parametrize(("outside", "last"), [("leaf", 700), ("ends", 300), ("drop", None)])
def test_numbers_need_no_delta_and_other_texts_are_outside(tmp_path, outside, last):
    values = ["1"] * 2000 + ["2.5"] * 1000 + [" 9 "] * 500 + ["-3"] * 300 + ["1e400", "no number", "nan", ""] * 100
    source, out = write_rows(tmp_path, "csv", pl.DataFrame({"amount": values})), tmp_path / "out.parquet"
    by, ends = f"number(amount, low=0, high=10, bins=4, outside={outside})", outside == "ends"
    assert main(["release", source, "--by", by, "--epsilon", "1", "-o", str(out)]) == 0
    counts = [2300 if ends else 2000, 1000, 0, 600 if ends else 500]
    truth = dict(zip(["[0, 2.5)", "[2.5, 5)", "[5, 7.5)", "[7.5, 10]"], counts, strict=True))
    truth |= {"": sum(counts) + (last or 0)} | ({} if last is None else {"(outside)": last})
    assert near(estimates(out), truth)


LISTED = "region,city\nnorth,aä\nnorth,b\nsouth,c\nsouth,nowhere\nwest,\n"
NORTH = {"north": 2000, "north / aä": 2000}


@pytest.mark.parametrize(
    ("words", "listed", "truth"),
    [
        ("--by region,city", LISTED, {**TRUTH, "south / nowhere": 0, "west": 0, "(outside)": 0}),
        ("--by region,city", "region,city\nnorth,aä\n", {"": 5000, **NORTH, "(outside)": 3000}),
        ("--by region,city --outside drop", "region,city\nnorth,aä\n", {"": 2000, **NORTH}),
        ("--by 'path(url)'", "url\nshop/books\nabout\n", {"": 5000, "shop": 4000, "shop / books": 4000, "about": 1000}),
        ("--by 'ip(address, stride=16)'", None, {"": 5000, "2560 / 1": 4000}),
        ("--by 'ip(address, version=both, stride=16)'", None, {"IPv4 / 10.0.0.0/16 / 10.0.0.1/32": 4000}),
        ("--by 'url(url, depth=3)'", None, {"": 5000, "/shop / /books": 4000}),
        ("--by 'calendar(day, levels=(year, quarter))'", None, {"": 5000, "2024 / Q2": 4000}),
        ("--by 'region, path(url)'", None, {"": 5000, "north / shop / books": 3000}),
    ],
)
def test_public_nodes_are_listed_by_a_file(tmp_path, words, listed, truth):
    """Without delta. None lists the nodes of the data, most of which the truth leaves out."""
    nodes, out = tmp_path / "nodes.csv", tmp_path / "out.parquet"
    nodes.write_text(ROWS.unique().write_csv() if listed is None else listed)
    arguments = ["release", write_rows(tmp_path), *shlex.split(words), "--tree", str(nodes), "--epsilon", "1"]
    assert main([*arguments, "-o", str(out)]) == 0
    result = estimates(out)
    assert near({path: result.get(path, -FAR) for path in truth}, truth)
    if listed is not None:
        assert result.keys() <= truth.keys() | {"(outside)"}


def test_known_nodes_are_shown_from_a_list_and_from_an_earlier_release(tmp_path):
    listed, out, again = tmp_path / "known.csv", tmp_path / "out.json", tmp_path / "again.json"
    listed.write_text("region,city\nnorth,nowhere\nwest,\n")
    words = ["release", write_rows(tmp_path), "--by", "region,city", *BUDGET]
    assert main([*words, "--known", str(listed), "-o", str(out)]) == 0
    assert estimates(out).keys() == {*TRUTH, "west", "north / nowhere"}
    assert main([*words, "--known", str(out), "-o", str(again)]) == 0
    assert estimates(again).keys() == estimates(out).keys()
    assert main([*words, "--known", write_rows(tmp_path, "csv"), "-o", str(again), "--tree", str(listed)]) == 2
    listed.rename(tmp_path / "known.json")
    assert main([*words, "--known", str(tmp_path / "known.json"), "-o", str(again)]) == 1


def test_closed_names_need_no_delta_and_show_no_others(tmp_path):
    listed, out = tmp_path / "known.csv", tmp_path / "out.json"
    listed.write_text("region,city\nnorth,nowhere\nwest,\n")
    words = ["release", write_rows(tmp_path), "--by", "region,city", "--epsilon", "1", "-o", str(out)]
    assert main([*words, "--closed", "all"]) == 2  # without names there is nothing to close
    assert main([*words, "--known", str(listed), "--closed", "all"]) == 0
    assert set(estimates(out)) == {"", "north", "west", "north / nowhere"}
    assert main([*words, "--known", str(listed), "--closed", "region"]) == 4  # cities are to be found
    assert main([*words, "--known", str(listed), "--closed", "region", "--delta", "1e-6"]) == 0
    assert "north / nowhere" in estimates(out)


def test_labels_of_a_list_are_read_as_in_the_data(tmp_path):
    listed, out = tmp_path / "nodes.csv", tmp_path / "out.parquet"
    listed.write_text("month\n1\n2\n")
    source = write_rows(tmp_path, frame=pl.DataFrame({"month": pl.Series([1] * 900 + [2] * 500, dtype=pl.Int8)}))
    assert main(["release", source, "--by", "month", "--tree", str(listed), "--epsilon", "1", "-o", str(out)]) == 0
    assert near(estimates(out), {"": 1400, "1": 900, "2": 500, "(outside)": 0})
    listed.write_text("address\n10.0.0.0/8\n172.16.0.9\n")
    words = ["release", write_rows(tmp_path), "--by", "ip(address)", *BUDGET]
    assert main([*words, "--known", str(listed), "-o", str(out)]) == 0
    assert {"10.0.0.0/8", "172.16.0.9/32"} <= estimates(out).keys()


def test_a_file_without_rows_is_no_error(tmp_path):
    out = tmp_path / "out.csv"
    for form in ("parquet", "csv"):
        assert main(["release", write_rows(tmp_path, form, ROWS[:0]), "--by", "region", *BUDGET, "-o", str(out)]) == 0
        assert estimates(out).keys() <= {""}


def test_one_row_that_is_no_text_fails_no_release(tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    source.write_bytes(b"region,city\n" + b"north,a\n" * 2000 + b"\xff\xfe,\xc3\n,,,,\nx\n")
    assert main(["release", str(source), "--by", "region,city", *BUDGET, "-o", str(out)]) == 0
    assert near(estimates(out), {"": 2000, "north": 2000, "north / a": 2000})


def test_labels_that_would_be_formulas_are_marked_if_asked(tmp_path):
    source = write_rows(tmp_path, frame=pl.DataFrame({"=region": ["=1+1"] * 900 + ["north"] * 800}))
    for words, name, labels in (
        ([], "=region", ["=1+1", "north"]),
        (["--spreadsheet-safe"], "'=region", ["'=1+1", "north"]),
    ):
        out = tmp_path / "out.csv"
        assert main(["release", source, "--by", "'=region'", *BUDGET, *words, "-o", str(out)]) == 0
        assert read(out).filter(pl.col("shown") & (pl.col("level") == 1) & ~pl.col("other"))[name].to_list() == labels


TOTAL = ["--total-epsilon", "1", "--total-delta", "1e-6"]
ALL = "--epsilon 1 --delta 1e-6 -o out.csv"
BY = "--by region,city"
NUMBER = "--by 'number(address, low=0, high=9, bins=9)'"
FAILURES = [
    (f"missing.csv {BY} {ALL}", 1, "there is no file"),
    (f". {BY} {ALL}", 1, "there is no file"),
    (f"empty.csv {BY} {ALL}", 1, "cannot be read as csv. Hint: is it empty"),
    (f"empty.parquet {BY} {ALL}", 1, "cannot be read as parquet"),
    (f"rows.ndjson {BY} {ALL}", 2, "cannot read .ndjson files: 'rows.ndjson' must end in one of .parquet"),
    (f"quotes.csv {BY} {ALL}", 1, "release failed"),
    (f"cut.parquet {BY} {ALL}", 1, "cannot be read as parquet"),
    (f"headless.csv {BY} {ALL}", 2, "has no column region"),
    (f"rows.parquet --by region,town {ALL}", 2, "has no column town. Hint: its columns are region, city, person, url"),
    (f"rows.csv --by region,town {ALL}", 2, "has no column town. Hint: its columns are region, city"),
    (f"rows.csv --by town {ALL}", 2, "has no column town. Hint: the first line of a CSV file must name its columns"),
    (f"rows.parquet {BY} --epsilon 0,1 -o out.csv", 2, "0,1 must be a number. Hint: with a decimal point: 0.1"),
    (f"rows.parquet --by 'region city' {ALL}", 2, "Hint: separate columns by commas: 'region, city'"),
    (f"rows.parquet --by 'number(address)' {ALL}", 2, "number(address) must have low and high"),
    (f"rows.parquet {BY} {ALL} --outside drop", 2, "--outside requires --tree"),
    (f"rows.parquet {BY} {ALL} --closed region", 2, "--closed requires --known"),
    (f"rows.parquet {BY} {ALL} --unit person --rows-per-unit 3,2", 2, "rows ((3, 2)) must be one number, or 3"),
    (
        f"rows.parquet {BY} {ALL} --unit person --count people --rows-per-unit 3",
        2,
        "--rows-per-unit is not for --count people",
    ),
    (f"rows.parquet {BY} {ALL} --value url --bounds 0 5", 2, "must hold numbers; it holds text"),
    (f"rows.parquet {BY} {ALL} --unit who --rows-per-unit 1", 2, "has no column who"),
    (f"rows.parquet {BY} {ALL} --unit person", 2, "--unit requires a bound"),
    (f"rows.parquet {BY} {ALL} --count shares", 2, "require --unit"),
    (f"rows.parquet {BY} {ALL} --unit person --count people", 2, "--nodes-per-unit M"),
    (f"rows.parquet {BY} {ALL} --tree nothing.csv", 1, "lists no nodes"),
    (f"rows.parquet {BY} --epsilon -1 -o out.csv", 2, "epsilon (-1.0) must be positive"),
    (f"rows.parquet {BY} --epsilon 1e999999 -o out.csv", 2, "epsilon (inf) must be"),
    (f"rows.parquet {BY} --epsilon 1e-300 -o out.csv", 2, "must be from 1e-09 to 1000"),
    (f"rows.parquet {BY} {ALL} --delta -0.1", 2, "delta (-0.1) must be"),
    (f"rows.parquet {BY} {ALL} --alpha 1", 2, "alpha (1.0) must be"),
    (f"rows.parquet {BY} {ALL} --total-epsilon 0", 2, "0 must be a positive number"),
    (f"rows.parquet {BY} {ALL} --total-epsilon 7 --total-delta 1", 2, "at least 0 and below 1"),
    (f"rows.parquet {BY} --epsilon 1 --delta 1 -o out.csv", 2, "below 1"),
    (f"rows.parquet {BY} --epsilon 1 -o out.csv", 4, "requires a delta above 0"),
    (f"rows.parquet {BY} {ALL} --method tree_laplace", 4, "Hint: --tree FILE"),
    (f"rows.parquet {NUMBER} {ALL} --tree rows.parquet", 2, "not for a number"),
    (f"rows.parquet {NUMBER} {ALL} --outside drop", 2, "not for a number"),
    (f"rows.parquet {BY} {ALL} --confidence 0", 2, "confidence"),
    (f"rows.parquet {BY} {ALL} --spreadsheet-safe --output-format json", 2, "is for CSV"),
    (f"rows.parquet {BY} {ALL} -o out.xls", 2, "unknown ending"),
    (f"rows.parquet {BY} {ALL} -o no/out.csv", 1, "No such file or directory"),
    (f"rows.parquet {BY} {ALL} -o /dev/null --output-format csv", 1, "not a regular file"),
    (f"rows.parquet {BY} {ALL} -o rows.parquet", 2, "a file is named twice"),
    (f"rows.parquet {BY} {ALL} -o book-journal --output-format csv", 2, "a file is named twice"),
    (f"rows.parquet {BY} {ALL} --plot book-wal", 2, "a file is named twice"),
    (f"rows.parquet {BY} {ALL} -o book-shm --output-format csv", 2, "a file is named twice"),
    (f"rows.parquet {BY} {ALL} --value person", 2, "Give one --bounds for each --value"),
    (f"rows.parquet {BY} {ALL} --bounds 0 5", 2, "Give one --bounds for each --value"),
    (f"rows.parquet {BY} {ALL} --value person --bounds 5 0", 2, "bounds"),
    (f"rows.parquet {BY} {ALL} --value person --bounds 0 x", 2, "must be a number"),
    (f"rows.parquet {BY} {ALL} --value region --bounds 0 5", 2, "must not be a column of --by or --unit"),
    (f"rows.parquet {BY} {ALL} --value nowhere --bounds 0 5", 2, "has no column nowhere"),
    (f"rows.parquet {BY} {ALL} --quantiles 0.5", 2, "--quantiles requires a number"),
    (f"rows.parquet {NUMBER} {ALL} --quantiles 0.5 -o out.json", 2, "--quantiles cannot be written as JSON"),
    (f"rows.parquet {NUMBER} {ALL} --quantiles 2", 2, "from 0 to 1"),
    (f"rows.parquet {NUMBER} {ALL} --quantiles 0.5 --method tree_laplace", 2, "has no quantiles"),
    (f"rows.parquet {BY} --rho 1 --delta 1e-6 -o out.csv", 2, "counts epsilon and delta"),
    (f"rows.parquet {BY} {ALL} --total-epsilon 7", 2, "has another total"),
    (f"rows.parquet {BY} {ALL} --epsilon 6", 3, "only epsilon 5"),
    (f"rows.parquet {BY} {ALL} --total-delta 0", 2, "requires --total-epsilon"),
    (f"rows.parquet {BY} {ALL} --ledger new", 2, "no ledger at"),
    (f"rows.parquet {BY} {ALL} --ledger notes.txt", 1, "is not a ledger"),
]
FILES = {
    "empty.csv": b"",
    "empty.parquet": b"",
    "rows.ndjson": b'{"region": "secret"}\n',
    "headless.csv": b"secret,values\n1,2\n",
    "rows.csv": b"region,city\nnorth,secret\n",
    "quotes.csv": b'region,city\nnorth,"secret\n',
    "notes.txt": b"secret",
    "nothing.csv": b"region,city\n",
}


def test_failures_are_one_line_with_a_hint_and_no_data_and_leave_nothing_unpaid(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    for name, content in {**FILES, "cut.parquet": (tmp_path / "rows.parquet").read_bytes()[:-200]}.items():
        (tmp_path / name).write_bytes(content)
    Ledger.open("book", total={"epsilon": 5, "delta": "1e-5"}, unit="one row")
    before = sorted(os.listdir(tmp_path)), (tmp_path / "book").read_bytes()
    cases = [(f"--ledger book {words}", *told) for words, *told in FAILURES]
    cases += [(f"rows.parquet {BY} {ALL} {alone}", 2, "require --ledger") for alone in ("--dataset x", "--total-rho 1")]
    for words, code, complaint in cases:
        assert main(["release", *shlex.split(words)]) == code, words
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(r"opendp-tree: [^\n]*\. Hint: [^\n]*\n", printed.err), printed.err
        assert complaint in printed.err, printed.err
        assert "secret" not in printed.err
        assert (sorted(os.listdir(tmp_path)), (tmp_path / "book").read_bytes()) == before, words


@pytest.fixture
def paying(tmp_path):
    """Words of a release that a ledger counts."""
    words = ["release", write_rows(tmp_path), "--by", "region", "-o", str(tmp_path / "out.csv")]
    return [*words, "--ledger", str(tmp_path / "ledger")]


def test_a_ledger_counts_exactly_and_refuses_with_a_code_of_its_own(tmp_path, paying, capsys):
    out, book = tmp_path / "out.csv", tmp_path / "ledger"
    words = [*paying, "--epsilon", "0.1", "--delta", "1e-7", "--dataset", "rows"]
    assert main([*words, "--total-epsilon", "0.3", "--total-delta", "1e-6"]) == 0
    assert main(words) == 0
    assert main(words) == 0  # three tenths are 0.3, though the float 0.1 is more than a tenth
    released = out.read_bytes()
    assert main(words) == 3
    assert re.search(
        r"only epsilon 0, .* are left\. Hint: the ledger is spent: [^\n]*\n",
        capsys.readouterr().err,
    )
    assert out.read_bytes() == released
    ledger = Ledger.open(book)
    entries = ledger.entries()
    assert (ledger.unit, ledger.dataset, len(entries)) == ("one row", "rows", 3)
    assert all(entry.statement["loss"]["epsilon"] <= 0.1 for entry in entries)
    assert entries[0].note == {"file": "rows.parquet", "columns": ["region"], "output": "out.csv"}
    assert main([*words, "--unit", "person", "--rows-per-unit", "2"]) == 2
    assert "is for unit 'one row', not \"one value of 'person'\"" in capsys.readouterr().err


def test_the_unit_of_a_ledgers_entries_is_checked_before_anything_is_counted(tmp_path, capsys, monkeypatch):
    source, book = write_rows(tmp_path), Ledger.open(tmp_path / "ledger", total={"epsilon": 9, "delta": "1e-5"})
    release_tree(ROWS, by="region", epsilon=1.0, delta=1e-6, ledger=book)
    measured = []
    monkeypatch.setattr(Account, "release", lambda *_, **__: measured.append(1))
    words = ["--ledger", str(book.path), "--epsilon", "1", "--unit", "person"]
    for first in (
        ["release", source, "--by", "region", "--delta", "1e-6", "--rows-per-unit", "2", "-o", str(tmp_path / "o.csv")],
        ["bounds", source, "--most", "5"],
    ):
        assert main([*first, *words]) == 2
        assert "is for unit 'one row', not \"one value of 'person'\"" in capsys.readouterr().err
    assert not measured


def test_a_release_that_cannot_be_written_once_it_is_paid_is_stored(tmp_path, paying, capsys, monkeypatch):
    def full(*paths):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert main([*paying, *BUDGET, *TOTAL]) == 1
    assert "(No space left on device). Hint: it is stored: opendp-tree ledger" in capsys.readouterr().err
    book = Ledger.open(tmp_path / "ledger")
    assert book.left()["epsilon"] == 0
    assert TreeRelease.from_json(book.stored(1)).statement.loss["epsilon"] <= 1
    assert sorted(os.listdir(tmp_path)) == ["ledger", "rows.parquet"]


def test_a_picture_goes_with_the_release_or_nothing_is_released(tmp_path, capsys, monkeypatch):
    source, out, picture = write_rows(tmp_path), tmp_path / "out.csv", tmp_path / "out.html"
    words = ["release", source, "--by", "region,city", *BUDGET, "-o", str(out), "--plot"]
    assert main([*words, str(tmp_path / "no" / "out.html")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr("opendp_tree.cli.commands.find_spec", lambda name: None)
        assert main([*words, str(picture)]) == 1
    assert "--plot requires plotly. Hint: pip install plotly" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["rows.parquet"]
    assert main([*words, str(picture)]) == 0
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.html", "rows.parquet"]
    assert "Plotly.newPlot" in picture.read_text()


def test_standard_output_is_the_release_and_nothing_else(tmp_path):
    source = write_rows(tmp_path)
    done = spawn("release", source, "--by", "region,city", *BUDGET, "-o", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert pl.read_csv(io.StringIO(done.stdout))["level"].to_list()[0] == 0
    closed = subprocess.Popen(
        command("release", source, "--by", "region,city", *BUDGET, "-o", "-"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    closed.stdout.close()
    assert closed.wait(timeout=PATIENCE) == 1
    assert closed.stderr.read() == b""
    closed.stderr.close()


def on_a_terminal(words):
    """The exit code and what a terminal would show of standard error."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=theirs, env=ENVIRONMENT)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # Linux says so at the end
            break
        if not more:
            break
        shown += more
    os.close(ours)
    process.stdout.close()
    return process.wait(timeout=PATIENCE), shown.decode()


def test_a_terminal_sees_progress_and_a_summary_unless_it_is_quiet(tmp_path):
    words = ["release", write_rows(tmp_path), "--by", "region,city", *BUDGET, "-o", tmp_path / "out.csv"]
    code, shown = on_a_terminal(words)
    assert code == 0
    assert "counting ..." in shown
    last = shown.split("\033[K")[-1]
    assert re.search(r"^\(all\) +[45],\d\d\d", last, re.M)
    assert "Privacy: epsilon" in last
    assert on_a_terminal([*words, "--quiet"]) == (0, "")


def test_a_log_sees_the_summary_if_asked(tmp_path, capsys):
    out, book = tmp_path / "out.csv", str(tmp_path / "ledger")
    words = ["release", write_rows(tmp_path), "--by", "region,city", *BUDGET, "-o", str(out)]
    assert main([*words, "--verbose"]) == 0
    assert "Privacy: epsilon" in capsys.readouterr().err
    assert main([*words, "--json", "--ledger", book, "--total-epsilon", "1.5", "--total-delta", "1e-5"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["exit_code"], told["command"], told["output"]) == (0, "release", "out.csv")
    assert told["cost"] == {"epsilon": "1", "delta": "0.000001"}
    assert told["left"]["epsilon"] == "0.5"
    assert told["statement"]["counted"] == "rows"
    assert main([*words, "--json", "--ledger", book]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line).keys() == {"time", "status", "error", "exit_code"}
    assert json.loads(line)["exit_code"] == 3


def test_a_large_delta_is_warned_of_and_released(tmp_path, capsys):
    words = ["release", write_rows(tmp_path), "--by", "region", "--epsilon", "1", "-o", str(tmp_path / "out.csv")]
    told = "delta 0.5 is large: choose it well below 1 / number of people"
    assert main([*words, "--delta", "0.5"]) == 0
    assert capsys.readouterr().err == f"opendp-tree: warning: {told}\n"
    for delta, warning in (("0.5", told), ("1e-3", None)):
        assert main([*words, "--delta", delta, "--json"]) == 0
        assert json.loads(capsys.readouterr().err)["warning"] == warning
    assert main(["plan", *words[1:], "--delta", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warning"] == told


def test_a_summary_names_the_file_that_has_all_rows(tmp_path, capsys):
    frame = pl.DataFrame({"n": [number % 40 for number in range(8000)]})
    out = str(tmp_path / "out.csv")
    assert main(["release", write_rows(tmp_path, frame=frame), "--by", "n", *BUDGET, "-o", out, "--verbose"]) == 0
    assert f" smaller rows: see {out}.\n" in capsys.readouterr().err


def in_a_shell(folder, words, streams):
    line = " ".join(shlex.quote(word) for word in command(*words))
    return subprocess.run(
        ["sh", "-c", f"exec {line} {streams}"], cwd=folder, env=ENVIRONMENT, check=False, timeout=PATIENCE
    )


def test_closed_streams_fail_no_release(tmp_path):
    words = ["release", write_rows(tmp_path), "--by", "region,city", *BUDGET, "-o", tmp_path / "out.csv"]
    for streams in ("2>&-", "0<&- >&- 2>&-"):
        assert in_a_shell(tmp_path, [*words, "--ledger", tmp_path / streams, *TOTAL], streams).returncode == 0
        assert near(estimates(tmp_path / "out.csv"), TRUTH)
        assert Ledger.open(tmp_path / streams).left()["epsilon"] == 0  # and no message stands in the ledger


def test_a_closed_standard_output_is_refused_before_anything_is_spent(tmp_path):
    words = ["release", write_rows(tmp_path), "--by", "region", *BUDGET, "-o", "-", "--ledger", tmp_path / "ledger"]
    assert in_a_shell(tmp_path, [*words, *TOTAL], ">&-").returncode == 1
    assert not (tmp_path / "ledger").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no such file")
@pytest.mark.parametrize("words", [["plan", "--by", "a"], ["release", "rows.parquet", "--by", "region", "-o", "-"]])
def test_a_full_output_is_one_line_and_an_exit_code(tmp_path, words):
    write_rows(tmp_path)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*words, *BUDGET), cwd=tmp_path, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


def test_a_panic_while_writing_is_one_line_without_data(tmp_path, paying, capfd, monkeypatch):
    def panic(*_):
        os.write(2, b"secret")
        raise pl.exceptions.PanicException("secret")

    monkeypatch.setattr("opendp_tree.cli.commands._encode", panic)
    assert main([*paying, *BUDGET, *TOTAL]) == 1
    shown = capfd.readouterr().err
    assert shown.startswith("opendp-tree: the release failed (PanicException); nothing was spent. Hint")
    assert "secret" not in shown
    assert Ledger.open(tmp_path / "ledger").left()["epsilon"] == 1


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_sums_and_means_of_a_column(tmp_path, form):
    amounts = [40.5] * 3000 + [None] * 500 + [90.0] * 1500
    source = write_rows(tmp_path, form, pl.DataFrame({"region": ["north"] * 3000 + ["south"] * 2000, "paid": amounts}))
    for ending in ("parquet", "json"):
        out = tmp_path / f"out.{ending}"
        words = ["--value", "paid", "--bounds", "-10", "100"]
        assert main(["release", source, "--by", "region", *words, *BUDGET, "-o", str(out)]) == 0
        frame = read(out).filter(~pl.col("other"))
        assert near(estimates(out), {"": 4500, "north": 3000, "south": 1500})
        assert [round(mean / 10) for mean in frame["mean"]] == [6, 4, 9]


@pytest.mark.parametrize(
    ("by", "method", "truth"),
    [
        ("kind, number(age, low=0, high=100, bins=100)", "auto", [20, 20, 60, 60]),
        ("kind, number(age, low=0, high=100, bins=100)", "segment_curve", [20, 20, 60, 60]),
        ("number(age, low=0, high=100, bins=100)", "bin_curve", [20, 40]),
    ],
)
def test_quantiles_of_a_number(tmp_path, by, method, truth):
    """Rows are so many that no quantile misses by 21, but for a probability below 1e-9."""
    frame = pl.DataFrame({"kind": ["a", "b"] * 5000, "age": [20, 60] * 5000})
    source, out = write_rows(tmp_path, frame=frame), tmp_path / "out.csv"
    words = ["release", source, "--by", by, "--method", method, *BUDGET, "--quantiles", "0.25,0.5"]
    assert main([*words, "-o", str(out)]) == 0
    result = pl.read_csv(out).sort(pl.col("^kind$"), "quantile")
    assert result["quantile"].to_list() == [0.25, 0.5] * (len(truth) // 2)
    assert result["estimate"].to_list() == pytest.approx(truth, abs=21)


def test_quantiles_of_people_keep_rows_of_each(tmp_path):
    rows = pl.DataFrame({"user": range(4000), "kind": ["a"] * 4000, "age": [20.5] * 4000})
    source, out = write_rows(tmp_path, frame=rows), tmp_path / "out.csv"
    words = ["release", source, "--by", "kind, number(age, low=0, high=100, bins=100)", *BUDGET, "--quantiles", "0.5"]
    assert main([*words, "--unit", "user", "--rows-per-unit", "2", "-o", str(out)]) == 0
    assert read(out)["estimate"].to_list() == pytest.approx([20.5], abs=3)
    assert main([*words, "--unit", "user", "--count", "shares", "-o", str(tmp_path / "no.csv")]) == 2


def test_rho_is_spent_from_a_ledger_of_rho_and_delta(tmp_path, paying, capsys):
    words = [*paying, "--rho", "0.1", "--delta", "1e-7"]
    assert main([*words, "--total-rho", "0.2", "--total-delta", "1e-6"]) == 0
    assert main(words) == 0
    assert main(words) == 3
    book = Ledger.open(tmp_path / "ledger")
    assert book.left()["rho"] == 0
    assert "rho" in TreeRelease.from_json(book.stored(2)).statement.loss
    assert main([*paying, "--epsilon", "0.1", "--delta", "1e-7"]) == 2
    assert "counts rho and delta, not epsilon and delta. Hint: ask for rho" in capsys.readouterr().err
    assert main(["plan", *words[1:]]) == 3


HOSTILE = "a\x1b[2J\nb\u202ec"


def test_names_of_columns_write_no_codes_and_no_lines_to_a_terminal(tmp_path, capsys):
    frame = pl.DataFrame({HOSTILE: ["x"] * 3000, "n": [1.0] * 3000, "p": [*range(3000)]})
    source, out = write_rows(tmp_path, frame=frame), tmp_path / "out.json"
    assert main(["release", source, "--by", HOSTILE, *BUDGET, "-o", str(out)]) == 0
    release = TreeRelease.from_json(out.read_text())
    summed = release_tree(frame, by=HOSTILE, epsilon=1.0, delta=1e-6, value=Value("n", bounds=(0, 1)))
    assert main(["release", source, "--by", f"{HOSTILE}2", *BUDGET, "-o", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    shown = [told, *(text for each in (release, summed) for text in (each.describe(), repr(each)))]
    for text in shown:
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not any(line.startswith("b") for line in text.splitlines())


def test_whole_numbers_are_released_and_only_where_they_can_be(tmp_path, capsys):
    source, out = write_rows(tmp_path), tmp_path / "out.csv"
    request = ["release", source, "--by", "region,city", *BUDGET, "--nonnegative", "--integers"]
    assert main([*request, "-o", str(out)]) == 0
    estimates = pl.read_csv(out)["estimate"].cast(pl.Float64)
    assert (estimates == estimates.round()).all()
    assert (estimates >= 0).all()
    assert main([*request, "--method", "pruned_laplace", "-o", str(out)]) == 2
    assert "--nonnegative and --integers are for counts by --method auto" in capsys.readouterr().err
