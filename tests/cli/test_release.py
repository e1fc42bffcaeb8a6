"""Releases end to end. What is about files and processes runs in processes of its own."""

import io
import json
import os
import re
import shlex
import subprocess
import time

import polars as pl
import pytest

from opendp_tree import Key, Ledger, TreeRelease, Value, release_tree
from opendp_tree.cli import main
from opendp_tree.releases.chosen_quantiles import ChosenQuantiles
from tests.cli.helpers import BUDGET, ENVIRONMENT, ROWS, command, spawn, write_rows
from tests.releases.test_writing import sheets

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


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_numbers_need_no_delta_and_texts_that_are_none_are_outside(tmp_path, form):
    values = ["1"] * 2000 + ["2.5"] * 1000 + [" 9 "] * 500 + ["-3"] * 300 + ["1e400", "no number", "nan", ""] * 100
    frame = pl.DataFrame({"amount": values})
    if form == "parquet":
        frame = frame.with_columns(pl.col("amount").str.strip_chars().cast(pl.Float64, strict=False))
    for outside, last in (("leaf", 700), ("ends", 300), ("drop", None)):
        out = tmp_path / f"{outside}.parquet"
        source = write_rows(tmp_path, form, frame)
        by = f"number(amount, low=0, high=10, bins=4, outside={outside})"
        assert main(["release", source, "--by", by, "--epsilon", "1", "-o", str(out)]) == 0
        found = estimates(out)
        first = 2300 if outside == "ends" else 2000
        truth = {"[0, 2.5)": first, "[2.5, 5)": 1000, "[5, 7.5)": 0, "[7.5, 10]": 600 if outside == "ends" else 500}
        truth[""] = sum(truth.values()) + (last or 0)
        assert near(found, truth if last is None else {**truth, "(outside)": last})


def test_addresses(tmp_path):
    source, out = write_rows(tmp_path), tmp_path / "out.csv"
    assert main(["release", source, "--by", "ip(address)", *BUDGET, "-o", str(out)]) == 0
    found = estimates(out)
    assert abs(found["10.0.0.0/8"] - 4000) < FAR
    assert abs(found["192.168.1.1/32"] - 1000) < FAR
    words = ["--by", "ip(address6, version=6, stride=32)"]
    assert main(["release", source, *words, *BUDGET, "-o", str(out)]) == 0
    assert abs(estimates(out)["2001:db8::/32"] - 4000) < FAR


def test_public_nodes_are_listed_by_a_file(tmp_path):
    listed, out = tmp_path / "nodes.csv", tmp_path / "out.parquet"
    listed.write_text("region,city\nnorth,aä\nnorth,b\nsouth,c\nsouth,nowhere\nwest,\n")
    words = ["release", write_rows(tmp_path), "--by", "region,city", "--tree", str(listed)]
    assert main([*words, "--epsilon", "1", "-o", str(out)]) == 0  # no delta is needed
    assert near(estimates(out), {**TRUTH, "south / nowhere": 0, "west": 0, "(outside)": 0})
    listed.write_text("region,city\nnorth,aä\n")
    assert main([*words, "--epsilon", "1", "-o", str(out)]) == 0
    assert near(estimates(out), {"": 5000, "north": 2000, "north / aä": 2000, "(outside)": 3000})
    assert main([*words, "--outside", "drop", "--epsilon", "1", "-o", str(out)]) == 0
    assert near(estimates(out), {"": 2000, "north": 2000, "north / aä": 2000})
    listed.write_text("url\nshop/books\nabout\n")
    words = ["release", write_rows(tmp_path), "--by", "path(url)", "--tree", str(listed)]
    assert main([*words, "--epsilon", "1", "-o", str(out)]) == 0
    assert near(estimates(out), {"": 5000, "shop": 4000, "shop / books": 4000, "about": 1000, "(outside)": 0})


