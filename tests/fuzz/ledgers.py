"""Ledger files, changed at random: `LedgerError`, or a ledger that says what is left and refuses to overspend."""

import json
import re
import tempfile
from pathlib import Path

from opendp_tree import Ledger
from opendp_tree.ledger import LedgerError
from tests.fuzz import Violation
from tests.fuzz.limits import limited
from tests.fuzz.mutations import as_json, letters, run, structures


def samples(folder):
    """Ledgers with and without entries, as texts."""
    for number, (total, cost) in enumerate(
        [({"epsilon": 1, "delta": "1e-6"}, {"epsilon": "0.1", "delta": "1e-9"}), ({"rho": 1}, {"rho": "0.25"})]
    ):
        path = Path(folder) / f"sample{number}"
        ledger = Ledger.open(path, total=total, unit="person", dataset="d")
        yield timeless(path)
        ledger.finish(ledger.reserve(cost, {"a": 1}), {"mechanism": "m"})
        ledger.reserve(cost)
        yield timeless(path)


def timeless(path):
    """A ledger's text, the same on every day: a seed must give the same cases."""
    return re.sub(r'"time": "[^"]*"', '"time": "2020-01-01T00:00:00+00:00"', path.read_text())


def fuzz(seed, cases):
    """Half of the cases change the structure of lines, half the letters of the file."""
    with tempfile.TemporaryDirectory() as folder:
        texts = list(samples(folder))
        lines = [[json.loads(line) for line in text.splitlines()] for text in texts]
        path = Path(folder) / "ledger.jsonl"

        def check(text):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            with limited("Ledger.open"):
                use(path)

        strategy = structures(lines).map(lambda value: "".join(as_json(line) + "\n" for line in value)) | letters(texts)
        return run(check, strategy, seed_number=seed, cases=cases)


def use(path):
    try:
        ledger = Ledger.open(path)
        left = ledger.left()
        measure = next(iter(ledger.total))
        entry = ledger.reserve(dict.fromkeys(ledger.total, "0.125") if "rho" in ledger.total else {"epsilon": "0.125"})
        ledger.finish(entry, {})
    except LedgerError:
        return
    except BaseException as error:
        raise Violation(f"{type(error).__name__}: {error}") from error
    assert 0 <= ledger.left()[measure] < left[measure]
