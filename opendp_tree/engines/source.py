"""What all engines share: the protocol of a table, names, and the one way in which an engine fails."""

from __future__ import annotations

from typing import Any

from opendp_tree.keys.key_columns import KEY, key_names
from opendp_tree.rows.groups import PEOPLE, UNIT, guarded
from opendp_tree.rows.tables import Table, bounds_by_value

__all__ = ["KEY", "PEOPLE", "UNIT", "Table", "bounds_by_value", "guarded", "key_names", "read_names"]


def read_names(table: Any) -> tuple[str, ...]:
    """The parts of a table's name, such as a schema and a table."""
    names = (table,) if isinstance(table, str) else table
    if not isinstance(names, tuple) or not 1 <= len(names) <= 3:
        raise TypeError(f"table ({type(table).__name__}) must be a name. Hint: 'visits', or ('schema', 'visits')")
    for name in names:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"table ({table!r}) must be a name, not empty and without NUL. Hint: 'visits'")
    return names
