"""What a ledger's file holds, how it is read, written and locked, and how amounts are added exactly."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from opendp_tree._arguments import float_below
from opendp_tree._files import append
from opendp_tree._interrupts import interruptible

Amount = int | float | str | Fraction
FORMAT = {"ledger": "opendp-tree", "version": 1}
_BEGINNING = b'{"ledger": "opendp-tree"'
_MEASURES = (("epsilon", "delta"), ("rho",))


class LedgerError(ValueError):
    """A ledger that cannot be used: damaged, or for other data or another unit."""


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
        When it was counted, in UTC, as ISO 8601 writes it.
    cost
        What it may have cost: epsilon and delta, or rho.
    note
        What whoever asked for it wrote down: files and columns, for the command line.
    statement
        The privacy statement of what came out; None if nothing is known to have come out. It counts all the same.
    """

    number: int
    time: str
    cost: Mapping[str, Fraction]
    note: Mapping[str, Any]
    statement: Mapping[str, Any] | None = None

    @property
    def about(self) -> str:
        """What it was for, in a few words."""
        parts = [f"{name} {words(value)}" for name, value in self.note.items()]
        if self.statement is not None and self.statement.get("mechanism"):
            parts.append(f"by {words(self.statement['mechanism'])}")
        return ", ".join(parts)

    @property
    def when(self) -> str:
        """The time as people write it."""
        return self.time.removesuffix("+00:00").replace("T", " ")

    @property
    def state(self) -> str:
        """Whether it is known to have come out."""
        return "counted, not known to be done" if self.statement is None else "done"


@dataclass
class Content:
    """What a ledger file says, and where its next line goes: at `end`, after `mend`."""

    header: dict[str, Any]
    end: int
    mend: bytes = b""
    total: dict[str, Fraction] = field(default_factory=dict)
    entries: list[LedgerEntry] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def add(self, record: dict[str, Any]) -> bool:
        """Take in one line; whether it can be understood."""
        state, entry = record.get("state"), record.get("entry")
        if state == "torn":
            return True
        if type(entry) is not int:
            return False
        if state == "done" and 1 <= entry <= len(self.entries):
            self.done.add(entry)
            self.entries[entry - 1] = replace(self.entries[entry - 1], statement=_mapping(record.get("statement")))
            return True
        if state != "reserved" or entry != len(self.entries) + 1:
            return False
        try:
            cost = amounts_of(record["cost"], name="cost")
        except (KeyError, LedgerError):
            return False
        self.entries.append(LedgerEntry(entry, words(record.get("time")), cost, _mapping(record.get("note"))))
        return cost.keys() == self.total.keys()


def _mapping(value: Any) -> dict[str, Any]:
    """What only tells, and counts for nothing, need not be as it was written."""
    return value if isinstance(value, dict) else {}


def words(value: Any) -> str:
    """A value of a note, for people."""
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def is_unbegun(content: bytes) -> bool:
    """Whether a file is empty, or holds a first line whose writer died, so that nothing was ever released."""
    start = content.startswith(_BEGINNING) or _BEGINNING.startswith(content)
    return start and b"\n" not in content and _object(content) is None


