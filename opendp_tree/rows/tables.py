"""The one question that rows are asked, of a table in an engine as of a Polars frame."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import polars as pl

from opendp_tree.keys.key import Key

__all__ = ["Table", "snapshot_of"]


@runtime_checkable
class Table(Protocol):
    """A table in an engine: how many rows each key has, or each person at each key, a part of the people at a time.

    Everything that runs in the engine is written by the package, so no bound is the caller's word. Columns of answers
    are `key_0`, `key_1`, ... as `key.columns_used` lists them, `unit` for an identifier, and `people` for a number of
    rows. Rows without an identifier are left out where there is a unit. Keys of rows are those of the engine, which
    times under a calendar may be days or hours of; who is bounded, and how people are weighed, is not the engine's
    business: that is done here, for tables and frames alike.
    """

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row."""
        ...

    def rows_per_key(self, key: Key, unit: str | None = None) -> pl.DataFrame:
        """How many rows each key has, one record per key; of rows with an identifier alone where `unit` is given."""
        ...

    def rows_per_person(self, key: Key, unit: str, part: int, parts: int) -> pl.LazyFrame:
        """How many rows each person has at each key, of the people of one of so many parts; each is in one of them."""
        ...

    def snapshot(self) -> AbstractContextManager[object]:
        """While it is entered, all questions are answered from the same rows, as far as the engine can."""
        ...


def snapshot_of(data: Any) -> AbstractContextManager[object]:
    """While it is entered, a table answers from the same rows; a frame always does."""
    return data.snapshot() if isinstance(data, Table) else nullcontext()
