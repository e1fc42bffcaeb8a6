"""Which hierarchy the rows of a frame belong to: a description of columns, without data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from opendp_tree._arguments import check_choice
from opendp_tree.trees.open_tree import OpenTree

__all__ = ["Key"]

PARTS = ("year", "month", "day", "hour")
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

    @classmethod
    def columns(cls, *names: str) -> Key:
        """One column a level, from the coarsest to the finest: texts, integers, truth values, dates or times.

        >>> Key.columns("region", "county", "city").depth
        4
        """
        if not names:
            raise ValueError("names must hold at least one column")
        used = tuple(_check_name(name) for name in names)
        if len(set(used)) < len(used):
            raise ValueError(f"names {used} must differ")
        return cls("columns", used, len(used) + 1)

    @classmethod
    def path(cls, column: str, *, separator: str = "/", depth: int) -> Key:
        """One column of texts such as "a/b/c", split as `OpenTree.paths` splits them.

        >>> Key.path("url", separator="/", depth=4).columns_used
        ('url',)
        """
        tree = OpenTree.paths(separator, depth=depth)
        return cls("path", (_check_name(column),), tree.depth, separator=tree.separator)

    @classmethod
    def bits(cls, column: str, *, width: int, stride: int = 1) -> Key:
        """One column of integers from 0 to 2**width - 1; each level adds `stride` bits of prefix.

        In a public tree the labels of a path are the integers of `stride` bits, from the first to the last.

        >>> Key.bits("number", width=32, stride=8).depth
        5
        """
        tree = OpenTree.bits(width, stride)
        return cls("bits", (_check_name(column),), tree.depth, width=tree.width, stride=tree.stride)

    @classmethod
    def ip(cls, column: str, *, version: int = 4, stride: int = 8) -> Key:
        """One column of addresses, as texts or as integers; each level adds `stride` bits of prefix.

        IPv6 texts may be shortened by "::" and end in an IPv4 address; an address with a zone counts as null, as does
        an IPv4 address with leading zeros.

        >>> Key.ip("address", version=6, stride=16).depth
        9
        """
        if version not in _IP_WIDTHS:
            raise ValueError(f"version ({version!r}) must be 4 or 6")
        tree = OpenTree.bits(_IP_WIDTHS[version], stride)
        return cls("ip", (_check_name(column),), tree.depth, width=tree.width, stride=tree.stride)

    @classmethod
    def date(cls, column: str, *, parts: Sequence[str] = ("year", "month", "day")) -> Key:
        """One column of dates or times, by some of year, month, day and hour; where there is a time zone, by its clock.

        >>> Key.date("departure", parts=("month", "day", "hour")).depth
        4
        """
        chosen = (parts,) if isinstance(parts, str) else tuple(parts)
        for part in chosen:
            check_choice(part, name="parts", choices=PARTS)
        if not chosen or list(chosen) != sorted(set(chosen), key=PARTS.index):
            raise ValueError(f"parts {chosen} must be some of {PARTS}, in this order")
        return cls("date", (_check_name(column),), len(chosen) + 1, parts=chosen)

    @classmethod
    def of(cls, by: Key | str | Sequence[str]) -> Key:
        """A key as it is; a column's name, or several, as `Key.columns`.

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
        """The hierarchy of all keys of this kind.

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
    def holds_null(self) -> bool:
        """Whether null can be a label in the open tree; among bits there is no room for it."""
        return self.kind not in ("bits", "ip")

    def label_kinds(self, kinds: dict[str, str]) -> tuple[str, ...]:
        """What the labels of each level are, given what each column holds."""
        if self.kind == "columns":
            return tuple(kinds[name] for name in self.columns_used)
        return ("text" if self.kind == "path" else "integer",) * (self.depth - 1)

    def check_kinds(self, kinds: dict[str, str]) -> None:
        """That the columns exist and hold what the key reads; `kinds` says what each column holds."""
        for name in self.columns_used:
            if name not in kinds:
                raise ValueError(f"by: there is no column {name!r}")
            takes = ("datetime",) if "hour" in self.parts else _TAKES[self.kind]
            if kinds[name] not in takes:
                raise ValueError(f"by: column {name!r} ({kinds[name]}) must hold one of: {', '.join(takes)}")


def _check_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a column's name ({name!r}) must be a text")
    if name.startswith("^") and name.endswith("$"):
        raise ValueError(f"a column's name ({name!r}) must not look like '^...$', which Polars takes for a pattern")
    return name
