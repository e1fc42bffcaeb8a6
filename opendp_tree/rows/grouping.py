"""Rows of a frame to the distinct keys and how many rows have each: the one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Literal, TypeVar

import numpy as np
import polars as pl

from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import key_names
from opendp_tree.rows.dtypes import kind_of
from opendp_tree.rows.tables import Table

Result = TypeVar("Result")
UNIT, LEAF, PEOPLE = "unit", "leaf", "people"
_READ_AGAIN = "_opendp_tree_may_read_again"


def schema_of(value: Any) -> pl.Schema | None:
    """The schema of a frame, lazy or not, or of a table of another engine; None for anything else."""
    if isinstance(value, (pl.LazyFrame, pl.DataFrame)):
        return guarded(value.collect_schema)
    return value.column_types() if isinstance(value, Table) else None


def read_schema(columns: Any) -> pl.Schema:
    """Names and full data types, from a mapping or from a frame."""
    schema = schema_of(columns)
    if schema is not None:
        return schema
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError("columns must give each column's data type, or be a frame. Hint: {'city': pl.String}")
    return pl.DataFrame(schema=dict(columns)).schema


def narrowed(frame: Any, names: Iterable[str]) -> pl.LazyFrame:
    """These columns alone, without flags: the one way in which frames of a user are read."""
    lazy: pl.LazyFrame = frame.lazy()
    places = {name: place for place, name in enumerate(guarded(frame.collect_schema))}
    return read_again_like(lazy.select(unflagged(frame, places[name], name) for name in names), frame)


def unflagged(frame: Any, place: int, name: str) -> pl.Expr:
    """A column without the flag that it is sorted, which a writer may set on any.

    Polars compares and groups a flagged column by a search in it, so that one row out of order would decide for others.
    A field of a struct has no flag, and is no copy. What is filtered by it is not filtered within a file's reader.
    """
    column = pl.nth(place)  # by its place: Polars reads some names as patterns
    eager = isinstance(frame, pl.DataFrame)
    if frame.collect_schema()[name] == pl.Object or (eager and not any(frame.to_series(place).flags.values())):
        return column
    return pl.struct(column.alias("column")).struct.field("column").alias(name)


def read_again_like(frame: pl.LazyFrame, source: Any) -> pl.LazyFrame:
    """The frame, which is made row by row of a source: it may be read again where that may be."""
    if may_read_again(source):
        setattr(frame, _READ_AGAIN, True)
    return frame


def may_read_again(source: Any) -> bool:
    """Whether each reading gives the same rows: of a frame in memory, or of a scan that this package made."""
    return isinstance(source, pl.DataFrame) or getattr(source, _READ_AGAIN, False)


def own_scan(frame: pl.LazyFrame) -> pl.LazyFrame:
    """A scan of files that this package made, which may be read again."""
    setattr(frame, _READ_AGAIN, True)
    return frame


def empty_frame(schema: Mapping[str, Any]) -> pl.LazyFrame:
    """A frame without rows."""
    return pl.LazyFrame(schema=dict(schema))


def made_up_rows(frame: pl.LazyFrame, rows: int) -> pl.LazyFrame:
    """So many rows of the schema of a frame: the first of zeros and empty texts, the others of nulls."""
    schema = frame.collect_schema()
    nulls = pl.DataFrame(schema=schema).clear(rows)
    first = [nulls[name].slice(0, 1).fill_null(_plain_value(dtype)) for name, dtype in schema.items()]
    return pl.concat([pl.DataFrame(first).slice(0, rows), nulls.slice(1)]).lazy()


def _plain_value(dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.Enum):
        return pl.lit(dtype.categories.first(), dtype)
    if dtype.is_numeric() or dtype.is_temporal():
        return pl.lit(0).cast(dtype)
    return pl.lit(False if dtype == pl.Boolean else "" if dtype == pl.String else None, dtype)


def read_frame(data: Any, kinds: Mapping[str, str]) -> pl.LazyFrame:
    """The columns with these kinds, once they are sure to hold what was declared. Looks at the schema alone."""
    if not isinstance(data, (pl.LazyFrame, pl.DataFrame)):
        raise TypeError("the data must be a Polars LazyFrame or DataFrame. Hint: read_source makes one of other frames")
    check_columns(schema_of(data), kinds)
    return narrowed(data, kinds)


def check_columns(schema: Mapping[str, Any] | None, kinds: Mapping[str, str]) -> None:
    """That columns hold what was declared."""
    schema = {} if schema is None else schema
    for name, kind in kinds.items():
        held = kind_of(schema[name]) if name in schema else "nothing: there is none"
        if held != kind:
            raise TypeError(f"the data: column {name!r} must hold {kind}, as input_domain says; it holds {held}")


def group_rows(frame: pl.LazyFrame, key: Key) -> pl.DataFrame:
    """One row for each distinct key: columns key_0, key_1, ... and `people`, its number of rows."""
    names = key_names(key)
    grouped = frame.select(selected_keys(frame, key)).group_by(names).agg(pl.len().cast(pl.Int64).alias(PEOPLE))
    return guarded(lambda: collect_groups(grouped, len(names)))


def unit_leaves(frame: pl.LazyFrame, key: Key, unit: str, leaves: pl.DataFrame) -> pl.DataFrame:
    """Whose each row is, and the number of its leaf, in any order: columns `unit` and `leaf`."""
    selected = frame.select(*selected_keys(frame, key), pl.col(unit).alias(UNIT))
    joined = selected.join(leaves.lazy(), on=key_names(key), nulls_equal=True).select(UNIT, LEAF)
    return guarded(lambda: joined.collect(engine="streaming"))


def coarse_groups(groups: pl.DataFrame, key: Key) -> pl.DataFrame:
    """Groups that another engine made, as `group_rows` has them; some may then have the same key."""
    return guarded(lambda: groups.with_columns(key.expressions(key_names(key), groups.schema)))


def selected_keys(frame: pl.LazyFrame, key: Key) -> list[pl.Expr]:
    """The columns of a key as rows are grouped by them: key_0, key_1, ..."""
    return key.expressions(key.columns_used, guarded(frame.collect_schema))


def collect_groups(frame: pl.LazyFrame, columns: int) -> pl.DataFrame:
    """Grouped rows in memory."""
    # Counting piece by piece is the faster way, but for several columns of a frame that is in memory already.
    files = " SCAN " in frame.explain(optimized=False)
    engine: Literal["streaming", "in-memory"] = "streaming" if files or columns == 1 else "in-memory"
    return frame.collect(engine=engine)


def guarded(work: Callable[[], Result]) -> Result:
    """What Polars finds. Its errors, and those of Python functions in a plan, may quote values: they stop here."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        pass
    raise RuntimeError("reading the frame failed; the details are withheld because they may hold data")


def frozen_argument(value: Any) -> Any:
    """An argument of a step as something that nobody can change: expressions, plain values, collections."""
    if value is None or isinstance(value, (str, int, float, timedelta, date, pl.Expr, pl.DataType)):
        return value
    if isinstance(value, type) and issubclass(value, pl.DataType):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return tuple(frozen_argument(each) for each in value)
    kind = type(value).__name__
    raise TypeError(f"a step's argument ({kind}) must be an expression, a plain value, or a list of them")
