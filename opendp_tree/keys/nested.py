"""Keys one below another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from opendp_tree.keys.key import Key, Options
from opendp_tree.keys.kind import KEY, KeyKind, Labels, key_names
from opendp_tree.trees.number_range import NumberRange


@dataclass(frozen=True, kw_only=True)
class NestedKey(Key):
    """The levels of one key below those of another."""

    kind = "nested"

    inner: tuple[Key, ...]

    @classmethod
    def below(cls, keys: tuple[Key, ...], options: Options) -> NestedKey:
        """The key of checked keys."""
        if len(keys) < 2 or not all(isinstance(key, Key) for key in keys):
            raise TypeError(
                "keys must be two keys or more. Hint: Key.nested(Key.columns('country'), Key.ip('address'))"
            )
        for place, key in enumerate(keys, start=1):
            ranges = None if key.tree is None else key.tree.ranges
            if (
                key.nulls
                or key.show
                or key.known
                or key.column_owners[0] is not key
                or (ranges is None and (key.tree or key.outside))
            ):
                raise ValueError(f"keys: key {place} must have no options of its own. Hint: give them to Key.nested")
            if key.outside == "drop":
                raise ValueError(f"keys: key {place} must have outside='leaf' or 'ends'")
            if key.ends_early and place < len(keys):
                raise ValueError(f"keys: key {place} must be last: its texts may end early")
        used = tuple(chain.from_iterable(key.columns_used for key in keys))
        return cls(columns_used=used, depth=sum(key.depth - 1 for key in keys) + 1, inner=keys, **options)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of all keys; with their columns, where two would be the same."""
        names = tuple(chain.from_iterable(key.names for key in self.inner))
        if len(set(names)) == len(names):
            return names
        return tuple(f"{key.columns_used[0]}_{name}" for key in self.inner for name in key.names)

    @property
    def column_owners(self) -> tuple[KeyKind, ...]:
        """The keys that are nested."""
        return tuple(key for key in self.inner for _ in key.columns_used)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Those of all keys."""
        return tuple(chain.from_iterable(key.label_columns for key in self.inner))

    @property
    def is_ordered(self) -> bool:  # type: ignore[override]
        """Whether one of the keys is."""
        return any(key.is_ordered for key in self.inner)

    @property
    def line_below(self) -> tuple[int, NumberRange] | None:
        """The ranges of the last key."""
        last = self.inner[-1]
        ranges = None if last.tree is None else last.tree.ranges
        return None if ranges is None else (self.depth - last.depth, ranges)

    def is_label(self, level: int, label: Any, kind: str) -> bool:
        """What the key of that level says."""
        for key in self.inner:
            if level < key.depth:
                return key.is_label_below(level, label, kind)
            level -= key.depth - 1
        return False

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Those of all keys."""
        return tuple(chain.from_iterable(key.label_kinds_below(kinds) for key in self.inner))

    def labels(self, groups: pl.DataFrame) -> Labels:
        """The labels of the keys, one after another. All but the last have all of theirs: null fills up."""
        columns: list[pl.Series] = []
        start, lengths = 0, np.zeros(groups.height, dtype=np.int64)
        for part in self.inner:
            names = [f"{KEY}_{start + index}" for index in range(len(part.columns_used))]
            own = groups.select(pl.col(name).alias(to) for name, to in zip(names, key_names(part), strict=True))
            labels = part.labels_below(own)
            start, lengths = start + len(names), len(columns) + labels.lengths
            columns += labels.columns
        return Labels(tuple(columns), lengths)
