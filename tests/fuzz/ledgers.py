"""Ledger files, changed at random: `LedgerError`, or a ledger that says what is left and refuses to overspend."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import strategies as st

from opendp_tree import Ledger
from opendp_tree.ledger import LedgerError
from tests.fuzz import Violation
from tests.fuzz.limits import limited
from tests.fuzz.mutations import HOSTILE, as_json, run

COLUMNS = {
    "ledger": ("total", "unit", "dataset", "time"),
    "entries": ("number", "time", "cost", "note", "statement", "name", "release"),
}


def samples(folder):
    """Ledgers with and without entries, as bytes that are the same on every day: a seed must give the same cases."""
    for number, (total, cost) in enumerate(
        [({"epsilon": 1, "delta": "1e-6"}, {"epsilon": "0.1", "delta": "1e-9"}), ({"rho": 1}, {"rho": "0.25"})]
    ):
        path = Path(folder) / f"sample{number}"
        ledger = Ledger.open(path, total=total, unit="person", dataset="d")
        yield timeless(path)
        ledger.commit(cost, {"a": 1}, release="{}", name="2024", statement={"mechanism": "m"})
        ledger.commit(cost)
        yield timeless(path)


def timeless(path):
    with closing(sqlite3.connect(path)) as db:
        for table in COLUMNS:
            db.execute(f"UPDATE {table} SET time = '2020-01-01T00:00:00+00:00'")
        db.commit()
    return path.read_bytes()


def fuzz(seed, cases):
    """Half of the cases change cells, half bytes of the file."""
    with tempfile.TemporaryDirectory() as folder:
        contents = list(samples(folder))
        path = Path(folder) / "ledger"

        def check(case):
            content, flips, cells = case
            changed = bytearray(content)
            for place, value in flips:
                changed[place % len(changed)] = value
            path.write_bytes(changed)
            if cells:
                change(path, cells)
            with limited("Ledger.open"):
                use(path)

        # Most bytes of a page are empty: those that say something are at its ends, and in the header.
        places = st.integers(0, 200) | st.integers(0, 2**15).map(lambda place: -place)
        flips = st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)
        names = st.sampled_from([(table, column) for table, columns in COLUMNS.items() for column in columns])
        cells = st.lists(st.tuples(names, HOSTILE.map(cell)), min_size=1, max_size=3)
        sample = st.sampled_from(contents)
        strategy = st.tuples(sample, flips, st.just([])) | st.tuples(sample, st.just([]), cells)
        return run(check, strategy, seed_number=seed, cases=cases)


def cell(value):
    """A value as a cell can hold it: a number, or JSON."""
    return value if isinstance(value, float | None) else as_json(value).encode("utf-8", "replace").decode()


def change(path, cells):
    with closing(sqlite3.connect(path)) as db:
        for (table, column), value in cells:
            db.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,)) if may_hold(column, value) else None
        db.commit()


def may_hold(column, value):
    """SQLite itself keeps to its own rules."""
    return column != "number" and (value is not None or column in ("unit", "dataset", "name", "release"))


def use(path):
    try:
        ledger = Ledger.open(path)
        left = ledger.left()
        measure = next(iter(ledger.total))
        ledger.commit({measure: "0.125"})
        ledger.stored("2024")
        ledger.describe()
    except LedgerError:
        return
    except BaseException as error:
        raise Violation(f"{type(error).__name__}: {error}") from error
    assert 0 <= ledger.left()[measure] < left[measure]
