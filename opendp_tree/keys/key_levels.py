"""The levels of a key: what is read for each, what it may hold, and the tree that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Any, Literal

import numpy as np

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree.trees.labels import OUTSIDE
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

PARTS = ("year", "quarter", "month", "week", "weekday", "day", "hour")
_TAKES: dict[str, tuple[str, ...]] = {
    "columns": ("text", "integer", "truth", "date", "datetime", "time"),
    "path": ("text",),
    "url": ("text",),
    "bits": ("integer",),
    "ip": ("text", "integer"),
    "addresses": ("text",),
    "calendar": ("date", "datetime"),
    "number": ("integer", "float", "decimal"),
    "nested": (),
}
TEXT_PARTS = ("quarter", "week", "weekday")


@dataclass(frozen=True)
class KeyLevels:
    """What a `Key` is, however it was built."""

    kind: Literal["columns", "path", "url", "bits", "ip", "addresses", "calendar", "number", "nested"]
    columns_used: tuple[str, ...]
    """The columns that the key reads."""
    depth: int
    """The nodes from the root to the deepest possible leaf."""
    separator: str = ""
    width: int = 0
    stride: int = 1
    parts: tuple[str, ...] = ()
    """The levels of a calendar."""
    inner: tuple[Any, ...] = ()
    """The keys that this one is made of."""
    tree: Tree | None = None
    nulls: Literal["label", "drop"] | None = None
    outside: Path | Literal["leaf", "drop", "ends"] | None = None
    show: Sequence[int | str] | None = None
    """The levels that are wanted; once checked, their numbers."""

    def __post_init__(self) -> None:
        check_choice(self.kind, name="kind", choices=tuple(_TAKES))
        for name, least in (("depth", 1), ("width", 0), ("stride", 1)):
            check_integer(getattr(self, name), name=name, least=least)
        for name in ("columns_used", "parts"):
            given = getattr(self, name)
            if not (isinstance(given, tuple) and all(isinstance(each, str) for each in given)):
                raise TypeError(f"{name} must be a tuple of names. Hint: Key.columns('region', 'city')")
        if self.nulls is not None:
            check_choice(self.nulls, name="nulls", choices=("label", "drop"))
        if self.tree is None:
            self._check_open_outside()
        else:
            self._check_tree(self.tree)
        if self.show is not None:
            object.__setattr__(self, "show", self._read_levels(self.show))

    def _check_open_outside(self) -> None:
        has_room = self.kind in ("bits", "ip")
        if self.outside not in ((None, "leaf", "drop") if has_room else (None,)):
            hint = (
                "Hint: 'leaf' or 'drop'" if has_room else "Hint: leave it out: each row has a place in this open tree"
            )
            raise ValueError(f"outside ({self.outside!r}) needs a public tree. {hint}")
        if self.outside == "drop" and self.nulls == "label":
            raise ValueError("nulls ('label') must be 'drop': null is outside of an open tree of bits")

    def _check_tree(self, tree: Tree) -> None:
        check_type(tree, Tree, name="tree", hint="Tree.from_paths(...), whose nodes are public")
        if tree.labels is None:
            raise ValueError("tree must have labels. Hint: Tree.from_paths")
        if tree.depth > self.depth:
            raise ValueError(
                f"tree (of {tree.depth - 1} levels below its root) must not be deeper than the key ({self.depth - 1}): "
                "no row would reach its leaves. Hint: name a column for each level"
            )
        if self.kind in ("bits", "ip") and min(self.stride, self.width) > 63:
            raise ValueError(f"stride ({self.stride}) must be at most 63 for a public tree, whose labels are int64")
        if self.is_ordered and not tree.ordered:
            tree = Tree(tree.parents, tree.labels, tree.names, ordered=True)
        if self.outside in (None, "leaf") and self.kind != "number" and tree.depth > 1:
            tree = _with_outside(tree)
        object.__setattr__(self, "tree", tree)
        ends = self.kind == "number" and self.outside == "ends"
        if self.outside not in (None, "leaf", "drop") and not ends and self.outside_leaf < 0:
            raise ValueError(
                f"outside ({self.outside!r}) must be 'leaf', 'drop', or the path of a leaf of tree, a tuple of labels"
            )

    def _read_levels(self, show: Sequence[int | str]) -> tuple[int, ...]:
        """Levels by their numbers, from 0 for the root's, which is always shown."""
        names = self.names if self.kind in ("columns", "calendar", "nested") else ()
        deepest = (self.depth if self.tree is None else self.tree.depth) - 1
        if isinstance(show, str) or not isinstance(show, Sequence) or not show:
            raise TypeError(f"show ({show!r}) must be a list of levels. Hint: {list(names) or [deepest]}")
        known: dict[int | str, int] = {level: level for level in range(deepest + 1)}
        known.update({name: level for level, name in enumerate(names, 1)})
        for level in show:
            if isinstance(level, bool) or not isinstance(level, (int, str)) or level not in known:
                raise ValueError(f"show ({level!r}) must be one of the levels {', '.join(map(repr, known))}")
        return tuple(sorted({0, *(known[level] for level in show)}))

    def open_tree(self) -> OpenTree:
        """The hierarchy of all keys of this kind, whatever nodes are known.

        Examples
        --------
        >>> from opendp_tree import Key
        >>> Key.bits("number", width=32, stride=8).open_tree().depth
        5

        """
        if self.kind in ("bits", "ip"):
            shown: Any = "integer" if self.kind == "bits" else "ipv4" if self.width == 32 else "ipv6"
            return OpenTree.bits(self.width, self.stride, shown_as=shown, outside=not self.drops_nulls)
        if self.separator:
            return OpenTree.paths(self.separator, depth=self.depth)
        return OpenTree.columns(self.names, ordered=self.is_ordered)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels: columns, parts of a calendar, or a column with what tells its levels apart."""
        if self.kind in ("columns", "calendar"):
            return self.parts or self.columns_used
        if self.kind == "nested":
            names = tuple(chain.from_iterable(key.names for key in self.inner))
            if len(set(names)) == len(names):
                return names
            return tuple(f"{key.columns_used[0]}_{name}" for key in self.inner for name in key.names)
        column, levels = self.columns_used[0], range(1, self.depth)
        if self.kind in ("bits", "ip"):
            return tuple(f"{column}_{min(level * self.stride, self.width)}" for level in levels)
        if self.kind == "addresses":
            return (f"{column}_version", *(f"{column}_{level}" for level in levels[:-1]))
        return tuple(f"{column}_{level}" for level in levels)

    @property
    def column_owners(self) -> tuple[KeyLevels, ...]:
        """For each column that is read, the key that reads it: this one, or one of those that it nests."""
        return tuple(key for key in (self.inner if self.kind == "nested" else (self,)) for _ in key.columns_used)

    @property
    def is_ordered(self) -> bool:
        """Whether labels have an order of their own, which pictures keep: that of the calendar, or of numbers."""
        return self.kind in ("calendar", "number") or any(key.is_ordered for key in self.inner)

    @property
    def hierarchy(self) -> Tree | OpenTree:
        """The tree that rows are counted in: the public one, or that of all keys."""
        return self.open_tree() if self.tree is None else self.tree

    @property
    def shown_levels(self) -> tuple[int, ...]:
        """The levels that are wanted, by their numbers from 0 for the root's."""
        return tuple(range(self.hierarchy.depth)) if self.show is None else self._read_levels(self.show)

    @property
    def drops_nulls(self) -> bool:
        """Whether rows with null among their labels are left out."""
        return self.nulls == "drop" or (self.tree is None and self.outside == "drop")

    @property
    def outside_leaf(self) -> int:
        """The place among the leaves of the public tree for rows that lead to none; -1 if they count nowhere."""
        if self.tree is None or self.outside == "drop" or (self.kind != "number" and self.outside == "ends"):
            return -1
        places = np.flatnonzero(self.tree.count([self.outside if isinstance(self.outside, tuple) else (OUTSIDE,)]))
        return int(places[0]) if places.size else -1

    def counted(self, of: str = "rows") -> str:
        """Which rows are counted, in words: all, unless some were to be dropped."""
        inside = " inside the tree" if self.outside == "drop" else ""
        return f"{of}{inside}{' whose key has no null' if self.nulls == 'drop' else ''}"

    def label_kinds(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """What the labels of each level are."""
        if self.kind == "columns":
            return tuple(kinds[name] for name in self.columns_used)
        if self.kind == "calendar":
            return tuple("text" if part in TEXT_PARTS else "integer" for part in self.parts)
        if self.kind == "nested":
            whole = (key.label_kinds(kinds) if key.kind in ("columns", "calendar") else () for key in self.inner)
            given = zip(self.inner, whole, strict=True)
            return tuple(chain.from_iterable(known or ("text",) * (key.depth - 1) for key, known in given))
        return ("integer" if self.kind in ("bits", "ip") else "text",) * (self.depth - 1)

    def check_kinds(self, kinds: Mapping[str, str]) -> None:
        """That the columns exist and hold what the key reads, and that labels of the tree can be among it."""
        for key in self.inner if self.kind == "nested" else ():
            key.check_kinds(kinds)
        takes = _TAKES[self.kind]
        if "hour" in self.parts:
            takes = ("datetime",)
        elif self.kind == "number" and self.tree is not None and self.tree.ranges is not None:
            takes = _TAKES["calendar"] if self.tree.ranges.has_dates else takes
        for name in self.columns_used if takes else ():
            if name not in kinds:
                raise ValueError(f"by: there is no column {name!r}. Hint: check the name")
            if kinds[name] not in takes:
                hint = ". Hint: cast it, or declare its type in read_source" if self.kind == "number" else ""
                raise ValueError(f"by: column {name!r} ({kinds[name]}) must hold one of: {', '.join(takes)}{hint}")
        if self.tree is not None and self.kind != "number":
            self._check_labels(self.tree, self.label_kinds(kinds))

    def _check_labels(self, tree: Tree, kinds: tuple[str, ...]) -> None:
        """Each level must have a label of the kind that rows have there: else no row could reach it."""
        apart = int(tree.leaves[self.outside_leaf]) if self.outside_leaf >= 0 else -1
        own = tree.labels or ()
        for level, (nodes, kind, name) in enumerate(zip(tree.levels[1:], kinds, self.names, strict=False), start=1):
            labels = [own[node] for node in nodes.tolist() if own[node] is not None and node != apart]
            found = sorted({label_kind(label) for label in labels})
            if labels and kind not in found:
                hint = _CASTS.get((found[0], kind), "cast the column, or build the tree of such labels")
                raise ValueError(
                    f"by: the labels of tree at level {level} ({', '.join(found)}) can never be those of {name!r} "
                    f"({kind}): no row would reach them. Hint: {hint}"
                )


_CASTS = {
    ("text", "integer"): "labels 1, not '1'; or cast the column to text",
    ("integer", "text"): "labels '1', not 1; or cast the column to integers",
}


def label_kind(label: Any) -> str:
    """What a label of a tree is, in the words that keys use."""
    # Of other types, such as instants, no column is found to hold any: Python's have fewer digits than Polars'.
    return {str: "text", int: "integer", bool: "truth", date: "date"}.get(
        type(label), f"Python's {type(label).__name__}"
    )


def _with_outside(tree: Tree) -> Tree:
    """The tree with a leaf "(outside)" below its root, last among the leaves, unless it has one."""
    if np.any(tree.count([(OUTSIDE,)])):
        return tree
    labels = (*(tree.labels or ()), OUTSIDE)
    return Tree(np.append(tree.parents, tree.root), labels, tree.names, ordered=tree.ordered)