def parse(path: Path, content: bytes) -> Content:
    """All lines of a ledger, or `LedgerError`."""
    *lines, rest = content.split(b"\n")
    found = Content({}, end=len(content))
    if rest and _object(rest) is not None:  # an editor may have dropped the last line's end
        lines.append(rest)
        found.mend = b"\n"
    elif rest:
        found.end -= len(rest)
        # Overwrites the torn line, and is longer: torn in turn, it leaves a torn last line again.
        found.mend = _line({"state": "torn", "text": rest.decode("latin-1")})
    found.header = (_object(lines[0]) if lines else None) or {}
    try:
        begins = all(repr(found.header.get(name)) == repr(value) for name, value in FORMAT.items())  # True is no 1
        found.total = amounts_of(found.header["total"], name="total")
        begins &= all(isinstance(found.header.get(name), (str, type(None))) for name in ("unit", "dataset"))
    except (KeyError, LedgerError):
        begins = False
    if not begins:
        raise LedgerError(f"{path} does not begin as a ledger does. Hint: name another file, or a new one")
    for number, line in enumerate(lines[1:], start=2):
        record = _object(line)
        if record is None or not found.add(record):
            raise LedgerError(f"line {number} of {path} is damaged. Hint: restore the ledger from a copy")
    return found


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line holds, if it does."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def amounts_of(given: Mapping[str, Amount], *, name: str, rounding: str = ROUND_CEILING) -> dict[str, Fraction]:
    """Epsilon and delta, or rho, as decimals of up to 20 digits: exactly, or rounded to the safe side."""
    if not isinstance(given, Mapping):
        raise LedgerError(f"{name} ({type(given).__name__}) must be of epsilon and delta, or of rho")
    amounts = {"delta": 0, **given} if "epsilon" in given else dict(given)
    context = Context(prec=20, rounding=rounding)
    for measure in _MEASURES:
        if amounts.keys() == set(measure):
            exact = {part: _amount(amounts[part], name=f"{name}: {part}") for part in measure}
            return {
                part: Fraction(context.divide(Decimal(amount.numerator), Decimal(amount.denominator)))
                for part, amount in exact.items()
            }
    raise LedgerError(f"{name} ({', '.join(map(str, given))}) must be of epsilon and delta, or of rho")


def _amount(value: Amount, *, name: str) -> Fraction:
    # Texts by way of decimals, which hold 1e999999999 in a few bytes until it is refused.
    try:
        exact = Decimal(value) if isinstance(value, str) else Fraction(value)
        fits = not isinstance(value, bool) and (exact == 0 or 1e-300 <= exact <= 1e300)
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise LedgerError(f"{name} ({value}) must be a finite number, not negative")
    return Fraction(exact)


def as_written(amounts: Mapping[str, float]) -> tuple[dict[str, Fraction], dict[str, float]]:
    """Amounts as exact as people write them, for a ledger, and the nearest floats below, for mechanisms."""
    exact = {name: Fraction(repr(float(amount))) for name, amount in amounts.items()}
    return exact, {name: float_below(amount) for name, amount in exact.items()}


def short_above(amount: float) -> Fraction:
    """A loss exactly, or the decimal of a few digits that it is only a rounding error below."""
    exact = Fraction(amount)
    few = Fraction(Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(amount)))
    return few if few - exact <= exact / 10**12 else exact


def decimal_texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts as decimal texts; what was rounded to 20 digits is written exactly."""
    return {name: _decimal(amount) for name, amount in amounts.items()}


def _decimal(amount: Fraction) -> str:
    return str(Context(prec=40).divide(Decimal(amount.numerator), Decimal(amount.denominator))).lower()


def show(amounts: Mapping[str, Fraction]) -> str:
    """Amounts in words."""
    return ", ".join(f"{name} {_decimal(amount)}" for name, amount in amounts.items())


def now() -> str:
    """The time, as ISO 8601 writes it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def read(descriptor: int) -> bytes:
    """All that a file holds."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def write_line(descriptor: int, content: Content, record: Mapping[str, Any]) -> None:
    """Add a line, mending what a writer that died has left."""
    os.lseek(descriptor, content.end, os.SEEK_SET)
    append(descriptor, content.mend + _line(record))


@contextmanager
def locked(path: Path, *, create: bool = False, write: bool = True) -> Iterator[int]:
    """The open file, for this process alone; others wait. Who only reads needs no right to write."""
    flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0) | getattr(os, "O_BINARY", 0)
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            with interruptible():  # another may hold it for long
                _lock(descriptor, write=write)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # else another file took its place meanwhile
                yield descriptor
                return
        finally:
            os.close(descriptor)  # ends the lock


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, write: bool) -> None:
        # One byte far behind the end: locks of bytes keep others from reading them.
        while True:
            os.lseek(descriptor, 2**30, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
            except OSError:  # after ten tries, one a second
                continue
else:
    import fcntl

    def _lock(descriptor: int, *, write: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
