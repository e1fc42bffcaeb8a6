"""Keys of one column per level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from opendp_tree._arguments import check_column
from opendp_tree.keys.key import Key
from opendp_tree.keys.kind import Labels, key_names


@dataclass(frozen=True, kw_only=True)
class ColumnKey(Key):
    """Each value is a label."""

    kind = "columns"
    takes = ("text", "integer", "truth", "date", "datetime", "time")

    def __post_init__(self) -> None:
        if not self.columns_used:
            raise ValueError("names must hold at least one column")
        used = tuple(map(check_column, self.columns_used))
        if len(set(used)) < len(used):
            raise ValueError(f"names {used} must differ")
        super().__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns_used

    @property
    def label_columns(self) -> tuple[str, ...]:
        """All of them."""
        return self.columns_used

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """What the columns hold."""
        return tuple(kinds[name] for name in self.columns_used)

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The values; categories as their texts."""
        frame = groups.select(key_names(self)).cast({pl.Categorical: pl.String, pl.Enum: pl.String})
        return Labels(tuple(frame.iter_columns()), np.full(groups.height, frame.width))
