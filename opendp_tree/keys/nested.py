"""Keys one below another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl

from opendp_tree.keys.key import KEY, Key, KeyKind, Labels, Level, Options, key_names
from opendp_tree.trees.number_range import NumberRange


def nested_key(keys: tuple[Key, ...], options: Options) -> NestedKey:
    """The key of checked keys."""
    if len(keys) < 2 or not all(isinstance(key, Key) for key in keys):
        raise TypeError("keys must be two keys or more. Hint: Key.nested(Key.columns('country'), Key.ip('address'))")
    for number, key in enumerate(keys, start=1):
        has_ranges = key.tree is not None and key.tree.ranges is not None  # which have a tree, and rows outside it
        own = key.nulls or key.show or key.known or (not has_ranges and (key.tree or key.outside))
        if own or isinstance(key, NestedKey):
            raise ValueError(f"keys: key {number} must have no options of its own. Hint: give them to Key.nested")
        if key.outside == "drop":
            raise ValueError(f"keys: key {number} must have outside='leaf' or 'ends'")
        if key.ends_early and number < len(keys):
            raise ValueError(f"keys: key {number} must be last: its texts may end early")
    used = tuple(chain.from_iterable(key.columns_used for key in keys))
    inner = tuple(key.below() for key in keys)
    return NestedKey(columns_used=used, depth=sum(key.depth - 1 for key in keys) + 1, inner=inner, **options)


@dataclass(frozen=True, kw_only=True)
class NestedKey(Key):
    """The levels of one key below those of another. All but the last have all of their labels: null fills up."""

    inner: tuple[KeyKind, ...]

    @property
    def levels(self) -> tuple[Level, ...]:
        """Those of all keys; with their columns, where two would have the same name."""
        levels = [(key.columns_used[0], level) for key in self.inner for level in key.levels]
        if len({level.name for _, level in levels}) == len(levels):
            return tuple(level for _, level in levels)
        return tuple(replace(level, name=f"{column}_{level.name}") for column, level in levels)

    @property
    def column_owners(self) -> tuple[KeyKind, ...]:
        return tuple(key for key in self.inner for _ in key.columns_used)

    @property
    def is_ordered(self) -> bool:  # type: ignore[override]
        return any(key.is_ordered for key in self.inner)

    @property
    def line_below(self) -> tuple[int, NumberRange] | None:  # type: ignore[override]
        last = self.inner[-1]
        ranges = None if last.tree is None else last.tree.ranges
        return None if ranges is None else (self.depth - last.depth, ranges)

    def labels(self, groups: pl.DataFrame) -> Labels:
        columns: list[pl.Series] = []
        start, lengths = 0, np.zeros(groups.height, dtype=np.int64)
        for key in self.inner:
            names = key_names(key)
            part = key.labels(groups.select(pl.col(f"{KEY}_{start + at}").alias(to) for at, to in enumerate(names)))
            start, lengths = start + len(names), len(columns) + part.lengths
            columns += part.columns
        return Labels(tuple(columns), lengths)
