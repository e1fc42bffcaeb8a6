"""Kinds of columns, frames and tables of engines, how they are read, and their domains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl
from opendp.mod import Domain, ExtrinsicDomain, LazyFrameDomain

from opendp_tree._interrupts import stop_if_interrupted
from opendp_tree._opendp import empty_lazyframe, extrinsic_domain
from opendp_tree.keys.key import Key, key_names

Result = TypeVar("Result")
UNIT, LEAF, PEOPLE = "unit", "leaf", "people"
"""Columns of counted rows beside key_0, key_1, ...: the person, the number of the leaf, the number of rows."""
INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
TEXTS = ("text", "categorical", "enum")
_KINDS: dict[Any, str] = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys((pl.Float32, pl.Float64), "float"),
    pl.Boolean: "boolean",
    pl.String: "text",
    pl.Date: "date",
    pl.Time: "time",
    pl.Datetime: "datetime",
    pl.Enum: "enum",
    pl.Categorical: "categorical",
}
CASTS = {
    "integer": ("integer", "float", "boolean", "text", "date", "time", "datetime"),
    "float": ("integer", "float", "boolean", "text"),
    "boolean": ("integer", "float", "boolean", "text"),
    "text": ("integer", "float", "text", "enum"),
    "date": ("integer", "float", "date", "datetime"),
    "time": ("integer", "float", "text", "time"),
    "datetime": ("integer", "float", "date", "time", "datetime"),
    "enum": ("text",),
    "categorical": ("text",),
}
"""The kinds to which a non-strict cast gives a value or null, for every value of a kind."""
_READ_AGAIN = "_opendp_tree_may_read_again"


def step_kind(dtype: Any) -> str:
    """The kind of a data type for steps and casts; "other" for types that they refuse."""
    return _KINDS.get(dtype.base_type(), "other")


def kind_of(dtype: Any) -> str:
    """The kind of a data type for keys: all texts are one kind, and so are integers of all sizes."""
    kind = step_kind(dtype)
    if kind != "other":
        return "text" if kind in TEXTS else kind
    if dtype.is_integer() or dtype.is_float():
        return "integer" if dtype.is_integer() else "float"
    return {pl.Decimal: "decimal", pl.Duration: "time"}.get(dtype.base_type(), str(dtype))


def kinds_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """The kind of each column, for keys."""
    return {name: kind_of(dtype) for name, dtype in schema.items()}


def is_total_cast(dtype: pl.DataType, to: pl.DataType) -> bool:
    """Whether a non-strict cast gives every value of a data type a value of another, or null."""
    if isinstance(dtype, pl.Datetime) and to == pl.String:
        return in_calendar(dtype)
    return step_kind(to) in CASTS.get(step_kind(dtype), ())


def in_calendar(dtype: pl.DataType) -> bool:
    """Whether all 64-bit numbers of ticks are instants of Polars' calendar."""
    return isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"


class Table(ABC):
    """A table in an engine, which counts its rows by this package's queries; people are bounded and weighed here.

    Columns of answers are `key_0`, `key_1`, ..., `unit` and `people`. With a unit, rows without an identifier are left
    out.
    """

    @abstractmethod
    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row."""

    def snapshot(self) -> AbstractContextManager[object]:
        """While it is entered, all questions are answered from the same rows, if the engine supports that."""
        return nullcontext()

    @abstractmethod
    def _counted(self, key: Key, unit: str | None, by: Sequence[str], part: int = 0, parts: int = 1) -> pl.DataFrame:
        """The number of rows by some columns, of the people of one of `parts` parts."""

    def rows_per_key(self, key: Key, unit: str | None = None) -> pl.DataFrame:
        """The number of rows of each key; a key may occur twice. Of rows with an identifier, where `unit` is given."""
        return _coarse(self._counted(key, unit, key_names(key)), key)

    def rows_per_person(self, key: Key, unit: str, part: int, parts: int) -> pl.LazyFrame:
        """The number of rows of each person at each key, of the people of one part."""
        return _coarse(self._counted(key, unit, [UNIT, *key_names(key)], part, parts), key).lazy()


def _coarse(groups: pl.DataFrame, key: Key) -> pl.DataFrame:
    """Groups of an engine with keys as in frames, of which some may then be the same."""
    return guarded(lambda: groups.with_columns(key.expressions(key_names(key), groups.schema)))


def snapshot_of(data: Any) -> AbstractContextManager[object]:
    """While it is entered, a table answers from the same rows; a frame always does."""
    return data.snapshot() if isinstance(data, Table) else nullcontext()


def guarded(work: Callable[[], Result]) -> Result:
    """The result of Polars. Its errors, and those of Python functions in a plan, may quote values: they stop here."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        pass
    stop_if_interrupted()  # Polars may end an interrupted query with another error
    raise RuntimeError("reading the frame failed; the details are withheld because they may hold data")


def schema_of(value: Any) -> pl.Schema | None:
    """The schema of a frame, lazy or not, or of a table of an engine; None for anything else."""
    if isinstance(value, (pl.LazyFrame, pl.DataFrame)):
        return guarded(value.collect_schema)
    return value.column_types() if isinstance(value, Table) else None


def narrowed(frame: Any, names: Iterable[str]) -> pl.LazyFrame:
    """Only these columns, without flags. All frames of users are read through this."""
    lazy: pl.LazyFrame = frame.lazy()
    indices = {name: index for index, name in enumerate(guarded(frame.collect_schema))}
    return read_again_like(lazy.select(unflagged(frame, indices[name], name) for name in names), frame)


