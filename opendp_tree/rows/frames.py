"""Frames: the one door by which rows of any kind come in, and the domains that frames are members of.

Of these domains one is OpenDP's own; members of the other are passed by reference.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opendp.mod import Domain, ExtrinsicDomain, LazyFrameDomain

from opendp_tree._opendp import extrinsic_domain

if TYPE_CHECKING:
    import polars as pl

    from opendp_tree.rows.tables import Table

__all__ = ["frame_domain", "read_source"]

_KINDS = {"String": "text", "bool": "truth", "NaiveDate": "date", "NaiveTime": "time", "f32": "float", "f64": "float"}
_ELEMENTS = {"DatetimeDomain": "datetime", "CategoricalDomain": "text", "EnumDomain": "text"}


def read_source(data: Any, *, schema: Mapping[str, Any] | None = None) -> pl.DataFrame | pl.LazyFrame | Table:
    """Rows of any kind as a Polars frame, without a copy where Arrow allows; no row decides whether others are read.

    `release_tree` and `frame_context` do this with what they are given.

    Parameters
    ----------
    data
        A Polars frame, lazy or not, which is passed on; a pandas frame, whose index is ignored; anything with Arrow's
        stream protocol (PyArrow tables and readers, DuckDB relations); else with the `__dataframe__` protocol, or
        known to Narwhals if that is installed; a list of rows that are mappings; or the path of a Parquet, Arrow IPC
        or CSV file, or a pattern such as `"visits/*.csv"` for many. A table of an engine (`DuckDBTable`,
        `PostgresTable`) stays where it is, and is passed on. A stream of batches is read once and can then not be
        given again.
    schema
        For columns whose type is not as the data have it, the data type. By default None: all are as they are, which
        for CSV is text. It must be given for lists of rows, which have the declared columns and no others, because
        types found in rows would tell of rows. A value that is not of the declared type, and cannot be read as such, is
        null. Pandas columns of Python objects are refused; `astype` gives them a type.

    Examples
    --------
    >>> rows = [{"city": "ghent", "age": 41}, {"city": "liege", "age": "42"}, {"city": None, "age": "unknown"}]
    >>> read_source(rows, schema={"city": str, "age": int}).rows()
    [('ghent', 41), ('liege', 42), (None, None)]
    """
    import polars as pl

    if schema is None and isinstance(data, pl.DataFrame):
        return data
    from opendp_tree.rows.declared import as_declared, read_declared
    from opendp_tree.rows.files import scan_files
    from opendp_tree.rows.foreign import read_foreign, read_rows, unwrapped
    from opendp_tree.rows.tables import Table

    declared = read_declared(schema)
    if isinstance(data, Table):
        if declared:
            raise ValueError("schema must not be given for a table of another engine. Hint: cast in a view of it")
        return data
    data = unwrapped(data)
    if isinstance(data, (list, tuple)):
        return read_rows(data, declared)
    found: Any = data
    if isinstance(data, (str, os.PathLike)):
        found = scan_files(os.fspath(data))
    elif not isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        found = read_foreign(data)
    if found is None:
        raise TypeError(
            f"the data ({type(data).__name__}) must be a frame, a list of rows, or a path. "
            "Hint: Polars, pandas and PyArrow frames, DuckDB relations, or 'visits.parquet'"
        )
    frame: pl.DataFrame | pl.LazyFrame = as_declared(found, declared)
    return frame


def _schema_source(columns: Any) -> Any:
    """What has the schema: frames of other libraries as Polars frames, a stream refused unread, the rest as it is."""
    import polars as pl

    from opendp_tree.rows.foreign import is_one_shot

    if isinstance(columns, pl.DataFrame):
        return columns
    if is_one_shot(columns):
        raise TypeError("columns (a stream) must not be read for its schema alone. Hint: frame = read_source(stream)")
    known = any(hasattr(columns, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_native"))
    return read_source(columns) if known else columns


@dataclass(frozen=True)
class FrameColumns:
    """Describes a domain of frames, or of an engine's tables, that have at least these columns."""

    types: tuple[tuple[str, Any], ...]
    in_engine: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is a frame, or a table of another engine, with these columns. Looks at the schema alone."""
        from opendp_tree.rows.groups import schema_of
        from opendp_tree.rows.tables import Table

        schema = schema_of(value) if isinstance(value, Table) == self.in_engine else None
        return schema is not None and all(name in schema and schema[name] == dtype for name, dtype in self.types)

    def empty(self) -> pl.LazyFrame:
        """A frame without rows."""
        from opendp_tree.rows.groups import empty_frame

        return empty_frame(dict(self.types))

    def opendp_domain(self) -> LazyFrameDomain:
        """OpenDP's own domain of such frames, in which every value may be null."""
        from opendp_tree._opendp import inferred_domain

        check_rows_are_here("steps of a query", self)
        return inferred_domain(self.empty())

    def read(self, data: Any) -> pl.LazyFrame:
        """The frame, lazy, once it is sure to be a member."""
        if not self.holds(data) or not hasattr(data, "lazy"):
            raise TypeError(
                "the data must be a Polars frame with the columns and data types of input_domain. "
                "Hint: read_source makes one of other frames"
            )
        from opendp_tree.rows.groups import narrowed

        return narrowed(data, [name for name, _ in self.types])


