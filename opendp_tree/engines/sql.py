"""The queries, in the words that DuckDB and PostgreSQL share; what they differ in is a class attribute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import KeyKind, key_names
from opendp_tree.rows.grouping import PEOPLE, UNIT

__all__ = ["OTHER", "Column", "SqlTable", "day_number", "quoted", "read_names", "shortened", "tick_number"]

LONGEST_TEXT = 2**16
"""In bytes: longer texts are known by so many characters and a digest, so that no row is too large to be sent."""
_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000}


@dataclass(frozen=True)
class Column:
    """How a column is read, in SQL: `{0}` stands for what the template is of."""

    dtype: pl.DataType
    """What stands for its type in Polars."""
    value: str
    """Of the column: what rows are grouped by. Total: there is one for every row, and nothing is raised."""
    shown: str
    """Of a value: what is sent back."""


OTHER = Column(pl.Unknown(), "NULL", "{0}")
"""A column of a type that is neither a key's nor an identifier's. Nothing reads it."""


@dataclass(frozen=True)
class SqlTable(ABC):
    """A table of an engine that speaks SQL: what `rows.tables.Table` asks, by queries of the package's own."""

    connection: Any
    table: str | tuple[str, ...]

    hashed: ClassVar[str]
    """Of a value: an integer from 0 on, by all of its bits."""
    divided: ClassVar[str]
    """The division of integers that cuts towards zero."""
    methods: ClassVar[tuple[str, ...]]
    """What a connection can do, by which it is told from others."""
    expected: ClassVar[str]
    """What a connection must be, with a hint."""

    def __post_init__(self) -> None:
        if not all(hasattr(self.connection, method) for method in self.methods):
            raise TypeError(f"connection ({type(self.connection).__name__}) must be {self.expected}")
        read_names(self.table)

    @abstractmethod
    def _columns(self) -> dict[str, Column]:
        """How each column is read. Reads no row."""

    @abstractmethod
    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        """What a query gives: these columns, and `people`."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[object]:
        """A transaction in which all queries see the same rows, or the one that is open."""

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return ".".join(map(quoted, read_names(self.table)))

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs."""
        return pl.Schema({name: column.dtype for name, column in self._columns().items()})

    def rows_per_key(self, key: Key, unit: str | None = None) -> pl.DataFrame:
        """How many rows each key has; of rows with an identifier alone where `unit` is given."""
        return self._counted(key, unit, key_names(key), [] if unit is None else [f"{UNIT} IS NOT NULL"])

    def rows_per_person(self, key: Key, unit: str, part: int, parts: int) -> pl.LazyFrame:
        """How many rows each person has at each key, of the people of one part."""
        where = [f"{UNIT} IS NOT NULL"]
        if parts > 1:
            where.append(f"{self.hashed.format(UNIT)} % {parts} = {part}")
        # A group-by that sorts leaves each person's keys together.
        return self._counted(key, unit, [UNIT, *key_names(key)], where).lazy()

    def _counted(self, key: Key, unit: str | None, by: Sequence[str], where: Sequence[str]) -> pl.DataFrame:
        """How many rows there are by some of the key's columns and the identifier, which are read as `Column` says."""
        columns = self._columns()
        sources = {} if unit is None else {UNIT: (unit, columns[unit])}
        for name, column, owner in zip(key_names(key), key.columns_used, key.column_owners, strict=True):
            sources[name] = column, self._coarse(columns[column], owner)
        read = ", ".join(f"{column.value.format(quoted(of))} AS {name}" for name, (of, column) in sources.items())
        shown = ", ".join(f"{sources[name][1].shown.format(name)} AS {name}" for name in by)
        kept, listed = f" WHERE {' AND '.join(where)}" if where else "", ", ".join(by)
        groups = (
            f"SELECT {listed}, count(*) AS {PEOPLE} FROM (SELECT {read} FROM {self.name}) seen{kept} GROUP BY {listed}"
        )
        return self._read(f"SELECT {shown}, {PEOPLE} FROM ({groups}) counted", {name: sources[name][1] for name in by})

    def _coarse(self, column: Column, key: KeyKind) -> Column:
        """A key's column: times under a calendar are cut to days or hours, as in Polars frames."""
        if key.time_step is None or not isinstance(column.dtype, pl.Datetime):
            return column
        step = _MICROSECONDS[key.time_step]
        ticks = f"({column.value})"
        # Towards minus infinity, without a sum that could overflow.
        floor = f"({ticks} {self.divided} {step}) - CASE WHEN {ticks} % {step} < 0 THEN 1 ELSE 0 END"
        return Column(pl.Int64(), floor, "{0}")


def read_names(table: Any) -> tuple[str, ...]:
    """The parts of a table's name, such as a schema and a table."""
    names = (table,) if isinstance(table, str) else table
    if not isinstance(names, tuple) or not 1 <= len(names) <= 3:
        raise TypeError(f"table ({type(table).__name__}) must be a name. Hint: 'visits', or ('schema', 'visits')")
    for name in names:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"table ({table!r}) must be a name, not empty and without NUL. Hint: 'visits'")
    return names


def quoted(name: str) -> str:
    """A name as an identifier, whatever it holds."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"a name ({name!r}) must be a text, not empty, and without NUL")
    return '"' + name.replace('"', '""') + '"'


def shortened(text: str, *, size: str, digest: str) -> str:
    """A text, or what stands for a long one: longer in bytes than any text that stays, so none passes for another."""
    return f"CASE WHEN {size} > {LONGEST_TEXT} THEN left({text}, {LONGEST_TEXT}) || {digest} ELSE {text} END"


def day_number(column: str) -> str:
    """Of a date: its days since 1970; null outside the years 1 to 9999, and so for infinite dates."""
    inside = f"{column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {inside} THEN ({column} - DATE '1970-01-01') END"


def tick_number(ticks: str) -> str:
    """Of a time: its microseconds since 1970, as `ticks` has them; null outside the years 1 to 9999."""
    inside = "{0} >= TIMESTAMP '0001-01-01 00:00:00' AND {0} <= TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"CASE WHEN {inside} THEN {ticks} END"
