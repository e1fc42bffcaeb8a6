"""A SQLite file that records what releases cost together, and refuses more than a stated total.

A release and its cost are committed in one transaction before anybody sees the release: what fails before that costs
nothing.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from opendp_tree._arguments import check_type
from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._show import Bar, Cell, html_table, one_line, table
from opendp_tree.theorems.noise import families_amount

__all__ = ["BudgetError", "Ledger", "LedgerEntry", "LedgerError", "spend"]

Amount = int | float | str | Fraction
Made = TypeVar("Made")
LOCKED_SECONDS, RETRY_SECONDS = 60.0, 0.001
"""How long a transaction waits for those of other processes, and between two attempts."""
_APPLICATION, _VERSION = 0x6F647472, 1
_TABLES = (
    "CREATE TABLE ledger (total TEXT NOT NULL, unit TEXT, dataset TEXT, time TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT NOT NULL, cost TEXT NOT NULL, note TEXT NOT NULL, "
    "statement TEXT NOT NULL, name TEXT UNIQUE, release TEXT, disjoint TEXT)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)
ONE_ROW = "one row"
"""The unit under which releases of disjoint rows may share a cost."""
_HEADS = ("entry", "time (UTC)", "cost", "", "for")
_PROBLEMS = {
    "locked": "is locked by another process. Hint: end the program that holds it open, and try again",
    "not a database": "is not a ledger. Hint: name another file, or a new one",
    "readonly": "cannot be written. Hint: check the permissions of the file and its folder",
    "unable to open": "cannot be opened. Hint: check the name, and the permissions of the folder",
    "full": "does not fit on its disk; nothing was spent. Hint: free some space, and try again",
    "disk I/O": "could not be read or written; nothing was spent. Hint: check the disk and the folder, and try again",
}


_PERIODS = re.compile(", in (all quarters|all periods|each period)( together)?(, beside [a-z ]+)?$")
"""What the statement of a series adds to its unit; columns are in quotes, so no name ends like that."""
_UNREADABLE = (TypeError, ValueError, RecursionError)
"""What parsing a damaged cell raises."""


class LedgerError(ValueError):
    """A ledger that cannot be used: damaged, locked, or for other data or another unit."""


class LockedError(LedgerError):
    """A ledger that another process holds; the same call may succeed later."""


class SettingsError(LedgerError):
    """Arguments that differ from what the ledger's file states, or that name no ledger that was begun."""


class BudgetError(LedgerError):
    """A release that would exceed the ledger's total."""


