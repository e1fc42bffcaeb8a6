"""The SQL that DuckDB and PostgreSQL share; class attributes hold what differs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from opendp_tree.keys.key import Key, KeyKind, key_names
from opendp_tree.rows.domains import PEOPLE, UNIT, Table

LONGEST_TEXT = 2**16
"""In bytes: a longer text becomes its first characters and a digest, so that no row is too large to be sent."""
_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000}


@dataclass(frozen=True)
class Column:
    """How a column is read, as templates of SQL with a value at `{0}`."""

    dtype: pl.DataType
    """The Polars type of its values."""
    value: str = "{0}"
    """From the column, what rows are grouped by. It is defined for every row, and nothing is raised."""
    shown: str = "{0}"
    """From such a value, what is sent back."""


class EngineType(pl.Unknown):
    """A type that keys and identifiers cannot have, by its name in the engine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"engine type {self.name}"


def other_column(name: str) -> Column:
    """A column of such a type. Nothing reads it."""
    return Column(EngineType(name), "NULL")


@dataclass(frozen=True)
class SqlTable(Table):
    """A table of an engine that speaks SQL."""

    connection: Any
    table: str | tuple[str, ...]

    hashed: ClassVar[str]
    """A hash of a value, as an integer from 0, that depends on all of its bits."""
    divided: ClassVar[str]
    """The operator that divides integers and rounds towards zero."""
    methods: ClassVar[tuple[str, ...]]
    """The methods by which a connection is recognised."""
    expected: ClassVar[str]
    """What a connection must be, with a hint."""

    def __post_init__(self) -> None:
        if not all(hasattr(self.connection, method) for method in self.methods):
            raise TypeError(f"connection ({type(self.connection).__name__}) must be {self.expected}")
        read_names(self.table)

    @abstractmethod
    def _columns(self) -> dict[str, Column]:
        """How each column is read. No row is read."""

    @abstractmethod
    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        """The rows of a query: these columns, and `people`."""

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return ".".join(map(quoted, read_names(self.table)))

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs."""
        return pl.Schema({name: column.dtype for name, column in self._columns().items()})

    def _counted(self, key: Key, unit: str | None, by: Sequence[str], part: int = 0, parts: int = 1) -> pl.DataFrame:
        """How many rows there are by some of the key's columns and the identifier."""
        columns = self._columns()
        sources = {} if unit is None else {UNIT: (unit, columns[unit])}
        for name, column, owner in zip(key_names(key), key.columns_used, key.column_owners, strict=True):
            sources[name] = column, self._cut(columns[column], owner)
        read = ", ".join(f"{column.value.format(quoted(of))} AS {name}" for name, (of, column) in sources.items())
        shown = ", ".join(f"{sources[name][1].shown.format(name)} AS {name}" for name in by)
        where = "" if unit is None else f" WHERE {UNIT} IS NOT NULL"
        if parts > 1:
            where += f" AND {self.hashed.format(UNIT)} % {parts} = {part}"
        listed = ", ".join(by)
        groups = (
            f"SELECT {listed}, count(*) AS {PEOPLE} FROM (SELECT {read} FROM {self.name}) seen{where} GROUP BY {listed}"
        )
        return self._read(f"SELECT {shown}, {PEOPLE} FROM ({groups}) counted", {name: sources[name][1] for name in by})

    def _cut(self, column: Column, key: KeyKind) -> Column:
        """A key's column: times under a calendar are cut to days or hours, as in Polars frames."""
        if key.time_step is None or not isinstance(column.dtype, pl.Datetime):
            return column
        step, ticks = _MICROSECONDS[key.time_step], f"({column.value})"
        # Towards minus infinity, without a sum that could overflow.
        return Column(pl.Int64(), f"({ticks} {self.divided} {step}) - CASE WHEN {ticks} % {step} < 0 THEN 1 ELSE 0 END")


def read_names(table: Any) -> tuple[str, ...]:
    """The parts of a table's name, such as a schema and a table."""
    names = (table,) if isinstance(table, str) else table
    if not isinstance(names, tuple) or not 1 <= len(names) <= 3:
        raise TypeError(f"table ({type(table).__name__}) must be a name. Hint: 'visits', or ('schema', 'visits')")
    for name in names:
        quoted(name)
    return names


def quoted(name: str) -> str:
    """A name as an identifier of SQL, whatever characters it has."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"the name of a table or column ({name!r}) must be a text, not empty, and without NUL")
    return '"' + name.replace('"', '""') + '"'


def shortened(text: str, *, size: str, digest: str) -> str:
    """A text, or a long one's replacement, which has more bytes than any text that stays, so that none are confused."""
    return f"CASE WHEN {size} > {LONGEST_TEXT} THEN left({text}, {LONGEST_TEXT}) || {digest} ELSE {text} END"


def day_number(column: str) -> str:
    """The days since 1970 of a date; null outside the years 1 to 9999, and so for infinite dates."""
    inside = f"{column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {inside} THEN ({column} - DATE '1970-01-01') END"


def tick_number(ticks: str) -> str:
    """The microseconds since 1970 of a time, by the expression `ticks`; null outside the years 1 to 9999."""
    inside = "{0} >= TIMESTAMP '0001-01-01 00:00:00' AND {0} <= TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"CASE WHEN {inside} THEN {ticks} END"
