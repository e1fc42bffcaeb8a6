"""A file that records what releases cost together, and refuses more than a stated total.

One JSON object a line. The first line states the total; each release adds a line `reserved`, on the disk before its
data are touched, and a line `done` with its privacy statement. Every reservation counts, done or not: a crash can make
the sum too large, never too small. Amounts are decimal texts, added exactly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from opendp_tree._arguments import check_type
from opendp_tree._files import sync_folder
from opendp_tree._ledger_file import (
    FORMAT,
    Amount,
    BudgetError,
    Content,
    LedgerEntry,
    LedgerError,
    amounts_of,
    decimal_texts,
    is_unbegun,
    locked,
    now,
    parse,
    read,
    show,
    write_line,
)
from opendp_tree._show import Bar, Cell, html_table, one_line, table

__all__ = ["BudgetError", "Ledger", "LedgerEntry", "LedgerError", "spend"]

Made = TypeVar("Made")


@dataclass(frozen=True)
class Ledger:
    """A ledger file, by `Ledger.open`.

    It prints as what was spent, on what, and what is left. Only releases with the same unit and data set share one.

    Parameters
    ----------
    path
        Where its file is.
    total
        What all releases together may cost: epsilon and delta, or rho, by basic composition.
    unit
        Whose privacy is counted; None: nobody said.
    dataset
        Which data; None: nobody said.

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
            check_type(ledger, Ledger, name="ledger", hint="Ledger.open('ledger.jsonl', total={'epsilon': '1'})")
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
            The file.
        total
            What all releases together may cost: `epsilon` and `delta`, or `rho`. By default that of the ledger, which
            must then be there; if one is given, it must be the ledger's own.
        unit
            Whose privacy is counted, in words: "one row". By default whatever the ledger says; if given, it must be
            its own, if that has one.
        dataset
            The name of the data that are counted. By default whatever the ledger says; if given, it must be its own.

        """
        place = Path(path)
        for name, given in (("unit", unit), ("dataset", dataset)):
            if not isinstance(given, (str, type(None))):
                raise TypeError(f"{name} ({type(given).__name__}) must be a text. Hint: leave it out if there is none")
        stated = None if total is None else amounts_of(total, name="total", rounding=ROUND_FLOOR)
        if stated is None and not (place.is_file() and place.stat().st_size):
            raise LedgerError(
                f"there is no ledger at {place} yet. Hint: total={{'epsilon': '1', 'delta': '1e-6'}} begins one"
            )
        with locked(place, create=stated is not None, write=stated is not None) as descriptor:
            content = read(descriptor)
            if stated is not None and is_unbegun(content):
                os.ftruncate(descriptor, 0)
                line = {**FORMAT, "total": decimal_texts(stated), "unit": unit, "dataset": dataset, "time": now()}
                write_line(descriptor, Content({}, end=0), line)
                sync_folder(place.resolve().parent)
                return cls(place, stated, unit, dataset)
            found = parse(place, content)
        ledger = cls(place, found.total, found.header.get("unit"), found.header.get("dataset"))
        if stated is not None and stated != ledger.total:
            raise LedgerError(f"{place} has another total: {show(ledger.total)}. Hint: leave the total out to use it")
        for name, given, own in (("unit", unit, ledger.unit), ("dataset", dataset, ledger.dataset)):
            if given is not None and given != own and not (name == "unit" and own is None):
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
        asked = self._asked(cost)
        with locked(self.path) as descriptor:
            content = parse(self.path, read(descriptor))
            self._refuse_more_than_is_left(asked, content.entries)
            entry = len(content.entries) + 1
            line = {
                "entry": entry,
                "state": "reserved",
                "cost": decimal_texts(asked),
                "note": dict(note or {}),
                "time": now(),
            }
            write_line(descriptor, content, line)
        return entry

    def check(self, cost: Mapping[str, Amount], *, unit: str | None = None) -> None:
        """Refuse now what `reserve` would refuse, before anything is read or computed. Nothing is written.

        Parameters
        ----------
        cost
            What a release may cost, as in `reserve`.
        unit
            Whose privacy it costs, in words. By default nobody says; if given, it must be the ledger's own, if that
            has one.

        """
        if unit is not None and self.unit not in (None, unit):
            raise LedgerError(
                f"{self.path} is for unit {self.unit!r}, not {unit!r}. Hint: keep one ledger for each, or protect the "
                "same unit"
            )
        asked = self._asked(cost)
        self._refuse_more_than_is_left(asked, self.entries())

    def _asked(self, cost: Mapping[str, Amount]) -> dict[str, Fraction]:
        """A cost in this ledger's terms."""
        asked = amounts_of(cost, name="cost")
        if asked.keys() != self.total.keys():
            terms = " and ".join(self.total)
            raise LedgerError(f"{self.path} counts {terms}, not {' and '.join(asked)}. Hint: ask for {terms}")
        return asked

    def _refuse_more_than_is_left(self, asked: Mapping[str, Fraction], entries: Sequence[LedgerEntry]) -> None:
        left = self.left_after(entries)
        over = [name for name, amount in asked.items() if amount > left[name]]
        if over:
            raise BudgetError(
                f"the release would cost {show(asked)}, but of {self.path}'s total {show(self.total)} "
                f"only {show(left)} are left. Hint: {_what_is_possible(left, over)}"
            )

    def finish(self, entry: int, statement: Mapping[str, Any]) -> None:
        """Record that a reserved release came out.

        Parameters
        ----------
        entry
            The number that `reserve` gave.
        statement
            The release's privacy statement, as `release.statement.to_dict()` gives it.

        """
        with locked(self.path) as descriptor:
            content = parse(self.path, read(descriptor))
            if not 1 <= entry <= len(content.entries) or entry in content.done:
                raise LedgerError(f"{self.path} has no open entry {entry}")
            line = {"entry": entry, "state": "done", "statement": dict(statement), "time": now()}
            write_line(descriptor, content, line)

    def left(self) -> dict[str, Fraction]:
        """What further releases may cost."""
        with locked(self.path, write=False) as descriptor:
            return self.left_after(parse(self.path, read(descriptor)).entries)

    def entries(self) -> list[LedgerEntry]:
        """All releases that are counted, in their order.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     ledger = Ledger.open(folder + "/ledger.jsonl", total={"rho": 1})
        ...     ledger.reserve({"rho": "0.25"}, {"columns": ["origin", "dest"]})
        ...     [(entry.number, entry.cost, entry.about, entry.state) for entry in ledger.entries()]
        1
        [(1, {'rho': Fraction(1, 4)}, 'columns origin dest', 'counted, not known to be done')]
        """
        with locked(self.path, write=False) as descriptor:
            return parse(self.path, read(descriptor)).entries

    def describe(self) -> str:
        """What was spent, on what, and what is left: a table and a few lines."""
        entries = self.entries()
        rows = [[each.number, each.when, show(each.cost), each.about, each.state] for each in entries]
        shown = [table(["entry", "time (UTC)", "cost", "for", "state"], rows), ""] if rows else []
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
            [each.number, each.when, show(each.cost), Bar(float(each.cost[main])), each.about, each.state]
            for each in entries
        ]
        heads = ["entry", "time (UTC)", "cost", "", "for", "state"]
        return html_table(heads, rows, title=title, above=about, below=self._sums(entries))

    def _about(self) -> list[str]:
        """Which ledger it is."""
        for_whom = [f"for {self.dataset!r}"] if self.dataset else []
        for_whom += [f"the privacy of {self.unit}"] if self.unit else []
        return [f"Ledger {self.path.name}" + (f": {', '.join(for_whom)}" if for_whom else ""), f"File: {self.path}"]

    def _sums(self, entries: list[LedgerEntry]) -> list[str]:
        left = self.left_after(entries)
        spent = {name: total - left[name] for name, total in self.total.items()}
        return [f"Total: {show(self.total)}", f"Spent: {show(spent)}", f"Left:  {show(left)}"]

    def left_after(self, entries: Sequence[LedgerEntry]) -> dict[str, Fraction]:
        """What is left of the total once these are paid.

        Parameters
        ----------
        entries
            Those of this ledger.
        """
        return {
            name: total - sum((entry.cost[name] for entry in entries), Fraction(0))
            for name, total in self.total.items()
        }


