from fractions import Fraction
from pathlib import Path

import pytest

from opendp_tree import Ledger
from opendp_tree._ledger_file import LedgerEntry, LedgerError, amounts_of, parse


def test_amounts_are_what_is_written_to_the_last_digit():
    assert amounts_of({"epsilon": "0.1", "delta": 0}, name="cost") == {"epsilon": Fraction(1, 10), "delta": Fraction(0)}
    with pytest.raises(ValueError, match="cost"):
        amounts_of({"epsilon": "a"}, name="cost")


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[1]\n", b'{"ledger": "other"}\n', b"\xff\n", b"[" * 9000])
def test_what_is_no_ledger_is_told_and_not_guessed(content):
    with pytest.raises(LedgerError):
        parse(Path("book"), content)


def test_what_a_ledger_wrote_is_read_back(tmp_path):
    book = Ledger.open(tmp_path / "book", total={"epsilon": 1, "delta": 0})
    book.reserve({"epsilon": "0.25", "delta": 0}, note={"file": "rows.csv"})
    (entry,) = parse(tmp_path / "book", (tmp_path / "book").read_bytes()).entries
    assert isinstance(entry, LedgerEntry)
    assert (entry.number, entry.cost["epsilon"], entry.note) == (1, Fraction(1, 4), {"file": "rows.csv"})
