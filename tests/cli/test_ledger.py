import json
import os

import pytest

from opendp_tree import Ledger
from opendp_tree.cli import main
from tests.cli.helpers import write_rows


@pytest.fixture
def book(tmp_path):
    source, path = write_rows(tmp_path), tmp_path / "ledger.jsonl"
    words = ["release", source, "--by", "region,city", "--epsilon", "0.25", "--delta", "1e-7", "-o"]
    totals = ["--total-epsilon", "1", "--total-delta", "1e-6", "--dataset", "visits"]
    assert main([*words, str(tmp_path / "a.csv"), "--ledger", str(path), *totals]) == 0
    Ledger.open(path).reserve({"epsilon": "0.1", "delta": 0}, {"file": "lost.csv"})
    return path


def test_a_ledger_tells_what_was_spent_on_what_and_what_is_left(book, capsys):
    before = book.read_bytes()
    assert main(["ledger", str(book)]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == repr(Ledger.open(book)) == Ledger.open(book).describe()
    assert "for 'visits', the privacy of one row" in shown
    assert "file rows.parquet, columns region city, output a.csv, by partition_estimator  done" in shown
    assert "file lost.csv" in shown
    assert "counted, not known to be done" in shown
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
    assert (second["cost"]["epsilon"], second["statement"]) == ("0.1", None)


@pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")
def test_who_may_only_read_may_look(book, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(
        os, "open", lambda path, flags, *mode, real=os.open: opened.append(flags) or real(path, flags, *mode)
    )
    assert main(["ledger", str(book)]) == 0
    assert opened
    assert not any(flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) for flags in opened)


def test_what_is_no_ledger_is_told_in_one_line(tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    for words, message in (
        ([str(tmp_path / "missing")], "there is no file"),
        ([str(other)], "does not begin as a ledger does"),
    ):
        assert main(["ledger", *words]) == 1
        assert message in capsys.readouterr().err
