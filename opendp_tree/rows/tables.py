"""What `release_tree` asks of a table that another engine holds. Polars frames need none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import polars as pl

from opendp_tree.keys.key import Key
from opendp_tree.rows.unit import Unit

if TYPE_CHECKING:
    from opendp_tree.trees.distant_counts import DistantCounts

__all__ = ["SpreadTable", "Table", "bounds_by_value"]


@runtime_checkable
class Table(Protocol):
    """A table in an engine. Everything that runs there is written by the package, so no bound is the caller's word."""

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row."""
        ...

    def leaf_counts(self, key: Key, unit: Unit | None, salt: bytes) -> pl.DataFrame:
        """How many rows each key has, of those that are kept: one row a key. Asked for where `bounds_by_value(key)`."""
        ...

    def records(self, key: Key, unit: str, salt: bytes, part: int, parts: int) -> pl.DataFrame:
        """How many rows each person has of each key, of the people of one of so many parts, in the column `unit`."""
        ...


@runtime_checkable
class SpreadTable(Table, Protocol):
    """A table of an engine that can also leave counts where they are, and run a mechanism's work on whole subtrees."""

    def distant_counts(self, key: Key, unit: Unit | None, salt: bytes) -> DistantCounts | None:
        """The counts that `leaf_counts` would give, of any open tree; None where they are to be brought here."""
        ...


def bounds_by_value(key: Key) -> bool:
    """Whether each value of a key is a leaf of its own, so that an engine that knows values alone can bound leaves."""
    return key.kind == "columns" and key.tree is None
