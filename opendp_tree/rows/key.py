"""Where the rows of a frame belong: columns, a hierarchy, and what is done with rows that it has no place for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from opendp_tree._arguments import check_choice, check_integer, check_type
from opendp_tree.trees.open_tree import OpenTree
from opendp_tree.trees.tree import Path, Tree

__all__ = ["Key"]

PARTS = ("year", "month", "day", "hour")
Nulls = Literal["label", "drop"]
_IP_WIDTHS = {4: 32, 6: 128}
_TAKES: dict[str, tuple[str, ...]] = {
    "columns": ("text", "integer", "truth", "date", "datetime", "time"),
    "path": ("text",),
    "bits": ("integer",),
    "ip": ("text", "integer"),
    "date": ("date", "datetime"),
}


@dataclass(frozen=True)
class Key:
    """Where a row belongs in a hierarchy, read from one column or several.

    Build one with `Key.columns`, `Key.path`, `Key.bits`, `Key.ip` or `Key.date`. What a row holds that is no such key
    (no address, a number that is too wide, a time before the year 1 or after 9999) counts as null.

    Examples
    --------
    >>> Key.date("day").open_tree()
    OpenTree(kind='columns', depth=4, width=0, stride=1, separator='')

    """

    kind: Literal["columns", "path", "bits", "ip", "date"]
    columns_used: tuple[str, ...]
    """The columns that the key reads."""
    depth: int
    """The nodes from the root to the deepest possible leaf."""
    separator: str = ""
    width: int = 0
    stride: int = 1
    parts: tuple[str, ...] = ()
    tree: Tree | None = None
    nulls: Nulls | None = None
    other: Path | None = None
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
        if self.tree is not None:
            check_type(self.tree, Tree, name="tree", hint="Tree.from_paths(...), whose nodes are public")
            if self.tree.labels is None:
                raise ValueError("tree must have labels. Hint: Tree.from_paths")
            if self.kind in ("bits", "ip") and min(self.stride, self.width) > 63:
                raise ValueError(f"stride ({self.stride}) must be at most 63 for a public tree, whose labels are int64")
        if self.nulls is not None:
            check_choice(self.nulls, name="nulls", choices=("label", "drop"))
            if self.nulls == "label" and not self.holds_null:
                raise ValueError("nulls ('label') must be 'drop': an open tree of bits has no room for null")
        if self.other is not None:
            self._check_other()
        if self.show is not None:
            object.__setattr__(self, "show", self._read_levels(self.show))

    def _check_other(self) -> None:
        if self.tree is None:
            raise ValueError("other needs a public tree. Hint: tree=Tree.from_paths(...)")
        if self.other_leaf < 0:
            raise ValueError(f"other ({self.other!r}) must be the path of a leaf of tree, a tuple of labels")

    def _read_levels(self, show: Sequence[int | str]) -> tuple[int, ...]:
        """Levels by their numbers, from 0 for the root's, which is always shown."""
        names = self.names if self.kind in ("columns", "date") else ()
        deepest = (self.depth if self.tree is None else self.tree.depth) - 1
        if isinstance(show, str) or not isinstance(show, Sequence) or not show:
            raise TypeError(f"show ({show!r}) must be a list of levels. Hint: {list(names) or [deepest]}")
        known: dict[int | str, int] = {level: level for level in range(deepest + 1)}
        known.update({name: level for level, name in enumerate(names, 1)})
        for level in show:
            if isinstance(level, bool) or not isinstance(level, (int, str)) or level not in known:
                raise ValueError(f"show ({level!r}) must be one of the levels {', '.join(map(repr, known))}")
        return tuple(sorted({0, *(known[level] for level in show)}))

    @classmethod
    def columns(
        cls,
        *names: str,
        tree: Tree | None = None,
        nulls: Nulls | None = None,
        other: Path | None = None,
        show: Sequence[int | str] | None = None,
    ) -> Key:
        """One column a level, from the coarsest to the finest: texts, integers, truth values, dates or times.

        Parameters
        ----------
        *names
            The columns.
        tree
            A public tree of label paths. A row counts at the leaf that its labels lead to or lead through. By default
            None: the nodes are not known in advance.
        nulls
            "label" counts null like any other label, "drop" leaves such rows out. By default "label", except for bits
            and addresses without a tree, which have no room for it.
        other
            The path of the leaf of `tree` at which rows count that lead to none. By default None: they count nowhere.
        show
            The levels that are wanted, by column or by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> Key.columns("region", "county", "city").depth
        4

        """
        if not names:
            raise ValueError("names must hold at least one column")
        used = tuple(_check_name(name) for name in names)
        if len(set(used)) < len(used):
            raise ValueError(f"names {used} must differ")
        return cls("columns", used, len(used) + 1, tree=tree, nulls=nulls, other=other, show=show)

    @classmethod
    def path(
        cls,
        column: str,
        *,
        separator: str = "/",
        depth: int,
        tree: Tree | None = None,
        nulls: Nulls | None = None,
        other: Path | None = None,
        show: Sequence[int] | None = None,
    ) -> Key:
        """One column of texts such as "a/b/c", split as `OpenTree.paths` splits them.

        Parameters
        ----------
        column
            The column.
        separator
            What stands between labels. By default "/".
        depth
            The most levels that are counted, the root's among them: what is below belongs to the last one.
        tree
            A public tree of label paths. A row counts at the leaf that its labels lead to or lead through. By default
            None: the nodes are not known in advance.
        nulls
            "label" counts null like any other label, "drop" leaves such rows out. By default "label", except for bits
            and addresses without a tree, which have no room for it.
        other
            The path of the leaf of `tree` at which rows count that lead to none. By default None: they count nowhere.
        show
            The levels that are wanted, by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> Key.path("url", separator="/", depth=4).columns_used
        ('url',)

        """
        split = OpenTree.paths(separator, depth=depth)
        used = (_check_name(column),)
        return cls("path", used, split.depth, separator=split.separator, tree=tree, nulls=nulls, other=other, show=show)

    @classmethod
    def bits(
        cls,
        column: str,
        *,
        width: int,
        stride: int = 1,
        tree: Tree | None = None,
        nulls: Nulls | None = None,
        other: Path | None = None,
        show: Sequence[int] | None = None,
    ) -> Key:
        """One column of integers from 0 to 2**width - 1; each level adds `stride` bits of prefix.

        Parameters
        ----------
        column
            The column.
        width
            The number of bits, at most 128.
        stride
            The bits that each level adds. By default 1, the most levels; levels that nobody wants cost accuracy.
        tree
            A public tree of label paths, each label an integer of `stride` bits. A row
            counts at the leaf that its labels lead to or lead through. By default None: the nodes are not known in
            advance.
        nulls
            "label" counts null like any other label, "drop" leaves such rows out. By default "label", except for bits
            and addresses without a tree, which have no room for it.
        other
            The path of the leaf of `tree` at which rows count that lead to none. By default None: they count nowhere.
        show
            The levels that are wanted, by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> Key.bits("number", width=32, stride=8).depth
        5

        """
        split = OpenTree.bits(width, stride)
        used = (_check_name(column),)
        return cls(
            "bits",
            used,
            split.depth,
            width=split.width,
            stride=split.stride,
            tree=tree,
            nulls=nulls,
            other=other,
            show=show,
        )

    @classmethod
    def ip(
        cls,
        column: str,
        *,
        version: int = 4,
        stride: int = 8,
        tree: Tree | None = None,
        nulls: Nulls | None = None,
        other: Path | None = None,
        show: Sequence[int] | None = None,
    ) -> Key:
        """One column of addresses, as texts or as integers; each level adds `stride` bits of prefix.

        IPv6 texts may be shortened by "::" and end in an IPv4 address; an address with a zone counts as null, as does
        an IPv4 address with leading zeros.

        Parameters
        ----------
        column
            The column.
        version
            4, the default, or 6.
        stride
            The bits that each level adds. By default 8, one byte.
        tree
            A public tree of label paths. A row counts at the leaf that its labels lead to or lead through. By default
            None: the nodes are not known in advance.
        nulls
            "label" counts null like any other label, "drop" leaves such rows out. By default "label", except for bits
            and addresses without a tree, which have no room for it.
        other
            The path of the leaf of `tree` at which rows count that lead to none. By default None: they count nowhere.
        show
            The levels that are wanted, by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> Key.ip("address", version=6, stride=16).depth
        9

        """
        if version not in _IP_WIDTHS:
            raise ValueError(f"version ({version!r}) must be 4 or 6")
        bits = cls.bits(
            column, width=_IP_WIDTHS[version], stride=stride, tree=tree, nulls=nulls, other=other, show=show
        )
        return replace(bits, kind="ip")

    @classmethod
    def date(
        cls,
        column: str,
        *,
        parts: Sequence[str] = ("year", "month", "day"),
        tree: Tree | None = None,
        nulls: Nulls | None = None,
        other: Path | None = None,
        show: Sequence[int | str] | None = None,
    ) -> Key:
        """One column of dates or times, by some of year, month, day and hour; where there is a time zone, by its clock.

        Parameters
        ----------
        column
            The column.
        parts
            The levels, from the coarsest. By default year, month and day.
        tree
            A public tree of label paths. A row counts at the leaf that its labels lead to or lead through. By default
            None: the nodes are not known in advance.
        nulls
            "label" counts null like any other label, "drop" leaves such rows out. By default "label", except for bits
            and addresses without a tree, which have no room for it.
        other
            The path of the leaf of `tree` at which rows count that lead to none. By default None: they count nowhere.
        show
            The levels that are wanted, by part or by number from 0, the root's. By default None: all.

        Examples
        --------
        >>> Key.date("departure", parts=("month", "day", "hour")).depth
        4

        """
        chosen = (parts,) if isinstance(parts, str) else tuple(parts)
        for part in chosen:
            check_choice(part, name="parts", choices=PARTS)
        if not chosen or list(chosen) != sorted(set(chosen), key=PARTS.index):
            raise ValueError(f"parts {chosen} must be some of {PARTS}, in this order")
        used = (_check_name(column),)
        return cls("date", used, len(chosen) + 1, parts=chosen, tree=tree, nulls=nulls, other=other, show=show)

    @classmethod
    def of(cls, by: Key | str | Sequence[str]) -> Key:
        """A key as it is; a column's name, or several, as `Key.columns`.

        Parameters
        ----------
        by
            A key, a column's name, or names from the coarsest to the finest.

        Examples
        --------
        >>> Key.of(["region", "city"]) == Key.columns("region", "city")
        True

        """
        if isinstance(by, Key):
            return by
        if isinstance(by, str):
            return cls.columns(by)
        if not isinstance(by, Sequence):
            raise TypeError(f"by ({type(by).__name__}) must be a Key, a column's name, or a list of names")
        return cls.columns(*by)

    def open_tree(self) -> OpenTree:
        """The hierarchy of all keys of this kind, whatever nodes are known.

        Examples
        --------
        >>> Key.bits("number", width=32, stride=8).open_tree().depth
        5

        """
        if self.kind == "bits":
            return OpenTree.bits(self.width, self.stride)
        if self.kind == "ip":
            return OpenTree.bits(self.width, self.stride, shown_as="ipv4" if self.width == 32 else "ipv6")
        if self.kind == "path":
            return OpenTree.paths(self.separator, depth=self.depth)
        return OpenTree.columns(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, where a level is a column or a part of a date."""
        return self.parts or self.columns_used

    @property
    def hierarchy(self) -> Tree | OpenTree:
        """The tree that rows are counted in: the public one, or that of all keys."""
        return self.open_tree() if self.tree is None else self.tree

    @property
    def shown_levels(self) -> tuple[int, ...]:
        """The levels that are wanted, by their numbers from 0 for the root's."""
        return tuple(range(self.hierarchy.depth)) if self.show is None else self._read_levels(self.show)

    @property
    def holds_null(self) -> bool:
        """Whether null can be a label; among the bits of an open tree there is no room for it."""
        return self.tree is not None or self.kind not in ("bits", "ip")

    @property
    def drops_nulls(self) -> bool:
        """Whether rows with null among their labels are left out."""
        return not self.holds_null if self.nulls is None else self.nulls == "drop"

    @property
    def other_leaf(self) -> int:
        """The place among the leaves of the public tree for rows that lead to none; -1 if they count nowhere."""
        if self.tree is None or not isinstance(self.other, tuple):
            return -1
        places = np.flatnonzero(self.tree.count([self.other]))
        return int(places[0]) if places.size else -1

    def label_kinds(self, kinds: dict[str, str]) -> tuple[str, ...]:
        """What the labels of each level are.

        Parameters
        ----------
        kinds
            What each column holds.

        """
        if self.kind == "columns":
            return tuple(kinds[name] for name in self.columns_used)
        return ("text" if self.kind == "path" else "integer",) * (self.depth - 1)

    def check_kinds(self, kinds: dict[str, str]) -> None:
        """That the columns exist and hold what the key reads.

        Parameters
        ----------
        kinds
            What each column holds.

        """
        for name in self.columns_used:
            if name not in kinds:
                raise ValueError(f"by: there is no column {name!r}. Hint: check the name")
            takes = ("datetime",) if "hour" in self.parts else _TAKES[self.kind]
            if kinds[name] not in takes:
                raise ValueError(f"by: column {name!r} ({kinds[name]}) must hold one of: {', '.join(takes)}")


def _check_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a column's name ({name!r}) must be a text")
    if name.startswith("^") and name.endswith("$"):
        raise ValueError(f"a column's name ({name!r}) must not look like '^...$', which Polars takes for a pattern")
    return name
