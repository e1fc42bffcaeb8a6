"""What all engines share: the protocol of a table, names, and the one way in which an engine fails."""

from __future__ import annotations

from opendp_tree.rows.groups import KEY, PEOPLE, UNIT, guarded, key_names
from opendp_tree.rows.tables import Table, bounds_by_value

__all__ = ["KEY", "PEOPLE", "UNIT", "Table", "bounds_by_value", "guarded", "key_names"]