def unflagged(frame: Any, index: int, name: str) -> pl.Expr:
    """A column without the flag that it is sorted, which writers may set on any column.

    Polars searches a flagged column instead of comparing all values, so that one row out of order would affect others.
    A field of a struct has no flag and is not a copy. A filter by it is not pushed into a file's reader.
    """
    column = pl.nth(index)  # by its index: Polars reads some names as patterns
    eager = isinstance(frame, pl.DataFrame)
    if frame.collect_schema()[name] == pl.Object or (eager and not any(frame.to_series(index).flags.values())):
        return column
    return pl.struct(column.alias("column")).struct.field("column").alias(name)


def own_scan(frame: pl.LazyFrame) -> pl.LazyFrame:
    """A frame that may be read again, such as a scan that this package made."""
    setattr(frame, _READ_AGAIN, True)
    return frame


def may_read_again(source: Any) -> bool:
    """Whether each reading gives the same rows: of a frame in memory, or of a scan that this package made."""
    return isinstance(source, pl.DataFrame) or getattr(source, _READ_AGAIN, False)


def read_again_like(frame: pl.LazyFrame, source: Any) -> pl.LazyFrame:
    """The frame, made row by row from a source: it may be read again if the source may."""
    return own_scan(frame) if may_read_again(source) else frame


def read_source(data: Any, *, schema: Mapping[str, Any] | None = None) -> pl.DataFrame | pl.LazyFrame | Table:
    """Rows of any kind as a Polars frame, without a copy where Arrow allows. How a row is read depends on no other row.

    `release_tree` and `frame_context` call this on their data.

    :param data: A Polars frame, lazy or not, which is returned as it is; a pandas frame, whose index is ignored;
        anything with Arrow's stream protocol (PyArrow tables and readers, DuckDB relations), with the `__dataframe__`
        protocol, or known to Narwhals if that is installed; a list of rows that are mappings; or the path of a Parquet,
        Arrow IPC or CSV file, or a pattern such as `"visits/*.csv"` for several. A table of an engine is returned as it
        is. A stream of batches can be read only once.
    :param schema: The data types of columns that are to be converted. By default None: all types are those of the data,
        which for CSV is text. It is required for lists of rows, of which only the declared columns are read: types that
        are inferred from rows would reveal something about them. A value that cannot be read as the declared type is
        null. Pandas columns of Python objects are refused; `astype` gives them a type.
    """
    if schema is None and isinstance(data, (pl.DataFrame, pl.LazyFrame, Table)):
        return data
    from opendp_tree.rows.sources import read_any  # which reads frames as this module says

    return read_any(data, schema)


@dataclass(frozen=True)
class FrameColumns:
    """Describes a domain of frames, or of an engine's tables, that have at least these columns."""

    types: tuple[tuple[str, Any], ...]
    in_engine: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is a frame, or a table of an engine, with these columns. Reads no row."""
        schema = schema_of(value) if isinstance(value, Table) == self.in_engine else None
        return schema is not None and all(name in schema and schema[name] == dtype for name, dtype in self.types)


def frame_domain(columns: Any) -> Domain:
    """The domain of Polars frames, lazy or not, that have at least these columns; OpenDP passes them by reference.

    With OpenDP's own `lazyframe_domain`, frames in memory are copied at every call. With this one they are not, but
    OpenDP's stable Polars steps are not available, only `make_leaf_counts`. The schema is public.

    :param columns: The data type of each column, or a frame of any library with this schema. For a table of an engine:
        the domain of such tables.
    """
    if any(hasattr(columns, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_native")):
        if hasattr(columns, "__next__"):
            raise TypeError("columns (a stream) must be a frame, or data types. Hint: frame = read_source(stream)")
        columns = read_source(columns)
    schema = schema_of(columns)
    if schema is None:
        if not isinstance(columns, Mapping) or not columns:
            raise TypeError("columns must give each column's data type, or be a frame. Hint: {'city': pl.String}")
        schema = pl.DataFrame(schema=dict(columns)).schema
    described = FrameColumns(tuple(schema.items()), in_engine=isinstance(columns, Table))
    # OpenDP compares such domains by this text alone; a data type's text names all of its parts.
    text = ", ".join(f"{name!r}: {dtype!r}" for name, dtype in sorted(schema.items(), key=lambda column: column[0]))
    name = "TableDomain" if described.in_engine else "FrameDomain"
    return extrinsic_domain(f"{name}({{{text}}})", described.holds, described)


def check_rows_are_here(asked: str, described: Any) -> None:
    """Refuses options that need the rows of a table of an engine."""
    if isinstance(described, FrameColumns) and described.in_engine:
        raise ValueError(
            f"{asked} must not be given for a table of an engine, whose rows are only counted there. "
            "Hint: bring the rows here, by read_source of a query's Arrow table; or make a view in the engine"
        )


def column_kinds(input_domain: Domain) -> dict[str, str]:
    """The kind of each column of a domain of frames, for keys."""
    if isinstance(input_domain, LazyFrameDomain):
        return kinds_of(empty_lazyframe(input_domain).collect_schema())
    if isinstance(input_domain, ExtrinsicDomain) and isinstance(input_domain.descriptor, FrameColumns):
        return kinds_of(dict(input_domain.descriptor.types))
    raise ValueError(f"input_domain ({input_domain}) must be a lazyframe_domain or a frame_domain")