@dataclass(frozen=True)
class LedgerEntry:
    """One release that a ledger counts.

    :param number: Its number in the ledger, from 1.
    :param time: When it was committed, in UTC, as ISO 8601 writes it.
    :param cost: What it cost: epsilon and delta, or rho and delta.
    :param note: The caller's note; files and columns if the command line made it.
    :param statement: The privacy statement of the release; empty if it has none.
    :param name: The name under which the release is stored; None if it has none.
    :param disjoint: The group of releases of disjoint rows that it belongs to: only the largest cost of a group counts.
        None: its cost is added.
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
        values = [(name, value if isinstance(value, list) else [value]) for name, value in self.note.items()]
        parts = [f"{name} {' '.join(map(str, value))}" for name, value in values]
        mechanism = self.statement.get("mechanism")
        return ", ".join([*parts, f"by {mechanism}"] if mechanism else parts)

    @property
    def when(self) -> str:
        """The time in words."""
        return self.time.removesuffix("+00:00").replace("T", " ")


@dataclass(frozen=True)
class Ledger:
    """A ledger file, by `Ledger.open`.

    It prints what was spent, on what, and what is left. All releases in one ledger have the same unit and data set.

    :param path: The file.
    :param total: What all releases together may cost: epsilon and delta, or rho and delta, by basic composition.
    :param unit: Whose privacy is counted; None if it was not given.
    :param dataset: The name of the data; None if it was not given.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(folder + "/ledger.db", total={"epsilon": "0.3", "delta": "1e-6"})
    ...     ledger.check({"epsilon": "0.1"})  # refuses what cannot be paid, before anything is read
    ...     release = '{"count": 17}'  # made, but not shown to anybody yet
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
        """The ledger itself, the ledger at a path, or None.

        :param ledger: The ledger, its path, or None.
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
        """The ledger at a path; begun with this total if there is none yet. Other arguments must match the ledger.

        :param path: The file, on a local disk: network disks may not keep locks.
        :param total: What all releases together may cost: `epsilon` and `delta` (0 if left out), or `rho` and `delta`.
        :param unit: Whose privacy is counted, in words: "one row". A ledger that names no unit takes any.
        :param dataset: The name of the data that are counted.
        """
        file, is_empty = checked_file(path)
        for name, text in (("unit", unit), ("dataset", dataset)):
            if text is not None:
                check_type(text, str, name=name, hint="leave it out if there is none")
        stated = None if total is None else amounts_of(total, name="total", rounding=ROUND_FLOOR)
        if stated is None and is_empty:
            hint = f"Ledger.open({str(path)!r}, total={{'epsilon': '1', 'delta': '1e-6'}}) begins one"
            raise SettingsError(f"there is no ledger at {file} yet. Hint: {hint}")
        with _transaction(file, "ro" if stated is None else "rwc") as db:
            if stated is not None and not _is_begun(file, db):
                for line in _TABLES:
                    db.execute(line)
                row = (json.dumps(decimal_texts(stated)), unit, dataset, _now())
                db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", row)
            ledger = cls._read(file, db)
        if stated is not None and stated != ledger.total:
            raise SettingsError(f"{file} has another total: {show(ledger.total)}. Hint: leave the total out to use it")
        for name, text, kept in (("unit", unit, ledger.unit or unit), ("dataset", dataset, ledger.dataset)):
            if text not in (None, kept):
                other = f"is for {name} {kept!r}, not {text!r}. Hint: keep one ledger for each"
                raise SettingsError(f"{file} {other if kept else 'names no data set. Hint: leave the data set out'}")
        return ledger

    @classmethod
    def _read(cls, file: Path, db: sqlite3.Connection) -> Ledger:
        try:
            ((total, unit, dataset),) = db.execute("SELECT total, unit, dataset FROM ledger")
            return cls(file, amounts_of(json.loads(total), name="total"), unit, dataset)
        except _UNREADABLE:
            raise damaged(file) from None

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

        If it costs too much: `BudgetError`, nothing is written, and the release must be thrown away unseen.

        :param cost: What the release costs: `epsilon` and `delta`, or `rho` and `delta`, like the total.
        :param note: Anything about the release that JSON can hold. By default nothing.
        :param release: The release as text, from its `to_json()`, for `stored`. By default nothing is stored.
        :param name: A unique name for the release, such as a period. By default none: the entry's number finds it.
        :param statement: The release's privacy statement, from `release.statement.to_dict()`. By default none.
        :param disjoint: The name of a group of releases of which no two count the same row, where the unit is one row:
            only the largest cost of the group counts. By default None: the cost is added.
        """
        for what, text in (("release", release), ("name", name), ("disjoint", disjoint)):
            if text is not None:
                check_type(text, str, name=what, hint="release.to_json(), and a name such as '2024-01'")
        statement = dict(statement or {})
        texts = json.dumps(dict(note or {})), json.dumps(statement), name, release, disjoint
        with _transaction(self.path, "rw") as db:
            entries = self._entries(db)
            if name is not None and any(entry.name == name for entry in entries):
                raise LedgerError(f"{self.path} has a release {name!r} already. Hint: ledger.stored({name!r})")
            amounts, _ = self._payable(cost, entries, statement.get("unit"), disjoint)
            row = (len(entries) + 1, _now(), json.dumps(decimal_texts(amounts)), *texts)
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return len(entries) + 1

    def stored(self, which: str | int) -> str | None:
        """The text of a release that was committed here; None if there is none.

        :param which: The release's name, or its entry's number.
        """
        if isinstance(which, bool) or not isinstance(which, (str, int)):
            raise TypeError(f"which ({type(which).__name__}) must be a release's name, or its entry's number")
        column = "name" if isinstance(which, str) else "number"
        with _transaction(self.path) as db:
            row = db.execute(f"SELECT release FROM entries WHERE {column} = ?", (which,)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def settings(self, settings: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """How the series in this file is made; None if the file keeps no series.

        :param settings: What to store, with this total, if the file has none yet or no releases. By default nothing.
        """
        with _transaction(self.path, "ro" if settings is None else "rw") as db:
            kept = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'series'").fetchone()
            row = db.execute("SELECT settings FROM series").fetchone() if kept else None
            is_free = row is None or db.execute("SELECT 1 FROM entries").fetchone() is None
            if is_free and settings is not None:
                db.execute("CREATE TABLE IF NOT EXISTS series (settings TEXT NOT NULL)")
                db.execute("DELETE FROM series")
                row = (json.dumps(settings),)
                db.execute("INSERT INTO series VALUES (?)", row)
                db.execute("UPDATE ledger SET total = ?", (json.dumps(decimal_texts(self.total)),))
        try:
            return None if row is None else dict(json.loads(row[0]))
        except _UNREADABLE:
            raise damaged(self.path) from None

    def check(self, cost: Mapping[str, Amount], *, unit: str | None = None, disjoint: str | None = None) -> None:
        """Refuse now what `commit` would refuse, before anything is read or computed. Nothing is written.

        :param cost: What a release may cost, as in `commit`.
        :param unit: Whose privacy it costs, in words; it must be the ledger's unit. By default None: any.
        :param disjoint: As in `commit`. By default None: the cost is added.
        """
        self._payable(cost, self.entries(), unit, disjoint)

    def _payable(
        self, cost: Mapping[str, Amount], entries: Sequence[LedgerEntry], unit: Any, disjoint: str | None
    ) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
        """A cost as exact amounts, and what it leaves; refused if it is for another unit, or more than is left."""
        stated = (*(entry.statement.get("unit") for entry in entries), unit)
        # The statement of a series adds words about periods.
        units = [_PERIODS.sub("", each) if isinstance(each, str) else None for each in stated]
        known = self.unit or next(filter(None, units), ONE_ROW)
        if units[-1] not in (None, known):  # losses of two units do not add up
            hint = "keep one ledger for each, or protect the same unit"
            raise SettingsError(f"{self.path} is for unit {known!r}, not {units[-1]!r}. Hint: {hint}")
        if disjoint is not None and known != ONE_ROW:  # a person may have rows in several releases
            raise LedgerError(
                f"disjoint ({disjoint!r}) is only for unit {ONE_ROW!r}, not {known!r}. Hint: leave it out"
            )
        amounts = amounts_of(cost, name="cost")
        if amounts.keys() != self.total.keys():
            mine, other = " and ".join(self.total), " and ".join(amounts)
            hint = f"ask for {mine}, or use a ledger of {other} for these data instead of this one"
            raise SettingsError(f"{self.path} counts {mine}, not {other}. Hint: {hint}")
        left = self.left_after(entries)
        then = self.left_after([*entries, LedgerEntry(0, "", amounts, {}, {}, disjoint=disjoint)])
        if over := [name for name, amount in then.items() if amount < 0]:
            raise BudgetError(
                f"the release would cost {show(amounts)}, but of {self.path}'s total {show(self.total)} "
                f"only {show(left)} are left. Hint: {_what_is_possible(left, over)}"
            )
        return amounts, then

    def left(self) -> dict[str, Fraction]:
        """What further releases may cost."""
        return self.left_after(self.entries())

    def left_after(self, entries: Sequence[LedgerEntry]) -> dict[str, Fraction]:
        """What is left of the total after these entries; of each group of disjoint releases the largest cost counts.

        :param entries: Entries of this ledger.
        """
        families: dict[str | int, list[Mapping[str, Fraction]]] = {}
        for index, entry in enumerate(entries):
            families.setdefault(index if entry.disjoint is None else entry.disjoint, []).append(entry.cost)
        return {
            name: total - families_amount([cost[name] for cost in costs] for costs in families.values())
            for name, total in self.total.items()
        }

    def entries(self) -> list[LedgerEntry]:
        """All releases that are counted, in their order."""
        with _transaction(self.path) as db:
            return self._entries(db)

    def _entries(self, db: sqlite3.Connection) -> list[LedgerEntry]:
        if self._read(self.path, db).total != self.total:
            raise LedgerError(f"{self.path} has another total than before. Hint: Ledger.open it again")
        entries = []
        rows = db.execute("SELECT number, time, cost, note, statement, name, disjoint FROM entries ORDER BY number")
        for expected, (number, when, cost, note, statement, *names) in enumerate(rows, start=1):
            try:
                amounts, about = amounts_of(json.loads(cost), name="cost"), dict(json.loads(note))
                if not all(isinstance(text, str | None) for text in names):
                    raise TypeError
                entries.append(LedgerEntry(number, str(when), amounts, about, dict(json.loads(statement)), *names))
            except _UNREADABLE:
                raise damaged(self.path) from None
            if number != expected or amounts.keys() != self.total.keys():
                raise damaged(self.path)
        return entries

    def describe(self) -> str:
        """What was spent, on what, and what is left: a table and a few lines."""
        about, rows, sums = self._shown()
        shown = [table(_HEADS, rows), ""] if rows else []
        return "\n".join([*map(one_line, about), "", *shown, *sums])

    def __repr__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        (title, *above), rows, sums = self._shown()
        return html_table(_HEADS, rows, title=title, above=above, below=sums)

    def _shown(self) -> tuple[list[str], list[list[Cell]], list[str]]:
        """Which ledger it is, a row per entry, and the sums; instead of both, that the file cannot be read now."""
        for_whom = [f"for {self.dataset!r}"] if self.dataset else []
        for_whom += [f"the privacy of {self.unit}"] if self.unit else []
        about = [f"Ledger {self.path.name}" + (f": {', '.join(for_whom)}" if for_whom else ""), f"File: {self.path}"]
        try:
            entries = self.entries()
        except (LedgerError, OSError):
            return about, [], ["The file cannot be read now."]
        main, left = next(iter(self.total)), self.left_after(entries)
        rows: list[list[Cell]] = [
            [each.number, each.when, show(each.cost), Bar(float(each.cost[main])), each.about] for each in entries
        ]
        groups = sorted({entry.disjoint for entry in entries if entry.disjoint is not None})
        sums = [f"Of {each}, which share no rows, only the largest cost counts." for each in groups]
        sums += [f"Total: {show(self.total)}", f"Spent: {show(spent(self.total, left))}", f"Left:  {show(left)}"]
        return about, rows, sums


def spend(
    ledger: Ledger | str | Path | None,
    cost: Mapping[str, Amount],
    make: Callable[[], Made],
    *,
    note: Mapping[str, Any] | None = None,
    name: str | None = None,
    disjoint: str | None = None,
    unit: str | None = None,
) -> Made:
    """Make a release, commit it to a ledger together with its cost, and only then return it.

    What the ledger cannot pay is refused before it is made, and again when it is committed. If making fails or is
    interrupted, nothing is spent; so `make` must not show anybody what it makes. If the commit itself is interrupted,
    it may have succeeded: `entries` then lists the release, and `stored` returns it.

    Other parameters: as for `commit`.

    :param ledger: The ledger, or the path of an existing one; None: the cost is not counted.
    :param make: Makes the release, including all that may fail before it counts. Its `to_json()`, if any, is stored.
    :param unit: Whose privacy it costs, in words, unless the statement of what is made says so. By default None.

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
        raise TypeError(f"make ({type(make).__name__}) must be a function that makes the release")
    if book is None:
        return make()
    book.check(cost, unit=unit, disjoint=disjoint)
    made = make()
    release = made.to_json() if hasattr(made, "to_json") else None
    statement = getattr(made, "statement", None)
    stop_if_interrupted()
    fields = {} if statement is None else statement.to_dict()
    if unit is not None and fields.get("unit") is None:
        fields["unit"] = unit
    book.commit(cost, note, release=release, name=name, statement=fields, disjoint=disjoint)
    return made


def left_after_release(
    path: str | Path, cost: Mapping[str, Amount], *, total: Mapping[str, Amount] | None, unit: str, dataset: str | None
) -> dict[str, Fraction]:
    """What a ledger would have left after a release that may begin it; refused like the release. Nothing is written."""
    if total is None or not checked_file(path)[1]:
        ledger = Ledger.open(path, total=total, unit=unit, dataset=dataset)
        return ledger._payable(cost, ledger.entries(), unit, None)[1]
    begun = Ledger(Path(path), amounts_of(total, name="total", rounding=ROUND_FLOOR), unit, dataset)
    return begun._payable(cost, [], unit, None)[1]


def checked_file(path: object) -> tuple[Path, bool]:
    """A path as a file, and whether that is missing or empty."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path ({type(path).__name__}) must be a file's name. Hint: 'ledger.db'")
    file = Path(path)
    if os.path.isdir(file):
        raise LedgerError(f"{file} is a folder. Hint: {file / 'ledger.db'}")
    try:
        size = os.path.getsize(file)
        with suppress(FileNotFoundError):
            if Path(f"{file}-journal").read_bytes()[:1] > b"\0" and os.access(file, os.W_OK):
                with _transaction(file, "rwc") as db:  # rolls back the commit of a writer that died, perhaps the first
                    return file, not _is_begun(file, db)
        return file, size == 0
    except FileNotFoundError:
        return file, True
    except (OSError, ValueError):  # ValueError: a null character
        raise LedgerError(f"{file} {_PROBLEMS['unable to open']}") from None


def _what_is_possible(left: Mapping[str, Fraction], over: Sequence[str]) -> str:
    """What the ledger could still pay, as a hint."""
    first = next(iter(left))
    if left[first] == 0:
        return "the ledger is spent: no further release of these data is within its total"
    if "delta" in over and left["delta"] == 0:
        return f"no delta is left: ask for delta 0, as public trees allow, and at most {show({first: left[first]})}"
    return f"ask for at most {show(left)}"


@contextmanager
def _transaction(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """A connection inside a transaction, which is committed at the end, or not at all; others wait for a writer."""
    # The rollback journal is on the disk before the file changes, and EXTRA waits for the folder, too. WAL would need
    # shared memory, and permission to write for readers.
    try:
        with closing(_connected(path, mode)) as db:
            if mode != "rwc" and not _is_begun(path, db):
                raise damaged(path)
            yield db
            _patiently(db, "COMMIT")
    except (sqlite3.Error, OverflowError) as error:
        problem = next((words for part, words in _PROBLEMS.items() if part in str(error)), None)
        kind = LockedError if "locked" in str(error) else LedgerError
        raise kind(f"{path} {problem}") if problem else damaged(path, error) from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that has begun its transaction."""
    uri = f"{Path(os.path.realpath(path)).as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
    try:
        _patiently(db, "PRAGMA synchronous = EXTRA")
        _patiently(db, "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE")
        _patiently(db, "PRAGMA user_version")  # takes a reader's lock
        return db
    except BaseException as error:
        db.close()
        if mode == "ro" and isinstance(error, sqlite3.OperationalError) and "readonly" in str(error):
            return _connected(path, "rw")  # a writer died in its commit, which must be rolled back first
        raise


def _patiently(db: sqlite3.Connection, sql: str) -> None:
    """Run a statement that waits for the locks of others; an interrupt ends the wait."""
    # SQLite's own waiting sleeps up to 0.1 s, so that a process which commits again at once takes nearly every turn.
    end = time.monotonic() + LOCKED_SECONDS
    while True:
        stop_if_interrupted()
        try:
            db.execute(sql).fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= end:
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


def damaged(path: Path, error: Exception | None = None) -> LedgerError:
    """The error for a file whose content makes no sense."""
    return LedgerError(f"{path} is damaged{f' ({error})' if error else ''}. Hint: restore the ledger from a copy")


def amounts_of(amounts: Mapping[str, Amount], *, name: str, rounding: str = ROUND_CEILING) -> dict[str, Fraction]:
    """Epsilon and delta, or rho and delta, as decimals of up to 20 digits: exactly, or rounded to the safe side."""
    if isinstance(amounts, Mapping):
        context = Context(prec=20, rounding=rounding)
        for loss in ("epsilon", "rho"):
            if {*amounts, "delta"} == {loss, "delta"} and loss in amounts:
                given = {part: amounts.get(part, 0) for part in (loss, "delta")}
                if rounding == ROUND_FLOOR:  # a total of 0.3 pays for what is written as 0.3
                    given = {
                        part: repr(float(each)) if isinstance(each, float) else each for part, each in given.items()
                    }
                exact = {part: _amount(each, name=f"{name}: {part}") for part, each in given.items()}
                return {part: Fraction(_decimal(amount, context)) for part, amount in exact.items()}
    hint = "{'epsilon': '1', 'delta': '1e-6'}"
    raise LedgerError(f"{name} must give epsilon and delta, or rho and delta. Hint: {hint}")


def _amount(value: Amount, *, name: str) -> Fraction:
    # A text becomes a decimal, which holds 1e999999999 in a few bytes until it is refused.
    try:
        exact = Decimal(value) if isinstance(value, (str, Decimal)) else Fraction(value)
        fits = not isinstance(value, bool) and (exact == 0 or 1e-300 <= exact <= 1e300)
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise LedgerError(f"{name} ({value}) must be a finite, non-negative number. Hint: '0.1'")
    return Fraction(exact)


def _decimal(amount: Fraction, context: Context = Context(prec=40)) -> Decimal:  # noqa: B008 - never changed
    return context.divide(Decimal(amount.numerator), Decimal(amount.denominator))


def decimal_texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts as decimal texts; exact for amounts of up to 20 digits."""
    return {name: str(_decimal(amount)).lower() for name, amount in amounts.items()}


def show(amounts: Mapping[str, Fraction]) -> str:
    """Amounts in words."""
    return ", ".join(f"{name} {text}" for name, text in decimal_texts(amounts).items())


def spent(total: Mapping[str, Fraction], left: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """The total minus what is left."""
    return {name: amount - left[name] for name, amount in total.items()}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