def _what_is_possible(left: Mapping[str, Fraction], over: Sequence[str]) -> str:
    """What may still be asked for, once a release was refused."""
    first = next(iter(left))
    if left[first] == 0:
        return "the ledger is spent: no further release of these data is within its total"
    if "delta" in over and left["delta"] == 0:
        return f"no delta is left: ask for delta 0, as public trees allow, and at most {show({first: left[first]})}"
    return f"ask for at most {show(left)}"


def spend(
    ledger: Ledger | str | Path | None,
    cost: Mapping[str, Amount],
    make: Callable[[], Made],
    *,
    note: Mapping[str, Any] | None = None,
) -> Made:
    """Make a release that a ledger counts: before it is made, and once it came out, with its statement.

    If the ledger refuses, nothing is made. If making fails or is interrupted, the cost stays counted: data may have
    been touched.

    Parameters
    ----------
    ledger
        The ledger, or the path of one that is there; None counts nowhere.
    cost
        What the release may cost, in the ledger's terms.
    make
        Makes the release, and everything that must have happened before it counts as done.
    note
        What the release is for. By default nothing is written down.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(folder + "/ledger.jsonl", total={"epsilon": 1})
    ...     spend(ledger, {"epsilon": "0.5"}, lambda: "a release")
    ...     ledger.left()["epsilon"]
    'a release'
    Fraction(1, 2)
    """
    ledger = Ledger.of(ledger)
    if not callable(make):
        raise TypeError(f"make ({type(make).__name__}) must be callable: it makes the release")
    if ledger is None:
        return make()
    entry = ledger.reserve(cost, note)
    made = make()
    statement = getattr(made, "statement", None)
    ledger.finish(entry, {} if statement is None else statement.to_dict())
    return made