@pytest.mark.parametrize(
    ("by", "leaf"),
    [
        ("ip(address, stride=16)", "2560 / 1"),
        ("ip(address, version=both, stride=16)", "IPv4 / 10.0.0.0/16 / 10.0.0.1/32"),
        ("url(url, depth=3)", "/shop / /books"),
        ("calendar(day, levels=(year, quarter))", "2024 / Q2"),
        ("region, path(url)", "north / shop / books"),
    ],
)
def test_public_nodes_of_every_kind_of_key_are_listed_by_a_file(tmp_path, by, leaf):
    out = tmp_path / "out.parquet"
    source = write_rows(tmp_path)
    listed = tmp_path / "nodes.csv"
    ROWS.unique(["region", "url", "address", "day"]).write_csv(listed)
    assert main(["release", source, "--by", by, "--tree", str(listed), "--epsilon", "1", "-o", str(out)]) == 0
    found = estimates(out)
    assert near(
        {place: found.get(place, -FAR) for place in ("", leaf)}, {"": 5000, leaf: 3000 if "north" in leaf else 4000}
    )
    assert found["(outside)"] < FAR


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


def test_known_addresses_are_shown(tmp_path):
    listed, out = tmp_path / "known.csv", tmp_path / "out.csv"
    listed.write_text("address\n10.0.0.0/8\n172.16.0.9\n")
    words = ["release", write_rows(tmp_path), "--by", "ip(address)", *BUDGET]
    assert main([*words, "--known", str(listed), "-o", str(out)]) == 0
    assert {"10.0.0.0/8", "172.16.0.9/32"} <= estimates(out).keys()


def test_labels_of_a_list_are_read_as_the_data_have_them(tmp_path):
    listed, out = tmp_path / "nodes.csv", tmp_path / "out.parquet"
    listed.write_text("month\n1\n2\n")
    source = write_rows(tmp_path, frame=pl.DataFrame({"month": pl.Series([1] * 900 + [2] * 500, dtype=pl.Int8)}))
    assert main(["release", source, "--by", "month", "--tree", str(listed), "--epsilon", "1", "-o", str(out)]) == 0
    assert near(estimates(out), {"": 1400, "1": 900, "2": 500, "(outside)": 0})
    assert pl.read_parquet(out).schema["month"] == pl.Int64


def test_a_file_without_rows_is_no_error(tmp_path):
    out = tmp_path / "out.csv"
    for form in ("parquet", "csv"):
        assert main(["release", write_rows(tmp_path, form, ROWS[:0]), "--by", "region", *BUDGET, "-o", str(out)]) == 0
        assert estimates(out).keys() <= {""}


def test_what_came_out_says_what_it_cost(tmp_path):
    out = tmp_path / "out.json"
    words = ["--unit", "person", "--rows-per-unit", "2", "--epsilon", "0.1", "--delta", "1e-6"]
    assert main(["release", write_rows(tmp_path), "--by", "region", *words, "-o", str(out)]) == 0
    statement = TreeRelease.from_json(out.read_text()).statement
    assert 0.09 < statement.loss["epsilon"] <= 0.1
    assert statement.loss["delta"] <= 1e-6


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


def test_an_excel_file_has_the_counts_and_the_statement(tmp_path):
    out = tmp_path / "out.xlsx"
    assert main(["release", write_rows(tmp_path), "--by", "region", *BUDGET, "-o", str(out)]) == 0
    found = sheets(out.read_bytes())
    assert found["counts"][0]["A"] == "path"
    assert {row["A"] for row in found["counts"]} > {None, "north"}
    assert {"Privacy", "Accuracy", "mechanism", "loss epsilon"} <= {row["A"] for row in found["statement"]}


