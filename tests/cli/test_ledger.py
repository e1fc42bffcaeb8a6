import json
import sqlite3

import polars as pl
import pytest

from opendp_tree import Ledger, TreeRelease
from opendp_tree.cli import main
from tests.cli.helpers import write_rows


@pytest.fixture
def book(tmp_path):
    source, path = write_rows(tmp_path), tmp_path / "ledger.db"
    words = ["release", source, "--by", "region,city", "--epsilon", "0.25", "--delta", "1e-7", "-o"]
    totals = ["--total-epsilon", "1", "--total-delta", "1e-6", "--dataset", "visits"]
    assert main([*words, str(tmp_path / "a.csv"), "--ledger", str(path), *totals]) == 0
    Ledger.open(path).commit({"epsilon": "0.1", "delta": 0}, {"file": "other.csv"})
    return path


def test_a_ledger_tells_what_was_spent_on_what_and_what_is_left(book, capsys):
    before = book.read_bytes()
    assert main(["ledger", str(book)]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == repr(Ledger.open(book)) == Ledger.open(book).describe()
    assert "for 'visits', the privacy of one row" in shown
    assert "file rows.parquet, columns region city, output a.csv, by tree_estimator\n" in shown
    assert "file other.csv" in shown
    assert "Total: epsilon 1, delta 0.000001\nSpent: epsilon 0.35, delta 1e-7\nLeft:  epsilon 0.65, delta 9e-7" in shown
    assert book.read_bytes() == before


def test_json_is_the_same_ledger_in_exact_amounts(book, capsys):
    assert main(["ledger", str(book), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["unit"], told["dataset"]) == ("one row", "visits")
    assert (told["spent"]["epsilon"], told["left"]["epsilon"]) == ("0.35", "0.65")
    first, second = told["entries"]
    assert first["statement"]["counted"] == "rows"
    assert first["note"]["columns"] == ["region", "city"]
    assert (second["cost"]["epsilon"], second["statement"]) == ("0.1", {})


def test_a_stored_release_is_printed(book, tmp_path, capsys):
    assert main(["ledger", str(book), "--release", "1"]) == 0
    release = TreeRelease.from_json(capsys.readouterr().out)
    assert release.to_frame().equals(pl.read_csv(tmp_path / "a.csv").cast(dict(release.to_frame().schema)))
    for form in ("csv", "json", "xlsx"):
        out = tmp_path / f"again.{form}"
        assert main(["ledger", str(book), "--release", "1", "-o", str(out)]) == 0
    release.write(tmp_path / "written.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "written.csv").read_bytes()
    assert TreeRelease.from_json((tmp_path / "again.json").read_text()).to_frame().equals(release.to_frame())
    assert (tmp_path / "again.xlsx").read_bytes()[:2] == b"PK"
    for words, message in (
        (["-o", str(out)], "-o requires --release"),
        (["--release", "1", "-o", str(book)], "a file is named twice"),
        (["--release", "1", "-o", "out.doc"], "out.doc has an unknown ending. Hint: one of parquet csv"),
    ):
        assert main(["ledger", str(book), *words]) == 2
        assert message in capsys.readouterr().err
    for entry in ("2", "3"):
        assert main(["ledger", str(book), "--release", entry]) == 1
        assert f"stores no release {entry}. Hint" in capsys.readouterr().err


def test_who_may_only_read_may_look(book, capsys, monkeypatch):
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, /, **options: opened.append(name) or connect(name, **options))
    assert main(["ledger", str(book)]) == 0
    assert opened
    assert all(name.endswith("?mode=ro") for name in opened)


def test_what_is_no_ledger_is_told_in_one_line(tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    for words, message in (
        ([str(tmp_path / "missing")], "there is no file"),
        ([str(other)], "is not a ledger. Hint"),
    ):
        assert main(["ledger", *words]) == 1
        assert message in capsys.readouterr().err
