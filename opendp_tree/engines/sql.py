"""The queries, in the words that DuckDB and PostgreSQL share; what they differ in is a dialect's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from opendp_tree.engines.source import PEOPLE, UNIT, key_names, read_names
from opendp_tree.keys.key import Key
from opendp_tree.keys.key_levels import KeyLevels
from opendp_tree.rows.unit import Unit

__all__ = [
    "OTHER",
    "Column",
    "Dialect",
    "SqlTable",
    "bounded_counts",
    "day_number",
    "quoted",
    "records_of",
    "tick_number",
]

_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000}


@dataclass(frozen=True)
class Column:
    """How a column is read, in SQL: `{}` stands for what the template is of."""

    dtype: pl.DataType
    """What stands for its type in Polars."""
    value: str
    """Of the column: what rows are grouped by. Total: there is one for every row, and nothing is raised."""
    shown: str
    """Of a value: what is sent back."""


OTHER = Column(pl.Unknown(), "NULL", "{0}")
"""A column of a type that is neither a key's nor an identifier's. Nothing reads it."""


@dataclass(frozen=True)
class Dialect:
    """What the engines differ in."""

    hashed: str
    """Of a list of values, null or not, and of two numbers of a salt: an integer from 0 on, by all of their bits."""
    divided: str
    """The division of integers that cuts towards zero."""


@dataclass(frozen=True)
class SqlTable(ABC):
    """A table of an engine that speaks SQL: what `rows.tables.Table` asks, by queries of the package's own."""

    connection: Any
    table: str | tuple[str, ...]

    dialect: ClassVar[Dialect]
    methods: ClassVar[tuple[str, ...]]
    """What a connection can do, by which it is told from others."""
    wanted: ClassVar[str]
    """What a connection must be, with a hint."""

    def __post_init__(self) -> None:
        if not all(hasattr(self.connection, method) for method in self.methods):
            raise TypeError(f"connection ({type(self.connection).__name__}) must be {self.wanted}")
        read_names(self.table)

    @abstractmethod
    def _columns(self) -> dict[str, Column]:
        """How each column is read. Reads no row."""

    @abstractmethod
    def _read(self, query: str, columns: dict[str, Column]) -> pl.DataFrame:
        """What a query gives: these columns, and `people`."""

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return ".".join(map(quoted, read_names(self.table)))

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs."""
        return pl.Schema({name: column.dtype for name, column in self._columns().items()})

    def leaf_counts(self, key: Key, unit: Unit | None, salt: bytes) -> pl.DataFrame:
        """How many rows each key has, of those that are kept."""
        columns = self._columns()
        query = bounded_counts(self.name, key, unit, salt, columns, self.dialect)
        return self._read(query, dict(zip(key_names(key), _key_columns(key, columns, self.dialect), strict=True)))

    def records(self, key: Key, unit: str, salt: bytes, part: int, parts: int) -> pl.DataFrame:
        """How many rows each person has of each key, of the people of one part."""
        columns = self._columns()
        query = records_of(self.name, key, unit, salt, (part, parts), columns, self.dialect)
        used = dict(zip(key_names(key), _key_columns(key, columns, self.dialect), strict=True))
        return self._read(query, {UNIT: columns[unit], **used})


def quoted(name: str) -> str:
    """A name as an identifier, whatever it holds."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"a name ({name!r}) must be a text, not empty, and without NUL")
    return '"' + name.replace('"', '""') + '"'


def day_number(column: str) -> str:
    """Of a date: its days since 1970; null outside the years 1 to 9999, and so for infinite dates."""
    inside = f"{column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {inside} THEN ({column} - DATE '1970-01-01') END"


def tick_number(ticks: str) -> str:
    """Of a time: its microseconds since 1970, as `ticks` has them; null outside the years 1 to 9999."""
    inside = "{0} >= TIMESTAMP '0001-01-01 00:00:00' AND {0} <= TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"CASE WHEN {inside} THEN {ticks} END"


def _key_columns(key: Key, columns: Mapping[str, Column], dialect: Dialect) -> list[Column]:
    """The columns of a key. Times under a calendar are cut to days or hours, as Polars frames are."""
    chosen = zip(key.columns_used, key.column_owners, strict=True)
    return [_cut_time(columns[name], owner, dialect) for name, owner in chosen]