def failures(folder):
    """Arguments after `release`, the exit code, and what the error says."""
    rows = write_rows(folder)
    contents = {
        "empty.csv": b"",
        "empty.parquet": b"",
        "rows.ndjson": b'{"region": "secret"}\n',
        "headless.csv": b"secret,values\n1,2\n",
        "quotes.csv": b'region,city\nnorth,"secret\n',
        "cut.parquet": (folder / "rows.parquet").read_bytes()[:-200],
        "notes.txt": b"secret",
        "nothing.csv": b"region,city\n",
    }
    at = {name: str(folder / name) for name in contents}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    by, out = ["--by", "region,city"], ["-o", str(folder / "out.csv")]
    usual = [*by, *BUDGET, *out]
    return [
        ([str(folder / "missing.csv"), *usual], 75, "there is no file"),
        ([str(folder), *usual], 75, "there is no file"),
        ([at["empty.csv"], *usual], 1, "is empty"),
        ([at["empty.parquet"], *usual], 1, "is empty"),
        ([at["rows.ndjson"], "--by", "region", *BUDGET, *out], 2, "NDJSON is not read"),
        ([at["rows.ndjson"], "--format", "ndjson", "--by", "region", *BUDGET, *out], 2, "invalid choice: 'ndjson'"),
        ([rows, *by, *BUDGET, "--spreadsheet-safe", "-o", str(folder / "out.json")], 2, "is for CSV"),
        ([at["quotes.csv"], *usual], 1, "release failed"),
        ([at["cut.parquet"], *usual], 1, "cannot be read as parquet"),
        ([at["notes.txt"], *usual], 2, "unknown ending"),
        ([at["headless.csv"], *usual], 2, "has no column region"),
        ([rows, "--by", "region,town", *BUDGET, *out], 2, "has no column town"),
        ([rows, "--by", "region", "--unit", "who", "--rows-per-unit", "1", *BUDGET, *out], 2, "has no column who"),
        ([rows, "--by", "region", "--unit", "person", *BUDGET, *out], 2, "--unit requires a bound"),
        ([rows, "--by", "region", "--rows-per-unit", "3", *BUDGET, *out], 2, "require --unit"),
        ([rows, "--by", "region", "--count", "shares", *BUDGET, *out], 2, "require --unit"),
        ([rows, "--by", "region", "--unit", "person", "--count", "people", *BUDGET, *out], 2, "--nodes-per-unit M"),
        ([rows, *BUDGET, *out], 2, "arguments are required: --by"),
        ([rows, *by, "--tree", at["nothing.csv"], *BUDGET, *out], 1, "lists no nodes"),
        ([rows, *by, "--epsilon", "0", *out], 2, "must be a positive number"),
        ([rows, *by, "--epsilon", "1", "--delta", "1", *out], 2, "below 1"),
        ([rows, *by, "--epsilon", "1", *out], 4, "requires a delta above 0"),
        ([rows, *by, *BUDGET, "--method", "raw_laplace", *out], 4, "Hint: --tree FILE"),
        (
            [rows, "--by", "number(address, low=0, high=9, bins=9)", "--tree", rows, *BUDGET, *out],
            2,
            "not for a number",
        ),
        (
            [rows, "--by", "number(address, low=0, high=9, bins=9)", "--outside", "drop", *BUDGET, *out],
            2,
            "not for a number",
        ),
        ([rows, *by, *BUDGET, "--confidence", "0", *out], 2, "--confidence must be above 0"),
        ([rows, *by, *BUDGET, "-o", str(folder / "out.xls")], 2, "unknown ending"),
        ([rows, *by, *BUDGET, "-o", str(folder / "no" / "out.csv")], 1, "No such file or directory"),
        ([rows, *by, *BUDGET, "-o", "/dev/null", "--output-format", "csv"], 1, "not a regular file"),
        ([rows, *by, *BUDGET, "-o", rows], 2, "a file is named twice"),
        ([rows, *usual, "--total-epsilon", "1"], 2, "require --ledger"),
        ([rows, *usual, "--dataset", "x"], 2, "require --ledger"),
        ([rows, *usual, "--ledger", str(folder / "new"), "--total-delta", "0"], 2, "requires --total-epsilon"),
        ([rows, *usual, "--ledger", str(folder / "new")], 1, "no ledger at"),
        ([rows, *usual, "--ledger", at["notes.txt"]], 1, "is no ledger"),
    ]


def test_failures_are_one_line_with_a_hint_and_no_data_and_leave_nothing(tmp_path, capsys):
    cases = failures(tmp_path)
    before = sorted(os.listdir(tmp_path))
    for words, code, complaint in cases:
        assert main(["release", *words]) == code, words
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(r"opendp-tree: [^\n]*\. Hint: [^\n]*\n", printed.err), printed.err
        assert re.search(complaint, printed.err), printed.err
        assert "secret" not in printed.err
        assert sorted(os.listdir(tmp_path)) == before, words


def test_what_polars_writes_when_it_panics_is_not_shown(tmp_path, capfd, monkeypatch):
    def panic(frame):
        os.write(2, b"thread panicked: secret\n")
        raise RuntimeError("secret")

    monkeypatch.setattr("opendp_tree.prepare.Question.measurement", lambda *_, **__: panic)
    out = tmp_path / "out.csv"
    assert main(["release", write_rows(tmp_path), "--by", "region", *BUDGET, "-o", str(out)]) == 1
    assert re.fullmatch(
        r"opendp-tree: the release failed \(RuntimeError\); nothing was spent\. Hint: .*\n", capfd.readouterr().err
    )


