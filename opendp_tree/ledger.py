"""A SQLite file that records what releases cost together, and refuses more than a stated total.

A release and its cost are committed in one transaction, once the release is finished and before anybody sees it. A
process that dies earlier has shown nothing and costs nothing. Amounts are decimal texts, added exactly.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from opendp_tree._arguments import check_type
from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._show import Bar, Cell, html_table, one_line, table
from opendp_tree.theorems.series import families_amount

__all__ = ["BudgetError", "Ledger", "LedgerEntry", "LedgerError", "spend"]

Amount = int | float | str | Fraction
Made = TypeVar("Made")
LOCKED_SECONDS = 60.0
"""How long a transaction waits for those of other processes while none of them changes the file."""
RETRY_SECONDS = 0.001
_MEASURES = (("epsilon", "delta"), ("rho", "delta"))
_APPLICATION, _VERSION = 0x6F647472, 1
_TABLES = (
    "CREATE TABLE ledger (total TEXT NOT NULL, unit TEXT, dataset TEXT, time TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT NOT NULL, cost TEXT NOT NULL, note TEXT NOT NULL, "
    "statement TEXT NOT NULL, name TEXT UNIQUE, release TEXT, disjoint TEXT)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)
ONE_ROW = "one row"
"""The unit of releases of which no two may count the same row."""
_PROBLEMS = {
    "locked": "is locked by another process. Hint: end the program that holds it open, and try again",
    "not a database": "is no ledger. Hint: name another file, or a new one; text files of early versions are not read",
    "readonly": "cannot be written. Hint: check who may write the file and its folder",
    "unable to open": "cannot be opened. Hint: check the name, and who may write there",
    "full": "has no room on its disk. Hint: free some, and try again; nothing was spent",
    "disk I/O": "could not be read or written; nothing was spent. Hint: check the disk and the folder, and try again",
}


class LedgerError(ValueError):
    """A ledger that cannot be used: damaged, locked, or for other data or another unit."""


class LockedError(LedgerError):
    """A ledger that another process holds; the same call may succeed later."""


class BudgetError(LedgerError):
    """A release that would exceed the ledger's total."""


@dataclass(frozen=True)
class LedgerEntry:
    """One release that a ledger counts.

    Parameters
    ----------
    number
        Its place in the ledger, from 1.
    time
        When it was committed, in UTC, as ISO 8601 writes it.
    cost
        What it cost: epsilon and delta, or rho and delta.
    note
        What whoever asked for it wrote down: files and columns, for the command line.
    statement
        The privacy statement of what came out; empty if it has none.
    name
        The name under which the release is stored; None if it has none.
    disjoint
        What it shares with other entries whose releases count disjoint rows, each of which is protected by itself: of
        these the dearest counts. None: its cost is added.
    """

    number: int
    time: str
    cost: Mapping[str, Fraction]
    note: Mapping[str, Any]
    statement: Mapping[str, Any]
    name: str | None = None
    disjoint: str | None = None

    @property
    def about(self) -> str:
        """What it was for, in a few words."""
        parts = [f"{name} {_words(value)}" for name, value in self.note.items()]
        if self.statement.get("mechanism"):
            parts.append(f"by {_words(self.statement['mechanism'])}")
        return ", ".join(parts)

    @property
    def when(self) -> str:
        """The time as people write it."""
        return self.time.removesuffix("+00:00").replace("T", " ")


