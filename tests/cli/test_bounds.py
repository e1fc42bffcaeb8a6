"""Reports on bounds end to end: files, ledger, refusals."""

import json

import numpy as np
import polars as pl
import pytest

from opendp_tree import Ledger
from opendp_tree.cli import main
from tests.cli.helpers import write_rows

VISITS = pl.DataFrame({"person": [f"p{number}" for number in [*range(9000), *range(3000), *range(3000)]]})
"""6,000 people with one row and 3,000 with three: bounds of 1, 2 and 3 keep 60 %, 80 % and all."""
ASKED = ["--unit", "person", "--most", "3", "--epsilon", "0.5"]
TRUTH = [0.6, 0.8, 1.0]
FAR = 0.1
"""No share here is so wrong: the noise has scale 2."""


@pytest.fixture
def source(tmp_path):
    return write_rows(tmp_path, frame=VISITS)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_words_and_a_table_go_to_standard_output_and_a_picture_to_a_file(tmp_path, capsys, form):
    picture = tmp_path / "bounds.html"
    assert main(["bounds", write_rows(tmp_path, form, VISITS), *ASKED, "--plot", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "Recommended: 3. It keeps" in told
    assert "Privacy: epsilon 0.5 for adding or removing one person with all rows of that person." in told
    heads, *rows = [line.split() for line in told.splitlines()[-4:]]
    assert heads == ["bound", "keeps", "at", "least", "at", "most"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert abs(float(rows[0][1]) - 60) < 100 * FAR
    assert "Share of rows kept by each bound" in picture.read_text()


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_report_is_written_as_a_table_or_as_itself(tmp_path, source, ending):
    out = tmp_path / f"out.{ending}"
    assert main(["bounds", source, *ASKED, "-o", str(out)]) == 0
    shares = json.loads(out.read_text())["shares"] if ending == "json" else pl.read_csv(out)["share"].to_list()
    assert np.abs(np.array(shares) - TRUTH).max() < FAR


def test_the_ledger_counts_reports_beside_releases_and_refuses_more(tmp_path, source, capsys):
    book = str(tmp_path / "ledger.db")
    assert main(["bounds", source, *ASKED, "--ledger", book, "--total-epsilon", "1.2", "--total-delta", "1e-6"]) == 0
    release = ["--by", "person", "--unit", "person", "--rows-per-unit", "3", "--epsilon", "0.5", "--delta", "1e-7"]
    assert main(["release", source, *release, "-o", str(tmp_path / "out.csv"), "--ledger", book]) == 0
    out = tmp_path / "more.csv"
    assert main(["bounds", source, *ASKED, "--ledger", book, "-o", str(out)]) == 3
    assert not out.exists()
    assert "only epsilon 0.2" in capsys.readouterr().err
    first = Ledger.open(book).entries()[0]
    assert first.note == {"file": "rows.parquet", "bounds": 3}
    assert first.statement["mechanism"] == "bound_report"
    assert first.statement["loss"]["epsilon"] <= 0.5
    assert float(Ledger.open(book).left()["epsilon"]) == pytest.approx(0.2)


def test_a_useless_report_is_done_and_paid_for(tmp_path, source, capsys):
    book = str(tmp_path / "ledger.db")
    asked = ["--unit", "person", "--most", "1000", "--epsilon", "0.01"]
    assert main(["bounds", source, *asked, "--ledger", book, "--total-epsilon", "1"]) == 0
    assert "Not useful" in capsys.readouterr().out
    assert float(Ledger.open(book).left()["epsilon"]) == pytest.approx(0.99)


WRONG = [
    (["--unit", "nobody", "--most", "3"], 2, "has no column nobody"),
    (["--unit", "person", "--most", "1"], 2, "most (1) must be from 2 to 1048576. Hint: opendp-tree bounds --help"),
    (["--unit", "person"], 2, "--most"),
    (["--most", "3"], 2, "--unit"),
    ([*ASKED, "--confidence", "0"], 2, "confidence"),
    ([*ASKED, "-o", "nowhere/out.csv"], 1, "Hint"),
    ([*ASKED, "--ledger", "book"], 2, "there is no ledger at book yet"),
    ([*ASKED, "--input", "missing.csv"], 1, "there is no file"),
]


@pytest.mark.parametrize(("words", "code", "told"), WRONG)
def test_errors_are_one_line_with_a_hint(tmp_path, source, monkeypatch, capsys, words, code, told):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    if "--input" in words:
        *words, _, source = words
    assert main(["bounds", source, *words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert "Hint:" in line
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_file_spends_nothing(tmp_path, source, capfd):
    damaged = tmp_path / "damaged.parquet"
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:200] = bytes(196)
    damaged.write_bytes(content)
    book = tmp_path / "ledger.db"
    assert main(["bounds", str(damaged), *ASKED, "--ledger", str(book), "--total-epsilon", "1"]) == 1
    (line,) = capfd.readouterr().err.splitlines()  # Polars itself says nothing
    assert line.startswith("opendp-tree: ")
    assert Ledger.open(book).entries() == []