def test_damaged_files_cost_nothing(tmp_path, capsys):
    failures(tmp_path)
    book = tmp_path / "ledger"
    Ledger.open(book, total={"epsilon": 1}, unit="one row")
    before = book.read_bytes()
    for name in ("quotes.csv", "cut.parquet", "empty.csv"):
        words = ["release", str(tmp_path / name), "--by", "region,city", "--epsilon", "1", "--ledger", str(book)]
        assert main([*words, "--tree", write_rows(tmp_path), "-o", str(tmp_path / "out.csv")]) == 1
        assert "secret" not in capsys.readouterr().err
    assert book.read_bytes() == before


def test_a_ledger_counts_exactly_and_refuses_with_a_code_of_its_own(tmp_path, capsys):
    source, out, book = write_rows(tmp_path), tmp_path / "out.csv", tmp_path / "ledger"
    words = ["release", source, "--by", "region", "--epsilon", "0.1", "--delta", "1e-7", "-o", str(out)]
    words += ["--ledger", str(book), "--dataset", "rows"]
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
    assert main([*words, "--unit", "person", "--rows-per-unit", "2"]) == 1
    assert "is for unit 'one row', not \"one value of 'person'\"" in capsys.readouterr().err


def test_a_release_that_cannot_be_written_once_it_is_paid_is_stored(tmp_path, capsys, monkeypatch):
    source, out, book = write_rows(tmp_path), tmp_path / "out.csv", tmp_path / "ledger"
    replace = os.replace

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    words = ["release", source, "--by", "region", *BUDGET, "-o", str(out)]
    assert main([*words, "--ledger", str(book), "--total-epsilon", "1", "--total-delta", "1e-6"]) == 1
    assert "(No space left on device). Hint: it is stored: opendp-tree ledger" in capsys.readouterr().err
    monkeypatch.setattr(os, "replace", replace)
    assert Ledger.open(book).left()["epsilon"] == 0
    assert TreeRelease.from_json(Ledger.open(book).stored(1)).statement.loss["epsilon"] <= 1
    assert sorted(os.listdir(tmp_path)) == ["ledger", "rows.parquet"]