def frame_domain(columns: Any) -> Domain:
    """The domain of Polars frames, lazy or not, that have at least these columns; OpenDP passes them by reference.

    Through OpenDP's own `lazyframe_domain` a frame in memory is copied at every crossing. Here it is not, but OpenDP's
    stable Polars steps are not available: `make_leaf_counts` is what follows. The schema is public.

    Parameters
    ----------
    columns
        Each column's data type, or a frame of any library, whose schema is taken. Of an engine's table: the domain of
        such tables.

    Examples
    --------
    >>> import polars as pl
    >>> frame_domain({"city": pl.String}).member(pl.DataFrame({"city": ["ghent"], "age": [3]}))
    True

    """
    from opendp_tree.rows.groups import read_schema
    from opendp_tree.rows.tables import Table

    source = _schema_source(columns)
    types = tuple(read_schema(source).items())
    described = FrameColumns(types, in_engine=isinstance(source, Table))
    name = "TableDomain" if described.in_engine else "FrameDomain"
    # OpenDP compares such domains by this text alone; a data type's text names all of its parts.
    text = ", ".join(f"{name!r}: {dtype!r}" for name, dtype in sorted(types, key=lambda column: column[0]))
    return extrinsic_domain(f"{name}({{{text}}})", described.holds, described)


def check_rows_are_here(asked: str, described: Any) -> None:
    """Refuses what needs the rows themselves where they are an engine's, before anything is spent."""
    if isinstance(described, FrameColumns) and described.in_engine:
        raise ValueError(
            f"{asked} must not be given for a table of an engine, whose rows are only counted there. "
            "Hint: bring the rows here, by read_source of a query's Arrow table; or make a view in the engine"
        )


def column_kinds(input_domain: Domain) -> dict[str, str]:
    """What each column of a domain of frames holds, in the words that keys use."""
    if isinstance(input_domain, LazyFrameDomain):
        return {name: _element_kind(input_domain.get_series_domain(name)) for name in input_domain.columns}
    if isinstance(input_domain, ExtrinsicDomain) and isinstance(input_domain.descriptor, FrameColumns):
        from opendp_tree.rows.groups import kinds_of

        return kinds_of(dict(input_domain.descriptor.types))
    raise ValueError(f"input_domain ({input_domain}) must be a lazyframe_domain or a frame_domain")


def _element_kind(series: Any) -> str:
    element = series.element_domain
    for name, kind in _ELEMENTS.items():
        if str(element).startswith(name):
            return kind
    carrier = str(element.carrier_type)
    return "integer" if carrier[:1] in "iu" and carrier[1:].isdigit() else _KINDS.get(carrier, carrier)