def _cut_time(column: Column, key: KeyLevels, dialect: Dialect) -> Column:
    if key.kind != "calendar" or not isinstance(column.dtype, pl.Datetime):
        return column
    step = _MICROSECONDS["hour" if "hour" in key.parts else "day"]
    ticks = f"({column.value})"
    # Towards minus infinity, without a sum that could overflow.
    floor = f"({ticks} {dialect.divided} {step}) - CASE WHEN {ticks} % {step} < 0 THEN 1 ELSE 0 END"
    return Column(pl.Int64(), floor, "{0}")


def bounded_counts(
    table: str, key: Key, unit: Unit | None, salt: bytes, columns: Mapping[str, Column], dialect: Dialect
) -> str:
    """The query for leaf counts: rows of each key, of which each person contributes no more than the unit says."""
    used, names = _key_columns(key, columns, dialect), key_names(key)
    shown = _shown(used, names)
    if unit is None:
        return f"SELECT {shown}, {PEOPLE} FROM ({_grouped(table, key, used, names)}) grouped"
    pairs = _grouped(table, key, used, names, unit=unit.column, person=columns[unit.column])
    order = ", ".join([_hashed(dialect, salt, [UNIT, *names]), *names])
    window = f"(PARTITION BY {UNIT} ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    found, within, kept, most = [], [], "at_most", unit.most_rows
    if unit.leaves is not None:
        found.append(f"row_number() OVER {window} AS place")
        within.append(f"place <= {unit.leaves}")
        most = min(most, unit.rows_per_leaf)
    if unit.rows is not None:
        found.append(f"sum(at_most) OVER {window} - at_most AS before")
        within.append(f"before < {unit.rows}")
        kept = _smaller("at_most", f"{unit.rows} - before")
    listed = ", ".join(names)
    return (
        f"WITH pairs AS ({pairs}), "
        f"cut AS (SELECT {UNIT}, {listed}, {_smaller(PEOPLE, str(most))} AS at_most FROM pairs), "
        f"ordered AS (SELECT {listed}, at_most, {', '.join(found)} FROM cut), "
        f"counted AS (SELECT {listed}, CAST(sum({kept}) AS BIGINT) AS {PEOPLE} FROM ordered "
        f"WHERE {' AND '.join(within)} GROUP BY {listed}) SELECT {shown}, {PEOPLE} FROM counted"
    )


def _smaller(one: str, other: str) -> str:
    """The smaller of two numbers, by no function that a database may define anew."""
    return f"CASE WHEN {one} < {other} THEN {one} ELSE {other} END"


def records_of(
    table: str,
    key: Key,
    unit: str,
    salt: bytes,
    place: tuple[int, int],
    columns: Mapping[str, Column],
    dialect: Dialect,
) -> str:
    """The query for the rows of each person at each key, of the people of one of so many parts."""
    used, names, person = _key_columns(key, columns, dialect), key_names(key), columns[unit]
    part, parts = place
    pairs = _grouped(table, key, used, names, unit=unit, person=person)
    here = f"WHERE {_hashed(dialect, salt, [UNIT])} % {parts} = {part}" if parts > 1 else ""
    return f"SELECT {_shown([person, *used], [UNIT, *names])}, {PEOPLE} FROM ({pairs}) pairs {here}"


def _grouped(
    table: str, key: Key, used: list[Column], names: list[str], *, unit: str = "", person: Column | None = None
) -> str:
    """Rows of each key, or of each person at each key; where each value is a leaf, without those that do not count."""
    read = [
        f"{column.value.format(quoted(name))} AS {short}"
        for column, name, short in zip(used, key.columns_used, names, strict=True)
    ]
    listed, wanted = list(names), []
    if person is not None:
        read.append(f"{person.value.format(quoted(unit))} AS {UNIT}")
        listed.insert(0, UNIT)  # a group-by that sorts leaves each person's keys together
        wanted.append(f"{UNIT} IS NOT NULL")
        wanted += [f"{name} IS NOT NULL" for name in names] if key.drops_nulls and key.kind == "columns" else []
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    every = ", ".join(listed)
    seen = f"SELECT {', '.join(read)} FROM {table}"
    return f"SELECT {every}, count(*) AS {PEOPLE} FROM ({seen}) seen{where} GROUP BY {every}"


def _shown(columns: list[Column], names: list[str]) -> str:
    return ", ".join(f"{column.shown.format(name)} AS {name}" for column, name in zip(columns, names, strict=True))


def _hashed(dialect: Dialect, salt: bytes, names: list[str]) -> str:
    numbers = [int.from_bytes(salt[start : start + 8], "little") >> 1 for start in (0, 8)]
    return dialect.hashed.format(", ".join(names), *numbers)
