"""What `release_tree` asks of a table that another engine holds. Polars frames need none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import polars as pl

from opendp_tree.rows.key import Key
from opendp_tree.rows.unit import Unit

if TYPE_CHECKING:
    from opendp_tree.trees.distant_counts import DistantCounts

__all__ = ["SpreadTable", "Table", "bounds_by_value"]


@runtime_checkable
class Table(Protocol):
    """A table in an engine. Everything that runs there is written by the package, so no bound is the caller's word.

    An implementation is a small frozen value, such as `DuckDBTable(connection, "visits")`. Frames that it gives have
    the columns key_0, key_1, ... of `rows.groups.key_names(key)`, as `rows.groups.group_rows` has them (a time under a
    calendar is its number of days or hours since 1970), and `people`, an Int64 above 0. Numbers under `Key.number` come
    as they are: `rows.groups.coarse_groups` finds their ranges. Texts are told apart byte by
    byte. Null is a value. Rows whose unit is null are left out. Whatever an engine raises must pass through
    `rows.groups.guarded`, because its words may hold data.
    """

    def column_types(self) -> pl.Schema:
        """The columns and the Polars data types that stand for theirs. Reads no row.

        A column of another type has one that no key takes, such as `pl.Binary`.
        """
        ...

    def leaf_counts(self, key: Key, unit: Unit | None, salt: bytes) -> pl.DataFrame:
        """How many rows each key has, of those that are kept: one row a key. Asked for where `bounds_by_value(key)`.

        Without a unit all rows are kept. With one, each person's keys (without null where the key drops nulls) are put
        in the order of a hash of the salt, the person and the key's *values*, ties by the values themselves; of them
        the first `unit.leaves` are kept, each with at most `unit.rows_per_leaf` rows, until there are `unit.rows` rows,
        as in `rows.bounding.truncate`. So what is kept of a person depends on that person's rows and the salt alone.
        """
        ...

    def records(self, key: Key, unit: str, salt: bytes, part: int, parts: int) -> pl.DataFrame:
        """How many rows each person has of each key, of the people of one of so many parts, in the column `unit`.

        A person's part is a hash of the salt and of the identifier's value: all rows of a person are in one part.
        """
        ...


@runtime_checkable
class SpreadTable(Table, Protocol):
    """A table of an engine that can also leave counts where they are, and run a mechanism's work on whole subtrees."""

    def distant_counts(self, key: Key, unit: Unit | None, salt: bytes) -> DistantCounts | None:
        """The counts that `leaf_counts` would give, of any open tree; None where they are to be brought here."""
        ...


def bounds_by_value(key: Key) -> bool:
    """Whether each value of a key is a leaf of its own, so that an engine that knows values alone can bound leaves.

    >>> bounds_by_value(Key.columns("region", "city")), bounds_by_value(Key.path("url", depth=3))
    (True, False)
    """
    return key.kind == "columns" and key.tree is None
