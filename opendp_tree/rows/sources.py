"""The one door for rows: frames of any library, lists of rows, and files, as Polars frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from opendp_tree.rows.tables import Table

__all__ = ["read_source"]


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
        for CSV is text. It must be given for lists of rows, which have the declared columns and no others, and for
        pandas columns of Python objects, because types found in rows would tell of rows. A value that is not of the
        declared type, and cannot be read as such, is null.

    Examples
    --------
    >>> rows = [{"city": "ghent", "age": 41}, {"city": "liege", "age": "42"}, {"city": None, "age": "unknown"}]
    >>> read_source(rows, schema={"city": str, "age": int}).rows()
    [('ghent', 41), ('liege', 42), (None, None)]
    """
    import polars as pl

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
        found = read_foreign(data, declared)
    if found is None:
        raise TypeError(
            f"the data ({type(data).__name__}) must be a frame, a list of rows, or a path. "
            "Hint: Polars, pandas and PyArrow frames, DuckDB relations, or 'visits.parquet'"
        )
    frame: pl.DataFrame | pl.LazyFrame = as_declared(found, declared)
    return frame


def schema_source(columns: Any) -> Any:
    """What has the schema: frames of other libraries as Polars frames, a stream refused unread, the rest as it is."""
    from opendp_tree.rows.foreign import is_one_shot

    if is_one_shot(columns):
        raise TypeError("columns (a stream) must not be read for its schema alone. Hint: frame = read_source(stream)")
    known = any(hasattr(columns, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_native"))
    return read_source(columns) if known else columns