@dataclass(frozen=True)
class Ledger:
    """A ledger file, by `Ledger.open`.

    It prints as what was spent, on what, and what is left. Only releases with the same unit and data set share one.

    Parameters
    ----------
    path
        Where its file is.
    total
        What all releases together may cost: epsilon and delta, or rho and delta, by basic composition.
    unit
        Whose privacy is counted; None: nobody said.
    dataset
        Which data; None: nobody said.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(folder + "/ledger.db", total={"epsilon": "0.3", "delta": "1e-6"})
    ...     ledger.check({"epsilon": "0.1"})  # refuses what cannot be paid, before anything is read
    ...     release = '{"count": 17}'  # made, and shown to nobody yet
    ...     entry = ledger.commit({"epsilon": "0.1"}, {"columns": ["city"]}, release=release, name="2024-01")
    ...     ledger.left(), ledger.stored("2024-01")
    ({'epsilon': Fraction(1, 5), 'delta': Fraction(1, 1000000)}, '{"count": 17}')
    """

    path: Path
    total: Mapping[str, Fraction]
    unit: str | None
    dataset: str | None

    @classmethod
    def of(cls, ledger: Ledger | str | Path | None) -> Ledger | None:
        """A ledger as it is, that of a file which is there, or None for none.

        Parameters
        ----------
        ledger
            What was given.

        """
        if isinstance(ledger, (str, os.PathLike)):
            return cls.open(ledger)
        if ledger is not None:
            check_type(ledger, Ledger, name="ledger", hint="Ledger.open('ledger.db', total={'epsilon': '1'})")
        return ledger

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        total: Mapping[str, Amount] | None = None,
        unit: str | None = None,
        dataset: str | None = None,
    ) -> Ledger:
        """The ledger at a path; made with this total if there is none yet.

        Parameters
        ----------
        path
            The file, on a local disk: network disks may not keep locks.
        total
            What all releases together may cost: `epsilon` and `delta`, or `rho` and `delta`; delta is 0 if left out.
            By default that of the ledger, which must then exist; if one is given, it must be the ledger's own.
        unit
            Whose privacy is counted, in words: "one row". By default whatever the ledger says; if given, it must be
            its own, if that has one.
        dataset
            The name of the data that are counted. By default whatever the ledger says; if given, it must be its own.

        """
        file = Path(path)
        if "\0" in str(file):
            raise LedgerError(f"path ({str(file)!r}) must hold no null character. Hint: 'ledger.db'")
        for name, text in (("unit", unit), ("dataset", dataset)):
            if not isinstance(text, (str, type(None))):
                raise TypeError(f"{name} ({type(text).__name__}) must be a text. Hint: leave it out if there is none")
        stated = None if total is None else amounts_of(total, name="total", rounding=ROUND_FLOOR)
        try:
            empty = not (file.is_file() and file.stat().st_size)
        except OSError as error:
            raise LedgerError(f"{file} cannot be read ({error.strerror}). Hint: 'ledger.db'") from None
        if stated is None and empty:
            raise LedgerError(
                f"there is no ledger at {file} yet. Hint: total={{'epsilon': '1', 'delta': '1e-6'}} begins one"
            )
        with _transaction(file, begin=stated is not None) as db:
            if stated is not None and not _is_begun(file, db):
                for line in _TABLES:
                    db.execute(line)
                row = (json.dumps(decimal_texts(stated)), unit, dataset, _now())
                db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", row)
            ledger = cls._read(file, db)
        if stated is not None and stated != ledger.total:
            raise LedgerError(f"{file} has another total: {show(ledger.total)}. Hint: leave the total out to use it")
        for name, text, own in (("unit", unit, ledger.unit), ("dataset", dataset, ledger.dataset)):
            if text is not None and text != own and not (name == "unit" and own is None):
                raise LedgerError(f"{file} is for {name} {own!r}, not {text!r}. Hint: keep one ledger for each")
        return ledger

    @classmethod
    def _read(cls, file: Path, db: sqlite3.Connection) -> Ledger:
        rows = db.execute("SELECT total, unit, dataset FROM ledger").fetchall()
        if len(rows) != 1 or not all(isinstance(text, (str, type(None))) for text in rows[0]):
            raise _damaged(file)
        return cls(file, _amounts_in(file, rows[0][0], name="total"), *rows[0][1:])

    def commit(
        self,
        cost: Mapping[str, Amount],
        note: Mapping[str, Any] | None = None,
        *,
        release: str | None = None,
        name: str | None = None,
        statement: Mapping[str, Any] | None = None,
        disjoint: str | None = None,
    ) -> int:
        """Count a finished release and store it, in one transaction, before anybody sees it; the entry's number.

        If it is too much: `BudgetError`, nothing is written, and the release must be thrown away unseen.

        Parameters
        ----------
        cost
            What the release costs: `epsilon` and `delta`, or `rho` and `delta`, as the total has it.
        note
            What is worth remembering of it, as JSON can hold it. By default nothing.
        release
            The release as text, as its `to_json()` gives it, for `stored`. By default nothing is stored.
        name
            A name of its own for the release, such as a period. By default none: the entry's number finds it.
        statement
            The release's privacy statement, as `release.statement.to_dict()` gives it. By default none.
        disjoint
            For releases of which no two count the same row, where rows are what is protected: a text that they share.
            Of their costs the largest counts. By default None: the cost is added.

        """
        for what, text in (("release", release), ("name", name), ("disjoint", disjoint)):
            if text is not None:
                check_type(text, str, name=what, hint="release.to_json(), and a name such as '2024-01'")
        asked = self._asked(cost)
        texts = json.dumps(decimal_texts(asked)), json.dumps(dict(note or {})), json.dumps(dict(statement or {}))
        with _transaction(self.path, write=True) as db:
            entries = self._entries(db)
            if name is not None and any(entry.name == name for entry in entries):
                raise LedgerError(f"{self.path} has a release {name!r} already. Hint: ledger.stored({name!r})")
            self._check_unit((statement or {}).get("unit"), entries, disjoint)
            self._refuse_more_than_is_left(asked, entries, disjoint)
            row = (len(entries) + 1, _now(), *texts, name, release, disjoint)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return len(entries) + 1

    def stored(self, which: str | int) -> str | None:
        """The text of a release that was committed here; None if there is none.

        Parameters
        ----------
        which
            Its name, or its entry's number.

        """
        column = "name" if isinstance(which, str) else "number"
        with _transaction(self.path) as db:
            self._read(self.path, db)
            row = db.execute(f"SELECT release FROM entries WHERE {column} = ?", (which,)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def settings(self, settings: str | None = None) -> str | None:
        """The text that says how the series in this file is made; None if the file keeps no series.

        Parameters
        ----------
        settings
            What is written down where there is nothing yet. By default nothing is.

        """
        with _transaction(self.path, write=settings is not None) as db:
            table_there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'series'").fetchone()
            row = db.execute("SELECT settings FROM series").fetchone() if table_there else None
            if row is None and settings is not None:
                db.execute("CREATE TABLE IF NOT EXISTS series (settings TEXT NOT NULL)")
                db.execute("INSERT INTO series VALUES (?)", (settings,))
                return settings
        return None if row is None else str(row[0])

    def check(self, cost: Mapping[str, Amount], *, unit: str | None = None, disjoint: str | None = None) -> None:
        """Refuse now what `commit` would refuse, before anything is read or computed. Nothing is written.

        Parameters
        ----------
        cost
            What a release may cost, as in `commit`.
        unit
            Whose privacy it costs, in words. By default nobody says; if given, it must be the ledger's own, if that
            has one.
        disjoint
            As in `commit`. By default None: the cost is added.

        """
        entries = self.entries()
        self._check_unit(unit, entries, disjoint)
        self._refuse_more_than_is_left(self._asked(cost), entries, disjoint)

    def _check_unit(self, unit: str | None, entries: Sequence[LedgerEntry], disjoint: str | None) -> None:
        """Refuse a unit that is not the ledger's own, or not that of its entries: losses of two units do not add up."""
        units = (each.statement.get("unit") for each in entries)
        known = self.unit or next((_without_periods(each) for each in units if isinstance(each, str)), None)
        unit = None if unit is None else _without_periods(unit)
        if unit is not None and known not in (None, unit):
            raise LedgerError(
                f"{self.path} is for unit {known!r}, not {unit!r}. Hint: keep one ledger for each, or protect the "
                "same unit"
            )
        if disjoint is not None and (known or unit or ONE_ROW) != ONE_ROW:
            raise LedgerError(
                f"disjoint ({disjoint!r}) must be given for unit {ONE_ROW!r} only, not {known or unit!r}: a person may "
                "have rows in several releases. Hint: leave disjoint out"
            )

    def _asked(self, cost: Mapping[str, Amount]) -> dict[str, Fraction]:
        """A cost in this ledger's terms."""
        asked = amounts_of(cost, name="cost")
        if asked.keys() != self.total.keys():
            mine, other = " and ".join(self.total), " and ".join(asked)
            raise LedgerError(
                f"{self.path} counts {mine}, not {other}. Hint: ask for {mine}, or keep a ledger of {other} for these "
                "data instead of this one"
            )
        return asked

    def _refuse_more_than_is_left(
        self, asked: Mapping[str, Fraction], entries: Sequence[LedgerEntry], disjoint: str | None
    ) -> None:
        left = self.left_after(entries)
        then = self.left_after([*entries, LedgerEntry(0, "", asked, {}, {}, disjoint=disjoint)])
        over = [name for name, amount in then.items() if amount < 0]
        if over:
            raise BudgetError(
                f"the release would cost {show(asked)}, but of {self.path}'s total {show(self.total)} "
                f"only {show(left)} are left. Hint: {_what_is_possible(left, over)}"
            )

    def left(self) -> dict[str, Fraction]:
        """What further releases may cost."""
        return self.left_after(self.entries())

    def entries(self) -> list[LedgerEntry]:
        """All releases that are counted, in their order.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     ledger = Ledger.open(folder + "/ledger.db", total={"rho": 1})
        ...     ledger.commit({"rho": "0.25"}, {"columns": ["origin", "dest"]})
        ...     [(entry.number, show(entry.cost), entry.about) for entry in ledger.entries()]
        1
        [(1, 'rho 0.25, delta 0', 'columns origin dest')]
        """
        with _transaction(self.path) as db:
            return self._entries(db)

    def _entries(self, db: sqlite3.Connection) -> list[LedgerEntry]:
        if self._read(self.path, db).total != self.total:
            raise LedgerError(f"{self.path} has another total than before. Hint: Ledger.open it anew")
        entries = []
        rows = db.execute("SELECT number, time, cost, note, statement, name, disjoint FROM entries ORDER BY number")
        for place, (number, when, cost, note, statement, name, disjoint) in enumerate(rows, start=1):
            amounts = _amounts_in(self.path, cost, name="cost")
            if number != place or amounts.keys() != self.total.keys():
                raise _damaged(self.path)
            said = _object(note), _object(statement), name, disjoint
            entries.append(LedgerEntry(number, _words(when), amounts, *said))
        return entries

    def describe(self) -> str:
        """What was spent, on what, and what is left: a table and a few lines."""
        entries = self.entries()
        rows = [[each.number, each.when, show(each.cost), each.about] for each in entries]
        shown = [table(["entry", "time (UTC)", "cost", "for"], rows), ""] if rows else []
        return "\n".join([*map(one_line, self._about()), "", *shown, *self._sums(entries)])

    def __repr__(self) -> str:
        """`describe()`, or that the file cannot be read now."""
        try:
            return self.describe()
        except (LedgerError, OSError):
            return "\n".join([*map(one_line, self._about()), "It cannot be read now."])

    def _repr_html_(self) -> str:
        title, *about = self._about()
        try:
            entries = self.entries()
        except (LedgerError, OSError):
            return html_table([], [], title=title, above=[*about, "It cannot be read now."])
        main = next(iter(self.total))
        rows: list[list[Cell]] = [
            [each.number, each.when, show(each.cost), Bar(float(each.cost[main])), each.about] for each in entries
        ]
        heads = ["entry", "time (UTC)", "cost", "", "for"]
        return html_table(heads, rows, title=title, above=about, below=self._sums(entries))

    def _about(self) -> list[str]:
        """Which ledger it is."""
        for_whom = [f"for {self.dataset!r}"] if self.dataset else []
        for_whom += [f"the privacy of {self.unit}"] if self.unit else []
        return [f"Ledger {self.path.name}" + (f": {', '.join(for_whom)}" if for_whom else ""), f"File: {self.path}"]

    def _sums(self, entries: list[LedgerEntry]) -> list[str]:
        left = self.left_after(entries)
        spent = {name: total - left[name] for name, total in self.total.items()}
        groups = sorted({entry.disjoint for entry in entries if entry.disjoint is not None})
        words = ["Of releases of disjoint rows the dearest counts: no row is in two of them."] if groups else []
        words += [f"Of {' and of '.join(groups)} it is one each: their costs are added."] if len(groups) > 1 else []
        return [*words, f"Total: {show(self.total)}", f"Spent: {show(spent)}", f"Left:  {show(left)}"]

    def left_after(self, entries: Sequence[LedgerEntry]) -> dict[str, Fraction]:
        """What is left of the total once these are paid; of releases of disjoint rows the dearest is.

        Parameters
        ----------
        entries
            Those of this ledger.
        """
        families: dict[str | int, list[Mapping[str, Fraction]]] = {}
        for place, entry in enumerate(entries):
            families.setdefault(place if entry.disjoint is None else entry.disjoint, []).append(entry.cost)
        return {
            name: total - families_amount([cost[name] for cost in costs] for costs in families.values())
            for name, total in self.total.items()
        }


def spend(
    ledger: Ledger | str | Path | None,
    cost: Mapping[str, Amount],
    make: Callable[[], Made],
    *,
    note: Mapping[str, Any] | None = None,
    name: str | None = None,
    disjoint: str | None = None,
) -> Made:
    """Make a release, commit it to a ledger together with its cost, and only then give it away.

    What the ledger cannot pay is refused before it is made, and again when it is committed. If making fails or is
    interrupted, nothing is spent; so `make` must show nobody what it makes.

    Parameters
    ----------
    ledger
        The ledger, or the path of one that is there; None counts nowhere.
    cost
        What the release costs, in the ledger's terms.
    make
        Makes the release, and everything that may fail before it counts. Its `to_json()` is stored if it has one.
    note
        What the release is for. By default nothing is written down.
    name, disjoint
        As in `Ledger.commit`. By default None: the release has no name, and its cost is added.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(folder + "/ledger.db", total={"epsilon": 1})
    ...     spend(ledger, {"epsilon": "0.5"}, lambda: "a release")
    ...     ledger.left()["epsilon"]
    'a release'
    Fraction(1, 2)
    """
    book = Ledger.of(ledger)
    if not callable(make):
        raise TypeError(f"make ({type(make).__name__}) must be callable: it makes the release")
    if book is None:
        return make()
    book.check(cost, disjoint=disjoint)
    made = make()
    statement, text = getattr(made, "statement", None), getattr(made, "to_json", None)
    release = None if text is None else text()
    stop_if_interrupted()
    said = None if statement is None else statement.to_dict()
    book.commit(cost, note, release=release, name=name, statement=said, disjoint=disjoint)
    return made


def _what_is_possible(left: Mapping[str, Fraction], over: Sequence[str]) -> str:
    """What may still be asked for, once a release was refused."""
    first = next(iter(left))
    if left[first] == 0:
        return "the ledger is spent: no further release of these data is within its total"
    if "delta" in over and left["delta"] == 0:
        return f"no delta is left: ask for delta 0, as public trees allow, and at most {show({first: left[first]})}"
    return f"ask for at most {show(left)}"


@contextmanager
def _transaction(path: Path, *, write: bool = False, begin: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection inside a transaction, which is committed at the end, or not at all; others wait for a writer.

    The rollback journal is on the disk before the file changes, and EXTRA waits for the folder, too: a process or a
    machine that dies leaves the state before or after the transaction. WAL would need shared memory, and a right to
    write for whoever only reads.
    """
    mode = "rwc" if begin else "rw" if write else "ro"
    try:
        with closing(_connected(path, mode)) as db:
            if not begin and not _is_begun(path, db):
                raise _damaged(path)
            yield db
            _patiently(path, db, "COMMIT")
    except (sqlite3.Error, OverflowError) as error:
        problem = next((words for part, words in _PROBLEMS.items() if part in str(error)), None)
        kind = LockedError if "locked" in str(error) else LedgerError
        raise kind(f"{path} {problem}") if problem else _damaged(path, error) from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that has begun its transaction."""
    uri = f"{Path(os.path.realpath(path)).as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
    try:
        _patiently(path, db, "PRAGMA synchronous = EXTRA")
        _patiently(path, db, "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE")
        _patiently(path, db, "PRAGMA user_version")  # takes the lock of whoever only reads
        return db
    except sqlite3.OperationalError as error:
        db.close()
        if mode == "ro" and "readonly" in str(error):  # a writer died in its commit, which must be rolled back first
            return _connected(path, "rw")
        raise
    except BaseException:
        db.close()
        raise


def _patiently(path: Path, db: sqlite3.Connection, words: str) -> None:
    """Run a statement that waits for the locks of others, which an interrupt ends.

    SQLite's own waiting sleeps up to 0.1 s between attempts, so a process that commits again at once takes nearly every
    turn. Short sleeps meet the pause between two of its transactions.
    """
    changed, end = 0, 0.0
    while True:
        stop_if_interrupted()
        try:
            db.execute(words).fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            now, last_change = time.monotonic(), path.stat().st_mtime_ns
            if last_change != changed:  # others make progress: a turn will come
                changed, end = last_change, now + LOCKED_SECONDS
            elif now >= end:
                raise
            time.sleep(RETRY_SECONDS)


def _is_begun(path: Path, db: sqlite3.Connection) -> bool:
    """Whether the file is a ledger; False if it is empty, and an error if it is another database."""
    marks = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if marks == [_APPLICATION, _VERSION]:
        return True
    if any(marks) or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise LedgerError(f"{path} {_PROBLEMS['not a database']}")
    return False


def _without_periods(unit: str) -> str:
    """A unit in words, without what the statement of a series says behind it."""
    return unit.partition(", in ")[0]


def _damaged(path: Path, error: Exception | None = None) -> LedgerError:
    return LedgerError(f"{path} is damaged{f' ({error})' if error else ''}. Hint: restore the ledger from a copy")


def _amounts_in(path: Path, text: Any, *, name: str) -> dict[str, Fraction]:
    try:
        return amounts_of(_object(text), name=name)
    except LedgerError:
        raise _damaged(path) from None


def _object(text: Any) -> dict[str, Any]:
    """The JSON object in a text. What only tells, and counts for nothing, need not be as it was written."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _words(value: Any) -> str:
    """A value of a note, for people."""
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def amounts_of(given: Mapping[str, Amount], *, name: str, rounding: str = ROUND_CEILING) -> dict[str, Fraction]:
    """Epsilon and delta, or rho and delta, as decimals of up to 20 digits: exactly, or rounded to the safe side."""
    expected = f"{name} must be of epsilon and delta, or of rho and delta. Hint: {{'epsilon': '1', 'delta': '1e-6'}}"
    if not isinstance(given, Mapping):
        raise LedgerError(expected)
    amounts = {**given, "delta": given.get("delta", 0)}
    context = Context(prec=20, rounding=rounding)
    for measure in _MEASURES:
        if amounts.keys() == set(measure):
            exact = {part: _amount(amounts[part], name=f"{name}: {part}") for part in measure}
            return {
                part: Fraction(context.divide(Decimal(amount.numerator), Decimal(amount.denominator)))
                for part, amount in exact.items()
            }
    raise LedgerError(expected)


def _amount(value: Amount, *, name: str) -> Fraction:
    # Texts by way of decimals, which hold 1e999999999 in a few bytes until it is refused.
    try:
        exact = Decimal(value) if isinstance(value, str) else Fraction(value)
        fits = not isinstance(value, bool) and (exact == 0 or 1e-300 <= exact <= 1e300)
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise LedgerError(f"{name} ({value}) must be a finite number, not negative. Hint: '0.1'")
    return Fraction(exact)


def decimal_texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts as decimal texts; what was rounded to 20 digits is written exactly."""
    return {name: _decimal(amount) for name, amount in amounts.items()}


def _decimal(amount: Fraction) -> str:
    return str(Context(prec=40).divide(Decimal(amount.numerator), Decimal(amount.denominator))).lower()


def show(amounts: Mapping[str, Fraction]) -> str:
    """Amounts in words."""
    return ", ".join(f"{name} {_decimal(amount)}" for name, amount in amounts.items())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
