"""A file that records what releases cost together, and refuses more than a stated total.

One JSON object a line. The first line states the total; each release adds a line `reserved`, on the disk before its
data are touched, and a line `done` with its privacy statement. Every reservation counts, done or not: a crash can make
the sum too large, never too small. Amounts are decimal texts, added exactly.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from opendp_tree._files import append, sync_folder
from opendp_tree._interrupts import interruptible

__all__ = ["BudgetError", "Ledger", "LedgerError"]

Amount = int | float | str | Fraction
_FORMAT = {"ledger": "opendp-tree", "version": 1}
_BEGINNING = b'{"ledger": "opendp-tree"'
_MEASURES = (("epsilon", "delta"), ("rho",))


class LedgerError(ValueError):
    """A ledger that cannot be used: damaged, or for other data or another unit."""


class BudgetError(LedgerError):
    """A release that would exceed the ledger's total."""


@dataclass(frozen=True)
class Ledger:
    """A ledger file, by `Ledger.open`.

    `total` is what all releases together may cost: epsilon and delta, or rho, by basic composition. `unit` says whose
    privacy is counted, and `dataset` which data; only releases with the same names share a ledger.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(folder + "/ledger.jsonl", total={"epsilon": "0.3", "delta": "1e-6"})
    ...     entry = ledger.reserve({"epsilon": "0.1", "delta": 0})
    ...     # ... the release ...
    ...     ledger.finish(entry, {"mechanism": "laplace"})
    ...     ledger.left()
    {'epsilon': Fraction(1, 5), 'delta': Fraction(1, 1000000)}
    """

    path: Path
    total: Mapping[str, Fraction]
    unit: str | None
    dataset: str | None

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
            The file.
        total
            What all releases together may cost: `epsilon` and `delta`, or `rho`. By default that of the ledger, which
            must then be there; if one is given, it must be the ledger's own.
        unit
            Whose privacy is counted, in words. By default whatever the ledger says; if given, it must be its own.
        dataset
            The name of the data that are counted. By default whatever the ledger says; if given, it must be its own.

        """
        place = Path(path)
        for name, given in (("unit", unit), ("dataset", dataset)):
            if not isinstance(given, (str, type(None))):
                raise TypeError(f"{name} ({type(given).__name__}) must be a text. Hint: leave it out if there is none")
        stated = None if total is None else _amounts(total, name="total", rounding=ROUND_FLOOR)
        if stated is None and not (place.is_file() and place.stat().st_size):
            raise LedgerError(f"there is no ledger at {place} yet. Hint: state a total to begin one")
        with _locked(place, create=stated is not None) as descriptor:
            content = _read(descriptor)
            if stated is not None and _is_unbegun(content):
                os.ftruncate(descriptor, 0)
                line = {**_FORMAT, "total": _texts(stated), "unit": unit, "dataset": dataset, "time": _now()}
                _write(descriptor, _Content({}, end=0), line)
                sync_folder(place.resolve().parent)
                return cls(place, stated, unit, dataset)
            found = _parse(place, content)
        ledger = cls(place, found.total, found.header.get("unit"), found.header.get("dataset"))
        if stated is not None and stated != ledger.total:
            raise LedgerError(f"{place} has another total: {_show(ledger.total)}. Hint: leave the total out to use it")
        for name, given, own in (("unit", unit, ledger.unit), ("dataset", dataset, ledger.dataset)):
            if given is not None and given != own:
                raise LedgerError(f"{place} is for {name} {own!r}, not {given!r}. Hint: keep one ledger for each")
        return ledger

    def reserve(self, cost: Mapping[str, Amount], note: Mapping[str, Any] | None = None) -> int:
        """Count a release before it is made; its number. If it is too much: `BudgetError`, and nothing is written.

        Parameters
        ----------
        cost
            What the release may cost: `epsilon` and `delta`, or `rho`, as the total has it.
        note
            What is worth remembering of it, as JSON can hold it. By default nothing.

        """
        asked = _amounts(cost, name="cost")
        if asked.keys() != self.total.keys():
            raise LedgerError(f"{self.path} counts {' and '.join(self.total)}, not {' and '.join(asked)}")
        with _locked(self.path) as descriptor:
            content = _parse(self.path, _read(descriptor))
            left = self._left(content)
            over = [name for name, amount in asked.items() if amount > left[name]]
            if over:
                raise BudgetError(
                    f"the release would cost {_show(asked)}, but of {self.path}'s total {_show(self.total)} "
                    f"only {_show(left)} are left. Hint: ask for less {' and '.join(over)}"
                )
            entry = len(content.costs) + 1
            line = {
                "entry": entry,
                "state": "reserved",
                "cost": _texts(asked),
                "note": dict(note or {}),
                "time": _now(),
            }
            _write(descriptor, content, line)
        return entry

    def finish(self, entry: int, statement: Mapping[str, Any]) -> None:
        """Record that a reserved release came out.

        Parameters
        ----------
        entry
            The number that `reserve` gave.
        statement
            The release's privacy statement, as `release.statement.to_dict()` gives it.

        """
        with _locked(self.path) as descriptor:
            content = _parse(self.path, _read(descriptor))
            if not 1 <= entry <= len(content.costs) or entry in content.done:
                raise LedgerError(f"{self.path} has no open entry {entry}")
            line = {"entry": entry, "state": "done", "statement": dict(statement), "time": _now()}
            _write(descriptor, content, line)

    def left(self) -> dict[str, Fraction]:
        """What further releases may cost."""
        with _locked(self.path) as descriptor:
            return self._left(_parse(self.path, _read(descriptor)))

    def _left(self, content: _Content) -> dict[str, Fraction]:
        spent = {name: sum((cost[name] for cost in content.costs), Fraction(0)) for name in self.total}
        return {name: total - spent[name] for name, total in self.total.items()}


@dataclass
class _Content:
    """What a ledger file says, and where its next line goes: at `end`, after `mend`."""

    header: dict[str, Any]
    end: int
    mend: bytes = b""
    total: dict[str, Fraction] = field(default_factory=dict)
    costs: list[dict[str, Fraction]] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def add(self, record: dict[str, Any]) -> bool:
        """Take in one line; whether it can be understood."""
        state, entry = record.get("state"), record.get("entry")
        if state == "torn":
            return True
        if type(entry) is not int:
            return False
        if state == "done" and 1 <= entry <= len(self.costs):
            self.done.add(entry)
            return True
        if state != "reserved" or entry != len(self.costs) + 1:
            return False
        try:
            self.costs.append(_amounts(record["cost"], name="cost"))
        except (KeyError, LedgerError):
            return False
        return self.costs[-1].keys() == self.total.keys()


def _is_unbegun(content: bytes) -> bool:
    """Whether a file is empty, or holds a first line whose writer died, so that nothing was ever released."""
    start = content.startswith(_BEGINNING) or _BEGINNING.startswith(content)
    return start and b"\n" not in content and _object(content) is None


def _parse(path: Path, content: bytes) -> _Content:
    """All lines of a ledger, or `LedgerError`.

    A last line that has no end and is no JSON was being written when its process died: before the disk had it, so
    before its release began. It costs nothing, and the next writer keeps it inside a line `torn`. Any other line that
    cannot be read may have stood for a release, so the ledger is refused.
    """
    *lines, rest = content.split(b"\n")
    found = _Content({}, end=len(content))
    if rest and _object(rest) is not None:  # an editor may have dropped the last line's end
        lines.append(rest)
        found.mend = b"\n"
    elif rest:
        found.end -= len(rest)
        # Overwrites the torn line, and is longer: torn in turn, it leaves a torn last line again.
        found.mend = _line({"state": "torn", "text": rest.decode("latin-1")})
    found.header = (_object(lines[0]) if lines else None) or {}
    try:
        begins = all(repr(found.header.get(name)) == repr(value) for name, value in _FORMAT.items())  # True is no 1
        found.total = _amounts(found.header["total"], name="total")
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


def _amounts(given: Mapping[str, Amount], *, name: str, rounding: str = ROUND_CEILING) -> dict[str, Fraction]:
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


def _texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts as decimal texts; what was rounded to 20 digits is written exactly."""
    return {name: _decimal(amount) for name, amount in amounts.items()}


def _decimal(amount: Fraction) -> str:
    return str(Context(prec=40).divide(Decimal(amount.numerator), Decimal(amount.denominator))).lower()


def _show(amounts: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{name} {_decimal(amount)}" for name, amount in amounts.items())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _read(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _write(descriptor: int, content: _Content, record: Mapping[str, Any]) -> None:
    os.lseek(descriptor, content.end, os.SEEK_SET)
    append(descriptor, content.mend + _line(record))


@contextmanager
def _locked(path: Path, *, create: bool = False) -> Iterator[int]:
    """The open file, for this process alone; others wait."""
    flags = os.O_RDWR | (os.O_CREAT if create else 0) | getattr(os, "O_BINARY", 0)
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            with interruptible():  # another may hold it for long
                _lock(descriptor)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # else another file took its place meanwhile
                yield descriptor
                return
        finally:
            os.close(descriptor)  # ends the lock


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
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

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