def test_a_picture_goes_with_the_release_or_nothing_is_released(tmp_path, capsys, monkeypatch):
    source, out, picture = write_rows(tmp_path), tmp_path / "out.csv", tmp_path / "out.html"
    words = ["release", source, "--by", "region,city", *BUDGET, "-o", str(out), "--plot"]
    assert main([*words, str(tmp_path / "no" / "out.html")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr("opendp_tree.cli.commands.find_spec", lambda name: None)
        assert main([*words, str(picture)]) == 1
    assert "Hint: pip install plotly" in capsys.readouterr().err
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
    assert closed.wait(timeout=60) == 1
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
    return process.wait(timeout=60), shown.decode()


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
    assert json.loads(line).keys() == {"exit_code", "error"}
    assert json.loads(line)["exit_code"] == 3


def test_two_processes_cannot_both_have_the_last_of_a_budget(tmp_path):
    source, book = write_rows(tmp_path), tmp_path / "ledger"
    words = ["release", source, "--by", "region", *BUDGET, "--ledger", book]
    words += ["--total-epsilon", "1", "--total-delta", "1e-6"]
    running = [
        subprocess.Popen(command(*words, "-o", tmp_path / f"out{number}.csv"), stderr=subprocess.PIPE, env=ENVIRONMENT)
        for number in range(2)
    ]
    codes = []
    for process in running:
        assert b"Traceback" not in process.communicate(timeout=120)[1]
        codes.append(process.returncode)
    assert sorted(codes) == [0, 3]
    assert len(list(tmp_path.glob("out*.csv"))) == 1
    assert Ledger.open(book).left() == {"epsilon": 0, "delta": 0}


LEDGER = ["--total-epsilon", "1", "--total-delta", "1e-6"]


def in_a_shell(folder, words, streams):
    line = " ".join(shlex.quote(word) for word in command(*words))
    return subprocess.run(["sh", "-c", f"exec {line} {streams}"], cwd=folder, env=ENVIRONMENT, check=False, timeout=60)


def test_closed_streams_fail_no_release(tmp_path):
    words = ["release", write_rows(tmp_path), "--by", "region,city", *BUDGET, "-o", tmp_path / "out.csv"]
    for streams in ("2>&-", "0<&- >&- 2>&-"):
        assert in_a_shell(tmp_path, [*words, "--ledger", tmp_path / streams, *LEDGER], streams).returncode == 0
        assert near(estimates(tmp_path / "out.csv"), TRUTH)
        assert Ledger.open(tmp_path / streams).left()["epsilon"] == 0  # and no message stands in the ledger


def test_a_closed_standard_output_is_refused_before_anything_is_spent(tmp_path):
    words = ["release", write_rows(tmp_path), "--by", "region", *BUDGET, "-o", "-", "--ledger", tmp_path / "ledger"]
    assert in_a_shell(tmp_path, [*words, *LEDGER], ">&-").returncode == 1
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


def test_an_unbuffered_output_is_written_in_full_or_fails(tmp_path):
    labels = [f"label-{number}" for number in range(3000)]
    source = write_rows(tmp_path, frame=pl.DataFrame({"label": labels * 60}))
    process = subprocess.Popen(
        command("release", source, "--by", "label", "--epsilon", "5", "--delta", "1e-6", "-o", "-"),
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.read(process.stdout.fileno(), 10)
    time.sleep(0.2)  # what it writes next fills the pipe, and is taken in part
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    process.stderr.close()


def test_modes_are_kept_and_links_followed_by_output_and_picture(tmp_path):
    source = write_rows(tmp_path)
    names = ("out.csv", "out.html")
    for name in names:
        (tmp_path / f"real-{name}").touch(mode=0o600)
        (tmp_path / name).symlink_to(tmp_path / f"real-{name}")
    out, picture = (str(tmp_path / name) for name in names)
    assert main(["release", source, "--by", "region,city", *BUDGET, "-o", out, "--plot", picture]) == 0
    for name in names:
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / f"real-{name}").stat().st_size > 0
        assert (tmp_path / f"real-{name}").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", ["csv", "ndjson", "json", "parquet"])
def test_labels_of_every_type_are_written_in_every_format(tmp_path, capfd, form):
    frame = pl.DataFrame(
        {
            "large": pl.Series([2**100] * 2000, dtype=pl.Int128),
            "far": pl.Series([2**31 - 1] * 2000, dtype=pl.Int32).cast(pl.Date),
            "long": pl.Series([-(2**63)] * 2000).cast(pl.Duration("ms")),
        }
    )
    source, out = write_rows(tmp_path, frame=frame), tmp_path / f"out.{form}"
    assert main(["release", source, "--by", "large,far,long", *BUDGET, "-o", str(out)]) == 0
    assert capfd.readouterr().err == ""
    found = pl.read_csv(out, infer_schema=False) if form == "csv" else read(out)
    assert f"{2**100} / {2**31 - 1} / {-(2**63)}" in found["path"].to_list()


def test_a_type_that_cannot_be_written_is_refused_before_anything_is_spent(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("opendp_tree.releases.writing._plain", lambda column, file_format: column)
    frame = pl.DataFrame({"long": pl.Series([5] * 2000).cast(pl.Duration("ms"))})
    source, book = write_rows(tmp_path, frame=frame), tmp_path / "ledger"
    words = ["release", source, "--by", "long", *BUDGET, "-o", str(tmp_path / "out.csv")]
    assert main([*words, "--ledger", str(book), *LEDGER]) == 2
    assert "long cannot be written as csv; nothing was spent. Hint: -o OUT.parquet" in capsys.readouterr().err
    assert not book.exists()


def test_a_panic_while_writing_is_one_line_without_data(tmp_path, capfd, monkeypatch):
    def panic(*_):
        os.write(2, b"secret")
        raise pl.exceptions.PanicException("secret")

    monkeypatch.setattr("opendp_tree.cli.commands._encode_release", panic)
    source, book = write_rows(tmp_path), tmp_path / "ledger"
    words = ["release", source, "--by", "region", *BUDGET, "-o", str(tmp_path / "out.csv")]
    assert main([*words, "--ledger", str(book), *LEDGER]) == 1
    shown = capfd.readouterr().err
    assert shown.startswith("opendp-tree: the release failed (PanicException); nothing was spent. Hint")
    assert "secret" not in shown
    assert Ledger.open(book).left()["epsilon"] == 1


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_sums_and_means_of_a_column(tmp_path, form):
    rows = pl.DataFrame(
        {"region": ["north"] * 3000 + ["south"] * 2000, "paid": [40.5] * 3000 + [None] * 500 + [90.0] * 1500}
    )
    source = tmp_path / f"rows.{form}"
    getattr(rows, f"write_{form}")(source)
    for ending in ("parquet", "csv", "json", "ndjson"):
        out = tmp_path / f"out.{ending}"
        words = ["--value", "paid", "--bounds", "-10", "100"]
        assert main(["release", str(source), "--by", "region", *words, *BUDGET, "-o", str(out)]) == 0
        frame = read(out).filter(~pl.col("other"))
        assert near(
            dict(zip(["", "north", "south"], frame["estimate"], strict=True)), {"": 4500, "north": 3000, "south": 1500}
        )
        assert [round(mean / 10) for mean in frame["mean"]] == [6, 4, 9]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--value", "person"], "Give one --bounds for each --value"),
        (["--bounds", "0", "5"], "Give one --bounds for each --value"),
        (["--value", "person", "--bounds", "5", "0"], "bounds"),
        (["--value", "region", "--bounds", "0", "5"], "must not be a column of --by or --unit"),
        (["--value", "nowhere", "--bounds", "0", "5"], "has no column nowhere"),
        (["--value", "person", "--bounds", "0", "x"], "must be a number"),
    ],
)
def test_values_that_cannot_be_are_refused(tmp_path, capsys, words, said):
    source = write_rows(tmp_path, "parquet")
    assert main(["release", source, "--by", "region", *words, *BUDGET, "-o", str(tmp_path / "out.csv")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Hint" in error
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("method", ["auto", "curve", "bin_curve", "segment_curve"])
def test_quantiles_of_a_number_by_group(tmp_path, method):
    frame = pl.DataFrame({"kind": ["a", "b"] * 5000, "age": [20, 60] * 5000})
    source, out = write_rows(tmp_path, frame=frame), tmp_path / "out.csv"
    line = ["--by", "kind, number(age, low=0, high=100, bins=100)", "--method", method]
    assert main(["release", source, *line, *BUDGET, "--quantiles", "0.25,0.5", "-o", str(out)]) == 0
    found = read(out).sort("kind", "quantile")
    assert found["kind"].to_list() == ["a", "a", "b", "b"]
    assert found["estimate"].to_list() == pytest.approx([20, 20, 60, 60], abs=3)


def test_quantiles_of_groups_cannot_be_chosen_and_nothing_is_spent(tmp_path, capsys):
    source, book = write_rows(tmp_path, frame=pl.DataFrame({"kind": ["a"] * 50, "age": [20] * 50})), tmp_path / "ledger"
    line = ["--by", "kind, number(age, low=0, high=100, bins=100)"]
    words = ["release", source, *line, *BUDGET, "--quantiles", "0.5", "--method", "chosen_quantiles"]
    assert main([*words, "-o", str(tmp_path / "out.csv"), "--ledger", str(book), *LEDGER]) == 2
    assert "the number is below groups" in capsys.readouterr().err
    assert not book.exists()


@pytest.mark.parametrize("method", ["auto", "bin_curve", "chosen_quantiles"])
def test_quantiles_of_a_number(tmp_path, method):
    pl.DataFrame({"age": [float(age) for age in range(100)] * 50}).write_parquet(tmp_path / "ages.parquet")
    line = ["--by", "number(age, low=0, high=100, bins=100)", "--epsilon", "1", "--method", method]
    out = tmp_path / "out.csv"
    words = ["release", str(tmp_path / "ages.parquet"), *line, "--quantiles", "0.25,0.5", "-o", str(out)]
    assert main(words) == 0
    found = pl.read_csv(out)
    assert found["quantile"].to_list() == [0.25, 0.5]
    assert [abs(value - share) < 5 for value, share in zip(found["estimate"], (25, 50), strict=True)] == [True, True]


@pytest.mark.parametrize("groups", ["", "kind, "])
def test_quantiles_of_people_keep_rows_of_each(tmp_path, groups):
    rows = pl.DataFrame({"user": range(4000), "kind": ["a"] * 4000, "age": [20.5] * 4000})
    source, out = write_rows(tmp_path, frame=rows), tmp_path / "out.csv"
    line = ["--by", f"{groups}number(age, low=0, high=100, bins=100)"]
    unit = ["--unit", "user", "--rows-per-unit", "2"]
    assert main(["release", source, *line, *unit, *BUDGET, "--quantiles", "0.5", "-o", str(out)]) == 0
    assert read(out)["estimate"].to_list() == pytest.approx([20.5], abs=3)
    shares = ["--unit", "user", "--count", "shares"]
    assert main(["release", source, *line, *shares, *BUDGET, "--quantiles", "0.5", "-o", str(tmp_path / "no.csv")]) == 2


def test_chosen_quantiles_are_kept_as_json(tmp_path):
    pl.DataFrame({"age": [float(age) for age in range(100)] * 50}).write_parquet(tmp_path / "ages.parquet")
    line = ["--by", "number(age, low=0, high=100, bins=100)", "--epsilon", "1"]
    out = tmp_path / "out.json"
    words = ["--method", "chosen_quantiles", "--quantiles", "0.25,0.5", "-o", str(out)]
    assert main(["release", str(tmp_path / "ages.parquet"), *line, *words]) == 0
    found = ChosenQuantiles.from_json(out.read_text())
    assert found.to_frame()["quantile"].to_list() == [0.25, 0.5]
    assert found.statement.loss == {"epsilon": 1.0}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--by age --quantiles 0.5 -o {out}.csv", "--quantiles requires a number"),
        ("--by 'number(age, low=0, high=9, bins=9)' --quantiles 0.5 -o {out}.json", "--quantiles has no JSON"),
        ("--by 'number(age, low=0, high=9, bins=9)' --method chosen_quantiles -o {out}.csv", "requires --quantiles"),
        (
            "--by 'number(age, low=0, high=9, bins=9)' --quantiles 0.5 --method tree_laplace -o {out}.csv",
            "has no quantiles",
        ),
        ("--by 'number(age, low=0, high=9, bins=9)' --quantiles 2 -o {out}.csv", "from 0 to 1"),
    ],
)
def test_quantiles_that_cannot_be_are_refused(tmp_path, capsys, words, complaint):
    pl.DataFrame({"age": [1.0]}).write_parquet(tmp_path / "ages.parquet")
    given = shlex.split(words.format(out=tmp_path / "out"))
    assert main(["release", str(tmp_path / "ages.parquet"), "--epsilon", "1", *given]) != 0
    assert complaint in capsys.readouterr().err


def test_rho_is_spent_from_a_ledger_of_rho_and_delta(tmp_path, capsys):
    source, out, book = write_rows(tmp_path), tmp_path / "out.json", tmp_path / "ledger"
    words = ["release", source, "--by", "region", "--rho", "0.1", "--delta", "1e-7", "-o", str(out)]
    words += ["--ledger", str(book)]
    assert main([*words, "--total-rho", "0.2", "--total-delta", "1e-6"]) == 0
    assert main(words) == 0
    assert main(words) == 3
    assert "rho" in TreeRelease.from_json(out.read_text()).statement.loss
    assert Ledger.open(book).left()["rho"] == 0
    epsilon = ["--epsilon" if word == "--rho" else word for word in words]
    assert main(epsilon) == 1
    assert "counts rho and delta, not epsilon and delta. Hint: ask for rho" in capsys.readouterr().err
    assert main(["plan", source, "--by", "region", "--rho", "0.1", "--delta", "1e-7"]) == 0


def test_a_number_below_columns_gives_curves_as_in_the_library(tmp_path):
    frame = pl.DataFrame({"kind": ["a"] * 3000 + ["b"] * 2000, "age": [20, 40] * 2500})
    source, out = write_rows(tmp_path, frame=frame), tmp_path / "out.json"
    words = ["release", source, "--by", "kind, number(age, low=0, high=64, bins=8)", *BUDGET]
    assert main([*words, "-o", str(out)]) == 0
    release = TreeRelease.from_json(out.read_text())
    same = release_tree(
        frame,
        by=Key.nested(Key.columns("kind"), Key.number("age", low=0, high=64, bins=8)),
        epsilon=1.0,
        delta=1e-6,
    )
    assert release.statement.mechanism == same.statement.mechanism
    assert release.quantiles([0.5])["kind"].to_list() == same.quantiles([0.5])["kind"].to_list()


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
